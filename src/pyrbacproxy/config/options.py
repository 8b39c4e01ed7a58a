"""Flags → `Options`, frozen, by pflag's grammar (reference 1.1). Reads no file."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyrbacproxy.config.flag import Flag, Kind, Value
from pyrbacproxy.config.flag_table import FLAGS
from pyrbacproxy.config.values import duration_text, quoted

_BY_SHORTHAND = {flag.shorthand: flag for flag in FLAGS.values() if flag.shorthand}


@dataclass(frozen=True, slots=True)
class Options:
    """Every flag's value, typed by its kind; which were given; and the words that are no flags.

    `doubtful` are the flags that a wrong word may have meant: that they are not given is no mistake
    of its own. The accessors raise KeyError for a flag that the table lacks, TypeError for another
    kind.
    """

    values: Mapping[str, Value]
    given: frozenset[str] = frozenset()
    arguments: tuple[str, ...] = ()
    doubtful: frozenset[str] = frozenset()

    def may_be_given(self, *names: str) -> bool:
        """Whether one of the flags has another value than its default, or may have been meant to
        have one.
        """
        return any(name in self.doubtful or self.is_changed(name) for name in names)

    def text(self, name: str) -> str:
        """A string."""
        value = self.values[name]
        if not isinstance(value, str):
            raise TypeError(name)
        return value

    def is_on(self, name: str) -> bool:
        """A boolean."""
        value = self.values[name]
        if not isinstance(value, bool):
            raise TypeError(name)
        return value

    def integer(self, name: str) -> int:
        """An integer of any width."""
        value = self.values[name]
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(name)
        return value

    def number(self, name: str) -> float:
        """A float, or a duration in seconds."""
        value = self.values[name]
        if not isinstance(value, float):
            raise TypeError(name)
        return value

    def duration_words(self, name: str) -> str:
        """A duration as one gives it: `--idle-timeout=1m30s`."""
        return f"--{name}={duration_text(self.number(name))}"

    def texts(self, name: str) -> tuple[str, ...]:
        """A list; empty when nothing was given, or `--x=`."""
        return tuple(value for value in self._items(name) if isinstance(value, str))

    def pairs(self, name: str) -> tuple[tuple[str, int], ...]:
        """`name=value` pairs; a boolean value counts as 0 or 1."""
        return tuple(
            (item[0], int(item[1])) for item in self._items(name) if not isinstance(item, str)
        )

    def is_changed(self, name: str) -> bool:
        """Whether the value differs from the flag's default."""
        return self.values[name] != FLAGS[name].default_value

    def _items(self, name: str) -> Sequence[str | tuple[str, int] | tuple[str, bool]]:
        value = self.values[name]
        if not isinstance(value, tuple):
            raise TypeError(name)
        return value


@dataclass(frozen=True, slots=True)
class Parsed:
    """What the words mean and all that is wrong with them; a bad value leaves the default."""

    options: Options
    problems: tuple[str, ...]


def parse(argv: Sequence[str]) -> Parsed:
    """Reads all words, also behind a wrong one, so that every problem is told at once."""
    reader = _Reader(argv)
    reader.read()
    values = {name: flag.default_value for name, flag in FLAGS.items()} | reader.values
    given = frozenset(reader.values)
    doubtful = frozenset(FLAGS if any(reader.arguments) else reader.doubtful)
    options = Options(values, given, tuple(reader.arguments), doubtful)
    return Parsed(options, tuple(reader.problems))


class _Reader:
    """The words not yet read, and what the ones before them said."""

    def __init__(self, argv: Sequence[str]) -> None:
        self.words = deque(argv)
        self.values: dict[str, Value] = {}
        self.arguments: list[str] = []
        self.problems: list[str] = []
        self.doubtful: set[str] = set()

    def read(self) -> None:
        while self.words:
            word = self.words.popleft()
            if word == "--":
                self.arguments += self.words
                return
            if word.startswith("--"):
                self._long(word)
            elif word.startswith("-") and word != "-":
                self._short(word)
            else:
                self.arguments.append(word)

    def _long(self, word: str) -> None:
        name, equals, value = word[2:].partition("=")
        if not name or name.startswith("-"):
            self.problems.append(f"bad flag syntax: {word}")
            self.doubtful.update(FLAGS)
            return
        flag = FLAGS.get(name.replace("_", "-"))
        if flag is None:
            self._unknown(f"unknown flag: --{name}", name, has_value=bool(equals))
        elif equals:
            self._set(flag, value)
        elif flag.bare_value is not None:
            self._set(flag, flag.bare_value)
        elif self.words:
            self._set(flag, self._next_word())
        else:
            self._lacks_value(flag, word)

    def _short(self, word: str) -> None:
        """One dash: each letter is a flag, until one takes the rest of the word as its value."""
        letters = word[1:]
        while letters:
            flag = _BY_SHORTHAND.get(letters[0])
            if flag is None:
                name, equals, _ = letters.partition("=")
                problem = f"unknown shorthand flag: '{letters[0]}' in -{letters}"
                self._unknown(problem, name, has_value=bool(equals))
                return
            rest = letters[1:]
            if len(rest) > 1 and rest[0] == "=":
                self._set(flag, rest[1:])
                return
            if flag.bare_value is not None:
                self._set(flag, flag.bare_value)
                letters = rest
                continue
            if rest or self.words:
                self._set(flag, rest or self._next_word())
            else:
                self._lacks_value(flag, f"'{letters[0]}' in -{letters}")
            return

    def _next_word(self) -> str:
        """The value that stands apart. When it looks like a flag, that one may have been meant."""
        word = self.words.popleft()
        name = word[2:].partition("=")[0].replace("_", "-")
        if word.startswith("--") and name in FLAGS:
            self.doubtful.add(name)
        return word

    def _lacks_value(self, flag: Flag, shown: str) -> None:
        self.problems.append(f"flag needs an argument: {shown}")
        self.doubtful.add(flag.name)

    def _unknown(self, problem: str, name: str, *, has_value: bool) -> None:
        """An unknown flag's value, if it stands apart, is no argument: one slip is one problem."""
        near = _nearest(name)
        self.problems.append(f"{problem}, did you mean --{near}?" if near else problem)
        self.doubtful.update((near,) if near else FLAGS)
        if not has_value and self.words and not self.words[0].startswith("-"):
            self.words.popleft()

    def _set(self, flag: Flag, text: str) -> None:
        try:
            value = flag.parse(text)
        except ValueError as error:
            shown = f"-{flag.shorthand}, --{flag.name}" if flag.shorthand else f"--{flag.name}"
            self.problems.append(f'invalid argument {quoted(text)} for "{shown}" flag: {error}')
            self.doubtful.add(flag.name)
            return
        is_cleared = flag.kind is Kind.PATHS and value == ()
        before = self.values.get(flag.name)
        if (
            flag.is_list
            and isinstance(before, tuple)
            and isinstance(value, tuple)
            and not is_cleared
        ):
            self.values[flag.name] = tuple(str(item) for item in (*before, *value))
        else:
            self.values[flag.name] = value


def _nearest(name: str) -> str:
    """The flag that is spelled most like this; "" when none is close."""
    # Late, for it is wanted by few.
    import difflib  # noqa: PLC0415

    near = difflib.get_close_matches(name.replace("_", "-").casefold(), FLAGS, 1)
    return near[0] if near else ""

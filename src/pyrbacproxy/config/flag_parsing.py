"""Parses the command line by pflag's grammar (reference 1.1), and writes `--help`."""

import re
import textwrap
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pyrbacproxy.config.flags import (
    FLAGS,
    GROUPS,
    Flag,
    Kind,
    Value,
    duration_text,
    parse_bool,
    quoted,
    without_password,
)
from pyrbacproxy.values import Frozen

# --- version --------------------------------------------------------------------------
# What `--version` means: print and exit, print more, or go on under a name (reference 1.2).

VERSION = "0.1.0"  # pyproject.toml's, known here without the cost of reading package metadata
_NUMBERS = re.compile(r"v?([0-9]+\.[0-9]+\.[0-9]+)")


class VersionAnswer(Frozen):
    """`printed` is the line to print before exiting, "" to go on; `reported` is our version."""

    printed: str
    reported: str


def answer(text: str, *, program: str, built: str, details: str) -> VersionAnswer:
    """Reads the flag's value; raises ValueError.

    `built` is the version we were built as (`v0.1.0`); an override must keep its numbers.
    """
    if text == "raw":
        return VersionAnswer(f"{program} {built} {details}", built)
    if text.startswith("v"):
        if _numbers(text) != _numbers(built):
            raise ValueError(f"version {quoted(text)} must keep the numbers of {built}")
        return VersionAnswer("", text)
    return VersionAnswer(f"{program} {built}" if parse_bool(text) else "", built)


def reported(text: str) -> str:
    """The version under which we run, without its v: the flag's own, else the built one."""
    return text.removeprefix("v") if text.startswith("v") else VERSION


def _numbers(text: str) -> str:
    found = _NUMBERS.match(text)
    return found[1] if found else ""


# --- options --------------------------------------------------------------------------
# Flags → `Options`, frozen, by pflag's grammar (reference 1.1). Reads no file.

_BY_SHORTHAND = {flag.shorthand: flag for flag in FLAGS.values() if flag.shorthand}


class Options(Frozen):
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


class Parsed(Frozen):
    """What the words mean and all that is wrong with them; a bad value leaves the default."""

    options: Options
    problems: tuple[str, ...]


def parse(argv: Sequence[str]) -> Parsed:
    """Reads all words, also behind a wrong one, so that all problems are reported at once."""
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
    # Late: few starts need it.
    import difflib  # noqa: PLC0415

    near = difflib.get_close_matches(name.replace("_", "-").casefold(), FLAGS, 1)
    return near[0] if near else ""


# --- flag text ------------------------------------------------------------------------
# The flag table as people read it: `--help`, the README's list, the values in the log.

_ABOUT = (
    "A TLS reverse proxy that authenticates and authorizes each request as Kubernetes does, and "
    "streams the answer of one upstream."
)
_USAGE = """Usage:
  pyrbacproxy [flags]                   serve
  pyrbacproxy demo [flags]              show it at work on this machine
  pyrbacproxy audit [flags]             is the node's legacy proxy gone, and does the new one serve?
  pyrbacproxy kubelet-config [flags]    which kubelet configuration would a pool's nodes get?
  pyrbacproxy COMMAND --help            the flags of a command; those below are for serving
"""
_COLUMNS = 100
_INDENT = " " * 10
_CLASSIFIED = "CLASSIFIED"


def help_text() -> str:
    """What `--help` prints: every flag that is not hidden, with type, default and meaning."""
    parts = [textwrap.fill(_ABOUT, _COLUMNS), "", _USAGE]
    for group in GROUPS:
        shown = [flag for flag in group.flags if not flag.is_hidden]
        if not shown:
            continue
        parts.append(f"{group.title}:")
        for flag in shown:
            start = f"  -{flag.shorthand}, " if flag.shorthand else "      "
            kind = "" if flag.kind is Kind.BOOL else f" {flag.kind.value}"
            parts.append(f"{start}--{flag.name}{kind}")
            parts.append(
                textwrap.fill(
                    _meaning(flag) + _default(flag),
                    _COLUMNS,
                    initial_indent=_INDENT,
                    subsequent_indent=_INDENT,
                )
            )
        parts.append("")
    return "\n".join(parts)


def readme_list() -> str:
    """The flags as Markdown tables, for the README; CI compares it with what stands there."""
    parts = []
    for group in GROUPS:
        parts += [f"### {group.title}", "", "| flag | type | default | what |", "|---|---|---|---|"]
        parts += [
            f"| `--{flag.name}` | {flag.kind.value} | {_cell(flag)} | {_meaning(flag)} |"
            for flag in group.flags
        ]
        parts.append("")
    return "\n".join(parts)


def value_lines(options: Options) -> Iterator[str]:
    """One line for each flag's value, as the log shows them at level 1; no password is shown."""
    for name, value in shown_values(options, FLAGS.values()):
        yield f"FLAG: --{name}={quoted(value)}"


def shown_values(options: Options, flags: Iterable[Flag]) -> Iterator[tuple[str, str]]:
    """Each flag's name and value as pflag would print it, without passwords of URLs.

    A classified flag shows `CLASSIFIED`, as in Kubernetes.
    """
    for flag in flags:
        value = without_password(_value_text(flag, options.values[flag.name]))
        yield flag.name, _CLASSIFIED if flag.is_classified else value


def _meaning(flag: Flag) -> str:
    choices = f" One of {', '.join(flag.choices)}." if flag.choices else ""
    return flag.what + choices


def _default(flag: Flag) -> str:
    if flag.is_classified or flag.default in ("", "false", "0", "0s"):
        return ""
    is_quoted = flag.kind is Kind.TEXT
    return f" (default {quoted(flag.default) if is_quoted else flag.default})"


def _cell(flag: Flag) -> str:
    if flag.is_classified or not flag.default:
        return ""
    return f"`{flag.default}`".replace("|", "\\|")


def _value_text(flag: Flag, value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if flag.kind is Kind.DURATION and isinstance(value, float):
        return duration_text(value)
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple):
        items = ",".join(item if isinstance(item, str) else _pair_text(*item) for item in value)
        return f"[{items}]" if flag.is_list else items
    return str(value)


def _pair_text(name: str, value: int) -> str:
    return f"{name}={str(value).lower()}"

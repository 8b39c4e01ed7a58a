"""Parses and evaluates Go's text/template, as far as rewrites can use it."""

import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum, auto
from typing import Protocol, TypeAlias
from urllib.parse import quote_plus

from pyrbacproxy.authz.templates import (
    MOST_BYTES,
    Frame,
    Part,
    RenderError,
    Template,
    Text,
    Value,
    encoded,
)
from pyrbacproxy.values import Frozen

# --- template tokens ------------------------------------------------------------------
# The text of a template → its tokens, as Go's text/template cuts it, or `TemplateError`.

_BLANKS = " \t\r\n"
_BLANK_SET = frozenset(_BLANKS)
_COMMENT = "/*"
_COMMENT_END = "*/"
_OPEN = "{{"
_CLOSE = re.compile(r"[ \t\r\n]*(?:(?<=[ \t\r\n])(?P<trim>-))?\}\}")
# A trim marker is a minus with a blank on its inner side: `{{-3}}` is a number.
_TRIM_LEFT = re.compile(r"-[ \t\r\n]")
_COMMENT_CLOSE = re.compile(r"(?:[ \t\r\n](?P<trim>-))?\}\}")
_KEYWORDS = frozenset(
    {"block", "break", "continue", "define", "else", "end", "if", "range", "template", "with"}
)
# What may follow a name: `$x+2` is no sum.
_END_OF_NAME = r"(?=[ \t\r\n.,|:)(]|\}\}|\Z)"


class Kind(Enum):
    """What a token is; `OPEN` and `CLOSE` stand around an action, `END` is the template's end."""

    TEXT = auto()
    OPEN = auto()
    CLOSE = auto()
    END = auto()
    KEYWORD = auto()
    NAME = auto()
    FIELD = auto()
    DOT = auto()
    VARIABLE = auto()
    NUMBER = auto()
    CHARACTER = auto()
    STRING = auto()
    RAW_STRING = auto()
    PIPE = auto()
    DECLARE = auto()
    ASSIGN = auto()
    LEFT = auto()
    RIGHT = auto()


_TOKEN = re.compile(
    rf"""
    (?P<NAME>[^\W\d]\w*){_END_OF_NAME}
    | (?P<FIELD>\.[^\W\d]\w*){_END_OF_NAME}
    | (?P<DOT>\.)(?![0-9]){_END_OF_NAME}
    | (?P<VARIABLE>\$\w*){_END_OF_NAME}
    | (?P<NUMBER>[+-]?\.?[0-9][\w.+-]*)
    | (?P<CHARACTER>'(?:[^'\\\n]|\\[^\n])*')
    | (?P<STRING>"(?:[^"\\\n]|\\[^\n])*")
    | (?P<RAW_STRING>`[^`]*`)
    | (?P<PIPE>\|)
    | (?P<DECLARE>:=)
    | (?P<ASSIGN>=)
    | (?P<LEFT>\()
    | (?P<RIGHT>\))
    """,
    re.VERBOSE,
)
_UNCLOSED = {'"': "an unclosed string", "`": "an unclosed string", "'": "an unclosed character"}


class TemplateError(ValueError):
    """A template that cannot be used; `line` and `column` count from 1 within the template."""

    def __init__(self, text: str, position: int, problem: str) -> None:
        self.line = text.count("\n", 0, position) + 1
        self.column = position - text.rfind("\n", 0, position)
        super().__init__(f"line {self.line}, column {self.column}: {problem}")


class Token(Frozen):
    """A piece of a template; `position` counts characters from 0, `is_spaced` tells a blank before
    it.
    """

    kind: Kind
    text: str
    position: int
    is_spaced: bool = False


def tokens(text: str) -> Iterator[Token]:
    """The tokens, comments left out and trim markers applied; raises TemplateError."""
    at, trims = 0, False
    while True:
        start = text.find(_OPEN, at)
        before = text[at:] if start < 0 else text[at:start]
        if trims:
            before = before.lstrip(_BLANKS)
        inside = start + len(_OPEN)
        if start >= 0 and _TRIM_LEFT.match(text, inside):
            before = before.rstrip(_BLANKS)
            inside += 2
        if before:
            yield Token(Kind.TEXT, before, at)
        if start < 0:
            yield Token(Kind.END, "", len(text))
            return
        if text.startswith(_COMMENT, inside):
            at, trims = _after_comment(text, inside)
        else:
            yield Token(Kind.OPEN, _OPEN, start)
            at, trims = yield from _action(text, start, inside)


def _after_comment(text: str, start: int) -> tuple[int, bool]:
    """Where the text goes on behind a comment, and whether its blanks are trimmed."""
    end = text.find(_COMMENT_END, start + len(_COMMENT))
    if end < 0:
        raise TemplateError(text, start, "an unclosed comment")
    close = _COMMENT_CLOSE.match(text, end + len(_COMMENT_END))
    if close is None:
        raise TemplateError(text, end, "a comment must be all there is between {{ and }}")
    return close.end(), bool(close["trim"])


def _action(text: str, start: int, at: int) -> Generator[Token, None, tuple[int, bool]]:
    """The tokens up to and with the closing braces; returns as `_after_comment` does."""
    while True:
        close = _CLOSE.match(text, at)
        if close is not None:
            yield Token(Kind.CLOSE, "}}", close.end() - 2)
            return close.end(), bool(close["trim"])
        found = _TOKEN.match(text, _behind_blanks(text, at))
        if found is None:
            raise TemplateError(text, *_not_understood(text, start, _behind_blanks(text, at)))
        yield Token(_kind(found), found[0], found.start(), is_spaced=found.start() > at)
        at = found.end()


def _behind_blanks(text: str, at: int) -> int:
    while text[at : at + 1] in _BLANK_SET:
        at += 1
    return at


def _kind(found: re.Match[str]) -> Kind:
    kind = Kind[found.lastgroup or ""]
    return Kind.KEYWORD if kind is Kind.NAME and found[0] in _KEYWORDS else kind


def _not_understood(text: str, start: int, at: int) -> tuple[int, str]:
    """Where, and in which words."""
    if at == len(text):
        return start, "{{ without }}"
    return at, _UNCLOSED.get(text[at], f"unexpected {text[at]!a}")


# --- template literals ----------------------------------------------------------------
# Go's literals in a template → values: numbers, characters, strings, raw strings.

_NUMBER = re.compile(
    r"[+-]?(?:0[xX]_?[0-9a-fA-F]|0[bB]_?[01]|0[oO]?_?[0-7]|[0-9])(?:_?[0-9a-fA-F])*"
)
_OLD_OCTAL = re.compile(r"[+-]?0[0-9_]")
_LARGEST = 1 << 63
_UNIT = re.compile(
    r"""\\(?:
        (?P<simple>[abfnrtv\\'"])
      | (?P<byte>x[0-9a-fA-F]{2}|[0-3][0-7]{2})
      | (?P<rune>u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})
    )|(?P<plain>[^\\])""",
    re.VERBOSE | re.DOTALL,
)
_SIMPLE = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_SURROGATES = range(0xD800, 0xE000)
_BEYOND_UNICODE = 0x110000


def number(text: str) -> int:
    """A whole number of 64 bits; raises ValueError. Floats and complex numbers are not ours."""
    if not _NUMBER.fullmatch(text):
        raise ValueError("only whole numbers are understood")
    digits = text.replace("_", "")
    value = int(digits, 8 if _OLD_OCTAL.match(text) else 0)
    if not -_LARGEST <= value < _LARGEST:
        raise ValueError("the number is too large")
    return value


def string(text: str) -> bytes:
    """What stands between double quotes, escapes resolved; raises ValueError."""
    return b"".join(
        unit if isinstance(unit, bytes) else chr(unit).encode("utf-8", "replace")
        for unit in _units(text[1:-1], quote='"')
    )


def character(text: str) -> int:
    """The code point of a character between single quotes; raises ValueError."""
    units = _units(text[1:-1], quote="'")
    if len(units) != 1:
        raise ValueError("a character constant holds exactly one character")
    unit = units[0]
    return unit[0] if isinstance(unit, bytes) else unit


def raw_string(text: str) -> bytes:
    """What stands between back quotes, carriage returns left out."""
    return text[1:-1].replace("\r", "").encode("utf-8", "replace")


def _units(text: str, quote: str) -> list[bytes | int]:
    """Code points, and single bytes where an escape names a byte."""
    units: list[bytes | int] = []
    at = 0
    while at < len(text):
        found = _UNIT.match(text, at)
        if found is None:
            raise ValueError(f"a bad escape: {text[at : at + 4]!a}")
        units.append(_unit(found, quote))
        at = found.end()
    return units


def _unit(found: re.Match[str], quote: str) -> bytes | int:
    if byte := found["byte"]:
        return bytes([int(byte[1:], 16) if byte[0] == "x" else int(byte, 8)])
    if rune := found["rune"]:
        value = int(rune[1:], 16)
        if value >= _BEYOND_UNICODE or value in _SURROGATES:
            raise ValueError(f"{found[0]!a} is no character")
        return value
    if simple := found["simple"]:
        if simple in {"'", '"'} and simple != quote:
            raise ValueError(f"a bad escape: {found[0]!a}")
        return _SIMPLE.get(simple, ord(simple))
    return ord(found["plain"])


# --- template parts -------------------------------------------------------------------
#
# The parts of a parsed template: expressions, which have values, and what actions write.
#
# Imported only where a template is configured.

Function: TypeAlias = Callable[[Sequence[Value]], Value]


class Expression(Protocol):
    """What has a value."""

    def evaluate(self, frame: Frame) -> Value:
        """The value; raises RenderError."""
        ...


class Constant(Frozen):
    """A literal."""

    value: Value

    def evaluate(self, _frame: Frame) -> Value:
        """The literal's value."""
        return self.value


class RewriteValue(Frozen):
    """`.Value`; it is never evaluated itself (FR45)."""

    def evaluate(self, frame: Frame) -> Value:
        """What the request brought."""
        return frame.value


class Variable(Frozen):
    """`$x`, or the dot inside `with`."""

    slot: int

    def evaluate(self, frame: Frame) -> Value:
        """What was stored last."""
        return frame.slots[self.slot]


class Call(Frozen):
    """A function with its arguments; what was piped in is the last one."""

    function: Function
    arguments: tuple[Expression, ...]

    def evaluate(self, frame: Frame) -> Value:
        """The function's value; raises RenderError."""
        value = self.function([argument.evaluate(frame) for argument in self.arguments])
        if isinstance(value, bytes) and len(value) > MOST_BYTES:
            raise RenderError(f"more than {MOST_BYTES} bytes")
        return value


class FirstOf(Frozen):
    """`and`, `or`: the first argument that decides, else the last; those behind it are not looked
    at, but for what was piped in.
    """

    is_or: bool
    arguments: tuple[Expression, ...]
    is_piped: bool = False

    def evaluate(self, frame: Frame) -> Value:
        """That argument's value; raises RenderError."""
        *others, last = self.arguments
        piped = last.evaluate(frame) if self.is_piped else None
        for argument in others:
            value = argument.evaluate(frame)
            if bool(value) is self.is_or:
                return value
        return last.evaluate(frame) if piped is None else piped


class Show(Frozen):
    """`{{ pipeline }}`."""

    expression: Expression

    def render(self, frame: Frame) -> None:
        """Written as Go prints the value."""
        frame.write(shown(self.expression.evaluate(frame)))


class Store(Frozen):
    """`{{ $x := pipeline }}` or `{{ $x = pipeline }}`: nothing is written."""

    slot: int
    expression: Expression

    def render(self, frame: Frame) -> None:
        """Remembered."""
        frame.slots[self.slot] = self.expression.evaluate(frame)


class Branch(Frozen):
    """The parts that are rendered when the condition is not empty, false or 0.

    The condition's value goes to `slots`: a variable that is declared there, the dot of `with`.
    """

    condition: Expression
    slots: tuple[int, ...]
    parts: tuple[Part, ...]

    def is_taken(self, frame: Frame) -> bool:
        """Whether it is this branch; raises RenderError."""
        value = self.condition.evaluate(frame)
        for slot in self.slots:
            frame.slots[slot] = value
        return bool(value)


class Choice(Frozen):
    """`if` or `with`, its `else if` or `else with`, and its `else`."""

    branches: tuple[Branch, ...]
    otherwise: tuple[Part, ...]

    def render(self, frame: Frame) -> None:
        """The first branch that is taken."""
        taken = next((one.parts for one in self.branches if one.is_taken(frame)), self.otherwise)
        for part in taken:
            part.render(frame)


def shown(value: Value) -> bytes:
    """The value as Go prints it."""
    if isinstance(value, bytes):
        return value
    return str(value).lower().encode()


# --- template functions ---------------------------------------------------------------
#
# The functions that a template may call, as Go's text/template has them.
#
# `and` and `or` are no functions, for they don't look at all arguments; `printf` is in
# `template_format`. What is Go's but not here is refused by its name.

_HTML = (
    (b"\0", "\N{REPLACEMENT CHARACTER}".encode()),
    (b"&", b"&amp;"),
    (b'"', b"&#34;"),
    (b"'", b"&#39;"),
    (b"<", b"&lt;"),
    (b">", b"&gt;"),
)


class Known(Frozen):
    """A function and how many arguments it takes; `most` None is any number."""

    function: Function
    least: int
    most: int | None


def print_(values: Sequence[Value]) -> bytes:
    """Go's fmt.Sprint: a blank between two values of which neither is a text."""
    written: list[bytes] = []
    for number, value in enumerate(values):
        if number and not isinstance(value, bytes) and not isinstance(values[number - 1], bytes):
            written.append(b" ")
        written.append(shown(value))
    return b"".join(written)


def _println(values: Sequence[Value]) -> bytes:
    return b" ".join(map(shown, values)) + b"\n"


def _html(values: Sequence[Value]) -> bytes:
    text = print_(values)
    for character, reference in _HTML:
        text = text.replace(character, reference)
    return text


def _urlquery(values: Sequence[Value]) -> bytes:
    return quote_plus(print_(values)).encode()


def _len(values: Sequence[Value]) -> int:
    return len(_text("len", values[0]))


def _index(values: Sequence[Value]) -> Value:
    """The byte at a place, as a number; without a place the thing itself."""
    if len(values) == 1:
        return values[0]
    text = _text("index", values[0])
    place = _whole("index", values[1])
    if not 0 <= place < len(text):
        raise RenderError("index: out of range")
    return text[place]


def _slice(values: Sequence[Value]) -> bytes:
    text = _text("slice", values[0])
    start, end = (
        *(_whole("slice", value) for value in values[1:]),
        *(0, len(text))[len(values) - 1 :],
    )
    if not 0 <= start <= end <= len(text):
        raise RenderError("slice: out of range")
    return text[start:end]


def _not(values: Sequence[Value]) -> bool:
    return not values[0]


def _eq(values: Sequence[Value]) -> bool:
    """Whether the first equals one of the others; those behind that one are not looked at."""
    return any(_is_equal(values[0], other) for other in values[1:])


def _ne(values: Sequence[Value]) -> bool:
    return not _eq(values)


def _lt(values: Sequence[Value]) -> bool:
    first, second = values
    if isinstance(first, bytes) and isinstance(second, bytes):
        return first < second
    return _ordered(first) < _ordered(second)


def _le(values: Sequence[Value]) -> bool:
    return _lt(values) or _eq(values)


def _gt(values: Sequence[Value]) -> bool:
    return not _le(values)


def _ge(values: Sequence[Value]) -> bool:
    return not _lt(values)


def _is_equal(first: Value, second: Value) -> bool:
    if type(first) is not type(second):
        raise RenderError("values of different types can't be compared")
    return first == second


def _ordered(value: Value) -> int:
    if isinstance(value, bytes | bool):
        raise RenderError("only two texts or two numbers have an order")
    return value


def _text(name: str, value: Value) -> bytes:
    if not isinstance(value, bytes):
        raise RenderError(f"{name}: of something that is no text")
    return value


def _whole(name: str, value: Value) -> int:
    if isinstance(value, bytes | bool):
        raise RenderError(f"{name}: by something that is no number")
    return value


KNOWN = {
    "eq": Known(_eq, 2, None),
    "ne": Known(_ne, 2, 2),
    "lt": Known(_lt, 2, 2),
    "le": Known(_le, 2, 2),
    "gt": Known(_gt, 2, 2),
    "ge": Known(_ge, 2, 2),
    "not": Known(_not, 1, 1),
    "len": Known(_len, 1, 1),
    "index": Known(_index, 1, 2),
    "slice": Known(_slice, 1, 3),
    "print": Known(print_, 0, None),
    "println": Known(_println, 0, None),
    "html": Known(_html, 0, None),
    "urlquery": Known(_urlquery, 0, None),
}
NOT_OURS = frozenset({"call", "js"})


# --- template format ------------------------------------------------------------------
#
# `printf` as Go's fmt does it, for what templates have: texts, whole numbers, true and false.
#
# A verb that does not fit its argument is an error here; Go would write `%!d(string=a)`, which
# names nothing that anybody means to check.

_WIDEST = 255
_DIRECTIVE = re.compile(
    rb"%(?:%|(?P<flag>[-0]?)(?P<width>(?:[1-9][0-9]{0,8})?)"
    rb"(?:\.(?P<most>[0-9]{0,9}))?(?P<verb>[svqdxXtc]))"
)
_ESCAPES = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    '"': '\\"',
    "\\": "\\\\",
}
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


_LOWEST_ESCAPED, _HIGHEST_ESCAPED = 0xDC80, 0xDCFF  # how Python spells bytes that are no UTF-8


class Directive(Frozen):
    """One `%...` with the text before it; `most` cuts a text to so many characters."""

    before: bytes
    verb: str
    flag: str = ""
    width: int = 0
    most: int | None = None

    def formatted(self, value: Value) -> bytes:
        """The text before it and the value; raises RenderError when the verb does not fit it."""
        text = _by_verb(self.verb, value)
        if text is None:
            raise RenderError(f"printf: %{self.verb} does not fit its argument")
        if self.most is not None:
            text = text[: self.most]
        if self.flag == "-":
            text = text.ljust(self.width)
        elif self.flag == "0":
            text = text.zfill(self.width)
        else:
            text = text.rjust(self.width)
        return self.before + text.encode("utf-8", "surrogateescape")


class Format(Frozen):
    """A format that was read; its directives take one argument each."""

    directives: tuple[Directive, ...]
    rest: bytes

    def formatted(self, values: Sequence[Value]) -> bytes:
        """The text, as a template's function gives it; raises RenderError."""
        pairs = zip(self.directives, values, strict=True)
        return b"".join(one.formatted(value) for one, value in pairs) + self.rest


def read_format(text: bytes) -> Format:
    """Read a format; raises ValueError for what is not understood (argument numbers, `*`, floats,
    flags other than `-` and, for `%d`, `0`).
    """
    directives: list[Directive] = []
    before, at = b"", 0
    while (start := text.find(b"%", at)) >= 0:
        before += text[at:start]
        found = _DIRECTIVE.match(text, start)
        if found is None:
            shown_text = text[start : start + 8].decode("utf-8", "replace")
            raise ValueError(f"{shown_text!a} is not understood in a format")
        at = found.end()
        if found[0] == b"%%":
            before += b"%"
            continue
        directives.append(_directive(before, found))
        before = b""
    return Format(tuple(directives), before + text[at:])


def _directive(before: bytes, found: re.Match[bytes]) -> Directive:
    verb, flag = found["verb"].decode(), found["flag"].decode()
    width, most = int(found["width"] or 0), found["most"]
    if width > _WIDEST:
        raise ValueError(f"{found[0].decode()!a} is wider than {_WIDEST}")
    if (flag == "0" and verb != "d") or (most is not None and verb != "s"):
        raise ValueError(f"{found[0].decode()!a} is not understood in a format")
    return Directive(before, verb, flag, width, None if most is None else int(most or 0))


def _by_verb(verb: str, value: Value) -> str | None:
    """The value as the verb says, without width; None when it does not fit."""
    if verb == "v":
        return _decoded(shown(value))
    if isinstance(value, bool):
        return _decoded(shown(value)) if verb == "t" else None
    if isinstance(value, int):
        return _number(verb, value)
    match verb:
        case "s":
            return _decoded(value)
        case "q":
            return quoted(value)
        case "x":
            return value.hex()
        case "X":
            return value.hex().upper()
        case _:
            return None


def _number(verb: str, value: int) -> str | None:
    if verb == "c":
        is_character = 0 <= value < _BEYOND_UNICODE and value not in _SURROGATES
        return chr(value) if is_character else _REPLACEMENT
    return format(value, verb) if verb in {"d", "x", "X"} else None


def quoted(text: bytes) -> str:
    """The text as a Go string literal (strconv.Quote)."""
    return '"' + "".join(map(_quoted_character, _decoded(text))) + '"'


def _quoted_character(character: str) -> str:
    number = ord(character)
    if character in _ESCAPES:
        return _ESCAPES[character]
    if _LOWEST_ESCAPED <= number <= _HIGHEST_ESCAPED:
        return f"\\x{number - 0xDC00:02x}"
    if character.isprintable():
        return character
    if number < ord(" ") or number == 0x7F:  # noqa: PLR2004 -- ASCII's DEL
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"  # noqa: PLR2004 -- as above


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")


# --- template parser ------------------------------------------------------------------
#
# A template's text → `Template`, or `TemplateError` with line and column.
#
# The grammar is Go's text/template without what a rewrite has no use for (range, define, template,
# block, call, js, floats): that is refused here, at the start, where Go would find even a bad
# template only at the first request (D3). Stricter than Go where a template fails on every value: a
# field that does not exist, an argument that nothing takes, a variable that is not set on every way
# to it.

# Of conditions and parentheses, and of functions in one pipeline: so that neither parsing nor
# rendering can run out of stack.
_DEEPEST = 20
_MOST_STAGES = 10
_VALUE = ".Value"
_WORDS = {"true": True, "false": False}
_END_OF_COMMAND = frozenset({Kind.CLOSE, Kind.RIGHT, Kind.PIPE})


def parse(text: str) -> Template:
    """Parse a template; raises TemplateError."""
    return _Parser(text).template()


class _Cursor:
    """Where a parser is among the tokens, and how deep."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(tokens(text))
        self._at = 0
        self.depth = 0

    @property
    def token(self) -> Token:
        """The next one."""
        return self._tokens[self._at]

    @property
    def token_after(self) -> Token:
        """The one behind; inside an action there is always one."""
        return self._tokens[self._at + 1]

    def take(self) -> Token:
        """The next one, which is then over."""
        token = self.token
        self._at += 1
        return token

    def expect(self, kind: Kind) -> None:
        """Take one of this kind."""
        if self.token.kind is not kind:
            raise self.error(self.token, f"unexpected {self.token.text or 'end'}")
        self.take()

    def error(self, token: Token, problem: str) -> TemplateError:
        """A problem at a token."""
        return TemplateError(self._text, token.position, problem)

    @contextmanager
    def nested(self, token: Token) -> Iterator[None]:
        """One level deeper."""
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self.error(token, f"nested deeper than {_DEEPEST}")
        yield
        self.depth -= 1


class _Expressions(_Cursor):
    """Pipelines and what they are made of.

    Each variable and each dot of `with` has a slot; `names` are the variables in scope, `dot` is
    the slot of the dot, None where it is the whole.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.names: list[tuple[str, int]] = []
        self.dot: int | None = None

    def slot(self, name: Token) -> int:
        """Of the variable that was declared last under the name."""
        for known, slot in reversed(self.names):
            if known == name.text:
                return slot
        raise self.error(name, f"undefined variable {name.text}")

    def pipeline(self, context: str) -> Expression:
        """Commands with `|` between them; `context` is for the error when there is none."""
        if self.token.kind in _END_OF_COMMAND:
            raise self.error(self.token, f"a missing value in {context}")
        value = self._command(None)
        stages = 1
        while self.token.kind is Kind.PIPE:
            pipe = self.take()
            stages += 1
            if stages > _MOST_STAGES:
                raise self.error(pipe, f"more than {_MOST_STAGES} commands in a pipeline")
            value = self._command(value)
        return value

    def _command(self, piped: Expression | None) -> Expression:
        first = self.token
        if first.kind is Kind.NAME and first.text not in _WORDS:
            return self._call(self.take(), piped, takes_arguments=True)
        operand = self._operand()
        if piped is not None:
            raise self.error(first, f"nothing can be piped into {first.text}")
        if self.token.kind not in _END_OF_COMMAND:
            raise self.error(self.token, f"unexpected {self.token.text} after {first.text}")
        return operand

    def _call(
        self, name: Token, piped: Expression | None = None, *, takes_arguments: bool = False
    ) -> Expression:
        arguments: list[Expression] = []
        while takes_arguments and self.token.kind not in _END_OF_COMMAND:
            if not self.token.is_spaced:
                raise self.error(self.token, f"unexpected {self.token.text}, a blank is missing")
            arguments.append(self._operand())
        if name.text == "printf":
            return self._formatted(name, arguments, piped)
        if piped is not None:
            arguments.append(piped)
        if name.text in {"and", "or"}:
            self._check_count(name, len(arguments), 1, None)
            return FirstOf(name.text == "or", tuple(arguments), is_piped=piped is not None)
        known = KNOWN.get(name.text)
        if known is None:
            what = "supported" if name.text in NOT_OURS else "defined"
            raise self.error(name, f'function "{name.text}" is not {what}')
        self._check_count(name, len(arguments), known.least, known.most)
        return Call(known.function, tuple(arguments))

    def _formatted(
        self, name: Token, arguments: list[Expression], piped: Expression | None
    ) -> Expression:
        """A client's value must not be the format: it would say how much is written."""
        first = arguments[0] if arguments else None
        if not isinstance(first, Constant) or not isinstance(first.value, bytes):
            raise self.error(name, "the format of printf must be a string in quotes")
        try:
            form = read_format(first.value)
        except ValueError as error:
            raise self.error(name, str(error)) from None
        values = arguments[1:] if piped is None else [*arguments[1:], piped]
        wanted = len(form.directives)
        self._check_count(name, len(values), wanted, wanted)
        return Call(form.formatted, tuple(values))

    def _check_count(self, name: Token, count: int, least: int, most: int | None) -> None:
        if count < least or (most is not None and count > most):
            raise self.error(name, f"a wrong number of arguments for {name.text}: {count}")

    def _operand(self) -> Expression:
        token = self.take()
        operand = self._term(token)
        if self.token.kind is Kind.FIELD and not self.token.is_spaced:
            raise self.error(self.token, f"there is no field {self.token.text} in a text")
        return operand

    def _term(self, token: Token) -> Expression:
        match token.kind:
            case Kind.NAME if token.text in _WORDS:
                return Constant(_WORDS[token.text])
            case Kind.NAME:
                return self._call(token)
            case Kind.FIELD:
                return self._field(token, is_root=self.dot is None)
            case Kind.DOT if self.dot is not None:
                return Variable(self.dot)
            case Kind.VARIABLE if token.text == "$" and not self.token.is_spaced:
                return self._field(self.take(), is_root=True)
            case Kind.VARIABLE:
                return Variable(self.slot(token))
            case Kind.LEFT:
                with self.nested(token):
                    operand = self.pipeline("( )")
                self.expect(Kind.RIGHT)
                return operand
            case _:
                return Constant(self._literal(token))

    def _field(self, token: Token, *, is_root: bool) -> Expression:
        if not is_root:
            raise self.error(token, f"there is no field {token.text} in with; $.Value is there")
        if token.kind is not Kind.FIELD or token.text != _VALUE:
            raise self.error(token, _no_field(token))
        return RewriteValue()

    def _literal(self, token: Token) -> bytes | int:
        try:
            match token.kind:
                case Kind.NUMBER:
                    return number(token.text)
                case Kind.CHARACTER:
                    return character(token.text)
                case Kind.STRING:
                    return string(token.text)
                case Kind.RAW_STRING:
                    return raw_string(token.text)
        except ValueError as error:
            raise self.error(token, str(error)) from None
        raise self.error(token, f"unexpected {token.text or 'end'}")


class _Parser(_Expressions):
    """One parse, by recursive descent."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._slots = 0
        self._flaw = ""

    def template(self) -> Template:
        """The whole text."""
        parts = self._parts()
        if self.token.kind is not Kind.END:
            raise self.error(self.token, f"{{{{{self.token.text}}}}} without a beginning")
        return Template((), flaw=self._flaw) if self._flaw else Template(parts, self._slots)

    def _parts(self) -> tuple[Part, ...]:
        """Up to the end of the text, or with the next token `else` or `end`."""
        parts: list[Part] = []
        while True:
            if self.token.kind is Kind.END:
                return tuple(parts)
            token = self.take()
            if token.kind is Kind.TEXT:
                parts.append(Text(encoded(token.text)))
            elif self.token.text in {"else", "end"}:
                return tuple(parts)
            elif self.token.kind is Kind.KEYWORD:
                parts.append(self._choice(self.take()))
            else:
                parts.append(self._action())

    def _choice(self, keyword: Token) -> Choice:
        if keyword.text not in {"if", "with"}:
            raise self.error(keyword, f"{keyword.text} is not supported")
        in_scope = len(self.names)
        branches: list[Branch] = []
        otherwise: tuple[Part, ...] = ()
        with self.nested(keyword):
            while True:
                branches.append(self._branch(keyword))
                if self._ending(keyword) == "end":
                    break
                if self.token.kind is Kind.KEYWORD and self.token.text == keyword.text:
                    self.take()
                    continue
                self.expect(Kind.CLOSE)
                otherwise = self._scoped_parts()
                if self._ending(keyword) != "end":
                    raise self.error(self.token, "a second else")
                break
        del self.names[in_scope:]
        self.expect(Kind.CLOSE)
        return Choice(tuple(branches), otherwise)

    def _branch(self, keyword: Token) -> Branch:
        slot, condition = self._stored(keyword.text)
        slots: tuple[int, ...] = () if slot is None else (slot,)
        outside = self.dot
        if keyword.text == "with":
            self.dot = self._new_slot()
            slots += (self.dot,)
        parts = self._scoped_parts()
        self.dot = outside
        return Branch(condition, slots, parts)

    def _scoped_parts(self) -> tuple[Part, ...]:
        in_scope = len(self.names)
        parts = self._parts()
        del self.names[in_scope:]
        return parts

    def _ending(self, keyword: Token) -> str:
        """Take `else` or `end`; which of them it was."""
        token = self.take()
        if token.kind is Kind.END:
            raise self.error(keyword, f"{keyword.text} without end")
        return token.text

    def _action(self) -> Part:
        if self.depth == 0 and self._is_lone_field():
            # The original serves with such a template, and the field is always empty.
            self._flaw = self._flaw or str(self.error(self.token, _no_field(self.token)))
            self.take()
            self.expect(Kind.CLOSE)
            return Text(b"")
        slot, expression = self._stored("{{ }}")
        return Show(expression) if slot is None else Store(slot, expression)

    def _is_lone_field(self) -> bool:
        """Whether the action is a field and nothing else, and not the one that there is."""
        if self.token.kind is not Kind.FIELD:
            return False
        return self.token_after.kind is Kind.CLOSE and self.token.text != _VALUE

    def _stored(self, context: str) -> tuple[int | None, Expression]:
        """A pipeline to the action's end, and the slot that it goes to, if it names one."""
        name, sign = self.token, self.token_after
        if name.kind is not Kind.VARIABLE or sign.kind not in {Kind.DECLARE, Kind.ASSIGN}:
            expression = self.pipeline(context)
            self.expect(Kind.CLOSE)
            return None, expression
        self.take()
        self.take()
        expression = self.pipeline(context)
        self.expect(Kind.CLOSE)
        if sign.kind is Kind.ASSIGN:
            return self.slot(name), expression
        if name.text == "$":
            raise self.error(name, "$ can't be declared")
        slot = self._new_slot()
        self.names.append((name.text, slot))
        return slot, expression

    def _new_slot(self) -> int:
        self._slots += 1
        return self._slots - 1


def _no_field(token: Token) -> str:
    return f"there is no field {token.text}, only {_VALUE}"

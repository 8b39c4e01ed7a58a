"""The text of a template → its tokens, as Go's text/template cuts it, or `TemplateError`."""

import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from enum import Enum, auto

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


@dataclass(frozen=True, slots=True)
class Token:
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

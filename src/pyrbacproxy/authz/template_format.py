"""`printf` as Go's fmt does it, for what templates have: texts, whole numbers, true and false.

A verb that does not fit its argument is an error here; Go would write `%!d(string=a)`, which names
nothing that anybody means to check.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pyrbacproxy.authz.template import RenderError, Value
from pyrbacproxy.authz.template_parts import shown

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
_SURROGATES = range(0xD800, 0xE000)
_BEYOND_UNICODE = 0x110000
_LOWEST_ESCAPED, _HIGHEST_ESCAPED = 0xDC80, 0xDCFF  # how Python spells bytes that are no UTF-8


@dataclass(frozen=True, slots=True)
class Directive:
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


@dataclass(frozen=True, slots=True)
class Format:
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

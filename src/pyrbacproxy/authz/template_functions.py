"""The functions that a template may call, as Go's text/template has them.

`and` and `or` are no functions, for they don't look at all arguments; `printf` is in
`template_format`. What is Go's but not here is refused by its name.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote_plus

from pyrbacproxy.authz.template import RenderError, Value
from pyrbacproxy.authz.template_parts import Function, shown

_HTML = (
    (b"\0", "\N{REPLACEMENT CHARACTER}".encode()),
    (b"&", b"&amp;"),
    (b'"', b"&#34;"),
    (b"'", b"&#39;"),
    (b"<", b"&lt;"),
    (b">", b"&gt;"),
)


@dataclass(frozen=True, slots=True)
class Known:
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

"""printf: what Go's fmt writes for texts, whole numbers and booleans."""

from typing import TypeAlias

import pytest

from pyrbacproxy.authz.template_parser import quoted, read_format
from pyrbacproxy.authz.templates import RenderError

Values: TypeAlias = tuple[bytes | int, ...]

WRITTEN: list[tuple[bytes, Values, bytes]] = [
    (b"", (), b""),
    (b"100%%", (), b"100%"),
    (b"%s-%s", (b"a", b"b"), b"a-b"),
    (b"%%%s%%", (b"a",), b"%a%"),
    (b"%v %v %v", (b"a", 7, True), b"a 7 true"),
    (b"%d", (-5,), b"-5"),
    (b"%t", (False,), b"false"),
    (b"%5s|%-5s|", (b"ab", b"ab"), b"   ab|ab   |"),
    (b"%3s", ("éé".encode(),), " éé".encode()),
    (b"%03d|%-3d|%3d", (-5, 7, 7), b"-05|7  |  7"),
    (b"%.2s|%.s|%4.1s", ("éab".encode(), b"a", b"abc"), "éa||   a".encode()),
    (b"%x %X", (b"a\xff", b"\xff"), b"61ff FF"),
    (b"%x %X", (255, -255), b"ff -FF"),
    (b"%c%c", (97, 0x1F600), "a\N{GRINNING FACE}".encode()),
    (b"%c%c", (-1, 0xD800), "\N{REPLACEMENT CHARACTER}".encode() * 2),
    (b"%q", (b'a"\xff',), b'"a\\"\\xff"'),
    (b"%s", (b"\xff",), b"\xff"),
]
MISFITS: list[tuple[bytes, bytes | int]] = [
    *((b"%s", 1), (b"%s", True), (b"%d", b"1"), (b"%d", True), (b"%t", 1), (b"%t", b"true")),
    *((b"%q", 97), (b"%c", b"a"), (b"%x", True)),
]
REFUSED = [
    *(b"%", b"%z", b"a %[1]s", b"%*d", b"%f", b"%+d", b"% d", b"%#x", b"%05s", b"%-05d", b"%.2d"),
    *(b"%256d", b"%9999999999d", b"%!", b"%\xff"),
]
QUOTED = [
    (b"", '""'),
    (b"a b", '"a b"'),
    (b'\a\b\f\n\r\t\v\\"', r'"\a\b\f\n\r\t\v\\\""'),
    (b"\x00\x1f\x7f", r'"\x00\x1f\x7f"'),
    ("é\N{GRINNING FACE}".encode(), '"é\N{GRINNING FACE}"'),
    ("\u200b\u2028\U000e0001".encode(), r'"\u200b\u2028\U000e0001"'),
    (b"\xe2\x82A\xff", r'"\xe2\x82A\xff"'),
]


@pytest.mark.parametrize(("form", "values", "written"), WRITTEN)
def test_written(form: bytes, values: Values, written: bytes) -> None:
    assert read_format(form).formatted(values) == written


@pytest.mark.parametrize(("form", "value"), MISFITS)
def test_a_verb_that_does_not_fit_is_an_error(form: bytes, value: bytes | int) -> None:
    with pytest.raises(RenderError, match="does not fit"):
        read_format(form).formatted((value,))


@pytest.mark.parametrize("form", REFUSED)
def test_what_is_not_understood_is_refused(form: bytes) -> None:
    with pytest.raises(ValueError, match=r"not understood|wider"):
        read_format(form)


@pytest.mark.parametrize(("text", "literal"), QUOTED)
def test_quoted_as_strconv_does(text: bytes, literal: str) -> None:
    assert quoted(text) == literal

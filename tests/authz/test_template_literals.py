"""Literals as Go's strconv reads them."""

import pytest

from pyrbacproxy.authz.template_parser import character, number, raw_string, string

NUMBERS = [
    ("0", 0),
    ("42", 42),
    ("-3", -3),
    ("+3", 3),
    ("1_000", 1000),
    ("0x_Ff", 255),
    ("0b101", 5),
    ("0o17", 15),
    ("017", 15),
    ("0_17", 15),
    ("9223372036854775807", 2**63 - 1),
    ("-9223372036854775808", -(2**63)),
]
NO_NUMBERS = [
    *("08", "1__0", "1_", "0x", "0b2", "1.5", ".5", "1e3", "0x1p-2", "2i", "1+2", "12ab"),
    *("9223372036854775808", "9" * 10_000, "0-1"),
]
STRINGS = [
    ('""', b""),
    ('"a b"', b"a b"),
    (r'"\a\b\f\n\r\t\v\\\""', b'\a\b\f\n\r\t\v\\"'),
    (r'"\x41\101\xff"', b"AA\xff"),
    (r'"\u00e9\U0001F600"', "é\N{GRINNING FACE}".encode()),
    ('"é\'"', "é'".encode()),
    ('"\ud800"', b"?"),
]
NO_STRINGS = [
    *(r'"\q"', r'"\x4"', r'"\400"', r'"\18"', r'"\ud800"', r'"\U00110000"', r'"\'"', '"\\"'),
]
CHARACTERS = [
    ("'a'", 97),
    ("'é'", 233),
    (r"'\''", 39),
    (r"'\n'", 10),
    (r"'\xff'", 255),
    (r"'\u00e9'", 233),
    ("'\"'", 34),
]
NO_CHARACTERS = ["''", "'ab'", r"'\"'", r"'\q'"]


@pytest.mark.parametrize(("text", "value"), NUMBERS)
def test_number(text: str, value: int) -> None:
    assert number(text) == value


@pytest.mark.parametrize("text", NO_NUMBERS, ids=lambda text: text[:20])
def test_no_number(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        number(text)


@pytest.mark.parametrize(("text", "value"), STRINGS)
def test_string(text: str, value: bytes) -> None:
    assert string(text) == value


@pytest.mark.parametrize("text", NO_STRINGS)
def test_no_string(text: str) -> None:
    with pytest.raises(ValueError, match=r"escape|character"):
        string(text)


@pytest.mark.parametrize(("text", "value"), CHARACTERS)
def test_character(text: str, value: int) -> None:
    assert character(text) == value


@pytest.mark.parametrize("text", NO_CHARACTERS)
def test_no_character(text: str) -> None:
    with pytest.raises(ValueError, match=r"escape|character"):
        character(text)


def test_raw_string() -> None:
    assert raw_string('`a\\n\r\n"é`') == 'a\\n\n"é'.encode()

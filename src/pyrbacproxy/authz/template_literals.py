"""Go's literals in a template → values: numbers, characters, strings, raw strings."""

import re

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

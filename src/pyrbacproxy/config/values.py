"""pflag's value grammar: the text of one flag → a typed value, or `ValueError` that tells why not.

The messages are Go's, for an operator may know them (reference 1.1). No flag's name is known here.
"""

import json
import math
import re
import struct

_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_DIGITS = {
    "": re.compile(r"[1-9](_?[0-9])*|0"),
    "0x": re.compile(r"(_?[0-9a-f])+"),
    "0o": re.compile(r"(_?[0-7])+"),
    "0b": re.compile(r"(_?[01])+"),
}
_BASES = {"": 10, "0x": 16, "0o": 8, "0b": 2}
_DIGIT_RUN, _HEX_RUN = "(?:[0-9](?:_?[0-9])*)", "(?:[0-9a-f](?:_?[0-9a-f])*)"
_DECIMAL_FLOAT = re.compile(
    rf"[+-]?({_DIGIT_RUN}(\.{_DIGIT_RUN}?)?|\.{_DIGIT_RUN})(e[+-]?{_DIGIT_RUN})?", re.IGNORECASE
)
_HEX_FLOAT = re.compile(
    rf"[+-]?0x(_?{_HEX_RUN}(\.{_HEX_RUN}?)?|\.{_HEX_RUN})p[+-]?{_DIGIT_RUN}", re.IGNORECASE
)
_NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # micro sign
    "μs": 1_000,  # the Greek letter
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
# What stands before an @: with a `/` in it only where the colon before that begins no port.
_USER = re.compile(r"//(?:(?!\[)[^/]*:(?![0-9]*[/?#,\]])[^/]*/.*|[^/]*)@", re.DOTALL)
_USER_WITHOUT_SLASHES = re.compile(r"^[^/]+:(?!//).*@", re.DOTALL)
_DURATION_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^0-9.]*)")


def quoted(text: str) -> str:
    """The text as Go's %q shows it: in double quotes, control characters escaped."""
    return json.dumps(text, ensure_ascii=False)


def without_password(url: str) -> str:
    """A URL as a message may show it: user and password are masked, also where the rest is amiss.

    A password may hold a `/` that nobody escaped, and `//` may be missing.
    """
    return _USER_WITHOUT_SLASHES.sub("<masked>@", _USER.sub("//<masked>@", url))


def parse_bool(text: str) -> bool:
    """Go's `strconv.ParseBool`: a dozen spellings and no other."""
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(f"strconv.ParseBool: parsing {quoted(text)}: invalid syntax")


def parse_int(text: str) -> int:
    """A signed 64-bit integer; Go's prefixes (`0x`, `0o`, `0b`, `0`), `_` between digits."""
    sign, digits = ("-", text[1:]) if text[:1] == "-" else ("", text.removeprefix("+"))
    number = _magnitude(digits, "strconv.ParseInt", text)
    number = -number if sign else number
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"strconv.ParseInt: parsing {quoted(text)}: value out of range")
    return number


def parse_uint32(text: str) -> int:
    """An unsigned 32-bit integer with Go's prefixes; no sign is allowed."""
    return _unsigned(text, 32)


def parse_uint64(text: str) -> int:
    """An unsigned 64-bit integer with Go's prefixes; no sign is allowed."""
    return _unsigned(text, 64)


def parse_level(text: str) -> int:
    """A log level: a decimal number of 32 bits with its sign, as klog's `-v` takes it."""
    if not re.fullmatch(r"[+-]?[0-9]+", text, re.ASCII):
        raise ValueError(f"strconv.ParseInt: parsing {quoted(text)}: invalid syntax")
    if not -(2**31) <= int(text) < 2**31:
        raise ValueError(f"strconv.ParseInt: parsing {quoted(text)}: value out of range")
    return int(text)


def parse_float32(text: str) -> float:
    """A finite float32; infinities and NaN are refused, for nothing here is meant by them."""
    try:
        if _HEX_FLOAT.fullmatch(text):
            number = float.fromhex(text.replace("_", ""))
        elif _DECIMAL_FLOAT.fullmatch(text):
            number = float(text)
        else:
            raise ValueError(f"strconv.ParseFloat: parsing {quoted(text)}: invalid syntax")
        rounded: float = struct.unpack("f", struct.pack("f", number))[0]
    except OverflowError:
        rounded = math.inf
    if math.isinf(rounded):
        raise ValueError(f"strconv.ParseFloat: parsing {quoted(text)}: value out of range")
    return rounded


def parse_duration(text: str) -> float:
    """Seconds, from Go's syntax (`90s`, `1m0s`, `1.5h`); a bare number is wrong except `0`."""
    body = text[1:] if text[:1] in ("+", "-") else text
    if body == "0":
        return 0.0
    if not body:
        raise ValueError(f"time: invalid duration {quoted(text)}")
    nanoseconds = 0
    position = 0
    while position < len(body):
        part = _DURATION_PART.match(body, position)
        if part is None or not (part[1] or part[2]):
            raise ValueError(f"time: invalid duration {quoted(text)}")
        nanoseconds += _duration_part(part[1], part[2] or "", part[3], text)
        position = part.end()
    if nanoseconds >= 2**63:
        raise ValueError(f"time: invalid duration {quoted(text)}")
    return (-nanoseconds if text[0] == "-" else nanoseconds) / 1e9


def duration_text(seconds: float) -> str:
    """A duration as Go prints it, for milliseconds and more: `1m0s`, `250ms`, `0s`."""
    if seconds < 0:
        return "-" + duration_text(-seconds)
    if 0 < seconds < 1:
        return f"{seconds * 1000:g}ms"
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    text = f"{rest:g}s"
    if hours or minutes:
        text = f"{minutes}m{text}"
    return f"{hours}h{text}" if hours else text


def parse_csv(text: str) -> tuple[str, ...]:
    """One CSV record as Go's `encoding/csv` reads it: blanks stay, `"` quotes a whole field.

    Blank lines before the record are skipped and what follows it is not read, as in pflag. A
    carriage return at the very end is a line's end, cut short.
    "" is an empty list.
    """
    if not text:
        return ()
    rest = text.replace("\r\n", "\n").removesuffix("\r").lstrip("\n")
    if not rest:
        raise ValueError("EOF")
    fields: list[str] = []
    while True:
        field, rest = _quoted_field(rest[1:]) if rest[:1] == '"' else _bare_field(rest)
        fields.append(field)
        if rest[:1] != ",":
            return tuple(fields)
        rest = rest[1:]


def parse_paths(text: str) -> tuple[str, ...]:
    """As `parse_csv`, but a second line is refused: a path in it would be waited for by nobody."""
    if "\n" in text.rstrip("\r\n"):
        raise ValueError("more than one line")
    return parse_csv(text)


def parse_level_patterns(text: str) -> tuple[tuple[str, int], ...]:
    """`pattern=N` pairs of `--vmodule`; as in klog one with 0 is none."""
    pairs = []
    for item in filter(None, text.split(",")):
        pattern, equals, number = item.partition("=")
        try:
            level = parse_level(number) if pattern and equals else None
        except ValueError:
            level = None
        if level is None:
            raise ValueError("syntax error: expect comma-separated list of filename=N")
        if level < 0:
            raise ValueError("negative value for vmodule level")
        if level:
            pairs.append((pattern, level))
    return tuple(pairs)


def parse_gates(text: str) -> tuple[tuple[str, bool], ...]:
    """`Name=bool` pairs of `--feature-gates`, sorted; of a repeated name the last counts."""
    gates = {}
    for item in filter(None, text.split(",")):
        name, equals, value = (piece.strip() for piece in item.partition("="))
        if not equals:
            raise ValueError(f"missing bool value for {name}")
        gates[name] = parse_bool(value)
    return tuple(sorted(gates.items()))


def _magnitude(digits: str, function: str, text: str) -> int:
    prefix = digits[:2].lower()
    if prefix not in ("0x", "0o", "0b"):
        # "017" is octal to Go; "0_17" as well, hence the second spelling of the prefix.
        prefix = "0o" if len(digits) > 1 and digits[0] == "0" else ""
        rest = digits[1:] if prefix else digits
    else:
        rest = digits[2:]
    rest = rest.lower()
    if not _DIGITS[prefix].fullmatch(rest):
        raise ValueError(f"{function}: parsing {quoted(text)}: invalid syntax")
    return int(rest.replace("_", ""), _BASES[prefix])


def _unsigned(text: str, bits: int) -> int:
    number = _magnitude(text, "strconv.ParseUint", text)
    if number >= 2**bits:
        raise ValueError(f"strconv.ParseUint: parsing {quoted(text)}: value out of range")
    return number


def _duration_part(whole: str, fraction: str, unit: str, text: str) -> int:
    if not unit:
        raise ValueError(f"time: missing unit in duration {quoted(text)}")
    if unit not in _NANOSECONDS:
        raise ValueError(f"time: unknown unit {quoted(unit)} in duration {quoted(text)}")
    scale = _NANOSECONDS[unit]
    parts: int = int(fraction or "0") * scale // 10 ** len(fraction)
    return int(whole or "0") * scale + parts


def _bare_field(text: str) -> tuple[str, str]:
    end = re.search(r"[,\n]|$", text)
    field = text[: end.start()] if end else text
    if '"' in field:
        raise ValueError('parse error on line 1: bare " in non-quoted field')
    return field, text[len(field) :]


def _quoted_field(text: str) -> tuple[str, str]:
    """What follows an opening quote → the field and what follows its closing quote."""
    found = re.match(r'((?:[^"]|"")*)"(?=[,\n]|$)', text)
    if found is None:
        raise ValueError('parse error on line 1: extraneous or missing " in quoted-field')
    return found[1].replace('""', '"'), text[found.end() :]

"""pflag's and Go's value grammar, by tables."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrbacproxy.config import flags as values


@pytest.mark.parametrize("text", ["1", "t", "T", "TRUE", "true", "True"])
def test_true_has_six_spellings(text: str) -> None:
    assert values.parse_bool(text) is True


@pytest.mark.parametrize("text", ["0", "f", "F", "FALSE", "false", "False"])
def test_false_has_six_spellings(text: str) -> None:
    assert values.parse_bool(text) is False


@pytest.mark.parametrize("text", ["", "maybe", "yes", "tRUE", " true", "2"])
def test_nothing_else_is_a_boolean(text: str) -> None:
    with pytest.raises(ValueError, match=r"strconv\.ParseBool: parsing .*: invalid syntax"):
        values.parse_bool(text)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("-0", 0),
        ("42", 42),
        ("+42", 42),
        ("-42", -42),
        ("0x1F", 31),
        ("-0X1f", -31),
        ("0o17", 15),
        ("017", 15),
        ("0_17", 15),
        ("0b101", 5),
        ("1_000", 1000),
        ("0x_1", 1),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
    ],
)
def test_integers_have_gos_prefixes(text: str, number: int) -> None:
    assert values.parse_int(text) == number


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-",
        "--1",
        "x",
        "1.5",
        "08",
        "0x",
        "0b2",
        "_1",
        "1_",
        "1__0",
        "0__1",
        " 1",
        "1 ",
        "\u0663",
    ],
)
def test_bad_integers(text: str) -> None:
    with pytest.raises(ValueError, match=r"strconv\.ParseInt: parsing .*: invalid syntax"):
        values.parse_int(text)


@pytest.mark.parametrize("text", ["9223372036854775808", "-9223372036854775809"])
def test_integers_beyond_64_bits(text: str) -> None:
    with pytest.raises(ValueError, match="value out of range"):
        values.parse_int(text)


def test_unsigned_integers() -> None:
    assert values.parse_uint32("4294967295") == 2**32 - 1
    assert values.parse_uint64("0xffffffffffffffff") == 2**64 - 1
    for text in ("-1", "+1", "x"):
        with pytest.raises(ValueError, match=r"ParseUint: .* invalid syntax"):
            values.parse_uint32(text)
    with pytest.raises(ValueError, match="out of range"):
        values.parse_uint32("4294967296")
    with pytest.raises(ValueError, match="out of range"):
        values.parse_uint64("18446744073709551616")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0.0),
        ("5", 5.0),
        ("-2.5", -2.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("1e3", 1000.0),
        ("0x1p-2", 0.25),
        ("0X.8P1", 1.0),
        ("1_0.5_0e0_1", 105.0),
        ("0x_1_0p1", 32.0),
        ("3.4028235e38", 3.4028234663852886e38),
        ("1e-60", 0.0),
    ],
)
def test_floats(text: str, number: float) -> None:
    assert values.parse_float32(text) == number


@pytest.mark.parametrize(
    "text", ["", "x", "_1", "1__0", "1_.5", "0x1", "inf", "NaN", ".", "1e", " 1"]
)
def test_bad_floats(text: str) -> None:
    with pytest.raises(ValueError, match=r"ParseFloat: .* invalid syntax"):
        values.parse_float32(text)


@pytest.mark.parametrize("text", ["1e39", "-1e39", "1e999", "0x1p9999"])
def test_floats_beyond_32_bits(text: str) -> None:
    with pytest.raises(ValueError, match="out of range"):
        values.parse_float32(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("+0", 0.0),
        ("0s", 0.0),
        ("90s", 90.0),
        ("1m0s", 60.0),
        ("1m30s", 90.0),
        ("1.5h", 5400.0),
        (".5s", 0.5),
        ("1.s", 1.0),
        ("-1m", -60.0),
        ("250ms", 0.25),
        ("1us", 1e-6),
        ("1\u00b5s", 1e-6),
        ("1\u03bcs", 1e-6),
        ("1ns", 1e-9),
        ("1s1h", 3601.0),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert values.parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "invalid duration"),
        ("-", "invalid duration"),
        ("s", "invalid duration"),
        (".s", "invalid duration"),
        ("1h s", "unknown unit"),
        ("90", 'missing unit in duration "90"'),
        ("1m30", "missing unit"),
        ("1d", 'unknown unit "d" in duration "1d"'),
        ("2562048h", "invalid duration"),
    ],
)
def test_bad_durations(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"time: .*{why}"):
        values.parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0s"),
        (60.0, "1m0s"),
        (90.0, "1m30s"),
        (3600.0, "1h0m0s"),
        (0.25, "250ms"),
        (-5.0, "-5s"),
        (1.5, "1.5s"),
        (7325.0, "2h2m5s"),
    ],
)
def test_durations_are_shown_as_go_shows_them(seconds: float, text: str) -> None:
    assert values.duration_text(seconds) == text


@given(st.integers(0, 10**8))
def test_a_shown_duration_means_the_same(milliseconds: int) -> None:
    shown = values.duration_text(milliseconds / 1000)
    assert values.parse_duration(shown) == pytest.approx(milliseconds / 1000, rel=1e-5)


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("", ()),
        ("a", ("a",)),
        ("a,b", ("a", "b")),
        ("a, b", ("a", " b")),
        (",", ("", "")),
        ("a,", ("a", "")),
        ('"/a,b",/c', ("/a,b", "/c")),
        ('"a""b"', ('a"b',)),
        ('""', ("",)),
        ('"a\nb",c', ("a\nb", "c")),
        ("a,b\n", ("a", "b")),
        ("\n\na\r\nb", ("a",)),
        ("/a,/b\r", ("/a", "/b")),
        ('"/a"\r', ("/a",)),
        ("a\rb", ("a\rb",)),
    ],
)
def test_lists_are_one_csv_record(text: str, fields: tuple[str, ...]) -> None:
    assert values.parse_csv(text) == fields


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('a"b', 'bare " in non-quoted field'),
        ('"a', 'extraneous or missing " in quoted-field'),
        ('"a"b', 'extraneous or missing " in quoted-field'),
        ('"a" ,b', 'extraneous or missing " in quoted-field'),
        ("\n", "EOF"),
        ("\r", "EOF"),
    ],
)
def test_bad_lists(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        values.parse_csv(text)


@given(st.lists(st.text('ab," \n'), min_size=1))
def test_any_fields_survive_quoting(fields: list[str]) -> None:
    text = ",".join('"' + field.replace('"', '""') + '"' for field in fields)
    assert values.parse_csv(text) == tuple(fields)


@given(st.text('a,"\n'))
def test_any_list_is_read_or_refused(text: str) -> None:
    try:
        fields = values.parse_csv(text)
    except ValueError:
        return
    assert "".join(fields) == "".join(fields).strip("\r")


def test_levels() -> None:
    assert [values.parse_level(text) for text in ("10", "+1", "-1")] == [10, 1, -1]
    for text in ("0x1", "", "1.0", "\u0663", "1_0", " 1", "--1", "1\n"):
        with pytest.raises(ValueError, match=r"ParseInt.*invalid syntax"):
            values.parse_level(text)
    for text in ("2147483648", "-2147483649"):
        with pytest.raises(ValueError, match=r"ParseInt.*out of range"):
            values.parse_level(text)


def test_level_patterns() -> None:
    assert values.parse_level_patterns("") == ()
    assert values.parse_level_patterns("a=1,,c=0,b*=2") == (("a", 1), ("b*", 2))
    for text in ("a", "a=", "=1", "a=x", "a=1=2", "a=0x1", "a=1 ", "a=2147483648"):
        with pytest.raises(ValueError, match="syntax error: expect comma-separated list"):
            values.parse_level_patterns(text)
    with pytest.raises(ValueError, match="negative value for vmodule level"):
        values.parse_level_patterns("a=-1")


def test_paths_are_on_one_line() -> None:
    assert values.parse_paths("/a,/b\n") == ("/a", "/b")
    assert values.parse_paths("") == ()
    with pytest.raises(ValueError, match="more than one line"):
        values.parse_paths("/a\n/b")


def test_gates() -> None:
    assert values.parse_gates("B=false, A=true,B=true") == (("A", True), ("B", True))
    for text in ("A", "A=x"):
        with pytest.raises(ValueError, match=r"bool|invalid"):
            values.parse_gates(text)


def test_a_quoted_text_stays_on_its_line() -> None:
    assert values.quoted('a"b\n\u00e9') == '"a\\"b\\n\u00e9"'


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://me:secret@h:1/x", "http://<masked>@h:1/x"),
        ("https://me:se/cret@h/", "https://<masked>@h/"),
        ("https://me:se@cr/et@h/", "https://<masked>@h/"),
        ("me:secret@h:80", "<masked>@h:80"),
        ("https:me:secret@h", "<masked>@h"),
        ("https:\\\\me:secret@h", "<masked>@h"),
        ("[https://a,https://me:secret@h]", "[https://a,https://<masked>@h]"),
        ("http://h/a@b", "http://h/a@b"),
        ("http://h:8080/a@b", "http://h:8080/a@b"),
        ("http://[::1]:8080/a@b", "http://[::1]:8080/a@b"),
        ("/a:b@c", "/a:b@c"),
    ],
)
def test_a_password_in_a_url_is_not_shown(url: str, shown: str) -> None:
    assert values.without_password(url) == shown

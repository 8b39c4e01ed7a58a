"""YAML 1.1 as Go's sigs.k8s.io/yaml reads it."""

import pytest

from pyrbacproxy.config.authorization_file import Entry, NotYamlError, Tree
from pyrbacproxy.config.findings import Findings


class Read:
    """One document and what was found in it."""

    def __init__(self, text: str | bytes, *, is_strict: bool = False) -> None:
        content = text if isinstance(text, bytes) else text.encode()
        self.findings = Findings()
        self.tree = Tree(content, "f", self.findings, is_strict=is_strict)
        self.root = self.tree.root()

    def entry(self, name: str = "a") -> Entry | None:
        return self.tree.section(self.root, (name,)).get(name)

    @property
    def problems(self) -> list[str]:
        return self.findings.problems


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("word", "word"),
        ('"quoted"', "quoted"),
        ("", ""),
        ("~", ""),
        ("123", "123"),
        ("-5", "-5"),
        ("+5", "5"),
        ("0x10", "16"),
        ("0b11", "3"),
        ("017", "15"),
        ("0", "0"),
        ("1_000", "1000"),
        ("1:30", "1:30"),
        ("1:30.5", "1:30.5"),
        ("1.50", "1.5"),
        ("1.0e+3", "1000"),
        ("0X1F", "31"),
        ("0o17", "15"),
        ("-0b11", "-3"),
        ("08", "8"),
        ("1e3", "1000"),
        ("1E5", "100000"),
        ("1e6", "1e+06"),
        ("1e-4", "0.0001"),
        ("1e-5", "1e-05"),
        ("123456.5", "123456.5"),
        ("1234567.5", "1.2345675e+06"),
        ("1234567", "1234567"),
        (".5", "0.5"),
        ("-0.0", "-0"),
        ("18446744073709551615", "18446744073709551615"),
        ("18446744073709551616", "1.8446744e+19"),
        ("+9223372036854775808", "9.223372e+18"),
        ("1e40", "+Inf"),
        ("-1e40", "-Inf"),
        ("1e400", "1e400"),
        (".inf", "+Inf"),
        ("-.INF", "-Inf"),
        (".nan", "NaN"),
        ("'1e3'", "1e3"),
        ("!!str 1e3", "1e3"),
        ("1e3x", "1e3x"),
        ("0x", "0x"),
        ("on", "true"),
        ("Yes", "true"),
        ("y", "true"),
        ("n", "false"),
        ("'on'", "on"),
        ("2001-01-01", "2001-01-01"),
        ("!!str 123", "123"),
        ("!!null ~", ""),
        ("!!bool y", "true"),
        ("v1", "v1"),
        ("=", "="),
        ("<<", "<<"),
        ('"\\ud7ff\\U0010ffff"', "\ud7ff\U0010ffff"),
    ],
)
def test_scalars_become_the_text_that_go_makes_of_them(written: str, meant: str) -> None:
    read = Read(f"a: {written}")
    assert read.tree.text(read.entry()) == meant
    assert read.problems == []


@pytest.mark.parametrize(
    "written",
    [
        *("[x]", "{x: y}", "!!binary eA==", "!own x", "!!int word"),
        *("!!null bob", "!!bool maybe", "!!float ''", "!!int 08"),
    ],
)
def test_what_is_no_text_is_a_problem(written: str) -> None:
    read = Read(f"a: {written}")
    assert read.tree.text(read.entry()) == ""
    assert "f, line 1: a: must be text, not " in read.problems[0]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("true", True),
        ("YES", True),
        ("on", True),
        ("y", True),
        ("False", False),
        ("no", False),
        ("off", False),
        ("N", False),
        ("", False),
        ("~", False),
    ],
)
def test_unquoted_booleans(written: str, *, meant: bool) -> None:
    read = Read(f"a: {written}")
    assert read.tree.truth(read.entry()) is meant
    assert read.problems == []


@pytest.mark.parametrize(
    "written",
    ['"true"', "'yes'", "1", "word", "[]", "{}", '"y"', "!!bool maybe", "!!null true"],
)
def test_nothing_else_is_a_boolean(written: str) -> None:
    read = Read(f"a: {written}")
    assert read.tree.truth(read.entry()) is False
    assert read.problems[0].startswith("f, line 1: a: must be true or false, not ")


def test_absent_is_the_zero_value() -> None:
    read = Read("b: 1")
    assert read.tree.text(None) == ""
    assert read.tree.truth(None) is False
    assert read.tree.items(None) == []
    assert read.tree.section(None, ("a",)) == {}


def test_items_are_numbered() -> None:
    read = Read("a: [x, y]")
    assert [entry.key for entry in read.tree.items(read.entry())] == ["a[0]", "a[1]"]


@pytest.mark.parametrize(("written", "shown"), [("x", "x"), ('""', '""'), ("{b: c}", "a mapping")])
def test_what_is_no_list_is_a_problem(written: str, shown: str) -> None:
    read = Read(f"a: {written}")
    assert read.tree.items(read.entry()) == []
    assert read.problems == [f"f, line 1: a: must be a list, not {shown}"]


@pytest.mark.parametrize("spelling", ["apiGroup", "apigroup", "APIGroup", '"apiGroup"'])
def test_keys_match_whatever_their_case(spelling: str) -> None:
    read = Read(f"{spelling}: x")
    assert read.tree.text(read.entry("apiGroup")) == "x"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("a: 1\na: 2", "2"),
        ("A: 1\na: 2", "2"),
        ("a: 2\nA: 1", "2"),  # a sorts behind A, wherever it stands
    ],
)
def test_of_several_equal_keys_one_wins_and_it_is_said(text: str, meant: str) -> None:
    read = Read(text)
    assert read.tree.text(read.entry()) == meant
    assert read.problems == []
    assert "given more than once" in read.findings.warnings[0]


@pytest.mark.parametrize("text", ["a: 1\na: 1", "A: 1\na: 2", "a: 2\nA: 1", "<<: {a: 1, A: 2}"])
def test_dec_d2_a_repeated_key_that_would_widen_is_a_problem(text: str) -> None:
    read = Read(text)
    read.tree.section(read.root, ("a",), is_strict=True)
    assert len(read.problems) == 1
    assert read.problems[0].endswith(": given more than once")


@pytest.mark.parametrize(
    "text",
    [
        "base: &b {x: 1, y: 2}\na: {<<: *b, y: 3}",
        "base: &b {x: 1, y: 2}\na: {y: 3, <<: *b}",
        "base: &b {x: 1}\na: {<<: [{y: 3}, {<<: *b, y: 2}]}",
        "base: &b {<<: {x: 2}, x: 1}\na: &a {<<: *b, y: 3}\nc: *a",
    ],
)
def test_merge_keys_and_aliases_are_resolved(text: str) -> None:
    read = Read(text)
    sections = read.tree.section(read.root, ("a", "base", "c"))
    for _ in range(2):  # what is merged is so for good
        entries = read.tree.section(sections["a"], ("x", "y"), is_strict=True)
        assert [read.tree.text(entries[key]) for key in ("x", "y")] == ["1", "3"]
    assert read.findings == Findings()


def test_a_key_that_is_no_scalar_is_told_of_a_base_too() -> None:
    read = Read("a: {<<: {? [x] : y}, b: 1}")
    read.tree.section(read.entry(), ("b",))
    assert read.problems == ["f, line 1: a: a list cannot be a key"]


def test_merged_aliases_do_not_multiply() -> None:
    levels = (f"a{n + 1}: &a{n + 1} {{<<: [*a{n}, *a{n}]}}" for n in range(40))
    read = Read("\n".join(["a0: &a0 {? [x] : y, b: 1}", *levels]))
    entry = read.tree.section(read.root, ("a40",))["a40"]
    assert read.tree.text(read.tree.section(entry, ("b",))["b"]) == "1"
    assert len(read.problems) == 1


@pytest.mark.parametrize("text", ["a: {<<: 5}", "a: {<<: [[]]}", "a: &a {<<: *a}"])
def test_a_bad_merge_key_is_a_problem(text: str) -> None:
    read = Read(text)
    assert read.tree.section(read.entry(), ("x",)) == {}
    assert "bad merge key" in read.problems[0]


def test_a_loop_ends() -> None:
    read = Read("a: &a [*a]")
    (inner,) = read.tree.items(read.entry())
    assert read.tree.text(inner) == ""
    assert len(read.problems) == 1


def test_a_key_that_is_no_scalar_is_a_problem() -> None:
    read = Read("? [x]\n: y\na: 1")
    assert read.tree.text(read.entry()) == "1"
    assert read.problems == ["f, line 1: a list cannot be a key"]


def test_unknown_keys_are_warned_about_or_refused() -> None:
    assert Read("a: 1\nnone: 2").findings == Findings()
    read = Read("a: 1\nalso: 2")
    read.entry()
    assert read.findings.warnings == ["f, line 2: also: unknown key, ignored"]
    read = Read("names: 2")
    read.tree.section(read.root, ("name",), is_strict=True)
    assert read.problems == ['f, line 1: names: unknown key, did you mean "name"?']
    read = Read("names: 2", is_strict=True)
    read.entry("name")
    assert read.problems == [
        'f, line 1: names: unknown key, did you mean "name"? (--strict-config)'
    ]


def test_only_the_first_document_counts() -> None:
    read = Read("a: 1\n---\na: 2\n")
    assert read.tree.text(read.entry()) == "1"
    assert read.findings.warnings == ["f: only the first YAML document is read"]


@pytest.mark.parametrize("rest", ["b: [", "---\nb: [", "---\n" + "[" * 5000])
def test_what_follows_the_first_document_need_not_be_yaml(rest: str) -> None:
    read = Read(f"a: 1\n...\n{rest}\n")
    assert read.tree.text(read.entry()) == "1"
    assert read.findings.warnings == ["f: only the first YAML document is read"]


@pytest.mark.parametrize(
    "text",
    ['{\n\t"a":\t"b"\t,\n\t"c": 1\n}\n', "a:\tb", "a: b\t", "a: b\t# c", "a\t: b", "a:\t\n  b\n"],
)
def test_a_tab_is_a_blank_where_go_takes_it_for_one(text: str) -> None:
    read = Read(text)
    assert read.tree.text(read.entry()) == "b"
    assert read.problems == []


def test_a_root_that_is_no_mapping_is_a_problem() -> None:
    read = Read("[a]")
    assert read.entry() is None
    assert read.problems == ["f, line 1: must be a mapping, not a list"]


def test_an_empty_text_has_no_root() -> None:
    assert Read("").root is None


@pytest.mark.parametrize(
    "text",
    [
        *(b"a: [", b"a: b: c", b"\xff\xfe\xff", b"a: \x00", b"a: *b", b"[" * 5000),
        *(b"\ta: 1", b"a:\n-\tb: 1", b"a: 1\n\t# b", b"a:\n\tb: 1"),
        *(b'a: "\\ud800"', b'"\\udfff": 1', b'a: "\\U00110000"', b'a: "\\Uffffffff"'),
    ],
)
def test_what_is_no_yaml_is_said_on_one_line(text: bytes) -> None:
    with pytest.raises(NotYamlError) as caught:
        Read(text)
    assert "\n" not in str(caught.value)
    assert "<byte string>" not in str(caught.value)


def test_go_reads_an_empty_value_before_a_brace() -> None:
    read = Read("{b: 1, a:}")
    assert read.tree.text(read.tree.section(read.root, ("a", "b"))["a"]) == ""
    assert read.problems == []

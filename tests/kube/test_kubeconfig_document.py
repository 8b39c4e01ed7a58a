import json

import pytest

from pyrbacproxy.kube.kubeconfig_file import DocumentError, named, read_document


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("", None, id="nothing"),
        pytest.param("a: 1\n---\nb: [", {"a": 1}, id="the first of several documents"),
        pytest.param(
            "a: 2024-02-30\n2001-01-01: b", {"a": "2024-02-30", "2001-01-01": "b"}, id="times"
        ),
        pytest.param("a: !!timestamp x", {"a": "x"}, id="a time that is none"),
        pytest.param(json.dumps({"a": [1]}, indent="\t"), {"a": [1]}, id="JSON with tabs"),
        pytest.param('a: "\U0001f600"', {"a": "\U0001f600"}, id="beyond the first plane"),
        pytest.param("b: &b {c: 1}\na: {<<: *b}", {"a": {"c": 1}, "b": {"c": 1}}, id="merged"),
        pytest.param("a: &a [1]\nb: [*a, *a]", {"a": [1], "b": [[1], [1]]}, id="aliases"),
    ],
)
def test_a_document_is_read_as_client_go_reads_it(text: str, value: object) -> None:
    assert read_document(text.encode()) == value


def swollen(depth: int, width: int) -> str:
    """`width ** depth` values in a few lines."""
    rows = (f"x{n}: &x{n} [{','.join([f'*x{n - 1}'] * width)}]" for n in range(1, depth))
    return "\n".join([f"x0: &x0 [{','.join('a' * width)}]", *rows])


def merged(depth: int) -> str:
    """A mapping that comes to `2 ** depth` pairs while it is put together."""
    rows = (f"x{n}: &x{n} {{<<: [*x{n - 1}, *x{n - 1}]}}" for n in range(1, depth))
    return "\n".join(["x0: &x0 {a: 1}", *rows])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("a: [s3cret: x", "is no YAML in line ", id="no YAML"),
        pytest.param("a: \x07", "is no YAML", id="a control character"),
        pytest.param("? {a: b}\n: c", "is no YAML in line 1", id="a mapping for a key"),
        pytest.param("a: {<<: s3cret}", "is no YAML in line 1", id="a text merged"),
        pytest.param("[" * 5000, "is no YAML|is nested too deep", id="deep beyond the parser"),
        pytest.param("[" * 980 + "]" * 980, "is nested too deep", id="deep"),
        pytest.param(swollen(9, 9), "too many values, its aliases written out", id="aliases"),
        pytest.param(merged(40), "too many values, its aliases written out", id="merges"),
        pytest.param("a: &a [1, *a]", "an alias of what it is in in line 1, column 4", id="itself"),
        pytest.param("a: &a {b: {c: *a}}", "an alias of what it is in", id="itself, deeper"),
        pytest.param("#" * (9 << 20), "is longer than 8388608 bytes", id="long"),
        pytest.param("a: !!int s3cret", "not valid in line 1, column 4", id="no number"),
    ],
)
def test_what_cannot_be_read_is_told_unquoted(text: str, said: str) -> None:
    with pytest.raises(DocumentError, match=said) as caught:
        read_document(text.encode())
    assert "s3cret" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("a", {"token": "t"}),
        ("b", {}),
        (None, "names no user"),
        ("c", '"c": its user is no mapping'),
        ("d", '"d": 2 of users has this name'),
        ("e", '"e": none of users has this name'),
    ],
)
def test_an_entry_is_found_whatever_stands_beside_it(name: object, found: object) -> None:
    twice = {"name": "d", "user": {}}
    users: list[object] = [
        {"name": "a", "user": {"token": "t"}},
        {"name": "b"},
        {"name": "c", "user": 1},
        *(twice, twice, None, "junk", {"user": {}}),
    ]
    assert named({"users": users}, "users", "user", name) == found


def test_a_section_is_a_list() -> None:
    assert named({}, "clusters", "cluster", "a") == '"a": clusters is no list'

import pytest

from pyrbacproxy.node.documents import Document, DocumentError, Json, read_all, read_one, shown


def bomb(kind: str) -> bytes:
    """Eight lines, each of which names the one before nine times."""
    lines = ["a0: &a0 {k: v}"]
    for number in range(1, 9):
        before = ", ".join([f"*a{number - 1}"] * 9)
        lines.append(f"a{number}: &a{number} {kind % before}")
    return "\n".join(lines).encode()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(b"a: 1\nb: [x, null, 1.5, true]\n", {"a": 1, "b": ["x", None, 1.5, True]}),
        pytest.param(b'{\n\t"a": {"b": ""}\n}', {"a": {"b": ""}}, id="JSON, indented with tabs"),
        pytest.param(b"{a: {b: ''}}", {"a": {"b": ""}}, id="YAML that begins as JSON does"),
        pytest.param(b"1: x", {"1": "x"}, id="a key that is no text becomes one, as in Go"),
        pytest.param(b"---\n---\na: 1\n", {"a": 1}, id="an empty document beside it"),
        pytest.param(
            b"a: &x [1]\nb: *x", {"a": [1], "b": [1]}, id="an alias is what it stands for"
        ),
    ],
)
def test_a_document_is_read(content: bytes, expected: Document) -> None:
    assert read_one(content, "f") == expected


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        pytest.param(b"", "f: must hold one document, not 0", id="empty"),
        pytest.param(b"a: 1\n---\nb: 2", "f: must hold one document, not 2", id="two"),
        pytest.param(b"[]", "f: must be a mapping", id="a list"),
        pytest.param(b"a: [", "f: while parsing a flow node", id="no YAML"),
        pytest.param(b"\xff", "f: unacceptable character", id="no text"),
        pytest.param(b"a:\n- b: 2024-01-02", "f: a[0].b: put 2024-01-02 in quotes", id="a date"),
        pytest.param(b"a: 2024-02-30", "f: day", id="no day"),
        pytest.param(b"a: !!int x", "f: invalid literal", id="no integer"),
        pytest.param(b"a: !!int ''", "f: a value does not fit its tag", id="no digit"),
        pytest.param(b"a: !!bool maybe", "f: a value does not fit its tag", id="no truth"),
        pytest.param(b"a: !!timestamp x", "f: a value does not fit its tag", id="no date"),
        pytest.param(
            b"a: !!float 1" + b":1" * 200, "f: a value does not fit its tag", id="no float"
        ),
        pytest.param(b"[" * 5000, "f: nested too deeply", id="deep"),
        pytest.param(b"a: &x [*x]", "f: nested too deeply", id="endless"),
        pytest.param(bomb("[%s]"), "f: more than 1000000 values", id="aliases that multiply"),
        pytest.param(bomb("{<<: [%s]}"), "f: more than 1000000 values", id="merges that do"),
        pytest.param(b"a: [.nan]", "f: a[0]: JSON has no number nan", id="not a number"),
        pytest.param(b'{"a": -Infinity}', "f: a: JSON has no number -inf", id="endless, in JSON"),
        pytest.param(
            b'{"a": {"b": "\\ud800"}}', r'f: a.b: "\ud800" holds half a character', id="half"
        ),
        pytest.param(
            b'{"a": {"\\ud800": 1}}', r'f: a: "\ud800" holds half a character', id="half a key"
        ),
    ],
)
def test_a_bad_one_is_named(content: bytes, complaint: str) -> None:
    with pytest.raises(DocumentError) as caught:
        read_one(content, "f")
    assert str(caught.value).startswith(complaint)
    assert "\n" not in str(caught.value)


def test_every_document_is_read() -> None:
    assert read_all(b"a: 1\n---\n---\nb: 2\n", "f") == [{"a": 1}, {"b": 2}]
    assert read_all(b"", "f") == []


@pytest.mark.parametrize(
    ("value", "text"), [("", '""'), (None, "null"), ("ü", '"ü"'), ([1], "[1]")]
)
def test_a_value_is_shown_as_json(value: Json, text: str) -> None:
    assert shown(value) == text

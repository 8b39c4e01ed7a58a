"""Typed reading: zero values for what is absent, errors with a path for what is wrong."""

from collections.abc import Callable

import pytest

from pyrbacproxy.demo.documents import Document, DocumentError, document

WHOLE = document(
    {
        "name": "x",
        "list": ["a", "b"],
        "child": {"name": "y"},
        "children": [{"name": "z"}],
        "nothing": None,
        "number": 5,
    },
    "Role x",
)


def test_reads_what_is_there() -> None:
    assert WHOLE.text("name") == WHOLE.required_text("name") == "x"
    assert WHOLE.texts("list") == ("a", "b")
    assert WHOLE.child("child").text("name") == "y"
    assert WHOLE.text_map("child") == {"name": "y"}
    assert [each.text("name") for each in WHOLE.children("children")] == ["z"]
    assert WHOLE.has("number")


@pytest.mark.parametrize("key", ["absent", "nothing"])
def test_absent_and_null_are_zero(key: str) -> None:
    assert not WHOLE.has(key)
    assert WHOLE.text(key) == ""
    assert (WHOLE.texts(key), WHOLE.children(key)) == ((), ())
    assert WHOLE.child(key).fields == WHOLE.text_map(key) == {}


WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "text": (lambda: WHOLE.text("number"), "Role x.number: want text, not int"),
    "required": (lambda: WHOLE.required_text("absent"), "Role x.absent: required"),
    "texts of no list": (lambda: WHOLE.texts("name"), "Role x.name: want a list, not str"),
    "texts of mappings": (
        lambda: WHOLE.texts("children"),
        "Role x.children[0]: want text, not dict",
    ),
    "child": (lambda: WHOLE.child("list"), "Role x.list: want a mapping, not list"),
    "children": (lambda: WHOLE.children("list"), "Role x.list[0]: want a mapping, not str"),
    "below": (
        lambda: WHOLE.child("child").required_text("uid"),
        "Role x.child.uid: required",
    ),
    "no mapping": (lambda: document([1]), "document: want a mapping, not list"),
    "keys that are no text": (lambda: document({1: 2}), "document: want a mapping, not dict"),
    "without a place": (lambda: Document({"a": 1}).text("a"), "a: want text, not int"),
}


@pytest.mark.parametrize(("read", "text"), WRONG.values(), ids=WRONG.keys())
def test_says_where_it_is_wrong(read: Callable[[], object], text: str) -> None:
    with pytest.raises(DocumentError) as caught:
        read()
    assert str(caught.value) == text


def test_errors_of_content() -> None:
    assert str(WHOLE.error("name", "bad")) == "Role x.name: bad"

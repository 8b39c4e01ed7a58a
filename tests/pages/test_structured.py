"""JSON as Go writes it, YAML that any reader takes for the same."""

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pyrbacproxy.pages.negotiation import Object, json_text, yaml_text

THING: Object = {
    "kind": "Thing",
    "metadata": {},
    "labels": {"b": "2", "a": "1"},
    "count": 3,
    "paths": ("/a", "/b"),
    "none": (),
}


def test_compact_json_ends_its_line() -> None:
    assert json_text(THING, is_pretty=False) == (
        '{"kind":"Thing","metadata":{},"labels":{"b":"2","a":"1"},"count":3,'
        '"paths":["/a","/b"],"none":[]}\n'
    )


def test_pretty_json_is_indented_by_two_and_does_not() -> None:
    assert json_text({"kind": "Thing", "paths": ("/a",)}, is_pretty=True) == (
        '{\n  "kind": "Thing",\n  "paths": [\n    "/a"\n  ]\n}'
    )


def test_json_escapes_what_go_escapes() -> None:
    written = json_text({"x": "<a>&\u2028é"}, is_pretty=False)
    assert written == '{"x":"\\u003ca\\u003e\\u0026\\u2028é"}\n'
    assert json.loads(written) == {"x": "<a>&\u2028é"}


def test_yaml_is_in_blocks_with_sorted_keys() -> None:
    assert yaml_text(THING) == (
        'count: 3\nkind: Thing\nlabels:\n  a: "1"\n  b: "2"\nmetadata: {}\nnone: []\n'
        "paths:\n- /a\n- /b\n"
    )


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("config.k8s.io/v1", "config.k8s.io/v1"),
        ("0.1.0", '"0.1.0"'),
        ("2024-09-06T06:19:51Z", '"2024-09-06T06:19:51Z"'),
        ("", '""'),
        ("Yes", '"Yes"'),
        ("a: b", '"a: b"'),
        ("null", '"null"'),
        ("\x7f", '"\\u007f"'),
    ],
)
def test_yaml_quotes_what_may_be_misread(text: str, written: str) -> None:
    assert yaml_text({"x": text}) == f"x: {written}\n"


TEXTS = st.text(st.characters(codec="utf-8"))
KEYS = st.text(st.characters(codec="utf-8"), min_size=1)


@given(TEXTS, st.lists(TEXTS), st.dictionaries(KEYS, TEXTS))
def test_whatever_is_written_is_read_back(
    text: str, texts: list[str], named: dict[str, str]
) -> None:
    value: Object = {"text": text, "texts": tuple(texts), "named": named}
    expected = {"text": text, "texts": texts, "named": named}
    assert yaml.safe_load(yaml_text(value)) == expected
    assert json.loads(json_text(value, is_pretty=True)) == expected

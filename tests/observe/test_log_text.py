"""What a log may hold; tests/observe/test_logs.py tries it in whole lines."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrbacproxy.observe.logs import json_on_one_line, masked, on_one_line


@pytest.mark.parametrize(
    "text",
    [
        "bearer token refused",
        "bearer token: expired",
        "no bearer token",
        "f, line 1: authorization: unknown key, ignored",
        "f, line 2: authorization.static[0].user: must be a mapping",
        "--auth-token-audiences=a,b",
        "https://127.0.0.1:6443/api?limit=5",
        "user system:serviceaccount:a:b verb get",
    ],
)
def test_ordinary_words_stay(text: str) -> None:
    assert masked(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/x?token=abc&a=b", "/x?token=<masked>&a=b"),
        ("Bearer abc, Bearer def", "Bearer <masked>, Bearer <masked>"),
        ("/eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln/log", "/<masked>/log"),
    ],
)
def test_credentials_are_masked_where_they_stand(text: str, shown: str) -> None:
    assert masked(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("grüße\tdir", "grüße\tdir"),
        ("a\r\nb", r"a\r\nb"),
        ("\x1b[2J\x9b", r"\x1b[2J\x9b"),
        ("\u202e\udcff", r"\u202e\udcff"),
    ],
)
def test_what_is_odd_is_escaped(text: str, shown: str) -> None:
    assert on_one_line(text) == shown


@given(st.text(st.characters()))
def test_json_means_the_same_on_one_line(text: str) -> None:
    line = json_on_one_line(json.dumps(text, ensure_ascii=False))
    assert json.loads(line) == text
    assert len(line.splitlines()) == 1

"""The functions, with what Go's own give."""

from typing import TypeAlias

import pytest

from pyrbacproxy.authz.template_parser import KNOWN
from pyrbacproxy.authz.templates import RenderError

Value: TypeAlias = bytes | int

GIVEN: list[tuple[str, tuple[Value, ...], Value]] = [
    ("print", (), b""),
    ("print", (b"a", b"b"), b"ab"),
    ("print", (1, 2, b"a", True, False), b"1 2atrue false"),
    ("println", (b"a", 1), b"a 1\n"),
    ("println", (), b"\n"),
    ("html", (b"a\0<>&\"'",), "a\N{REPLACEMENT CHARACTER}&lt;&gt;&amp;&#34;&#39;".encode()),
    ("urlquery", (b"a b/\xff~", 1), b"a+b%2F%FF~1"),
    ("len", ("é".encode(),), 2),
    ("index", (7,), 7),
    ("index", (b"abc", 2), 99),
    ("slice", (b"abc",), b"abc"),
    ("slice", (b"abc", 1), b"bc"),
    ("slice", (b"abc", 1, 1), b""),
    ("slice", (b"abc", 3), b""),
    ("slice", (b"abc", 0, 3), b"abc"),
    ("not", (b"",), True),
    ("not", (b"0",), False),
    ("not", (0,), True),
    ("eq", (b"a", b"b", b"a", 7), True),
    ("eq", (b"a", b"b"), False),
    ("eq", (True, True), True),
    ("ne", (1, 2), True),
    ("lt", (b"a", b"\xff"), True),
    ("lt", (2, 1), False),
    ("le", (1, 1), True),
    ("le", (0, 1), True),
    ("gt", (b"b", b"a"), True),
    ("ge", (1, 1), True),
    ("ge", (0, 1), False),
]
FAILING: list[tuple[str, tuple[Value, ...]]] = [
    *(("len", (7,)), ("index", (7, 0)), ("index", (b"abc", 3)), ("index", (b"abc", -1))),
    *(("index", (b"abc", b"1")), ("index", (b"abc", True)), ("slice", (b"abc", 4))),
    *(("slice", (b"abc", -1)), ("slice", (b"abc", 2, 1)), ("slice", (b"abc", 0, 4))),
    *(("slice", (True,)), ("slice", (b"a", b"0")), ("eq", (b"1", 1)), ("eq", (True, 1))),
    *(("ne", (b"a", True)), ("lt", (b"a", 1)), ("lt", (1, b"a")), ("lt", (True, False))),
    ("gt", (1, True)),
]


@pytest.mark.parametrize(("name", "values", "expected"), GIVEN)
def test_given(name: str, values: tuple[Value, ...], expected: Value) -> None:
    found = KNOWN[name].function(values)
    assert (type(found), found) == (type(expected), expected)


@pytest.mark.parametrize(("name", "values"), FAILING)
def test_failing(name: str, values: tuple[Value, ...]) -> None:
    with pytest.raises(RenderError):
        KNOWN[name].function(values)


def test_every_function_has_an_example() -> None:
    assert {name for name, _, _ in GIVEN} == set(KNOWN)

"""What the parts of a parsed template do with a value; how they are parsed is the parser's test."""

import pytest

from pyrbacproxy.authz.template_parser import (
    Branch,
    Call,
    Choice,
    Constant,
    FirstOf,
    RewriteValue,
    Show,
    Store,
    Variable,
    shown,
)
from pyrbacproxy.authz.templates import MOST_BYTES, Part, RenderError, Template, Text

VALUE = RewriteValue()
FAILS = Call(lambda _: fail(), ())


def fail() -> bytes:
    raise RenderError("it fails")


def rendered(*parts: Part, value: str = "V") -> str:
    return Template(parts, 2).render(value)


@pytest.mark.parametrize(
    ("value", "text"), [(b"x", b"x"), (True, b"true"), (False, b"false"), (-7, b"-7")]
)
def test_values_are_shown_as_go_prints_them(value: bytes | int, text: bytes) -> None:
    assert shown(value) == text


def test_values_are_written_where_they_stand() -> None:
    assert rendered(Text(b"<"), Show(VALUE), Text(b">"), Show(Constant(3))) == "<V>3"


def test_what_is_stored_is_not_written() -> None:
    assert rendered(Store(1, VALUE), Text(b"-"), Show(Variable(1))) == "-V"


def test_the_first_branch_that_is_not_empty_is_taken() -> None:
    choice = Choice(
        (
            Branch(Constant(0), (), (Text(b"no"),)),
            Branch(VALUE, (0, 1), (Show(Variable(0)), Show(Variable(1)))),
            Branch(FAILS, (), ()),
        ),
        (Text(b"else"),),
    )
    assert rendered(choice) == "VV"


def test_else_when_no_branch_is() -> None:
    assert rendered(Choice((Branch(VALUE, (), ()),), (Text(b"else"),)), value="") == "else"


@pytest.mark.parametrize(
    ("is_or", "arguments", "expected"),
    [
        (True, (Constant(b""), VALUE, FAILS), "V"),
        (True, (Constant(b""), Constant(0)), "0"),
        (False, (VALUE, Constant(0), FAILS), "0"),
        (False, (VALUE, Constant(7)), "7"),
        (False, (VALUE,), "V"),
    ],
)
def test_and_and_or_look_no_further_than_needed(
    *, is_or: bool, arguments: tuple[Constant, ...], expected: str
) -> None:
    assert rendered(Show(FirstOf(is_or, arguments))) == expected


def test_what_is_piped_into_them_is_looked_at_anyway() -> None:
    with pytest.raises(RenderError):
        rendered(Show(FirstOf(is_or=True, arguments=(VALUE, FAILS), is_piped=True)))
    assert rendered(Show(FirstOf(is_or=False, arguments=(VALUE, VALUE), is_piped=True))) == "V"


def test_no_value_grows_beyond_its_bound() -> None:
    half = Call(lambda _: b"x" * MOST_BYTES, ())
    assert len(rendered(Show(half))) == MOST_BYTES
    with pytest.raises(RenderError, match="65536"):
        rendered(Store(0, Call(lambda _: b"x" * (MOST_BYTES + 1), ())))

"""What a template makes of a value; its parts and how it is parsed have their own tests."""

import pytest

from pyrbacproxy.authz.templates import (
    MOST_BYTES,
    Frame,
    Part,
    RenderError,
    Template,
    Text,
    encoded,
    literal,
)


class Whole:
    """A part that writes the value."""

    def render(self, frame: Frame) -> None:
        frame.write(frame.value)


def rendered(*parts: Part, value: str = "V") -> str:
    return Template(parts, 2).render(value)


@pytest.mark.parametrize("text", ["{{ .Value }}", "{{ nonsense", "", "ä"])
def test_literal_text_means_nothing(text: str) -> None:
    assert literal(text).render("V") == text


def test_half_a_surrogate_pair_is_no_text() -> None:
    assert encoded("a\ud800") == b"a?"


def test_parts_are_written_in_order() -> None:
    assert rendered(Text(b"<"), Whole(), Text(b">")) == "<V>"


@pytest.mark.parametrize("value", ["\udc80x", "\udce9\udc00".removesuffix("\udc00"), "é"])
def test_bytes_that_are_no_utf8_go_through(value: str) -> None:
    assert rendered(Whole(), value=value) == value


def test_no_text_grows_beyond_its_bound() -> None:
    for value in ("x" * (MOST_BYTES + 1), "ä" * (MOST_BYTES // 2 + 1)):
        with pytest.raises(RenderError, match="a value of more than 65536"):
            rendered(Text(b"whatever"), value=value)
    assert len(rendered(Whole(), value="x" * MOST_BYTES)) == MOST_BYTES
    with pytest.raises(RenderError, match="65536"):
        rendered(Whole(), Text(b"x"), value="x" * MOST_BYTES)

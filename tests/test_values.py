"""Tests of `values`: what the program expects of its classes of fields."""

import pytest

from pyrbacproxy.values import Frozen, Mutable, field, replace


class Point(Frozen):
    x: int
    y: int = 2
    names: tuple[str, ...] = ()


class Named(Point):
    name: str = field(default="", repr=False)


class Basket(Mutable):
    owner: str
    items: list[str] = field(default_factory=list)


def test_fields_are_taken_by_position_and_by_name() -> None:
    assert Point(1) == Point(x=1, y=2, names=())
    assert Point(1, 3).y == 3


@pytest.mark.parametrize("words", [{}, {"x": 1, "z": 2}, {"x": 1, "y": 2, "X": 3}])
def test_missing_and_unknown_fields_are_refused(words: dict[str, int]) -> None:
    with pytest.raises(TypeError):
        Point(**words)  # type: ignore[arg-type]


def test_a_subclass_adds_fields_and_has_an_init_of_its_own() -> None:
    Point(1)
    assert Named(1, name="a").name == "a"
    assert Named(1) != Point(1)


def test_a_frozen_value_stays_as_it_is_and_can_be_a_key() -> None:
    point = Point(1)
    with pytest.raises(AttributeError):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(AttributeError):
        del point.x
    assert {point: 1}[Point(1)] == 1


def test_a_mutable_value_can_be_changed_and_is_no_key() -> None:
    basket = Basket("a")
    basket.items.append("b")
    assert basket == Basket("a", ["b"])
    assert Basket("a").items == []
    with pytest.raises(TypeError):
        hash(basket)


def test_a_secret_is_kept_out_of_the_representation() -> None:
    assert repr(Named(1, name="s3cret")) == "Named(x=1, y=2, names=())"


def test_a_copy_differs_in_the_fields_that_are_given() -> None:
    assert replace(Named(1, name="a"), x=5) == Named(5, name="a")
    with pytest.raises(TypeError):
        replace(Point(1), z=1)


def test_a_pattern_matches_by_position() -> None:
    match Point(1, 3):
        case Point(x, y):
            assert (x, y) == (1, 3)

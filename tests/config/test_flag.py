import pytest

from pyrbacproxy.config.flags import Fate, Flag, Kind, Value


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Kind.TEXT, "a,b", "a,b"),
        (Kind.BOOL, "t", True),
        (Kind.INT, "-0x1", -1),
        (Kind.UINT32, "5", 5),
        (Kind.UINT64, "5", 5),
        (Kind.FLOAT, "2", 2.0),
        (Kind.DURATION, "1m", 60.0),
        (Kind.CSV, "a,b", ("a", "b")),
        (Kind.ARRAY, "a,b", ("a,b",)),
        (Kind.PATHS, "a,b", ("a", "b")),
        (Kind.LEVEL, "3", 3),
        (Kind.LEVELS, "a=1", (("a", 1),)),
        (Kind.GATES, "a=true", (("a", True),)),
        (Kind.VERSION, "raw", "raw"),
    ],
)
def test_each_kind_has_its_grammar(kind: Kind, text: str, value: Value) -> None:
    flag = Flag("x", kind, text, "What it is.")
    assert flag.default_value == value
    assert type(flag.default_value) is type(value)


def test_only_booleans_and_the_version_stand_alone() -> None:
    assert [kind for kind in Kind if Flag("x", kind, "", "").bare_value] == [
        Kind.BOOL,
        Kind.VERSION,
    ]


def test_lists_grow() -> None:
    assert [kind for kind in Kind if Flag("x", kind, "", "").is_list] == [
        Kind.CSV,
        Kind.ARRAY,
        Kind.PATHS,
    ]


def test_a_flag_works_unless_said_otherwise() -> None:
    assert Flag("x", Kind.TEXT, "", "").fate is Fate.WORKS

"""A user is a value: equal users are one cache key."""

import pytest

from pyrbacproxy.model import UserInfo


def test_equal_users_are_one_key() -> None:
    one = UserInfo("alice", "1", ("dev",), (("scopes", ("read",)),))
    same = UserInfo("alice", "1", ("dev",), (("scopes", ("read",)),))
    assert {one: "remembered"}[same] == "remembered"


@pytest.mark.parametrize(
    "other",
    [
        UserInfo("bob", "1", ("dev",)),
        UserInfo("alice", "2", ("dev",)),
        UserInfo("alice", "1", ("dev", "ops")),
        UserInfo("alice", "1", ("dev",), (("scopes", ("read",)),)),
    ],
    ids=["name", "uid", "groups", "extra"],
)
def test_every_field_tells_users_apart(other: UserInfo) -> None:
    assert other != UserInfo("alice", "1", ("dev",))


def test_a_user_does_not_change() -> None:
    with pytest.raises(AttributeError):
        UserInfo("alice").name = "root"  # type: ignore[misc]  # the very thing under test

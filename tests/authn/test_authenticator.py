"""The union of authenticators, and the group that every authenticated user gets."""

import pytest

from pyrbacproxy.authn.authenticators import (
    Authenticated,
    Identification,
    Rejected,
    UnionAuthenticator,
    with_authenticated_group,
)
from pyrbacproxy.handler import Request
from pyrbacproxy.model import Reviewed, UserInfo
from tests.fakes import drive, request

REQUEST = request()
ALICE = Authenticated(UserInfo("alice"), "certificate", REQUEST.head)
BOB = Authenticated(UserInfo("bob"), "token", REQUEST.head)


class Says:
    """An authenticator that always says the same."""

    def __init__(self, identification: Identification) -> None:
        self._identification = identification

    def authenticate(self, request: Request) -> Reviewed[Identification]:
        assert request is REQUEST
        yield from ()
        return self._identification


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ([], None),
        ([None, None], None),
        ([ALICE, BOB], ALICE),
        ([None, BOB], BOB),
        ([Rejected("expired"), BOB], BOB),
        ([Rejected("expired"), None], Rejected("expired")),
        ([Rejected("expired"), Rejected("unknown token")], Rejected("expired; unknown token")),
    ],
)
def test_union(members: list[Identification], expected: Identification) -> None:
    union = UnionAuthenticator(tuple(Says(said) for said in members))
    assert drive(union.authenticate(REQUEST)) == (expected, [])


@pytest.mark.parametrize(
    ("name", "groups", "expected"),
    [
        ("bob", (), ("system:authenticated",)),
        ("alice", ("dev", "ops"), ("dev", "ops", "system:authenticated")),
        ("dave", ("system:authenticated", "staff"), ("system:authenticated", "staff")),
        ("erin", ("system:unauthenticated",), ("system:unauthenticated",)),
        ("system:anonymous", (), ()),
    ],
)
def test_authenticated_group(name: str, groups: tuple[str, ...], expected: tuple[str, ...]) -> None:
    user = UserInfo(name, "1", groups, (("k", ("v",)),))
    assert with_authenticated_group(user) == UserInfo(name, "1", expected, (("k", ("v",)),))

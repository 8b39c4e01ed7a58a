"""The union: who decides first decides; a failure is remembered."""

import pytest

from pyrbacproxy.authz.attributes import Attributes
from pyrbacproxy.authz.authorizers import NO_OPINION, Decision, Judgement, Kind, UnionAuthorizer
from pyrbacproxy.model import NonResourceAttributes, Reviewed, ReviewFailed, UserInfo
from tests.fakes import drive

ALLOW = Decision(Kind.ALLOW, "a rule", "static")
DENY = Decision(Kind.DENY, "a policy", "review")
UNMOVED = Decision(Kind.NO_OPINION, "no rule", "review")
FAILED = ReviewFailed("API server away")
OTHER_FAILED = ReviewFailed("again")


class Says:
    """An authorizer that always judges the same."""

    def __init__(self, judgement: Judgement) -> None:
        self._judgement = judgement

    def authorize(self, attributes: Attributes) -> Reviewed[Judgement]:
        assert attributes.user.name == "alice"
        yield from ()
        return self._judgement


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ([], NO_OPINION),
        ([ALLOW], ALLOW),
        ([ALLOW, DENY], ALLOW),
        ([DENY, ALLOW], DENY),
        ([NO_OPINION, ALLOW], ALLOW),
        ([NO_OPINION, UNMOVED], UNMOVED),
        ([FAILED, ALLOW], ALLOW),
        ([FAILED, DENY], DENY),
        ([FAILED, UNMOVED], FAILED),
        ([UNMOVED, FAILED, OTHER_FAILED], FAILED),
    ],
)
def test_union(members: list[Judgement], expected: Judgement) -> None:
    attributes = Attributes(UserInfo("alice"), NonResourceAttributes("get", "/"))
    union = UnionAuthorizer(tuple(Says(judgement) for judgement in members))
    assert drive(union.authorize(attributes)) == (expected, [])

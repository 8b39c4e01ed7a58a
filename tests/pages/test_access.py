"""The pages' chain: 401, then 403 or 500, then the page."""

import pytest

from pyrbacproxy.authn.authenticators import BearerTokenAuthenticator
from pyrbacproxy.authz.authorizers import StaticRule, SubjectAccessReviewAuthorizer
from pyrbacproxy.handler import Respond
from pyrbacproxy.model import (
    Answer,
    BearerToken,
    Decided,
    NonResourceAttributes,
    Outcome,
    ResourceAttributes,
    Review,
    ReviewFailed,
    SubjectAccessReview,
    SubjectAccessReviewAnswer,
    TokenReview,
    TokenReviewAnswer,
    UserInfo,
)
from pyrbacproxy.pages.pages import (
    PageAccess,
    PageAttributes,
    component_attributes,
    node_attributes,
    rules_for_pages,
)
from tests.fakes import drive, request

TOKEN = (b"Authorization", b"Bearer t")
KNOWN = TokenReviewAnswer(authenticated=True, user=UserInfo("alice"))
ALICE = UserInfo("alice", groups=("system:authenticated",))
YES = SubjectAccessReviewAnswer(allowed=True)
NO = SubjectAccessReviewAnswer(allowed=False)
DENIED = SubjectAccessReviewAnswer(allowed=False, denied=True)
NODE = node_attributes("node-1")


def decide(
    *lines: tuple[bytes, bytes],
    answers: tuple[Answer, ...] = (),
    target: bytes = b"/statusz",
    attributes: PageAttributes = component_attributes,
) -> tuple[Decided | Respond, list[Review]]:
    access = PageAccess(BearerTokenAuthenticator(), attributes, SubjectAccessReviewAuthorizer())
    return drive(access.decide(request(target, *lines)), answers)


def refusal(*answers: Answer, target: bytes = b"/healthz/ping") -> tuple[int, str]:
    """Status and body in node mode."""
    verdict, _ = decide(TOKEN, answers=(KNOWN, *answers), target=target, attributes=NODE)
    assert isinstance(verdict, Respond)
    return verdict.response.status, verdict.response.body.decode()


def test_a_stranger_gets_401() -> None:
    verdict, asked = decide()
    assert isinstance(verdict, Respond)
    assert (verdict.response.status, asked) == (401, [])


def test_who_may_not_gets_403() -> None:
    verdict, asked = decide(TOKEN, answers=(KNOWN, NO))
    assert isinstance(verdict, Respond)
    assert verdict.response.status == 403
    assert verdict.response.body == b"Forbidden (user=alice, verb=get, resource=, subresource=)\n"
    assert asked == [
        TokenReview(BearerToken("t")),
        SubjectAccessReview(ALICE, NonResourceAttributes("get", "/statusz")),
    ]


def test_a_failed_review_is_500() -> None:
    verdict, _ = decide(TOKEN, answers=(KNOWN, ReviewFailed("away")))
    assert isinstance(verdict, Respond)
    assert verdict.response.status == 500


def test_who_may_sees_the_page() -> None:
    decided, _ = decide(TOKEN, answers=(KNOWN, YES))
    assert decided == Decided(Outcome.ALLOWED, "alice", "token", "review", groups=ALICE.groups)


@pytest.mark.parametrize("first", [NO, DENIED])
def test_z_f6_the_first_allow_wins(first: Answer) -> None:
    decided, asked = decide(
        TOKEN, answers=(KNOWN, first, YES), target=b"/healthz/ping", attributes=NODE
    )
    assert isinstance(decided, Decided)
    names = [
        review.action.subresource
        for review in asked
        if isinstance(review, SubjectAccessReview) and isinstance(review.action, ResourceAttributes)
    ]
    assert names == ["healthz", "proxy"]


def test_z_f6_a_403_names_all_that_was_tried() -> None:
    words = "(user=alice, verb=get, resource=nodes, subresource(s)=[healthz proxy])"
    assert refusal(NO, NO) == (403, f"Forbidden {words}\n")


def test_z_f2_there_is_one_subresource_for_statusz() -> None:
    words = "(user=alice, verb=get, resource=nodes, subresource(s)=[statusz])"
    assert refusal(NO, target=b"/statusz") == (403, f"Forbidden {words}\n")


def test_z_f7_after_a_failed_review_nothing_more_is_tried() -> None:
    words = "(user=alice, verb=get, resource=nodes, subresource=healthz)"
    assert refusal(ReviewFailed("away")) == (500, f"Authorization error {words}\n")


def test_a_rule_for_everybody_opens_no_page() -> None:
    named = StaticRule(user_name="mon", path="/statusz")
    grouped = StaticRule(groups=frozenset(("system:monitoring",)), path="/statusz")
    assert rules_for_pages((StaticRule(path="/statusz"), named, grouped)) == (named, grouped)

"""The pages' chain: 401, then 403 or 500, then the page."""

from pyrbacproxy.admin.access import PageAccess
from pyrbacproxy.authn.bearer_token import BearerTokenAuthenticator
from pyrbacproxy.authz.subject_access_review import SubjectAccessReviewAuthorizer
from pyrbacproxy.handler import Respond
from pyrbacproxy.record import Decided, Outcome
from pyrbacproxy.reviews import (
    Answer,
    BearerToken,
    NonResourceAttributes,
    Review,
    ReviewFailed,
    SubjectAccessReview,
    SubjectAccessReviewAnswer,
    TokenReview,
    TokenReviewAnswer,
)
from pyrbacproxy.user import UserInfo
from tests.fakes import drive, request

TOKEN = (b"Authorization", b"Bearer t")
KNOWN = TokenReviewAnswer(authenticated=True, user=UserInfo("alice"))
ALICE = UserInfo("alice", groups=("system:authenticated",))


def decide(
    *lines: tuple[bytes, bytes], answers: tuple[Answer, ...] = ()
) -> tuple[Decided | Respond, list[Review]]:
    access = PageAccess(BearerTokenAuthenticator(), SubjectAccessReviewAuthorizer())
    return drive(access.decide(request(b"/statusz", *lines)), answers)


def test_a_stranger_gets_401() -> None:
    refusal, asked = decide()
    assert isinstance(refusal, Respond)
    assert (refusal.response.status, asked) == (401, [])


def test_who_may_not_gets_403() -> None:
    answers = (KNOWN, SubjectAccessReviewAnswer(allowed=False))
    refusal, asked = decide(TOKEN, answers=answers)
    assert isinstance(refusal, Respond)
    assert refusal.response.status == 403
    assert asked == [
        TokenReview(BearerToken("t")),
        SubjectAccessReview(ALICE, NonResourceAttributes("get", "/statusz")),
    ]


def test_a_failed_review_is_500() -> None:
    refusal, _ = decide(TOKEN, answers=(KNOWN, ReviewFailed("away")))
    assert isinstance(refusal, Respond)
    assert refusal.response.status == 500


def test_who_may_sees_the_page() -> None:
    decided, _ = decide(TOKEN, answers=(KNOWN, SubjectAccessReviewAnswer(allowed=True)))
    assert decided == Decided(Outcome.ALLOWED, "alice", "token", "review")

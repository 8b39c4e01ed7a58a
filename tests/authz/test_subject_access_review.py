"""One action, one review; what its answers mean."""

import pytest

from pyrbacproxy.authz.attributes import Attributes
from pyrbacproxy.authz.authorizers import (
    NO_OPINION,
    Decision,
    Judgement,
    Kind,
    StaticRule,
    SubjectAccessReviewAuthorizer,
    rules_then_review,
)
from pyrbacproxy.model import (
    Answer,
    NonResourceAttributes,
    ReviewFailed,
    SubjectAccessReview,
    TokenReviewAnswer,
    UserInfo,
)
from pyrbacproxy.model import SubjectAccessReviewAnswer as Says
from tests.fakes import drive

ALICE = UserInfo("alice", "1", ("dev",), (("scopes", ("read",)),))
ACTION = NonResourceAttributes("get", "/metrics")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Says(allowed=True, reason="RBAC"), Decision(Kind.ALLOW, "RBAC", "review")),
        (Says(allowed=True, evaluation_error="x"), Decision(Kind.ALLOW, "", "review")),
        (Says(allowed=False, reason="no"), Decision(Kind.NO_OPINION, "no", "review")),
        (
            Says(allowed=False, evaluation_error="role gone"),
            Decision(Kind.NO_OPINION, "role gone", "review"),
        ),
        (Says(allowed=False, denied=True), Decision(Kind.DENY, "", "review")),
        (
            Says(allowed=True, denied=True),
            ReviewFailed("the access review both allows and denies"),
        ),
        (ReviewFailed("timeout"), ReviewFailed("timeout")),
        (
            TokenReviewAnswer(authenticated=True),
            ReviewFailed("an access review was answered by a TokenReview"),
        ),
    ],
)
def test_answers(answer: Answer, expected: Judgement) -> None:
    steps = SubjectAccessReviewAuthorizer().authorize(Attributes(ALICE, ACTION))
    assert drive(steps, [answer]) == (expected, [SubjectAccessReview(ALICE, ACTION)])


def test_fr95_without_an_api_server_the_rules_alone_decide() -> None:
    rules = (StaticRule(user_name="alice", path="/other"),)
    action = Attributes(ALICE, ACTION)
    alone = rules_then_review(rules, has_api_server=False)
    assert drive(alone.authorize(action), []) == (NO_OPINION, [])
    asking = rules_then_review(rules, has_api_server=True)
    assert drive(asking.authorize(action), [Says(allowed=False)])[1] == [
        SubjectAccessReview(ALICE, ACTION)
    ]

import base64
import json

import pytest

from pyrbacproxy.kube.memory import Lifetime, Lifetimes
from pyrbacproxy.model import (
    Answer,
    BearerToken,
    NonResourceAttributes,
    ResourceAttributes,
    Review,
    ReviewFailed,
    SubjectAccessReview,
    SubjectAccessReviewAnswer,
    TokenReview,
    TokenReviewAnswer,
    UserInfo,
)

NOW = 1_000_000.0
TIMES = Lifetimes(token_seconds=120.0, authorized_seconds=300.0, unauthorized_seconds=30.0)
ALICE = UserInfo("alice")
GOOD = TokenReviewAnswer(True, ALICE)


def token(*audiences: str, expires_in: float | None = None) -> TokenReview:
    text = "t"
    if expires_in is not None:
        claims = json.dumps({"exp": NOW + expires_in}).encode()
        text = f"e30.{base64.urlsafe_b64encode(claims).decode().rstrip('=')}.c2ln"
    return TokenReview(BearerToken(text), audiences)


def access(action: NonResourceAttributes | ResourceAttributes | None = None) -> SubjectAccessReview:
    return SubjectAccessReview(ALICE, action or NonResourceAttributes("get", "/metrics"))


def long(path_bytes: int) -> SubjectAccessReview:
    return access(NonResourceAttributes("get", "/" + "x" * (path_bytes - 1)))


@pytest.mark.parametrize(
    ("review", "answer", "expected"),
    [
        pytest.param(token(), GOOD, (120.0, True), id="token"),
        pytest.param(token(expires_in=30.0), GOOD, (30.0, True), id="it ends before"),
        pytest.param(token(expires_in=500.0), GOOD, (120.0, True), id="it ends after"),
        pytest.param(token(expires_in=-1.0), GOOD, (-1.0, True), id="it has ended"),
        pytest.param(token(), TokenReviewAnswer(False), (10.0, False), id="refused"),
        pytest.param(token(), TokenReviewAnswer(False, error="e"), (2.0, False), id="in error"),
        pytest.param(
            token("a"), TokenReviewAnswer(True, ALICE, ("b", "a")), (120.0, True), id="audience"
        ),
        pytest.param(
            token("a"), TokenReviewAnswer(True, ALICE, ("b",)), (10.0, False), id="another one"
        ),
        pytest.param(token("a"), GOOD, (10.0, False), id="none (D29)"),
        pytest.param(access(), SubjectAccessReviewAnswer(True), (300.0, True), id="allowed"),
        pytest.param(access(), SubjectAccessReviewAnswer(False), (30.0, False), id="not allowed"),
        pytest.param(
            access(), SubjectAccessReviewAnswer(True, denied=True), (30.0, False), id="denied"
        ),
        pytest.param(
            access(ResourceAttributes("get", resource="pods")),
            SubjectAccessReviewAnswer(True),
            (300.0, True),
            id="resource",
        ),
        pytest.param(long(9_996), SubjectAccessReviewAnswer(True), (300.0, True), id="long"),
        pytest.param(long(9_997), SubjectAccessReviewAnswer(True), None, id="too long"),
        pytest.param(token(), ReviewFailed("away"), None, id="token review failed"),
        pytest.param(access(), ReviewFailed("away"), None, id="access review failed"),
        pytest.param(token(), SubjectAccessReviewAnswer(True), None, id="another kind's answer"),
    ],
)
def test_how_long_an_answer_may_be_used(
    review: Review, answer: Answer, expected: tuple[float, bool] | None
) -> None:
    lifetime = None if expected is None else Lifetime(expected[0], is_positive=expected[1])
    assert TIMES.of(review, answer, NOW) == lifetime

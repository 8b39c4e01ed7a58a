"""Reviews are values, and a token shows itself to nobody who doesn't ask."""

from pyrbacproxy.model import (
    BearerToken,
    NonResourceAttributes,
    ResourceAttributes,
    Reviewed,
    ReviewFailed,
    SubjectAccessReview,
    TokenReview,
    TokenReviewAnswer,
    UserInfo,
)
from tests.fakes import drive


def test_a_token_is_masked_wherever_it_may_be_printed() -> None:
    """DEC: secrets never in logs, errors, reprs."""
    token = BearerToken("s3cr3t")
    review = TokenReview(token, ("metrics",))
    for text in (repr(token), str(token), f"{token}", repr(review), repr([review])):
        assert "s3cr3t" not in text
    assert token.reveal() == "s3cr3t"


def test_equal_reviews_are_one_key() -> None:
    action = NonResourceAttributes("get", "/metrics")
    one = SubjectAccessReview(UserInfo("alice"), action)
    assert one == SubjectAccessReview(UserInfo("alice"), NonResourceAttributes("get", "/metrics"))
    assert hash(TokenReview(BearerToken("a"))) == hash(TokenReview(BearerToken("a")))
    assert one != SubjectAccessReview(UserInfo("alice"), ResourceAttributes("get"))


def test_a_failed_review_is_an_answer_like_any_other() -> None:
    def asks() -> Reviewed[str]:
        answer = yield TokenReview(BearerToken("a"))
        return answer.reason if isinstance(answer, ReviewFailed) else "answered"

    assert drive(asks(), [ReviewFailed("refused")]) == ("refused", [TokenReview(BearerToken("a"))])
    assert drive(asks(), [TokenReviewAnswer(authenticated=False)])[0] == "answered"

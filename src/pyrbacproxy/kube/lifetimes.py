"""How long an answer to a review may be used (D14, reference 3.3.1, 3.6), and if it is a yes."""

from dataclasses import dataclass

from pyrbacproxy.kube.token_expiry import expiry_of
from pyrbacproxy.reviews import (
    Answer,
    NonResourceAttributes,
    Review,
    SubjectAccessReview,
    SubjectAccessReviewAnswer,
    TokenReview,
    TokenReviewAnswer,
)

# What a requester makes long is not remembered: the reference's bound against filling the memory.
MAX_REMEMBERED_BYTES = 10_000
REFUSED_SECONDS = 10.0
REFUSED_WITH_ERROR_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Lifetime:
    """`seconds` are 0 or less when the answer may not be used again. `is_positive`: it lets
    somebody in.
    """

    seconds: float
    is_positive: bool


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """The configured times, in seconds; those of refused tokens are D14's."""

    token_seconds: float
    authorized_seconds: float
    unauthorized_seconds: float

    def of(self, review: Review, answer: Answer, now: float) -> Lifetime | None:
        """The answer's, at `now` (seconds since the epoch); None when nothing of it is kept."""
        match review, answer:
            case TokenReview(), TokenReviewAnswer():
                return self._of_token(review, answer, now)
            case SubjectAccessReview(), SubjectAccessReviewAnswer():
                return self._of_access(review, answer)
        return None

    def _of_token(self, review: TokenReview, answer: TokenReviewAnswer, now: float) -> Lifetime:
        if not _is_good(review, answer):
            seconds = REFUSED_WITH_ERROR_SECONDS if answer.error else REFUSED_SECONDS
            return Lifetime(seconds, is_positive=False)
        seconds = self.token_seconds
        if (expiry := expiry_of(review.token.reveal())) is not None:
            seconds = min(seconds, expiry - now)
        return Lifetime(seconds, is_positive=True)

    def _of_access(
        self, review: SubjectAccessReview, answer: SubjectAccessReviewAnswer
    ) -> Lifetime | None:
        if _requested_bytes(review) >= MAX_REMEMBERED_BYTES:
            return None
        if answer.allowed and not answer.denied:
            return Lifetime(self.authorized_seconds, is_positive=True)
        return Lifetime(self.unauthorized_seconds, is_positive=False)


def _is_good(review: TokenReview, answer: TokenReviewAnswer) -> bool:
    """Whether it lets anybody in: with a right audience if any was demanded (D29)."""
    demanded = review.audiences
    return answer.authenticated and (
        not demanded or not set(demanded).isdisjoint(answer.audiences or ())
    )


def _requested_bytes(review: SubjectAccessReview) -> int:
    """How long the strings are that the requester chooses."""
    action = review.action
    if isinstance(action, NonResourceAttributes):
        texts: tuple[str, ...] = (action.verb, action.path)
    else:
        texts = (
            *(action.verb, action.namespace, action.group, action.version),
            *(action.resource, action.subresource, action.name),
        )
    return sum(len(text.encode("utf-8", "surrogateescape")) for text in texts)

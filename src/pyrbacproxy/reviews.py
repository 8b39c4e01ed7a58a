"""TokenReview and SubjectAccessReview, their answers, `ReviewFailed`, and the masked `BearerToken`.

`Reviewed[T]` is how pure code asks the API server: a generator that yields a review, is sent its
answer, and returns a T. A failed review is an answer like any other, so that pure code decides what
"API server down" means.
"""

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from pyrbacproxy.user import UserInfo

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BearerToken:
    """A secret: its text leaves only by `reveal`, for the review's body and the keyed hash."""

    _text: str = field(repr=False)

    def reveal(self) -> str:
        """The token itself."""
        return self._text


@dataclass(frozen=True, slots=True)
class TokenReview:
    """Asks whose token this is; `audiences` empty means that none was demanded."""

    token: BearerToken
    audiences: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ResourceAttributes:
    """A resource request, as in a SubjectAccessReview's `resourceAttributes`."""

    verb: str
    namespace: str = ""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class NonResourceAttributes:
    """A non-resource request: a verb on a (decoded) path."""

    verb: str
    path: str


@dataclass(frozen=True, slots=True)
class SubjectAccessReview:
    """Asks whether this user may do this."""

    user: UserInfo
    action: ResourceAttributes | NonResourceAttributes


@dataclass(frozen=True, slots=True)
class TokenReviewAnswer:
    """The status of a TokenReview. `audiences` is None when the answer did not name any."""

    authenticated: bool
    user: UserInfo | None = None
    audiences: tuple[str, ...] | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class SubjectAccessReviewAnswer:
    """The status of a SubjectAccessReview."""

    allowed: bool
    denied: bool = False
    reason: str = ""
    evaluation_error: str = ""


@dataclass(frozen=True, slots=True)
class ReviewFailed:
    """The review has no answer; `reason` is fit for a log (no secret, no body from the wire)."""

    reason: str


Review: TypeAlias = TokenReview | SubjectAccessReview
Answer: TypeAlias = TokenReviewAnswer | SubjectAccessReviewAnswer | ReviewFailed
Reviewed: TypeAlias = Generator[Review, Answer, T]

"""`Authorizer`: may this be done? `Decision` (allow, deny, no opinion) with its reason, or the
review that failed; their union.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias

from pyrbacproxy.authz.attributes import Attributes
from pyrbacproxy.reviews import Reviewed, ReviewFailed


class Kind(Enum):
    """Kubernetes' three decisions."""

    ALLOW = "allow"
    DENY = "deny"
    NO_OPINION = "no opinion"


@dataclass(frozen=True, slots=True)
class Decision:
    """`reason` is for logs; `source` is "static", "review" or "none" when nobody had an opinion."""

    kind: Kind
    reason: str = ""
    source: str = "none"


NO_OPINION = Decision(Kind.NO_OPINION)

Judgement: TypeAlias = Decision | ReviewFailed


class Authorizer(Protocol):
    """Decides, or has no opinion; asks the API server by yielding."""

    def authorize(self, attributes: Attributes) -> Reviewed[Judgement]:
        """Judge one action."""
        ...


class UnionAuthorizer:
    """The first member that allows or denies decides, as in Kubernetes' union.

    A failed member is passed over, but not forgotten: if nobody decides, the failure is the answer.
    """

    __slots__ = ("_members",)

    def __init__(self, members: tuple[Authorizer, ...]) -> None:
        self._members = members

    def authorize(self, attributes: Attributes) -> Reviewed[Judgement]:
        """The first allow or deny, else the first failure, else no opinion with the last reason."""
        failure: ReviewFailed | None = None
        undecided = NO_OPINION
        for member in self._members:
            judgement = yield from member.authorize(attributes)
            if isinstance(judgement, ReviewFailed):
                failure = failure or judgement
            elif judgement.kind is Kind.NO_OPINION:
                undecided = judgement
            else:
                return judgement
        return failure or undecided

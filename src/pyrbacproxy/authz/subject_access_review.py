"""`Attributes` → SubjectAccessReview → `Decision`; and the proxy's order: static rules first."""

from collections.abc import Iterable

from pyrbacproxy.authz.attributes import Attributes
from pyrbacproxy.authz.authorizer import (
    Authorizer,
    Decision,
    Judgement,
    Kind,
    UnionAuthorizer,
)
from pyrbacproxy.authz.static import StaticAuthorizer, StaticRule
from pyrbacproxy.reviews import (
    Reviewed,
    ReviewFailed,
    SubjectAccessReview,
    SubjectAccessReviewAnswer,
)

_SOURCE = "review"


class SubjectAccessReviewAuthorizer:
    """Asks the API server about every action."""

    __slots__ = ()

    def authorize(self, attributes: Attributes) -> Reviewed[Judgement]:
        """What the review says (reference 3.6); an answer of another kind is a failure."""
        answer = yield SubjectAccessReview(attributes.user, attributes.action)
        if isinstance(answer, SubjectAccessReviewAnswer):
            return _decided(answer)
        if isinstance(answer, ReviewFailed):
            return answer
        return ReviewFailed("an access review was answered by a TokenReview")


def rules_then_review(rules: Iterable[StaticRule], *, has_api_server: bool) -> Authorizer:
    """Static rules, then the API server. Where none is configured the rules alone decide: what
    they do not allow is forbidden, for no review has failed (D20).
    """
    by_rule = StaticAuthorizer(rules)
    if not has_api_server:
        return by_rule
    return UnionAuthorizer((by_rule, SubjectAccessReviewAuthorizer()))


def _decided(answer: SubjectAccessReviewAnswer) -> Judgement:
    # `evaluation_error` beside an answer is no reason to doubt it: some role was broken, another
    # one allowed.
    if answer.allowed and answer.denied:
        return ReviewFailed("the access review both allows and denies")
    if answer.allowed:
        return Decision(Kind.ALLOW, answer.reason, _SOURCE)
    reason = answer.reason or answer.evaluation_error
    return Decision(Kind.DENY if answer.denied else Kind.NO_OPINION, reason, _SOURCE)

"""The pages' own chain: authenticate → page attributes → first allow wins → page; never redirects,
never forwards.
"""

from collections.abc import Iterable

from pyrbacproxy.admin.attributes import PageAttributes
from pyrbacproxy.authn.authenticator import Authenticated, Authenticator
from pyrbacproxy.authz.attributes import Attributes
from pyrbacproxy.authz.authorizer import NO_OPINION, Authorizer, Decision, Kind
from pyrbacproxy.authz.static import StaticRule
from pyrbacproxy.handler import Request, Respond
from pyrbacproxy.record import Decided, Outcome
from pyrbacproxy.refusals import not_allowed, unauthenticated
from pyrbacproxy.reviews import ResourceAttributes, Reviewed, ReviewFailed


def rules_for_pages(rules: Iterable[StaticRule]) -> tuple[StaticRule, ...]:
    """The static rules that may open a page: those that name a user or groups.

    A rule for everybody is meant for the upstream; it must not show our flags to all.
    """
    return tuple(rule for rule in rules if rule.user_name or rule.groups)


class PageAccess:
    """Decides who may see a page."""

    __slots__ = ("_attributes", "_authenticator", "_authorizer")

    def __init__(
        self, authenticator: Authenticator, attributes: PageAttributes, authorizer: Authorizer
    ) -> None:
        self._authenticator = authenticator
        self._attributes = attributes
        self._authorizer = authorizer

    def decide(self, request: Request) -> Reviewed[Decided | Respond]:
        """The refusal, or what was decided when the page may be shown."""
        known = yield from self._authenticator.authenticate(request)
        if not isinstance(known, Authenticated):
            return unauthenticated(known)
        user = known.user
        decided = Decided(Outcome.ALLOWED, user.name, known.source, groups=user.groups)
        wanted = self._attributes(request.head, request.target, user)
        refusal: Decision = NO_OPINION
        for attributes in wanted:
            judgement = yield from self._authorizer.authorize(attributes)
            if isinstance(judgement, ReviewFailed):
                # No fallback to the next, as in the kubelet.
                return not_allowed(attributes, judgement, decided)
            if judgement.kind is Kind.ALLOW:
                decided.decision_source = judgement.source
                return decided
            refusal = judgement
        return not_allowed(wanted[0], refusal, decided, words=_words(wanted))


def _words(wanted: tuple[Attributes, ...]) -> str:
    """The kubelet's words for all that was tried; "" for the usual ones."""
    actions = [wanting.action for wanting in wanted]
    names = [action.subresource for action in actions if isinstance(action, ResourceAttributes)]
    if not names:
        return ""
    user, action = wanted[0].user, actions[0]
    tried = " ".join(names)
    return f"(user={user.name}, verb={action.verb}, resource=nodes, subresource(s)=[{tried}])"

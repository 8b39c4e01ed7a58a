"""The pages' own chain: authenticate → page attributes → authorize → page; never redirects, never
forwards.
"""

from pyrbacproxy.admin.attributes import page_attributes
from pyrbacproxy.authn.authenticator import Authenticated, Authenticator
from pyrbacproxy.authz.authorizer import Authorizer, Kind
from pyrbacproxy.handler import Request, Respond
from pyrbacproxy.record import Decided, Outcome
from pyrbacproxy.refusals import not_allowed, unauthenticated
from pyrbacproxy.reviews import Reviewed, ReviewFailed


class PageAccess:
    """Decides who may see a page."""

    __slots__ = ("_authenticator", "_authorizer")

    def __init__(self, authenticator: Authenticator, authorizer: Authorizer) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer

    def decide(self, request: Request) -> Reviewed[Decided | Respond]:
        """The refusal, or what was decided when the page may be shown."""
        known = yield from self._authenticator.authenticate(request)
        if not isinstance(known, Authenticated):
            return unauthenticated(known)
        decided = Decided(Outcome.ALLOWED, known.user.name, known.source)
        attributes = page_attributes(request.head, request.target, known.user)
        judgement = yield from self._authorizer.authorize(attributes)
        if isinstance(judgement, ReviewFailed) or judgement.kind is not Kind.ALLOW:
            return not_allowed(attributes, judgement, decided)
        decided.decision_source = judgement.source
        return decided

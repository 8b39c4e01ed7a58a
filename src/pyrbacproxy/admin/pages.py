"""Path → page, on the endpoints port: exactly `/healthz` for everybody, the rest for who may see
it.

`/healthz` says `ok` to any method without credentials, as in the original. Any other path is
decided before it is looked up, so that a stranger learns nothing from a 404 (E18).
"""

from pyrbacproxy.admin.access import PageAccess
from pyrbacproxy.authn.authenticator import Authenticator
from pyrbacproxy.authz.authorizer import Authorizer
from pyrbacproxy.handler import Request, Respond, Verdict
from pyrbacproxy.http1.head import Headers
from pyrbacproxy.http1.response import Response, text
from pyrbacproxy.record import Decided, Outcome
from pyrbacproxy.refusals import refused
from pyrbacproxy.reviews import Reviewed

_HEALTHZ = b"/healthz"
# The original's answer to the letter; unlike its other texts, this one has no nosniff.
_OK = Response(200, Headers(((b"Content-Type", b"text/plain; charset=utf-8"),)), b"ok")
_NO_PATH = text(400, "Bad Request. The target has no path.\n", must_close=True)
_NOT_FOUND = text(404, "404 page not found\n")


class Pages:
    """The pages of one listener."""

    __slots__ = ("_access",)

    def __init__(self, authenticator: Authenticator, authorizer: Authorizer) -> None:
        self._access = PageAccess(authenticator, authorizer)

    def handle(self, request: Request) -> Reviewed[Verdict]:
        """Answer one request; a `handler.Handler`."""
        raw_path = request.target.raw_path
        if raw_path == _HEALTHZ:
            return Respond(_OK, Decided(Outcome.ALLOWED, identity_source="none"))
        if not raw_path.startswith(b"/"):  # `*`, or what CONNECT names
            return refused(_NO_PATH)
        decided = yield from self._access.decide(request)
        return decided if isinstance(decided, Respond) else Respond(_NOT_FOUND, decided)

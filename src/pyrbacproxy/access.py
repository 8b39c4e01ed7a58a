"""What happens to a request: path rules, authentication, attributes, authorization, forwarding.

Only this module knows the order. It is pure: the answers 401, 403 and 500 are values, and a review
of the API server is asked for by yielding it.
"""

import json

from pyrbacproxy.authn.authenticators import Authenticated, Authenticator, Rejected
from pyrbacproxy.authn.identity_headers import NOBODY, Identity, IdentityHeaders, IdentitySettings
from pyrbacproxy.authz.attributes import Attributes, AttributeSource, describe
from pyrbacproxy.authz.authorizers import Authorizer, Decision, Kind
from pyrbacproxy.authz.paths import PathPatterns
from pyrbacproxy.handler import Forward, Request, Respond, Verdict
from pyrbacproxy.http1 import forwarding
from pyrbacproxy.http1.head import Headers, RequestHead, Response, text
from pyrbacproxy.http1.target import (
    Form,
    Target,
    cleaned,
    escaped_path,
    has_encoded_separator,
    is_ambiguous,
    path_without_decoding_slash,
)
from pyrbacproxy.model import Decided, NonResourceAttributes, Note, Outcome, Reviewed, ReviewFailed
from pyrbacproxy.values import Frozen, field

# --- refusals -------------------------------------------------------------------------
#
# The answers 401, 403 and 500 and what the log says beside them, the same for every chain.
#
# Statuses, bodies and lines are the original's (reference 3.8), with the challenge that RFC 9110
# §15.5.2 demands (D26). The client learns user, verb and resource, never the path, the reason, or
# why its credential is no good.

_UNAUTHORIZED = text(401, "Unauthorized\n", (b"WWW-Authenticate", b"Bearer"))


def refused(response: Response, why: str = "") -> Respond:
    """An answer to a request that no credential would help; the log says `why`."""
    notes = (note(0, f"Refused: {why}"),) if why else ()
    return Respond(response, Decided(Outcome.REFUSED, notes=notes))


def unauthenticated(rejected: Rejected | None) -> Respond:
    """401; the log says why."""
    notes = (note(0, "Unauthorized: the request has no credential"),)
    if rejected:
        line = f"Unable to authenticate the request due to an error: {rejected.reason}"
        notes = (note(0, line, is_error=True),)
    return Respond(_UNAUTHORIZED, Decided(Outcome.UNAUTHENTICATED, notes=notes))


def not_allowed(
    attributes: Attributes,
    judgement: Decision | ReviewFailed,
    decided: Decided,
    *,
    words: str = "",
) -> Respond:
    """403 for a decision that does not allow, 500 for a review that failed; completes `decided`.

    `words` replace the usual ones about the attributes, where more than one was tried.
    """
    words = words or describe(attributes)
    decided.asked = _asked(attributes)
    if isinstance(judgement, ReviewFailed):
        said = f"Authorization error {words}"
        decided.outcome = Outcome.ERROR
        decided.decision_source = "review"
        decided.notes = (note(0, f"{said}: {judgement.reason}", is_error=True),)
        return Respond(_spoken(500, said), decided)
    said = f"Forbidden {words}"
    decided.outcome = Outcome.DENIED
    decided.decision_source = judgement.source
    reason = json.dumps(judgement.reason, ensure_ascii=False)
    decided.notes = (note(2, f"{said}. Reason: {reason}."),)
    return Respond(_spoken(403, said), decided)


def _asked(attributes: Attributes) -> str:
    """All that was asked for, unlike `describe`, which the client gets too."""
    action = attributes.action
    if isinstance(action, NonResourceAttributes):
        return f"{action.verb} {action.path}"
    parts = (action.group, action.version, action.resource, action.subresource)
    named = (("namespace", action.namespace), ("name", action.name))
    where = "".join(f" {key} {value}" for key, value in named if value)
    return f"{action.verb} {'/'.join(part for part in parts if part)}{where}"


def note(level: int, line: str, *, is_error: bool = False) -> Note:
    """One line, whatever names from the wire hold."""
    return Note(level, line if line.isprintable() else ascii(line), is_error)


def _spoken(status: int, said: str) -> Response:
    # Names from the wire may hold bytes that are no UTF-8; in an answer they become "?".
    return text(status, said.encode(errors="replace").decode() + "\n")


# --- access ---------------------------------------------------------------------------
#
# The handler chain: allow paths → ignore paths → authenticate → attributes → authorize → forward.
# Only it knows the order.
#
# Statuses and bodies are the original's (reference 3.8). Before the chain come the requests that
# are refused whoever sends them: no path (D27), an unclean path (D17, the redirect), an ambiguous
# one (D9). Every branch that forwards, ignored paths included, leaves by one exit: hop-by-hop
# headers out, identity names and bearer credentials out, ours in (D5).

_CONNECT = b"CONNECT"
_FORM_TYPES = (b"application/x-www-form-urlencoded", b"multipart/form-data")

_NO_PATH = text(400, "Bad Request. The target has no path.\n", must_close=True)
_AMBIGUOUS = text(400, "Bad Request. The path can be read in two ways.\n")
_NOT_ALLOWED_PATH = text(404, "404 page not found\n")
_NO_ATTRIBUTES = text(400, "Bad Request. The request or configuration is malformed.\n")
_FORM_BODY = text(415, "Unsupported Media Type. A form body could contradict the query.\n")
_NO_TUNNEL = text(405, "Method Not Allowed\n", must_close=True)
_UNPRINTABLE_UPGRADE = Response(502)

_NO_TUNNEL_NOTES = (note(0, "Refused: CONNECT is not supported"),)
_NO_ATTRIBUTES_NOTES = (
    note(0, "Refused: the value that a rewrite needs is missing, or can be read in two ways"),
)
_FORM_BODY_NOTES = (note(0, "Refused: --reject-form-bodies is set and the body may be a form"),)

# What is known of a path is a function of the path alone; this bounds how many are remembered, and
# how long ones.
_REMEMBERED_PATHS = 1024
_REMEMBERED_BYTES = 256


class AccessSettings(Frozen):
    """Patterns are Go `path.Match` patterns, already checked. An empty list is no list."""

    allow_paths: tuple[str, ...] = ()
    ignore_paths: tuple[str, ...] = ()
    identity: IdentitySettings = field(default_factory=IdentitySettings)
    keeps_bearer_on_ignored_paths: bool = False
    rejects_form_bodies: bool = False


class _PathFacts(Frozen):
    """What the path alone decides."""

    escaped: bytes
    cleaned: bytes
    is_ambiguous: bool
    is_allowed: bool
    is_ignored: bool


class Access:
    """Decides each request of the proxy's own listeners."""

    __slots__ = (
        "_allow",
        "_attributes",
        "_authenticator",
        "_authorizer",
        "_identity",
        "_ignore",
        "_keeps_bearer",
        "_paths",
        "_rejects_forms",
    )

    def __init__(
        self,
        settings: AccessSettings,
        authenticator: Authenticator,
        attributes: AttributeSource,
        authorizer: Authorizer,
    ) -> None:
        self._allow = PathPatterns(settings.allow_paths) if settings.allow_paths else None
        self._ignore = PathPatterns(settings.ignore_paths)
        self._keeps_bearer = settings.keeps_bearer_on_ignored_paths
        self._rejects_forms = settings.rejects_form_bodies and attributes.has_query_rewrite
        self._identity = IdentityHeaders(settings.identity)
        self._authenticator = authenticator
        self._attributes = attributes
        self._authorizer = authorizer
        self._paths: dict[bytes, _PathFacts] = {}

    def handle(self, request: Request) -> Reviewed[Verdict]:
        """The chain; a `handler.Handler`."""
        head, target = request.head, request.target
        if target.form is Form.ASTERISK:
            return refused(_NO_PATH, "the target has no path")
        # CONNECT is never redirected nor forwarded, so how its target reads does not matter
        # (reference 3.0).
        is_connect = head.method == _CONNECT
        facts = self._facts(target)
        if not is_connect:
            if facts.cleaned != target.raw_path:
                return refused(_redirect(facts.cleaned, target.raw_query))
            if facts.is_ambiguous:
                return refused(_AMBIGUOUS, "the path can be read in two ways")
        if not facts.is_allowed:
            return refused(_NOT_ALLOWED_PATH, "no pattern of --allow-paths matches")
        if facts.is_ignored:
            decided = Decided(Outcome.ALLOWED, identity_source="none", decision_source="none")
            return self._forward(request, head, NOBODY, decided, keeps_bearer=self._keeps_bearer)
        identification = yield from self._authenticator.authenticate(request)
        if not isinstance(identification, Authenticated):
            return unauthenticated(identification)
        identity = self._identity.identity(identification.user)
        if identity is None:
            return unauthenticated(
                Rejected("a name of the user or of a group is unfit for an identity header")
            )
        return (yield from self._authorized(request, identification, identity))

    def clean_trailers(self, trailers: Headers) -> Headers:
        """Request trailers without identity names, bearer credentials and rewrite header (D35)."""
        return self._identity.strip(self._attributes.without_header(trailers))

    def _authorized(
        self, request: Request, known: Authenticated, identity: Identity
    ) -> Reviewed[Verdict]:
        """Everything after authentication."""
        target = request.target
        user = known.user
        decided = Decided(Outcome.REFUSED, user.name, known.source, groups=user.groups)
        if target.form is Form.AUTHORITY:
            decided.notes = _NO_TUNNEL_NOTES
            return Respond(_NO_TUNNEL, decided)
        wanted = self._attributes.attributes(known.head, target, user)
        if not wanted:
            decided.notes = _NO_ATTRIBUTES_NOTES
            return Respond(_NO_ATTRIBUTES, decided)
        if self._rejects_forms and _has_form_body(known.head):
            decided.notes = _FORM_BODY_NOTES
            return Respond(_FORM_BODY, decided)
        for attributes in wanted:
            judgement = yield from self._authorizer.authorize(attributes)
            if isinstance(judgement, ReviewFailed) or judgement.kind is not Kind.ALLOW:
                return not_allowed(attributes, judgement, decided)
            decided.decision_source = judgement.source
        decided.outcome = Outcome.ALLOWED
        return self._forward(request, known.head, identity, decided)

    def _forward(
        self,
        request: Request,
        head: RequestHead,
        identity: Identity,
        decided: Decided,
        *,
        keeps_bearer: bool = False,
    ) -> Verdict:
        """The one exit towards the upstream."""
        if head.method == _CONNECT:
            decided.outcome = Outcome.REFUSED
            decided.notes = _NO_TUNNEL_NOTES
            return Respond(_NO_TUNNEL, decided)
        if forwarding.has_unprintable_upgrade(head.headers):
            decided.notes = (note(0, "An upgrade to an unprintable protocol", is_error=True),)
            return Respond(_UNPRINTABLE_UPGRADE, decided)
        target = request.target
        headers = forwarding.request_headers(
            head.headers,
            peer_address=request.peer.address,
            keeps_upgrade=forwarding.upgrade_of(head) is not None,
            authority=target.authority,
        )
        headers = self._identity.strip(headers, keeps_bearer=keeps_bearer)
        if identity.lines:
            headers = headers.with_added(*identity.lines)
        if identity.left_out:
            groups = ", ".join(identity.left_out)
            decided.notes = (note(0, f"Groups left out of the identity header: {groups}"),)
        escaped = self._facts(target).escaped
        query = b"" if target.raw_query is None else b"?" + target.raw_query
        return Forward(RequestHead(head.method, escaped + query, headers), decided)

    def _facts(self, target: Target) -> _PathFacts:
        facts = self._paths.get(target.raw_path)
        if facts is None:
            facts = self._facts_of(target)
            if len(target.raw_path) <= _REMEMBERED_BYTES:
                if len(self._paths) >= _REMEMBERED_PATHS:
                    self._paths.clear()
                self._paths[target.raw_path] = facts
        return facts

    def _facts_of(self, target: Target) -> _PathFacts:
        allow, raw_path = self._allow, target.raw_path
        return _PathFacts(
            escaped=escaped_path(raw_path),
            cleaned=cleaned(raw_path),
            is_ambiguous=is_ambiguous(target),
            # A door is open only to a path that fits however the upstream reads an encoded slash
            # (D9).
            is_allowed=allow is None
            or (allow.match(target.path) and allow.match(path_without_decoding_slash(target))),
            is_ignored=not has_encoded_separator(raw_path) and self._ignore.match(target.path),
        )


def _redirect(path: bytes, raw_query: bytes | None) -> Response:
    """To the clean path on this very origin (D17): it begins with one slash, and no backslash
    survives escaping.
    """
    query = b"" if raw_query is None else b"?" + raw_query
    return Response(307, Headers(((b"Location", escaped_path(path) + query),)))


def _announces_body(head: RequestHead) -> bool:
    headers = head.headers
    return b"transfer-encoding" in headers or headers.get(b"content-length") not in {None, b"0"}


def _has_form_body(head: RequestHead) -> bool:
    """Whether an upstream could take the body for a form; any doubt is yes (D7)."""
    types = head.headers.get_all(b"content-type")
    return _announces_body(head) and any(
        known in line.lower() for line in types for known in _FORM_TYPES
    )

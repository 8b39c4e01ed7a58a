"""Values that many packages share: users, peers, reviews and the record of an exchange."""

from collections.abc import Generator
from enum import StrEnum
from typing import Self, TypeAlias, TypeVar

from pyrbacproxy.values import Frozen, Mutable, field

# --- user -----------------------------------------------------------------------------
# `UserInfo`: the name, uid, groups and extra of an authenticated user.


class UserInfo(Frozen):
    """Who made a request, in the terms of Kubernetes' `authentication.k8s.io/v1` UserInfo.

    `extra` is a tuple of (key, values) pairs sorted by key, so that equal users compare and hash
    equal.
    """

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


# --- peer -----------------------------------------------------------------------------
# `Peer`: the other end of a client connection: its address and, if verified, its certificate.


class ClientCertificate(Frozen):
    """A client certificate whose chain ends in the current client CA pool.

    `not_before` and `not_after` (seconds since the epoch, both inclusive) are the intersection of
    the validity of every certificate of the chain: who uses it compares them with the request's
    `received_at`. `common_name` is the last CN of the subject ("" when it has none),
    `organizations` every O in order; `fingerprint` is the lower-case hex SHA-256 of the leaf's DER.
    """

    common_name: str
    organizations: tuple[str, ...]
    not_before: float
    not_after: float
    fingerprint: str


class Peer(Frozen):
    """The other end: `address` is its IP address without port.

    `certificate` is set only when it was presented and verified. `refusal` says why a certificate
    that was presented is not trusted; it is "" when none was presented or it is trusted.
    """

    address: str
    certificate: ClientCertificate | None = None
    refusal: str = ""


# --- record ---------------------------------------------------------------------------
# `ExchangeRecord`: what happened in one exchange, handed to observers when it is over.


class Note(Frozen):
    """One line for the log that pure code asks for; `level` as klog's -v (0 is always written)."""

    level: int
    text: str
    is_error: bool = False


class Outcome(StrEnum):
    """How an exchange was decided; the values are metric labels.

    A StrEnum, because its members are hashed in C: once a request.
    """

    ALLOWED = "allowed"
    DENIED = "denied"
    UNAUTHENTICATED = "unauthenticated"
    REFUSED = "refused"  # other 3xx/4xx of our own: path, framing, redirect
    ERROR = "error"  # a review failed, or our own fault


class Failure(StrEnum):
    """Why an exchange failed; the values are the words of the logs, nothing from the wire.

    `reason` is the metric label of a failure on the upstream's side, "" for others.
    """

    reason: str

    def __new__(cls, words: str, reason: str = "") -> Self:
        """A member, of its words and its label."""
        self = str.__new__(cls, words)
        self._value_ = words
        self.reason = reason
        return self

    CLIENT_GONE = "client gone"
    CLIENT_STALLED = "client stalled"
    CLIENT_STOPPED_READING = "client stopped reading"
    MALFORMED_REQUEST = "malformed request"
    MALFORMED_BODY = "malformed request body"
    CUT_AT_SHUTDOWN = "cut at shutdown"

    # There was no connection to the upstream.
    NO_UPSTREAM = "no usable upstream", "unusable"
    NAME_NOT_FOUND = "upstream's name not found", "name_not_found"
    REFUSED = "upstream refused the connection", "refused"
    TLS_FAILED = "TLS with the upstream failed", "tls_error"
    NOT_TRUSTED = "upstream's certificate not trusted", "untrusted_certificate"
    TUNNEL_REFUSED = "egress proxy refused the tunnel", "tunnel_refused"
    NO_HTTP2 = "upstream does not speak HTTP/2", "no_http2"
    NO_CONNECTION = "no connection to the upstream", "no_connection"
    CONNECT_TIMEOUT = "upstream did not answer the connection in time", "connect_timeout"
    # The request is nothing for this upstream.
    NO_UPGRADE = "no upgrade over HTTP/2", "no_upgrade"
    HEAD_TOO_LARGE = "request head too large for the upstream", "head_too_large"
    # The connection or stream ended before the response did.
    CLOSED_EARLY = "upstream closed early", "closed_early"
    CONNECTION_LOST = "upstream connection lost", "connection_lost"
    CONNECTION_CLOSED = "upstream connection closed", "connection_closed"
    STREAM_REFUSED = "upstream refused the stream", "stream_refused"
    STREAM_RESET = "upstream reset the stream", "stream_reset"
    BROKE_HTTP = "upstream broke HTTP", "malformed_response"
    WRITE_STALL = "upstream stopped reading", "write_stall"
    UNWANTED_SWITCH = "upstream switched protocols", "unwanted_switch"


class PageShown(Frozen):
    """A page about ourselves that was asked for: `resource` is "statusz" or "flagz".

    `group` and `version` are those of the object that was given, "" for text and for refusals.
    """

    resource: str
    group: str = ""
    version: str = ""


class Decided(Mutable):
    """Where a decision came from; "" where the step was not reached or did not ask.

    `identity_source` is "certificate", "token", "oidc" or "none" (an ignored path);
    `decision_source` is "static", "review" or "none". `groups` are the user's and `asked` is what
    an authorizer was asked for, in words; of requests that were forwarded `asked` is "".
    """

    outcome: Outcome
    user_name: str = ""
    identity_source: str = ""
    decision_source: str = ""
    notes: tuple[Note, ...] = ()
    page: PageShown | None = None
    groups: tuple[str, ...] = ()
    asked: str = ""


class ExchangeRecord(Mutable):
    """One request with its response. Instants are monotonic seconds, 0.0 when never reached.

    `status` is what the client got, 0 when it got no response head. `cause` says more of a
    `failure` on the upstream's side, for the log: address and error, nothing from the wire.
    `waited_for` names the kinds of review that the decision had to wait for; answers that were
    remembered are not among them.
    """

    peer_address: str
    method: str
    path: str
    decided: Decided | None = None
    status: int = 0
    started_at: float = 0.0
    decided_at: float = 0.0
    upstream_answered_at: float = 0.0
    ended_at: float = 0.0
    received_bytes: int = 0
    sent_bytes: int = 0
    failure: Failure | None = None
    cause: str = ""
    waited_for: tuple[str, ...] = ()


# --- reviews --------------------------------------------------------------------------
#
# TokenReview and SubjectAccessReview, their answers, `ReviewFailed`, and the masked `BearerToken`.
#
# `Reviewed[T]` is how pure code asks the API server: a generator that yields a review, is sent its
# answer, and returns a T. A failed review is an answer like any other, so that pure code decides
# what "API server down" means.

T = TypeVar("T")


class BearerToken(Frozen):
    """A secret: its text leaves only by `reveal`, for the review's body and the keyed hash."""

    _text: str = field(repr=False)

    def reveal(self) -> str:
        """The token itself."""
        return self._text


class TokenReview(Frozen):
    """Asks whose token this is; `audiences` empty means that none was demanded."""

    token: BearerToken
    audiences: tuple[str, ...] = ()


class ResourceAttributes(Frozen):
    """A resource request, as in a SubjectAccessReview's `resourceAttributes`."""

    verb: str
    namespace: str = ""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""


class NonResourceAttributes(Frozen):
    """A non-resource request: a verb on a (decoded) path."""

    verb: str
    path: str


class SubjectAccessReview(Frozen):
    """Asks whether this user may do this."""

    user: UserInfo
    action: ResourceAttributes | NonResourceAttributes


class TokenReviewAnswer(Frozen):
    """The status of a TokenReview. `audiences` is None when the answer did not name any."""

    authenticated: bool
    user: UserInfo | None = None
    audiences: tuple[str, ...] | None = None
    error: str = ""


class SubjectAccessReviewAnswer(Frozen):
    """The status of a SubjectAccessReview."""

    allowed: bool
    denied: bool = False
    reason: str = ""
    evaluation_error: str = ""


class ReviewFailed(Frozen):
    """The review has no answer; `reason` is fit for a log (no secret, no body from the wire)."""

    reason: str


Review: TypeAlias = TokenReview | SubjectAccessReview
Answer: TypeAlias = TokenReviewAnswer | SubjectAccessReviewAnswer | ReviewFailed
Reviewed: TypeAlias = Generator[Review, Answer, T]

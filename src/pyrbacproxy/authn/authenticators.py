"""Authenticators: who sent this request? By bearer token, client certificate, or both."""

import base64
import re
from typing import Protocol, TypeAlias

from pyrbacproxy.handler import Request
from pyrbacproxy.http1.head import RequestHead
from pyrbacproxy.model import (
    BearerToken,
    ClientCertificate,
    Reviewed,
    ReviewFailed,
    TokenReview,
    TokenReviewAnswer,
    UserInfo,
)
from pyrbacproxy.values import Frozen, replace

# --- authenticator --------------------------------------------------------------------
# `Authenticator`: who is it? `Authenticated`, `Rejected` or, nothing to say, None; their union.

ANONYMOUS = "system:anonymous"
ALL_AUTHENTICATED = "system:authenticated"
ALL_UNAUTHENTICATED = "system:unauthenticated"


class Authenticated(Frozen):
    """A known user. `source` is "certificate", "token" or "oidc"; `head` is the request's without
    the credential it consumed.
    """

    user: UserInfo
    source: str
    head: RequestHead


class Rejected(Frozen):
    """A credential was there and is not good. `reason` is for the log: it never holds the
    credential.
    """

    reason: str


Identification: TypeAlias = Authenticated | Rejected | None


class Authenticator(Protocol):
    """Knows the user, rejects a credential, or abstains; asks the API server by yielding."""

    def authenticate(self, request: Request) -> Reviewed[Identification]:
        """Judge the credentials of one request."""
        ...


class UnionAuthenticator:
    """The first success wins; after a rejection the next member is tried (reference 3.3)."""

    __slots__ = ("_members",)

    def __init__(self, members: tuple[Authenticator, ...]) -> None:
        self._members = members

    def authenticate(self, request: Request) -> Reviewed[Identification]:
        """The first success, else every rejection in one, else None."""
        reasons: list[str] = []
        for member in self._members:
            identification = yield from member.authenticate(request)
            if isinstance(identification, Authenticated):
                return identification
            if identification is not None:
                reasons.append(identification.reason)
        return Rejected("; ".join(reasons)) if reasons else None


def with_authenticated_group(user: UserInfo) -> UserInfo:
    """The user with `system:authenticated` as last group, on which stock cluster roles depend.

    Not for the anonymous user, nor for who has it or `system:unauthenticated` already (reference
    3.3). It does not belong to OIDC users either: who makes those leaves it out.
    """
    known = ALL_AUTHENTICATED in user.groups or ALL_UNAUTHENTICATED in user.groups
    if known or user.name == ANONYMOUS:
        return user
    return replace(user, groups=(*user.groups, ALL_AUTHENTICATED))


# --- bearer token ---------------------------------------------------------------------
#
# A bearer token → TokenReview → `UserInfo`; says what of the head the token consumed.
#
# Two places (reference 3.3): the first Authorization line, and for WebSocket clients of browsers,
# which can't set it, an entry of Sec-WebSocket-Protocol. A token that is not accepted is a
# rejection, an API that can't be asked too: the client gets 401 and never learns which.

BY_TOKEN = "token"  # noqa: S105 - how a user was identified
OIDC_SOURCE = "oidc"
_AUTHORIZATION = b"authorization"
_PROTOCOLS = b"sec-websocket-protocol"
_PROTOCOL_PREFIX = b"base64url.bearer.authorization.k8s.io."
_BASE64URL = re.compile(rb"[A-Za-z0-9_-]*")
_MASK = "<masked>"


class BearerTokenAuthenticator:
    """Asks the API server whose token it is; `audiences` empty means that none is demanded."""

    __slots__ = ("_audiences",)

    def __init__(self, audiences: tuple[str, ...] = ()) -> None:
        self._audiences = audiences

    def authenticate(self, request: Request) -> Reviewed[Identification]:
        """Judge the Authorization header, then the WebSocket protocol list if the former did not
        succeed.
        """
        head = request.head
        reasons: list[str] = []
        by_header = yield from self._review(_token_of_header(head))
        if isinstance(by_header, UserInfo):
            return Authenticated(by_header, BY_TOKEN, _without_token(head))
        if by_header:
            reasons.append(by_header.reason)
        if _is_websocket(head):
            by_protocol = yield from self._review(_token_of_protocols(head))
            if isinstance(by_protocol, UserInfo):
                # The entry is stripped with every other bearer credential, on every branch (D5).
                return Authenticated(by_protocol, BY_TOKEN, head)
            if by_protocol:
                reasons.append(by_protocol.reason)
        return Rejected("; ".join(reasons)) if reasons else None

    def _review(self, token: bytes | Rejected | None) -> Reviewed[UserInfo | Rejected | None]:
        """Whose token it is; no token and a rejected one cost no review."""
        if token is None or isinstance(token, Rejected):
            return token
        user = yield from _whose(token, self._audiences)
        return with_authenticated_group(user) if isinstance(user, UserInfo) else user


class IdTokenAuthenticator:
    """OIDC mode: the token of the Authorization header alone, and the groups as it names them.

    Who answers the TokenReview then is `oidc.tokens`. No WebSocket protocols, no audiences, and
    no `system:authenticated` (reference 3.4).
    """

    __slots__ = ()

    def authenticate(self, request: Request) -> Reviewed[Identification]:
        """Judge the Authorization header."""
        token = _token_of_header(request.head)
        if token is None:
            return None
        user = yield from _whose(token)
        if isinstance(user, Rejected):
            return user
        return Authenticated(user, OIDC_SOURCE, _without_token(request.head))


def _whose(token: bytes, audiences: tuple[str, ...] = ()) -> Reviewed[UserInfo | Rejected]:
    """Whose token it is."""
    try:
        text = token.decode()
    except UnicodeDecodeError:
        return Rejected("bearer token: not UTF-8")
    answer = yield TokenReview(BearerToken(text), audiences)
    if isinstance(answer, TokenReviewAnswer):
        return _user(answer, text, audiences)
    if isinstance(answer, ReviewFailed):
        return Rejected(f"bearer token: {answer.reason}")
    return Rejected("bearer token: a TokenReview was answered by an access review")


def _user(answer: TokenReviewAnswer, token: str, audiences: tuple[str, ...]) -> UserInfo | Rejected:
    if not answer.authenticated or answer.user is None:
        # An API server may quote the token in its error.
        error = answer.error.replace(token, _MASK) or "not accepted"
        return Rejected(f"bearer token: {error}")
    # An answer that names no audience comes from an authenticator that did not look at them (D29).
    if audiences and not set(audiences).intersection(answer.audiences or ()):
        return Rejected("bearer token: not for any of the demanded audiences")
    return answer.user


def _without_token(head: RequestHead) -> RequestHead:
    """The head without any Authorization line, those of other schemes too: the one credential was
    used.
    """
    stripped = head.headers.without((_AUTHORIZATION,))
    return RequestHead(head.method, head.target, stripped, head.minor)


def _token_of_header(head: RequestHead) -> bytes | None:
    """The second word of the first line, split at single blanks; two blanks mean an empty token, so
    none.
    """
    line = head.headers.get(_AUTHORIZATION)
    if line is None:
        return None
    words = line.strip(b" \t").split(b" ", 2)
    if len(words) == 1 or words[0].lower() != b"bearer":
        return None
    return words[1] or None


def _is_websocket(head: RequestHead) -> bool:
    protocol = head.headers.get(b"upgrade")
    return (
        protocol is not None
        and protocol.lower() == b"websocket"
        and b"upgrade" in head.headers.tokens(b"connection")
    )


def _token_of_protocols(head: RequestHead) -> bytes | Rejected | None:
    """The token in the protocol list; rejected if there are two, none besides it, or it is no
    base64url.
    """
    entries = [
        entry.strip(b" \t")
        for line in head.headers.get_all(_PROTOCOLS)
        for entry in line.split(b",")
    ]
    encoded = [
        entry[len(_PROTOCOL_PREFIX) :] for entry in entries if entry.startswith(_PROTOCOL_PREFIX)
    ]
    if not encoded:
        return None
    if len(encoded) > 1:
        return Rejected("WebSocket protocol list: more than one bearer token")
    if len(entries) == 1:
        return Rejected("WebSocket protocol list: nothing beside the bearer token")
    # One character is left over where no byte can be.
    if not _BASE64URL.fullmatch(encoded[0]) or len(encoded[0]) % 4 == 1:
        return Rejected("WebSocket protocol list: the bearer token is no base64url")
    return base64.urlsafe_b64decode(encoded[0] + b"=" * (-len(encoded[0]) % 4)) or None


# --- client certificate ---------------------------------------------------------------
#
# A verified certificate that is still valid at `received_at` → `UserInfo` (last CN, every O).
#
# It never trusts a certificate by itself: `Peer.certificate` is set only for one whose chain ends
# in the current client CA pool. Validity is judged on every request, so that expiry bites on live
# connections (reference 5.6).

BY_CERTIFICATE = "certificate"
_CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"

# A user is a function of its leaf, so it may be remembered by the leaf's fingerprint for ever; this
# bounds memory.
_REMEMBERED_USERS = 512


class ClientCertificateAuthenticator:
    """Knows users by their certificate; sends no review."""

    __slots__ = ("_users",)

    def __init__(self) -> None:
        self._users: dict[str, UserInfo] = {}

    def authenticate(self, request: Request) -> Reviewed[Identification]:
        """Abstain without a certificate or a CN; reject one that is not trusted or not valid at
        `received_at`.
        """
        yield from ()
        certificate = request.peer.certificate
        if certificate is None:
            refusal = request.peer.refusal
            return Rejected(f"client certificate: {refusal}") if refusal else None
        if request.received_at < certificate.not_before:
            return Rejected("client certificate: not valid yet")
        if request.received_at > certificate.not_after:
            return Rejected("client certificate: expired")
        if not certificate.common_name:
            return None
        return Authenticated(self._user(certificate), BY_CERTIFICATE, request.head)

    def _user(self, certificate: ClientCertificate) -> UserInfo:
        user = self._users.get(certificate.fingerprint)
        if user is None:
            if len(self._users) >= _REMEMBERED_USERS:
                self._users.clear()
            user = self._users[certificate.fingerprint] = _user_of(certificate)
        return user


def _user_of(certificate: ClientCertificate) -> UserInfo:
    return with_authenticated_group(
        UserInfo(
            name=certificate.common_name,
            groups=certificate.organizations,
            extra=((_CREDENTIAL_ID, (f"X509SHA256={certificate.fingerprint}",)),),
        )
    )

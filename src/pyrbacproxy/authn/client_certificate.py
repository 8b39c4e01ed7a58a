"""A verified certificate that is still valid at `received_at` → `UserInfo` (last CN, every O).

It never trusts a certificate by itself: `Peer.certificate` is set only for one whose chain ends in
the current client CA pool. Validity is judged on every request, so that expiry bites on live
connections (reference 5.6).
"""

from pyrbacproxy.authn.authenticator import (
    Authenticated,
    Identification,
    Rejected,
    with_authenticated_group,
)
from pyrbacproxy.handler import Request
from pyrbacproxy.peer import ClientCertificate
from pyrbacproxy.reviews import Reviewed
from pyrbacproxy.user import UserInfo

SOURCE = "certificate"
_CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"

# A user is a function of its leaf, so it may be remembered by the leaf's fingerprint for ever; this
# bounds memory.
_REMEMBERED_USERS = 512


class ClientCertificateAuthenticator:
    """Knows users by their certificate; asks nobody."""

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
        return Authenticated(self._user(certificate), SOURCE, request.head)

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

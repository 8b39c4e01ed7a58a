"""`Authenticator`: who is it? `Authenticated`, `Rejected` or, nothing to say, None; their union."""

from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from pyrbacproxy.handler import Request
from pyrbacproxy.http1.head import RequestHead
from pyrbacproxy.reviews import Reviewed
from pyrbacproxy.user import UserInfo

ANONYMOUS = "system:anonymous"
ALL_AUTHENTICATED = "system:authenticated"
ALL_UNAUTHENTICATED = "system:unauthenticated"


@dataclass(frozen=True, slots=True)
class Authenticated:
    """A known user. `source` is "certificate", "token" or "oidc"; `head` is the request's without
    the credential it consumed.
    """

    user: UserInfo
    source: str
    head: RequestHead


@dataclass(frozen=True, slots=True)
class Rejected:
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

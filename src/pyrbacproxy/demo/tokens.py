"""Tokens → users, and what kube-apiserver's TokenReview says of a token. Pure."""

import json
from collections.abc import Iterable, Mapping

from pyrbacproxy.model import TokenReviewAnswer, UserInfo
from pyrbacproxy.values import Frozen, replace

API_AUDIENCE = "https://kubernetes.default.svc"
_AUTHENTICATED = "system:authenticated"


class TokenEntry(Frozen):
    """Whose token it is and for which audiences it was made."""

    user: UserInfo
    audiences: tuple[str, ...] = (API_AUDIENCE,)


class TokenTable:
    """Every token that the API server knows. `entries` is not copied: tests may change it."""

    def __init__(self, entries: Mapping[str, TokenEntry]) -> None:
        self._entries = entries

    def review(self, token: str, audiences: Iterable[str]) -> TokenReviewAnswer:
        """The status of a TokenReview; no audiences asked means the API server's own.

        An authenticated answer names the audiences that the token and the question share; none
        shared is an error.
        """
        entry = self._entries.get(token)
        if entry is None:
            return TokenReviewAnswer(authenticated=False, error="invalid bearer token")
        wanted = tuple(audiences) or (API_AUDIENCE,)
        shared = tuple(audience for audience in entry.audiences if audience in wanted)
        if not shared:
            return TokenReviewAnswer(
                authenticated=False,
                error=f"[invalid bearer token, token audiences {_go_list(entry.audiences)}"
                f" is invalid for the target audiences {_go_list(wanted)}]",
            )
        return TokenReviewAnswer(
            authenticated=True, user=with_authenticated(entry.user), audiences=shared
        )


def service_account(namespace: str, name: str, uid: str = "") -> UserInfo:
    """The user that a service account's token stands for."""
    return UserInfo(
        name=f"system:serviceaccount:{namespace}:{name}",
        uid=uid or f"uid-of-{namespace}-{name}",
        groups=("system:serviceaccounts", f"system:serviceaccounts:{namespace}"),
    )


def with_authenticated(user: UserInfo) -> UserInfo:
    """The user with the group that the API server adds to everyone whom it knows."""
    if _AUTHENTICATED in user.groups:
        return user
    return replace(user, groups=(*user.groups, _AUTHENTICATED))


def _go_list(texts: Iterable[str]) -> str:
    """As Go's `%q` prints a slice of strings."""
    return f"[{' '.join(json.dumps(text) for text in texts)}]"

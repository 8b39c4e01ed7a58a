"""The claims of a token → `UserInfo`, or why they make nobody (reference 3.4).

The signature is `oidc.token`'s. Refusals are told in fixed words: a claim may be anybody's address.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeGuard

from pyrbacproxy.oidc.settings import OidcSettings
from pyrbacproxy.user import UserInfo

Claims: TypeAlias = Mapping[str, object]

NOT_BEFORE_LEEWAY_SECONDS = 60.0
# Later than any time that somebody could mean, and where Go's clock turns back.
_END_OF_TIME = 2.0**62
# Some issuers quote their numbers, and Go reads those.
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
# What OpenID Connect Core 1.0, section 2, says is text, whether it is used or not.
_TEXTS = ("sub", "nonce", "at_hash")
CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"
_GOOGLE = "https://accounts.google.com"
# Google's tokens spell it so as well (OpenID Connect Core 1.0, section 15.6.2).
_GOOGLE_WITHOUT_SCHEME = "accounts.google.com"


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a token is not accepted, for the log.

    `is_key_unknown`: the keys at hand don't tell, newer ones might.
    """

    reason: str
    is_key_unknown: bool = False


def json_object(text: bytes) -> dict[str, object] | None:
    """The JSON object in UTF-8, None when it is none (RFC 7519 §7.2)."""
    try:
        found: object = json.loads(text.decode(), parse_constant=_no_number)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def refusal(claims: Claims, settings: OidcSettings, now: float) -> str:
    """Why a token with these claims is not for us or not for now, "" when it is.

    `now` is seconds since the epoch. An expiry is demanded and has no leeway; a start may lie a
    minute ahead.
    """
    issuer = claims.get("iss")
    if issuer != settings.issuer and (
        settings.issuer != _GOOGLE or issuer != _GOOGLE_WITHOUT_SCHEME
    ):
        return "not from this issuer"
    if settings.client_id not in (_texts(claims.get("aud")) or ()):
        return "not for this client: wrong audience"
    expiry, start = _instant(claims.get("exp")), _instant(claims.get("nbf"))
    if expiry is None or expiry <= now:
        return "expired" if expiry is not None else "no expiry"
    if claims.get("nbf") is not None and (start is None or start > now + NOT_BEFORE_LEEWAY_SECONDS):
        return "not valid yet"
    return "" if _is_sound(claims) else "a standard claim is of the wrong kind"


def user(claims: Claims, settings: OidcSettings) -> UserInfo | Refused:
    """Who it is. `system:authenticated` is not added in OIDC mode (reference 3.4)."""
    name = claims.get(settings.username_claim)
    if not _is_text(name) or not name:
        return Refused("the username claim is no text")
    verified = claims.get("email_verified", True)
    if settings.username_claim == "email" and verified is not True:
        return Refused("the email address is not verified")
    groups = _groups(claims, settings)
    if isinstance(groups, Refused):
        return groups
    credential = claims.get("jti")
    known = (f"JTI={credential}",) if _is_text(credential) and credential else ()
    return UserInfo(
        settings.username_prefix + name,
        groups=tuple(settings.groups_prefix + group for group in groups),
        extra=((CREDENTIAL_ID, known),) if known else (),
    )


def _groups(claims: Claims, settings: OidcSettings) -> tuple[str, ...] | Refused:
    if not settings.groups_claim:
        return ()
    claim = claims.get(settings.groups_claim)
    if claim is not None:
        groups = _texts(claim)
        return (
            Refused("the groups claim is neither text nor a list of texts")
            if (groups is None)
            else groups
        )
    # Whoever has them elsewhere (OpenID Connect Core 1.0, section 5.6.2) would lose them silently.
    elsewhere = claims.get("_claim_names", {})
    if not isinstance(elsewhere, dict) or settings.groups_claim in elsewhere:
        return Refused("the groups are a distributed claim, and those are not fetched")
    return ()


def _is_sound(claims: Claims) -> bool:
    """Whether the standard claims that nobody else looks at are what they should be."""
    is_dated = "iat" not in claims or _instant(claims["iat"]) is not None
    return is_dated and all(isinstance(claims.get(name, ""), str | None) for name in _TEXTS)


def _texts(claim: object) -> tuple[str, ...] | None:
    """A text or a list of texts; None for anything else."""
    listed = claim if isinstance(claim, list) else [claim]
    texts = tuple(text for text in listed if _is_text(text))
    return texts if len(texts) == len(listed) else None


def _is_text(claim: object) -> TypeGuard[str]:
    """Whether it is a string, without half a surrogate pair, which no UTF-8 can spell."""
    return isinstance(claim, str) and not any("\ud800" <= letter <= "\udfff" for letter in claim)


def _instant(claim: object) -> float | None:
    """A NumericDate (RFC 7519 §2), which may be quoted; None for anything else."""
    if isinstance(claim, str) and _NUMBER.fullmatch(claim):
        claim = float(claim)
    if isinstance(claim, bool) or not isinstance(claim, int | float):
        return None
    return claim if abs(claim) < _END_OF_TIME else None


def _no_number(text: str) -> float:
    raise ValueError(text)

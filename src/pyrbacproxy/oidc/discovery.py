"""What an issuer says about itself: where its keys are, and how long they may be kept."""

import re
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from pyrbacproxy.http1.head import Headers
from pyrbacproxy.oidc.claims import json_object

# An issuer's word about its keys holds between these: it is not asked all the time, nor believed
# for ever.
LEAST_SECONDS = 60.0
MOST_SECONDS = 3600.0
USUAL_SECONDS = 300.0
_MAX_AGE = re.compile(rb"max-age=\"?([0-9]{1,9})\"?")
_WELL_KNOWN = "/.well-known/openid-configuration"


def discovery_url(issuer: str) -> str:
    """Where the issuer describes itself (OpenID Connect Discovery 1.0, section 4)."""
    return issuer.removesuffix("/") + _WELL_KNOWN


def key_set_url(text: bytes, issuer: str) -> str:
    """The address of the issuer's key set, from its discovery document.

    Raises ValueError in fixed words, also when the document is another issuer's.
    """
    document = json_object(text)
    if document is None:
        raise ValueError("the discovery document is no JSON object")
    if document.get("issuer") != issuer:
        raise ValueError("the discovery document names another issuer than --oidc-issuer")
    url = document.get("jwks_uri")
    if not isinstance(url, str) or not _is_https(url):
        raise ValueError("the discovery document names no https address of a key set")
    return url


def fresh_seconds(headers: Headers, now: float) -> float:
    """How long an answer that came `now` (seconds since the epoch) may be used (RFC 9111 §4.2.1),
    within our own bounds.
    """
    directives = headers.tokens(b"cache-control")
    if b"no-store" in directives or b"no-cache" in directives:
        return LEAST_SECONDS
    for directive in directives:
        if age := _MAX_AGE.fullmatch(directive):
            return _bounded(float(age[1]) - _age(headers))
    expires = headers.get(b"expires")
    return USUAL_SECONDS if expires is None else _bounded(_instant(expires) - now)


def _bounded(seconds: float) -> float:
    return min(max(seconds, LEAST_SECONDS), MOST_SECONDS)


def _age(headers: Headers) -> float:
    age = headers.get(b"age") or b""
    return float(age) if re.fullmatch(rb"[0-9]{1,9}", age) else 0.0


def _instant(expires: bytes) -> float:
    """Seconds since the epoch; 0.0, long past, for what is no date (RFC 9111 §5.3)."""
    try:
        return parsedate_to_datetime(expires.decode("latin-1")).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def _is_https(url: str) -> bool:
    try:
        return urlsplit(url).scheme == "https"
    except ValueError:
        return False

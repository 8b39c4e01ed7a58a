"""When a bearer token says that it expires, if it is a JWT that says so.

Nothing is verified here: the value only *shortens* how long the API server's word about the token
is believed (D14).
"""

import base64
import json
import math

# A token comes from a client: an unreasonable one is not worth decoding, its review is remembered
# as any other.
MAX_BYTES = 65536
_JWT_PARTS = 3


def expiry_of(token: str) -> float | None:
    """The token's `exp` (RFC 7519 §4.1.4, seconds since the epoch); None when it is no JWT or has
    none.
    """
    parts = token.split(".")
    if len(parts) != _JWT_PARTS or len(token) > MAX_BYTES:
        return None
    payload = parts[1]
    try:
        claims: object = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (ValueError, RecursionError):
        return None
    expiry: object = claims.get("exp") if isinstance(claims, dict) else None
    if isinstance(expiry, bool) or not isinstance(expiry, int | float):
        return None
    try:
        return float(expiry) if math.isfinite(expiry) else None
    except OverflowError:
        return None

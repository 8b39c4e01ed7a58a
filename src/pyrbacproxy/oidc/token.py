"""An ID token + the issuer's keys + the time → `UserInfo`, or why not (reference 3.4 and 8.1).

What costs least is looked at first, and the key last, so that neither a stranger's token nor an old
one ever makes us ask the issuer for newer keys. Nothing that is read before the signature is
verified is used for more than a refusal.
"""

import base64
import re
from collections.abc import Mapping

from pyrbacproxy.oidc import claims as token_claims
from pyrbacproxy.oidc.claims import Refused, json_object
from pyrbacproxy.oidc.key_set import KeySet
from pyrbacproxy.oidc.settings import OidcSettings
from pyrbacproxy.user import UserInfo

MAX_TOKEN_BYTES = 65_536
# Three parts (RFC 7515 §7.1): five would be encryption, and more than one signature is no compact
# form.
_COMPACT = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)")
# Header parameters that change what is signed or how it is read. None is needed for an ID token.
_DEMANDING = ("crit", "b64", "zip", "enc")


def judge(token: str, keys: KeySet, settings: OidcSettings, now: float) -> UserInfo | Refused:
    """Whose token it is at `now` (seconds since the epoch)."""
    if len(token) > MAX_TOKEN_BYTES:
        return Refused("too long")
    parts = _COMPACT.fullmatch(token)
    header = _object(parts[1]) if parts else None
    claims = _object(parts[2]) if parts else None
    if parts is None or header is None or claims is None:
        return Refused("no JSON Web Token in compact form")
    reason = token_claims.refusal(claims, settings, now)
    if reason:
        return Refused(reason)
    unsigned = _signature_refusal(parts, header, keys, settings)
    return unsigned or token_claims.user(claims, settings)


def _decoded(part: str) -> bytes | None:
    """What the letters spell; None when nothing is spelled like that."""
    # One character is left over where no byte can be.
    if len(part) % 4 == 1:
        return None
    found = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    # The last letter may hold bits that belong to no byte: then several texts would be one token.
    return found if base64.urlsafe_b64encode(found).decode().rstrip("=") == part else None


def _object(part: str) -> dict[str, object] | None:
    found = _decoded(part)
    return None if found is None else json_object(found)


def _signature_refusal(
    parts: re.Match[str], header: Mapping[str, object], keys: KeySet, settings: OidcSettings
) -> Refused | None:
    algorithm, name = header.get("alg"), header.get("kid")
    # Some issuers write null for what they leave out.
    name = "" if name is None else name
    if not isinstance(algorithm, str) or algorithm not in settings.algorithms:
        return Refused("its algorithm is not among --oidc-sign-alg")
    if any(header.get(parameter) is not None for parameter in _DEMANDING):
        return Refused("compressed, encrypted, or with critical header parameters")
    if not isinstance(name, str):
        return Refused("its key's name is no text")
    signature = _decoded(parts[3])
    if signature is None:
        return Refused("its signature is no base64url")
    text = parts.string[: parts.end(2)].encode()
    candidates = keys.candidates(name, algorithm)
    if any(key.signed(text, signature, algorithm) for key in candidates):
        return None
    if name and candidates:
        return Refused("bad signature")
    return Refused("signed by an unknown key", is_key_unknown=True)

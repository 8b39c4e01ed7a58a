"""Verifies ID tokens: signature keys, standard claims, user name and groups (reference 3.4)."""

import base64
import json
import re
from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias, TypeGuard

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from jwt.api_jws import PyJWS
from jwt.exceptions import PyJWTError

from pyrbacproxy.model import Answer, TokenReview, TokenReviewAnswer, UserInfo
from pyrbacproxy.oidc.settings import ALGORITHMS, OidcSettings
from pyrbacproxy.values import Frozen, field

# --- claims ---------------------------------------------------------------------------
#
# The claims of a token → `UserInfo`, or why they name no user (reference 3.4).
#
# The signature is `oidc.tokens`'s. Refusals are told in fixed words: a claim may be anybody's
# address.

Claims: TypeAlias = Mapping[str, object]

NOT_BEFORE_LEEWAY_SECONDS = 60.0
# Later than any time that can be meant, and where Go's clock turns back.
_END_OF_TIME = 2.0**62
# Some issuers quote their numbers, and Go reads those.
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
# What OpenID Connect Core 1.0, section 2, says is text, whether it is used or not.
_TEXTS = ("sub", "nonce", "at_hash")
CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"
_GOOGLE = "https://accounts.google.com"
# Google's tokens spell it so as well (OpenID Connect Core 1.0, section 15.6.2).
_GOOGLE_WITHOUT_SCHEME = "accounts.google.com"


class Refused(Frozen):
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


def claims_refusal(claims: Claims, settings: OidcSettings, now: float) -> str:
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


def user_of_claims(claims: Claims, settings: OidcSettings) -> UserInfo | Refused:
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
    # Groups kept elsewhere (OpenID Connect Core 1.0, section 5.6.2) would be lost silently.
    elsewhere = claims.get("_claim_names", {})
    if not isinstance(elsewhere, dict) or settings.groups_claim in elsewhere:
        return Refused("the groups are a distributed claim, and those are not fetched")
    return ()


def _is_sound(claims: Claims) -> bool:
    """Whether the standard claims that nothing else checks are what they should be."""
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


# --- key set --------------------------------------------------------------------------
#
# An issuer's key set (RFC 7517) → its public keys for signatures, and whether one signed a token.
#
# PyJWT does the cryptography. Keys of another kind or for another use are passed over, for an
# issuer may publish them beside those that matter here.

# A token that names no key is tried with each.
MAX_KEYS = 100
# RFC 7518 §3.3.
_LEAST_RSA_BITS = 2048
_OF_RSA = frozenset(name for name in ALGORITHMS if not name.startswith("ES"))
# RFC 7518 §3.4: each algorithm has its curve.
_OF_CURVE = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
_JWS = PyJWS(algorithms=sorted(ALGORITHMS))


class PublicKey(Frozen):
    """One key; `name` is its `kid`, "" without one, `algorithms` are those it may be used for."""

    name: str
    algorithms: frozenset[str]
    key: RSAPublicKey | EllipticCurvePublicKey = field(repr=False)

    def signed(self, text: bytes, signature: bytes, algorithm: str) -> bool:
        """Whether this is the key's signature of the text (RFC 7515 §5.2, step 8).

        `algorithm` is one of `algorithms`. PyJWT's own way from a whole token reads head and claims
        once more for each key, letter by letter: 3 ms for a long one, which anybody can send.
        """
        return _JWS.get_algorithm_by_name(algorithm).verify(text, self.key, signature)


class KeySet(Frozen):
    """The keys of an issuer at one moment."""

    keys: tuple[PublicKey, ...]

    def candidates(self, name: str, algorithm: str) -> tuple[PublicKey, ...]:
        """The keys of this name, all when it is "", that may be used for the algorithm."""
        return tuple(
            key
            for key in self.keys
            if (not name or key.name == name) and algorithm in key.algorithms
        )


def parse_key_set(text: bytes) -> KeySet:
    """The keys in a JWK set. Raises ValueError in fixed words when it is none."""
    document = json_object(text) or {}
    listed = document.get("keys")
    if not isinstance(listed, list):
        raise ValueError("the key set is none")  # noqa: TRY004 -- the text is bad, not its type
    if len(listed) > MAX_KEYS:
        raise ValueError(f"the key set holds more than {MAX_KEYS} keys")
    return KeySet(tuple(key for jwk in listed if (key := _public_key(jwk)) is not None))


def _public_key(document: object) -> PublicKey | None:
    if not isinstance(document, dict):
        return None
    # Some issuers write null for what they leave out.
    jwk = {name: value for name, value in document.items() if value is not None}
    if jwk.get("use", "sig") != "sig":
        return None
    operations = jwk.get("key_ops", ["verify"])
    if not isinstance(operations, list) or "verify" not in operations:
        return None
    key = _loaded(jwk)
    if isinstance(key, RSAPublicKey):
        fit = _OF_RSA if key.key_size >= _LEAST_RSA_BITS else frozenset()
    elif isinstance(key, EllipticCurvePublicKey):
        fit = frozenset({_OF_CURVE.get(key.curve.name, "")}) & ALGORITHMS
    else:
        return None
    if "alg" in jwk:
        fit = fit & {jwk["alg"]} if isinstance(jwk["alg"], str) else frozenset()
    name = jwk.get("kid", "")
    return PublicKey(name, fit, key) if fit and isinstance(name, str) else None


def _loaded(jwk: Mapping[str, object]) -> object:
    """The key, None when it is of another kind or cannot be read."""
    # Its public half is all that we want, whatever else an issuer gives away.
    public = {name: value for name, value in jwk.items() if name != "d"}
    try:
        if jwk.get("kty") == "RSA":
            return RSAAlgorithm.from_jwk(public)
        if jwk.get("kty") == "EC":
            return ECAlgorithm.from_jwk(public)
    except (PyJWTError, TypeError, ValueError, AttributeError, UnsupportedAlgorithm):
        # What the libraries make of texts that are no numbers, and of curves that this OpenSSL
        # lacks.
        pass
    return None


# --- token ----------------------------------------------------------------------------
#
# An ID token + the issuer's keys + the time → `UserInfo`, or why not (reference 3.4 and 8.1).
#
# What costs least is looked at first, and the key last, so that neither a stranger's token nor an
# old one ever makes us ask the issuer for newer keys. Nothing that is read before the signature is
# verified is used for more than a refusal.

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
    reason = claims_refusal(claims, settings, now)
    if reason:
        return Refused(reason)
    unsigned = _signature_refusal(parts, header, keys, settings)
    return unsigned or user_of_claims(claims, settings)


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


# --- verifier -------------------------------------------------------------------------
#
# Answers a TokenReview in the API server's stead, by the issuer's keys and the time.
#
# Nothing is remembered: a token is judged anew for each request, so no answer outlives the token's
# expiry or the key set that it was given by (reference 3.4: "no result cache").

NEVER_AGAIN = 0.0


class KeySource(Protocol):
    """The issuer's keys: `oidc.issuer.Issuer`."""

    @property
    def keys(self) -> KeySet | None:
        """Those at hand, the same object as long as they stay the same; None while there are none
        yet.
        """
        ...

    def newer_keys(self, then: Callable[[], None]) -> bool:
        """Call `then` when there may be newer ones; False if that won't be."""
        ...


class Verifier:
    """Judges tokens. `wall_clock` tells seconds since the epoch."""

    def __init__(
        self, settings: OidcSettings, source: KeySource, wall_clock: Callable[[], float]
    ) -> None:
        self._settings = settings
        self._source = source
        self._wall_clock = wall_clock

    def ask(
        self, review: TokenReview, resume: Callable[[Answer, float], None]
    ) -> tuple[Answer, float] | None:
        """The answer, and that it can't be used again; None: then `resume` gets both later.

        Only a token of our issuer that is signed by a key we have not seen may have to wait, while
        the issuer is asked for newer keys.
        """
        token = review.token.reveal()
        keys, judged = self._source.keys, self._judged(token)
        if isinstance(judged, Refused) and judged.is_key_unknown:

            def judge_again() -> None:
                # Forged tokens wait in numbers, and are told all at once: by the same keys none is
                # looked at twice.
                is_news = self._source.keys is not keys
                resume(_answer(self._judged(token) if is_news else judged), NEVER_AGAIN)

            if self._source.newer_keys(judge_again):
                return None
        return _answer(judged), NEVER_AGAIN

    def _judged(self, token: str) -> UserInfo | Refused:
        keys = self._source.keys
        if keys is None:
            return Refused("the issuer's keys are not known yet")
        return judge(token, keys, self._settings, self._wall_clock())


def _answer(judged: UserInfo | Refused) -> TokenReviewAnswer:
    if isinstance(judged, Refused):
        return TokenReviewAnswer(authenticated=False, error=judged.reason)
    return TokenReviewAnswer(authenticated=True, user=judged)

"""An issuer's key set (RFC 7517) → its public keys for signatures, and whether one signed a token.

PyJWT does the cryptography. Keys of another kind or for another use are passed over, for an issuer
may publish them beside those that matter here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from jwt.api_jws import PyJWS
from jwt.exceptions import PyJWTError

from pyrbacproxy.oidc.claims import json_object
from pyrbacproxy.oidc.settings import ALGORITHMS

# A token that names no key is tried with each.
MAX_KEYS = 100
# RFC 7518 §3.3.
_LEAST_RSA_BITS = 2048
_OF_RSA = frozenset(name for name in ALGORITHMS if not name.startswith("ES"))
# RFC 7518 §3.4: each algorithm has its curve.
_OF_CURVE = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
_JWS = PyJWS(algorithms=sorted(ALGORITHMS))


@dataclass(frozen=True, slots=True)
class PublicKey:
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


@dataclass(frozen=True, slots=True)
class KeySet:
    """The keys of an issuer at one moment."""

    keys: tuple[PublicKey, ...]

    def candidates(self, name: str, algorithm: str) -> tuple[PublicKey, ...]:
        """The keys of this name, all when it is "", that may be used for the algorithm."""
        return tuple(
            key
            for key in self.keys
            if (not name or key.name == name) and algorithm in key.algorithms
        )


def parse(text: bytes) -> KeySet:
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

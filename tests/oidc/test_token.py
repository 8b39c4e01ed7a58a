"""Whose token it is, and why it is nobody's."""

import base64
import hashlib
import hmac
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256

from pyrbacproxy.model import UserInfo
from pyrbacproxy.oidc.tokens import MAX_TOKEN_BYTES, Refused, judge
from pyrbacproxy.values import replace
from tests.oidc.parties import NOW, SETTINGS, claims, keys, private_key, signed

KEYS = keys("rsa-1", "P-256")
NO_TOKEN = "no JSON Web Token in compact form"
NOT_LISTED = "its algorithm is not among --oidc-sign-alg"
DEMANDING = "compressed, encrypted, or with critical header parameters"


def encoded(part: object) -> str:
    text = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def handmade(header: object, payload: object = None, signature: bytes = b"\0" * 256) -> str:
    parts = (header, claims() if payload is None else payload, signature)
    return ".".join(encoded(part) for part in parts)


def keyed_by_the_public_key() -> str:
    """The classic: the issuer's public key as a shared secret."""
    text = f"{encoded({'alg': 'HS256', 'kid': 'rsa-1'})}.{encoded(claims())}"
    secret = (
        private_key("rsa-1")
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    return f"{text}.{encoded(hmac.digest(secret, text.encode(), hashlib.sha256))}"


def of_two(first: str, second: str) -> str:
    """The first token's head and signature around the second's claims."""
    (head, _, signature), (_, payload, _) = first.split("."), second.split(".")
    return f"{head}.{payload}.{signature}"


GOOD = signed(claims())
REFUSED: dict[str, tuple[str, Refused]] = {
    "nothing": ("", Refused(NO_TOKEN)),
    "opaque": ("abc", Refused(NO_TOKEN)),
    "two parts": (GOOD.rpartition(".")[0], Refused(NO_TOKEN)),
    "no signature": (GOOD.rpartition(".")[0] + ".", Refused(NO_TOKEN)),
    "two signatures": (GOOD + "." + GOOD.rpartition(".")[2], Refused(NO_TOKEN)),
    "five parts, as encryption has": (GOOD + ".a.b", Refused(NO_TOKEN)),
    "JSON form": (json.dumps({"payload": "", "signatures": [{}, {}]}), Refused(NO_TOKEN)),
    "padded": (GOOD + "=", Refused(NO_TOKEN)),
    "blank behind": (GOOD + " ", Refused(NO_TOKEN)),
    "line behind": (GOOD + "\n", Refused(NO_TOKEN)),
    "another alphabet": (GOOD.replace(".", "+.", 1), Refused(NO_TOKEN)),
    "a letter too many": (handmade({"alg": "RS256"}).replace(".", "AAA.", 1), Refused(NO_TOKEN)),
    "head is no JSON": (handmade(b"\xff"), Refused(NO_TOKEN)),
    "claims are no object": (handmade({"alg": "RS256"}, [1]), Refused(NO_TOKEN)),
    "claims in another coding": (
        handmade({"alg": "RS256"}, json.dumps(claims()).encode("utf-16")),
        Refused(NO_TOKEN),
    ),
    "endless nesting": (handmade({"alg": "RS256"}, b"[" * 40_000), Refused(NO_TOKEN)),
    "too long": ("a" * (MAX_TOKEN_BYTES + 1), Refused("too long")),
    "expired": (signed(claims(exp=NOW)), Refused("expired")),
    "wrong audience": (
        signed(claims(aud="other")),
        Refused("not for this client: wrong audience"),
    ),
    "another issuer": (signed(claims(iss="x")), Refused("not from this issuer")),
    "no name": (signed(claims(sub=None)), Refused("the username claim is no text")),
    "none": (handmade({"alg": "none"}), Refused(NOT_LISTED)),
    "None": (handmade({"alg": "None"}), Refused(NOT_LISTED)),
    "no algorithm": (handmade({}), Refused(NOT_LISTED)),
    "algorithms": (handmade({"alg": ["RS256"]}), Refused(NOT_LISTED)),
    "shared secret": (handmade({"alg": "HS256"}), Refused(NOT_LISTED)),
    "public key as secret": (keyed_by_the_public_key(), Refused(NOT_LISTED)),
    "Edwards curve": (handmade({"alg": "EdDSA"}), Refused(NOT_LISTED)),
    "compressed": (handmade({"alg": "RS256", "zip": "DEF"}), Refused(DEMANDING)),
    "encrypted": (handmade({"alg": "RS256", "enc": "A128GCM"}), Refused(DEMANDING)),
    "critical": (handmade({"alg": "RS256", "crit": ["x"], "x": 1}), Refused(DEMANDING)),
    "not encoded": (
        handmade({"alg": "RS256", "b64": False, "crit": ["b64"]}),
        Refused(DEMANDING),
    ),
    "key's name is a number": (
        handmade({"alg": "RS256", "kid": 7}),
        Refused("its key's name is no text"),
    ),
    "signature of no bytes": (
        handmade({"alg": "RS256"}).rpartition(".")[0] + ".AAAAA",
        Refused("its signature is no base64url"),
    ),
    "signature with bits too many": (
        handmade({"alg": "RS256"}).rpartition(".")[0] + ".AB",
        Refused("its signature is no base64url"),
    ),
    "head with bits too many": (
        f"{encoded({'alg': 'RS25'})[:-1]}n.{encoded(claims())}.AA",
        Refused(NO_TOKEN),
    ),
    "forged": (handmade({"alg": "RS256", "kid": "rsa-1"}), Refused("bad signature")),
    "forged on a curve": (handmade({"alg": "ES256", "kid": "P-256"}), Refused("bad signature")),
    "other claims": (of_two(GOOD, signed(claims(sub="root"))), Refused("bad signature")),
    "another key of that name": (signed(claims(), "rsa-2", kid="rsa-1"), Refused("bad signature")),
    "unknown key": (
        signed(claims(), "rsa-2"),
        Refused("signed by an unknown key", is_key_unknown=True),
    ),
    "unknown key without a name": (
        signed(claims(), "rsa-2", kid=None),
        Refused("signed by an unknown key", is_key_unknown=True),
    ),
    "known key for another algorithm": (
        handmade({"alg": "ES256", "kid": "rsa-1"}),
        Refused("signed by an unknown key", is_key_unknown=True),
    ),
    "key given along": (
        signed(claims(), "rsa-2", kid=None, jwk={"kty": "RSA"}, jku="https://evil.test"),
        Refused("signed by an unknown key", is_key_unknown=True),
    ),
    "expired, of an unknown key": (signed(claims(exp=NOW), "rsa-2"), Refused("expired")),
    "of another issuer's key": (signed(claims(iss="x"), "rsa-2"), Refused("not from this issuer")),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_token_is_refused(case: str) -> None:
    token, refused = REFUSED[case]
    assert judge(token, KEYS, SETTINGS, NOW) == refused


@pytest.mark.parametrize(
    "token",
    [
        signed(claims()),
        signed(claims(), algorithm="PS512"),
        signed(claims(), "P-256", "ES256"),
        signed(claims(), kid=None),
        signed(claims(), kid=""),
        signed(claims(), typ="at+jwt"),
    ],
)
def test_a_good_token_tells_its_user(token: str) -> None:
    assert judge(token, KEYS, SETTINGS, NOW) == UserInfo("alice")


def test_null_in_the_head_is_as_good_as_nothing() -> None:
    head, payload = {"alg": "RS256", "kid": None, "crit": None, "zip": None}, claims()
    text = f"{encoded(head)}.{encoded(payload)}"
    key = private_key("rsa-1")
    assert isinstance(key, RSAPrivateKey)
    signature = key.sign(text.encode(), PKCS1v15(), SHA256())
    assert judge(f"{text}.{encoded(signature)}", KEYS, SETTINGS, NOW) == UserInfo("alice")


def test_only_the_algorithms_of_the_flag_are_accepted() -> None:
    settings = replace(SETTINGS, algorithms=frozenset({"PS256"}))
    assert judge(GOOD, KEYS, settings, NOW) == Refused(NOT_LISTED)
    token = signed(claims(), algorithm="PS256")
    assert judge(token, KEYS, settings, NOW) == UserInfo("alice")


def test_the_expiry_is_judged_at_the_time_that_is_given() -> None:
    assert judge(GOOD, KEYS, SETTINGS, NOW + 59.999) == UserInfo("alice")
    assert judge(GOOD, KEYS, SETTINGS, NOW + 60) == Refused("expired")


def test_no_reason_repeats_a_claim() -> None:
    secrets: dict[str, Any] = {
        "iss": "sec-1",
        "aud": "sec-2",
        "email": "sec-3",
        "groups": {"sec": 4},
    }
    for name, value in secrets.items():
        found = judge(signed(claims(**{name: value}, jti="sec-5")), KEYS, SETTINGS, NOW)
        assert "sec-" not in str(found) or isinstance(found, UserInfo)

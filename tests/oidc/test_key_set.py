"""Which keys of a set count, and what they signed."""

import base64
from typing import Any

import pytest
from cryptography.exceptions import UnsupportedAlgorithm
from jwt.algorithms import ECAlgorithm
from jwt.api_jws import PyJWS

from pyrbacproxy.oidc.tokens import MAX_KEYS, PublicKey, parse_key_set
from tests.oidc.parties import claims, jwk, key_text, keys, private_key, signed

GOOD = signed(claims())
TOKENS = {
    "RS256": "rsa-1",
    "RS384": "rsa-1",
    "RS512": "rsa-1",
    "PS256": "rsa-1",
    "PS384": "rsa-1",
    "PS512": "rsa-1",
    "ES256": "P-256",
    "ES384": "P-384",
    "ES512": "P-521",
}


def is_signed(key: PublicKey, token: str, algorithm: str) -> bool:
    text, _, signature = token.rpartition(".")
    return key.signed(text.encode(), base64.urlsafe_b64decode(signature + "=="), algorithm)


@pytest.mark.parametrize("algorithm", TOKENS)
def test_each_algorithm_has_its_key_and_no_other(algorithm: str) -> None:
    key = TOKENS[algorithm]
    token = signed(claims(), key, algorithm)
    found = keys("rsa-1", "rsa-2", "P-256", "P-384", "P-521").candidates(key, algorithm)
    assert [candidate.name for candidate in found] == [key]
    assert is_signed(found[0], token, algorithm)
    assert not is_signed(found[0], token[:-8] + "AAAAAAAA", algorithm)
    assert not is_signed(found[0], token[:-8], algorithm)
    for other in found[0].algorithms - {algorithm}:
        assert not is_signed(found[0], token, other)


def test_another_key_of_the_kind_did_not_sign() -> None:
    (other,) = keys("rsa-2").keys
    assert not is_signed(other, signed(claims()), "RS256")


def test_a_token_that_names_no_key_may_be_of_any_that_fits() -> None:
    found = keys("rsa-1", "P-256", "rsa-2").candidates("", "PS256")
    assert [key.name for key in found] == ["rsa-1", "rsa-2"]


def test_two_keys_may_share_a_name() -> None:
    found = parse_key_set(key_text(jwk("rsa-1", kid="k"), jwk("P-256", kid="k")))
    assert len(found.candidates("k", "ES256")) == 1
    assert len(found.keys) == 2


def test_what_its_issuer_says_of_a_key_holds() -> None:
    found = parse_key_set(key_text(jwk("rsa-1", alg="PS256")))
    assert found.candidates("rsa-1", "PS256")
    assert not found.candidates("rsa-1", "RS256")


def test_nulls_are_as_good_as_nothing() -> None:
    nulls: dict[str, Any] = {"alg": None, "key_ops": None, "use": None}
    (key,) = parse_key_set(key_text({**jwk("rsa-1"), **nulls})).keys
    assert key.name == "rsa-1"


def test_a_private_key_counts_as_its_public_half() -> None:
    (key,) = parse_key_set(key_text({**jwk("rsa-1"), "d": "AQAB"})).keys
    assert key.key == private_key("rsa-1").public_key()


def test_keys_show_nothing_of_themselves() -> None:
    assert "object at" not in repr(keys("rsa-1"))


@pytest.mark.parametrize(
    "odd",
    [
        "text",
        {},
        jwk("rsa-1", use="enc"),
        jwk("rsa-1", key_ops=["sign"]),
        jwk("rsa-1", key_ops="verify"),
        jwk("rsa-1", kty="oct", k="c2VjcmV0"),
        jwk("rsa-1", kty=["RSA"]),
        jwk("rsa-1", n=7),
        jwk("rsa-1", n="*"),
        jwk("rsa-1", e="AA"),
        jwk("rsa-1", e=None),
        jwk("rsa-1", kid=7),
        jwk("rsa-1", alg="HS256"),
        jwk("rsa-1", alg="RSA-OAEP"),
        jwk("rsa-1", alg=["RS256"]),
        jwk("rsa1024-1"),
        jwk("P-256", x="AAAA"),
        jwk("P-256", y=None),
        jwk("P-256", y=jwk("P-256")["x"]),
        jwk("P-256", crv="P-384"),
        jwk("P-256", crv="secp256k1"),
        jwk("P-256", alg="ES384"),
        {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"},
    ],
)
def test_a_key_that_is_of_no_use_spoils_none(odd: object) -> None:
    found = parse_key_set(key_text(odd, jwk("P-521")))
    assert [key.name for key in found.keys] == ["P-521"]


def test_a_curve_that_this_openssl_lacks_spoils_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise UnsupportedAlgorithm("not in FIPS mode")

    monkeypatch.setattr(ECAlgorithm, "from_jwk", refuse)
    assert [key.name for key in parse_key_set(key_text(jwk("P-256"), jwk("rsa-1"))).keys] == [
        "rsa-1"
    ]


def test_no_token_is_taken_apart_again_for_each_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyJWT walks over every letter of it, and long ones may be anybody's."""
    monkeypatch.delattr(PyJWS, "_load")
    (key,) = keys("rsa-1").keys
    assert is_signed(key, GOOD, "RS256")


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"keys": {}}', b"<html>"])
def test_what_is_no_key_set_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match="the key set is none"):
        parse_key_set(text)


def test_a_set_is_bounded() -> None:
    assert parse_key_set(key_text(*[{}] * MAX_KEYS)).keys == ()
    with pytest.raises(ValueError, match="more than 100 keys"):
        parse_key_set(key_text(*[{}] * (MAX_KEYS + 1)))

"""What a token's claims must say, and whom they make."""

import json
from typing import Any

import pytest

from pyrbacproxy.model import UserInfo
from pyrbacproxy.oidc.settings import OidcSettings
from pyrbacproxy.oidc.tokens import Refused, claims_refusal, json_object, user_of_claims
from pyrbacproxy.values import replace
from tests.oidc.parties import NOW, SETTINGS, claims

BY_EMAIL = replace(SETTINGS, username_claim="email")
GOOGLE = replace(SETTINGS, issuer="https://accounts.google.com")
TIMES: dict[str, tuple[dict[str, Any], str]] = {
    "expires now": ({"exp": NOW}, "expired"),
    "expires in a moment": ({"exp": NOW + 0.001}, ""),
    "expired a second ago": ({"exp": NOW - 1}, "expired"),
    "no expiry": ({"exp": None}, "no expiry"),
    "expiry in quotes": ({"exp": "9999999999"}, ""),
    "expiry in quotes, and past": ({"exp": "1e3"}, "expired"),
    "expiry as text": ({"exp": "9999999999 s"}, "no expiry"),
    "expiry in quotes beyond all floats": ({"exp": "1e400"}, "no expiry"),
    "expiry as truth": ({"exp": True}, "no expiry"),
    "expiry without end": ({"exp": float("inf")}, "no expiry"),
    "expiry that is no number": ({"exp": float("nan")}, "no expiry"),
    "expiry beyond all floats": ({"exp": 10**400}, "no expiry"),
    "expiry beyond all times": ({"exp": 2**62}, "no expiry"),
    "expiry long before all times": ({"exp": -(2**62)}, "no expiry"),
    "begins in a minute": ({"nbf": NOW + 60}, ""),
    "begins in more than a minute": ({"nbf": NOW + 60.001}, "not valid yet"),
    "began": ({"nbf": NOW - 1}, ""),
    "beginning in quotes": ({"nbf": "0"}, ""),
    "beginning as text": ({"nbf": "now"}, "not valid yet"),
    "beginning beyond all times": ({"nbf": 1e300}, "not valid yet"),
}
WRONG_KIND = "a standard claim is of the wrong kind"
KINDS: dict[str, tuple[dict[str, Any], str]] = {
    "a subject that is a number": ({"sub": 7}, WRONG_KIND),
    "a nonce that is a list": ({"nonce": ["n"]}, WRONG_KIND),
    "a hash that is a truth": ({"at_hash": True}, WRONG_KIND),
    "issued at no time": ({"iat": "today"}, WRONG_KIND),
    "issued in quotes": ({"iat": "1e9"}, ""),
    "issued in the time to come": ({"iat": NOW + 1000}, ""),
    "texts": ({"nonce": "n", "at_hash": ""}, ""),
}
WRONG_AUDIENCE = "not for this client: wrong audience"
ADDRESSEES: dict[str, tuple[dict[str, Any], str]] = {
    "another issuer": ({"iss": "https://other.test"}, "not from this issuer"),
    "a slash more": ({"iss": SETTINGS.issuer + "/"}, "not from this issuer"),
    "another case": ({"iss": SETTINGS.issuer.upper()}, "not from this issuer"),
    "no issuer": ({"iss": None}, "not from this issuer"),
    "a list of issuers": ({"iss": [SETTINGS.issuer]}, "not from this issuer"),
    "Google to somebody else": ({"iss": "accounts.google.com"}, "not from this issuer"),
    "audience in a list": ({"aud": ["other", "proxy"]}, ""),
    "another audience": ({"aud": "other"}, WRONG_AUDIENCE),
    "other audiences": ({"aud": ["other", "proxy2"]}, WRONG_AUDIENCE),
    "part of an audience": ({"aud": "my proxy"}, WRONG_AUDIENCE),
    "no audience": ({"aud": None}, WRONG_AUDIENCE),
    "empty list": ({"aud": []}, WRONG_AUDIENCE),
    "audience among numbers": ({"aud": ["proxy", 1]}, WRONG_AUDIENCE),
    "audience as key": ({"aud": {"proxy": 1}}, WRONG_AUDIENCE),
}


@pytest.mark.parametrize("case", TIMES)
def test_a_token_has_its_time(case: str) -> None:
    changes, said = TIMES[case]
    assert claims_refusal(claims(**changes), SETTINGS, NOW) == said


@pytest.mark.parametrize("case", KINDS)
def test_standard_claims_are_of_their_kinds(case: str) -> None:
    changes, said = KINDS[case]
    assert claims_refusal(claims(**changes), SETTINGS, NOW) == said


def test_null_is_no_time_of_issue_and_no_text_left_out() -> None:
    assert claims_refusal({**claims(), "iat": None}, SETTINGS, NOW) == WRONG_KIND
    assert claims_refusal({**claims(), "nonce": None}, SETTINGS, NOW) == ""


@pytest.mark.parametrize("case", ADDRESSEES)
def test_a_token_is_from_one_issuer_for_one_client(case: str) -> None:
    changes, said = ADDRESSEES[case]
    assert claims_refusal(claims(**changes), SETTINGS, NOW) == said


@pytest.mark.parametrize("issuer", ["https://accounts.google.com", "accounts.google.com"])
def test_google_leaves_the_scheme_out_at_times(issuer: str) -> None:
    assert claims_refusal(claims(iss=issuer), GOOGLE, NOW) == ""
    assert claims_refusal(claims(iss=SETTINGS.issuer), GOOGLE, NOW) == "not from this issuer"


NO_NAME = "the username claim is no text"
NOT_VERIFIED = "the email address is not verified"
NAMES: dict[str, tuple[OidcSettings, dict[str, Any], str]] = {
    "text": (SETTINGS, {}, "alice"),
    "missing": (SETTINGS, {"sub": None}, NO_NAME),
    "empty": (SETTINGS, {"sub": ""}, NO_NAME),
    "number": (SETTINGS, {"sub": 7}, NO_NAME),
    "list": (SETTINGS, {"sub": ["alice"]}, NO_NAME),
    "half a surrogate pair": (SETTINGS, {"sub": "a\ud800"}, NO_NAME),
    "email without a word on it": (BY_EMAIL, {"email": "a@b.test"}, "a@b.test"),
    "verified email": (BY_EMAIL, {"email": "a@b.test", "email_verified": True}, "a@b.test"),
    "email not verified": (BY_EMAIL, {"email": "a@b.test", "email_verified": False}, NOT_VERIFIED),
    "verified as text": (BY_EMAIL, {"email": "a@b.test", "email_verified": "true"}, NOT_VERIFIED),
    "verified as number": (BY_EMAIL, {"email": "a@b.test", "email_verified": 1}, NOT_VERIFIED),
    "another claim's email": (SETTINGS, {"email_verified": False}, "alice"),
}


@pytest.mark.parametrize("case", NAMES)
def test_the_name_is_one_claim(case: str) -> None:
    settings, changes, expected = NAMES[case]
    found = user_of_claims(claims(**changes), settings)
    assert (found.reason if isinstance(found, Refused) else found.name) == expected


def test_a_null_on_the_email_is_no_yes() -> None:
    found = user_of_claims({**claims(email="a@b.test"), "email_verified": None}, BY_EMAIL)
    assert found == Refused(NOT_VERIFIED)


DISTRIBUTED = "the groups are a distributed claim, and those are not fetched"
NO_LIST = "the groups claim is neither text nor a list of texts"
GROUPS: dict[str, tuple[dict[str, Any], tuple[str, ...] | str]] = {
    "none": ({}, ()),
    "null": ({"groups": None}, ()),
    "text": ({"groups": "dev"}, ("dev",)),
    "list": ({"groups": ["dev", "ops"]}, ("dev", "ops")),
    "empty list": ({"groups": []}, ()),
    "number": ({"groups": 7}, NO_LIST),
    "number in a list": ({"groups": ["dev", 7]}, NO_LIST),
    "list in a list": ({"groups": [["dev"]]}, NO_LIST),
    "mapping": ({"groups": {"dev": True}}, NO_LIST),
    "half a surrogate pair": ({"groups": ["\udfff"]}, NO_LIST),
    "distributed": ({"_claim_names": {"groups": "src1"}}, DISTRIBUTED),
    "another claim distributed": ({"_claim_names": {"roles": "src1"}}, ()),
    "distributed and there": ({"groups": ["dev"], "_claim_names": {"groups": "src1"}}, ("dev",)),
    "distributed somehow": ({"_claim_names": ["groups"]}, DISTRIBUTED),
}


@pytest.mark.parametrize("case", GROUPS)
def test_the_groups_are_one_claim(case: str) -> None:
    changes, expected = GROUPS[case]
    found = user_of_claims(claims(**changes), SETTINGS)
    assert (found.reason if isinstance(found, Refused) else found.groups) == expected


def test_without_a_claim_for_groups_nobody_has_any() -> None:
    found = user_of_claims(claims(groups=7), replace(SETTINGS, groups_claim=""))
    assert found == UserInfo("alice")


def test_prefixes_are_put_in_front_verbatim() -> None:
    settings = replace(SETTINGS, username_prefix="oidc:", groups_prefix="-")
    found = user_of_claims(claims(groups=["system:masters", ""]), settings)
    assert found == UserInfo("oidc:alice", groups=("-system:masters", "-"))


@pytest.mark.parametrize(
    ("jti", "extra"),
    [
        ("7-a", (("authentication.kubernetes.io/credential-id", ("JTI=7-a",)),)),
        ("", ()),
        (7, ()),
        (None, ()),
    ],
)
def test_the_token_has_a_name_of_its_own(jti: object, extra: object) -> None:
    found = user_of_claims(claims(jti=jti), SETTINGS)
    assert isinstance(found, UserInfo)
    assert found.extra == extra


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"7",
        b"{",
        b'{"exp": Infinity}',
        b'{"exp": NaN}',
        b'{"a": "\xff"}',
        json.dumps({"a": 1}).encode("utf-16"),
        b"\xef\xbb\xbf{}",
        b'{"a":' + b"[" * 100_000,
        b'{"a":' + b"9" * 10_000 + b"}",
    ],
)
def test_what_is_no_json_object_in_utf_8_is_none(text: bytes) -> None:
    assert json_object(text) is None


def test_a_json_object_is_read() -> None:
    assert json_object(b'{"a": ["\xc3\xa9", 1.5]}') == {"a": ["\u00e9", 1.5]}

"""Certificate → user: only a verified one, only while it is valid."""

import pytest

from pyrbacproxy.authn import authenticators as client_certificate
from pyrbacproxy.authn.authenticators import (
    Authenticated,
    ClientCertificateAuthenticator,
    Identification,
    Rejected,
)
from pyrbacproxy.model import ClientCertificate, Peer, UserInfo
from tests.fakes import drive, request

CERTIFICATE = ClientCertificate("alice", ("first", "second, with comma"), 100.0, 200.0, "ab12")
ALICE = UserInfo(
    "alice",
    groups=("first", "second, with comma", "system:authenticated"),
    extra=(("authentication.kubernetes.io/credential-id", ("X509SHA256=ab12",)),),
)


def identified(peer: Peer, received_at: float = 150.0) -> Identification:
    asked = request(peer=peer, received_at=received_at)
    identification, reviews = drive(ClientCertificateAuthenticator().authenticate(asked))
    assert reviews == []
    return identification


def test_common_name_organizations_and_fingerprint_make_the_user() -> None:
    known = identified(Peer("192.0.2.1", CERTIFICATE))
    assert isinstance(known, Authenticated)
    assert (known.user, known.source) == (ALICE, "certificate")


@pytest.mark.parametrize(
    ("received_at", "expected"),
    [
        (99.9, Rejected("client certificate: not valid yet")),
        (100.0, None),
        (200.0, None),
        (200.1, Rejected("client certificate: expired")),
    ],
)
def test_validity_is_judged_at_each_request(received_at: float, expected: Rejected | None) -> None:
    identification = identified(Peer("192.0.2.1", CERTIFICATE), received_at)
    if expected is None:
        assert isinstance(identification, Authenticated)
    else:
        assert identification == expected


def test_no_certificate_is_nothing_to_say() -> None:
    assert identified(Peer("192.0.2.1")) is None


def test_fr32_a_certificate_without_common_name_is_no_credential() -> None:
    assert identified(Peer("192.0.2.1", ClientCertificate("", ("dev",), 0.0, 999.0, "x"))) is None


def test_fr29_one_that_is_not_trusted_is_rejected_with_the_reason() -> None:
    refusal = Peer("192.0.2.1", refusal="unknown authority")
    assert identified(refusal) == Rejected("client certificate: unknown authority")


def test_a_remembered_user_is_still_bound_to_its_certificate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_certificate, "_REMEMBERED_USERS", 2)
    authenticator = ClientCertificateAuthenticator()
    for name in ("a", "b", "a", "c", "a", "b"):
        peer = Peer("192.0.2.1", ClientCertificate(name, (), 0.0, 999.0, f"print-{name}"))
        known, _ = drive(authenticator.authenticate(request(peer=peer)))
        assert isinstance(known, Authenticated)
        assert known.user.name == name
        assert len(authenticator._users) <= 2

"""A peer has a certificate only when somebody verified one."""

import pytest

from pyrbacproxy.model import ClientCertificate, Peer


def test_a_peer_is_a_stranger_at_first() -> None:
    peer = Peer("192.0.2.1")
    assert peer.certificate is None
    assert peer.refusal == ""


def test_a_certificate_does_not_change() -> None:
    certificate = ClientCertificate("alice", ("dev",), 1.0, 2.0, "ab")
    with pytest.raises(AttributeError):
        certificate.not_after = 9.0  # type: ignore[misc]  # the very thing under test

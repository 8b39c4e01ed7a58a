"""PEM files of the demo's authority, whole and broken."""

from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from pyrbacproxy.demo.pki import Authority
from pyrbacproxy.node.scrape import certificate_file, fingerprint
from tests.tls.parties import as_pem, issue, with_version


def test_a_pair_in_one_file(tmp_path: Path) -> None:
    pair = Authority(tmp_path).serving("node")
    found = certificate_file(pair.combined_file.read_bytes(), "/x")
    (leaf,) = found.certificates
    assert (found.path, found.has_key, found.problem) == ("/x", True, "")
    assert leaf.subject == "CN=node"
    assert leaf.not_after - leaf.not_before == 7 * 86400
    certificate = x509.load_pem_x509_certificate(pair.certificate_file.read_bytes())
    assert fingerprint(certificate.public_bytes(serialization.Encoding.DER)) == leaf.fingerprint
    assert "PRIVATE" not in repr(found)


def test_a_bundle_without_a_key(tmp_path: Path) -> None:
    bundle = b"".join(
        Authority(tmp_path, name).certificate_file.read_bytes() for name in ("one", "two")
    )
    found = certificate_file(bundle, "/x")
    assert [one.subject for one in found.certificates] == ["CN=one", "CN=two"]
    assert not found.has_key


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "holds no certificate"),
        (
            b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            "holds a certificate that cannot be read",
        ),
        (as_pem(with_version(issue("CN=a").der, 5)), "holds a certificate that cannot be read"),
    ],
)
def test_nothing_usable(content: bytes, problem: str) -> None:
    found = certificate_file(content, "/x")
    assert (found.certificates, found.problem) == ((), problem)

import ssl
import stat
import tempfile
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from pyrbacproxy.demo.pki import Authority
from pyrbacproxy.kube import tls_context
from tests.kube.parties import text_of


@pytest.fixture(name="authority")
def _authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def test_the_given_ca_is_the_only_one(authority: Authority) -> None:
    ca = authority.certificate_file.read_text()
    context = tls_context.client_context(ca=ca, certificate="", key="")
    assert len(context.get_ca_certs()) == 1
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
    assert context.options & ssl.OP_NO_RENEGOTIATION


def test_a_ca_file_may_hold_comments_of_any_kind(authority: Authority) -> None:
    ca = "# Authorit\u00e9\n" + authority.certificate_file.read_text()
    assert tls_context.ca_problem(ca) == ""


def test_without_a_ca_the_system_decides(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate_file))
    context = tls_context.client_context(ca="", certificate="", key="")
    assert len(context.get_ca_certs()) == 1
    assert context.verify_mode is ssl.CERT_REQUIRED


def test_insecure_verifies_nothing() -> None:
    context = tls_context.client_context(ca="", certificate="", key="", is_verified=False)
    assert context.verify_mode is ssl.CERT_NONE
    assert not context.check_hostname


def test_a_pair_is_loaded(authority: Authority) -> None:
    certificate, key = text_of(authority.client("me", "me"))
    assert tls_context.pair_problem(certificate, key) == ""
    assert tls_context.client_context(ca="", certificate=certificate, key=key, is_verified=False)


@pytest.mark.parametrize(
    ("ca", "problem"),
    [
        ("", "holds no certificate"),
        ("no PEM", "holds no certificate"),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "bad certificate"),
    ],
)
def test_a_bad_ca_is_a_problem(ca: str, problem: str) -> None:
    assert problem in tls_context.ca_problem(ca)


def test_a_bad_pair_is_a_problem(authority: Authority) -> None:
    certificate, key = text_of(authority.client("me", "me"))
    _, other_key = text_of(authority.client("you", "you"))
    assert "does not belong" in tls_context.pair_problem(certificate, other_key)
    assert "no readable PEM" in tls_context.pair_problem(certificate, "junk")
    assert "no readable PEM" in tls_context.pair_problem("junk", key)


def test_a_bad_key_is_a_problem(authority: Authority) -> None:
    certificate, key = text_of(authority.client("me", "me"))
    assert tls_context.key_problem(key) == ""
    for text in ("junk", certificate, "-----BEGIN PRIVATE KEY-----\nAAAA\n"):
        assert tls_context.key_problem(text) == "holds no private key that can be read"


def test_an_encrypted_key_asks_nobody(authority: Authority) -> None:
    certificate, _ = text_of(authority.client("me", "me"))
    encrypted = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"password"),
    )
    assert "no readable PEM" in tls_context.pair_problem(certificate, encrypted.decode())
    assert "no private key" in tls_context.key_problem(encrypted.decode())


def test_a_secret_folder_is_ours_alone_and_short_lived() -> None:
    with tls_context.secret_folder() as folder:
        assert stat.S_IMODE(Path(folder).stat().st_mode) == 0o700
    assert not Path(folder).exists()


def test_without_any_writable_folder_that_is_the_problem(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As in a container with a read-only root and nothing else: it was a traceback."""
    monkeypatch.setattr(tls_context, "_MEMORY_FOLDER", str(tmp_path / "none"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    certificate, key = text_of(authority.client("me", "me"))
    said = f"no folder for temporary files can be written: {tmp_path / 'none'}, $TMPDIR or /tmp"
    assert said in tls_context.pair_problem(certificate, key)
    with pytest.raises(tls_context.NoWritableFolderError):
        tls_context.secret_folder()

import contextlib
import ssl
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from pyrbacproxy.kube import tls_context
from pyrbacproxy.tls.client_context import client_context
from pyrbacproxy.tls.upstream_context import upstream_context
from tests.tls.parties import SERVER, Issued, as_pem, authority, issue

# The stdlib reads the real clock: these are valid for years around it.
YEARS = (-100_000, 100_000)
LOCALHOST = x509.SubjectAlternativeName([x509.DNSName("localhost")])
CA = authority("CN=ca", hours=YEARS)
OTHER_CA = authority("CN=other-ca", hours=YEARS)


def leaf(issuer: Issued, *, names: x509.ExtensionType | None = LOCALHOST) -> Issued:
    extensions = () if names is None else ((names, False),)
    return issue("CN=localhost", issuer=issuer, purposes=SERVER, hours=YEARS, extensions=extensions)


def serving(*chain: bytes, key: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as pair:
        pair.write(b"".join(chain) + key)
        pair.flush()
        context.load_cert_chain(pair.name)
    return context


def handshake(context: ssl.SSLContext, server_side: ssl.SSLContext) -> str | None:
    """The version agreed on; raises ssl.SSLError."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(down, up, server_hostname="localhost")
    server = server_side.wrap_bio(up, down, server_side=True)
    for end in (client, server) * 3:
        with contextlib.suppress(ssl.SSLWantReadError):
            end.do_handshake()
    return client.version()


# --- critical FALSE, written out --------------------------------------------------------


def value(tag: int, body: bytes) -> bytes:
    """One value in DER (X.690 §8.1)."""
    size = len(body)
    if size < 0x80:
        return bytes((tag, size)) + body
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + body


def body_of(item: bytes) -> bytes:
    return item[2 + (item[1] & 0x7F if item[1] & 0x80 else 0) :]


def items_of(body: bytes) -> list[bytes]:
    found = []
    while body:
        start, size = 2, body[1]
        if size & 0x80:
            start += size & 0x7F
            size = int.from_bytes(body[2:start], "big")
        found.append(body[: start + size])
        body = body[start + size :]
    return found


def written_out(issued: Issued, issuer: Issued) -> bytes:
    """The certificate (PEM), signed anew, every `critical FALSE` written where DER leaves it out.

    FreeIPA and others issue such (pyca/cryptography #13067).
    """
    *parts, tail = items_of(body_of(issued.certificate.tbs_certificate_bytes))
    extensions = b""
    for extension in items_of(body_of(body_of(tail))):
        fields = items_of(body_of(extension))
        if len(fields) == 2:
            fields.insert(1, b"\x01\x01\x00")
        extensions += value(0x30, b"".join(fields))
    tbs = value(0x30, b"".join(parts) + value(0xA3, value(0x30, extensions)))
    assert isinstance(issuer.key, ec.EllipticCurvePrivateKey)
    signature = issuer.key.sign(tbs, ec.ECDSA(hashes.SHA256()))
    algorithm = value(0x30, b"\x06\x08\x2a\x86\x48\xce\x3d\x04\x03\x02")
    return as_pem(value(0x30, tbs + algorithm + value(3, b"\0" + signature)))


AUTHORITY = issue(
    "CN=written-out",
    is_authority=True,
    hours=YEARS,
    extensions=((x509.SubjectKeyIdentifier(b"12345678"), False),),
)
AUTHORITY_WRITTEN_OUT = written_out(AUTHORITY, AUTHORITY)


def by_upstream_context(ca: bytes) -> ssl.SSLContext:
    """Of the upstream and of the issuer."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(ca)
        file.flush()
        return upstream_context(file.name, "", "")


def by_kube_context(ca: bytes) -> ssl.SSLContext:
    return tls_context.client_context(ca=ca.decode("latin-1"), certificate="", key="")


EVERY_SIDE = pytest.mark.parametrize(
    "trusting",
    [
        pytest.param(by_upstream_context, id="upstream and issuer"),
        pytest.param(by_kube_context, id="API server"),
        pytest.param(client_context, id="egress proxy"),
    ],
)
Trusting = Callable[[bytes], ssl.SSLContext]


@EVERY_SIDE
def test_fr72_an_authority_whose_critical_false_is_written_out_vouches(trusting: Trusting) -> None:
    assert b"\x01\x01\x00" in ssl.PEM_cert_to_DER_cert(AUTHORITY_WRITTEN_OUT.decode())
    shown = leaf(AUTHORITY)
    chain = written_out(shown, AUTHORITY)
    context = trusting(AUTHORITY_WRITTEN_OUT)
    assert handshake(context, serving(chain, key=shown.key_pem())) == "TLSv1.3"


@EVERY_SIDE
def test_fr81_a_name_in_the_common_name_alone_is_none(trusting: Trusting) -> None:
    shown = leaf(CA, names=None)
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(trusting(CA.pem), serving(shown.pem, key=shown.key_pem()))


@EVERY_SIDE
def test_every_certificate_of_the_file_is_an_anchor(trusting: Trusting) -> None:
    below = authority("CN=below", issuer=OTHER_CA, hours=YEARS)
    context = trusting(b"Authorit\xe9s:\n" + CA.pem + CA.key_pem() + below.pem)
    for issuer in (CA, below):
        shown = leaf(issuer)
        assert handshake(context, serving(shown.pem, key=shown.key_pem())) == "TLSv1.3"
    shown = leaf(OTHER_CA)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(context, serving(shown.pem, key=shown.key_pem()))


@EVERY_SIDE
def test_the_rules_that_every_side_shares(trusting: Trusting) -> None:
    context = trusting(CA.pem)
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert not context.hostname_checks_common_name
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.options & ssl.OP_NO_RENEGOTIATION
    # RFC 5280's demands on authorities, among them key identifiers: CA has none.
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(b"", "holds no certificate", id="empty"),
        pytest.param(CA.key_pem(), "holds no certificate", id="a key"),
        pytest.param(CA.pem + as_pem(b"ABC"), "bad certificate, number 2", id="junk"),
        pytest.param(as_pem(CA.der + b"\0"), "number 1: .*more or less than one", id="more"),
        pytest.param(as_pem(CA.der + OTHER_CA.der), "more or less than one", id="two in one"),
        pytest.param(as_pem(CA.der[:-1]), "more or less than one", id="cut"),
        pytest.param(as_pem(b"\x30\x02\x05\x00"), "bad certificate, number 1", id="another value"),
        pytest.param(as_pem(b"0"), "bad certificate, number 1", id="a tag alone"),
        pytest.param(as_pem(b""), "bad certificate, number 1", id="nothing in the block"),
        pytest.param(CA.pem[:-60], "bad certificate: certificate 1 has no END", id="truncated"),
    ],
)
def test_authorities_that_cannot_all_be_used_are_refused(text: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        client_context(text)


def test_without_authorities_the_system_s_roots_count(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "roots").write_bytes(CA.pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "roots"))
    shown = leaf(CA)
    assert handshake(client_context(), serving(shown.pem, key=shown.key_pem())) == "TLSv1.3"


def test_unverified_means_any_server() -> None:
    shown = leaf(OTHER_CA, names=None)
    context = client_context(is_verified=False)
    assert handshake(context, serving(shown.pem, key=shown.key_pem())) == "TLSv1.3"


def test_fr74_joined_authorities_are_both_used_and_headers_are_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    headers = b"-----BEGIN CERTIFICATE-----\nProc-Type: 4\n\nAAAA\n-----END CERTIFICATE-----\n"
    context = client_context(CA.pem.rstrip() + OTHER_CA.pem + headers, source="/ca.crt")
    assert len(context.get_ca_certs()) == 2
    assert "/ca.crt: certificate 3 is not used, for it has PEM headers" in caplog.text

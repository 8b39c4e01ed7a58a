import contextlib
import ssl
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509
from OpenSSL import SSL

from pyrbacproxy.tls.engine import ServerEngine, TlsError
from pyrbacproxy.tls.files import TlsFileError
from pyrbacproxy.tls.server_context import TlsSettings, server_context
from pyrbacproxy.tls.upstream_context import UpstreamContext, upstream_context
from tests.tls.parties import CLIENT, Issued, authority, issue

# The stdlib reads the real clock: these are valid for years around it.
YEARS = (-100_000, 100_000)
ROOT = authority("CN=root", hours=YEARS)
CA = authority("CN=upstream-ca", issuer=ROOT, hours=YEARS)
OTHER_CA = authority("CN=other-ca", hours=YEARS)
PROXY = issue("CN=proxy", issuer=CA, purposes=CLIENT, hours=YEARS)


def upstream(issuer: Issued, name: str) -> ServerEngine:
    names = x509.SubjectAlternativeName([x509.DNSName(name)])
    server = issue("CN=localhost", issuer=issuer, hours=YEARS, extensions=((names, False),))
    return ServerEngine(server_context(server.pair, TlsSettings()))


def handshake(context: ssl.SSLContext, engine: ServerEngine) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    while not engine.is_ready:
        with contextlib.suppress(ssl.SSLWantReadError):
            client.do_handshake()
        engine.receive(outgoing.read())
        incoming.write(b"".join(engine.outgoing()))


def files(folder: Path, **content: bytes) -> tuple[str, str, str]:
    """The paths of ca, certificate and key, "" for what is not given."""
    for name, text in content.items():
        (folder / name).write_bytes(text)
    return tuple(  # type: ignore[return-value] # three of them
        str(folder / name) if name in content else "" for name in ("ca", "certificate", "key")
    )


def test_the_upstream_is_known_by_its_authority(tmp_path: Path) -> None:
    # An anchor that is not self-signed, after other blocks.
    text = b"# comment\n" + PROXY.key_pem() + OTHER_CA.pem + CA.pem
    context = upstream_context(*files(tmp_path, ca=text))
    engine = upstream(CA, "localhost")
    handshake(context, engine)
    assert engine.peer_chain() == ()


@pytest.mark.parametrize(
    ("issuer", "name"),
    [
        pytest.param(OTHER_CA, "localhost", id="another authority"),
        pytest.param(CA, "elsewhere.test", id="the name is in the CN only"),
    ],
)
def test_another_upstream_is_refused(tmp_path: Path, issuer: Issued, name: str) -> None:
    context = upstream_context(*files(tmp_path, ca=CA.pem))
    with pytest.raises((ssl.SSLCertVerificationError, TlsError)):
        handshake(context, upstream(issuer, name))


def test_without_a_file_the_systems_roots_count() -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(upstream_context("", "", ""), upstream(CA, "localhost"))


def test_an_upstream_that_wants_to_shake_hands_anew_is_told_no(tmp_path: Path) -> None:
    names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    shown = issue("CN=localhost", issuer=CA, hours=YEARS, extensions=((names, False),))
    server_side = SSL.Context(SSL.TLS_SERVER_METHOD)
    server_side.set_max_proto_version(SSL.TLS1_2_VERSION)
    server_side.use_certificate(shown.certificate)
    server_side.use_privatekey(shown.pair.key)
    server = SSL.Connection(server_side)
    server.set_accept_state()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = upstream_context(*files(tmp_path, ca=CA.pem))
    client = context.wrap_bio(incoming, outgoing, server_hostname="localhost")

    def exchange(clients_part: Callable[[], object]) -> None:
        with contextlib.suppress(ssl.SSLWantReadError):
            clients_part()
        if outgoing.pending:
            server.bio_write(outgoing.read())
        with contextlib.suppress(SSL.WantReadError):
            server.do_handshake()
        with contextlib.suppress(SSL.WantReadError):
            incoming.write(server.bio_read(65_536))

    for _ in range(3):
        exchange(client.do_handshake)
    assert client.version() == "TLSv1.2"
    assert server.renegotiate()
    exchange(lambda: None)
    exchange(lambda: client.read(1))
    with pytest.raises(SSL.Error, match="no renegotiation"):
        server.recv(1)


def test_the_client_pair_is_shown(tmp_path: Path) -> None:
    context = upstream_context(
        *files(tmp_path, ca=CA.pem, certificate=PROXY.pem, key=PROXY.key_pem())
    )
    engine = upstream(CA, "localhost")
    handshake(context, engine)
    assert engine.peer_chain()[0] == PROXY.der


def test_the_client_pair_needs_no_authority(tmp_path: Path) -> None:
    # D4: it counts with the system's roots too.
    upstream_context(*files(tmp_path, certificate=PROXY.pem, key=PROXY.key_pem()))


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        pytest.param({"ca": b""}, "ca: holds no certificate", id="empty authority"),
        pytest.param(
            {"ca": b"-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----\n"},
            "ca: holds a bad certificate, number 1",
            id="bad authority",
        ),
        pytest.param(
            {"certificate": PROXY.pem, "key": CA.key_pem()}, "does not match", id="mismatch"
        ),
        pytest.param(
            {"certificate": PROXY.pem, "key": b""}, "key: holds no private key", id="no key"
        ),
    ],
)
def test_bad_files_are_named(tmp_path: Path, content: dict[str, bytes], complaint: str) -> None:
    with pytest.raises(TlsFileError, match=complaint):
        upstream_context(*files(tmp_path, **content))


def test_what_the_stdlib_will_not_load_is_named(tmp_path: Path) -> None:
    # It wants the leaf first and trips over the parameters of another key's block.
    garbage = b"-----BEGIN X509 CRL-----\n!\n"
    paths = files(tmp_path, certificate=garbage + PROXY.pem, key=PROXY.key_pem())
    with pytest.raises(TlsFileError, match="certificate: cannot be used"):
        upstream_context(*paths)


def test_changed_files_make_a_new_context(tmp_path: Path) -> None:
    paths = files(tmp_path, ca=OTHER_CA.pem)
    context = UpstreamContext(*paths)
    first = context.current
    context.files.check()
    assert context.current is first
    Path(paths[0]).write_bytes(b"half written\n")
    context.files.check()
    assert context.current is first
    Path(paths[0]).write_bytes(CA.pem)
    context.files.check()
    assert context.current is not first
    handshake(context.current, upstream(CA, "localhost"))


def chosen(context: ssl.SSLContext) -> str | None:
    """What a server that knows both protocols makes of the offer."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.set_alpn_protocols(["h2", "http/1.1"])
    with tempfile.NamedTemporaryFile() as pair:
        leaf = issue("CN=h", issuer=CA, hours=YEARS)
        pair.write(leaf.pem + leaf.key_pem())
        pair.flush()
        server.load_cert_chain(pair.name)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (context.wrap_bio(down, up), server.wrap_bio(up, down, server_side=True))
    for end in ends * 2:
        with contextlib.suppress(ssl.SSLWantReadError):
            end.do_handshake()
    return ends[1].selected_alpn_protocol()


def test_http_2_is_offered_where_it_may_be(tmp_path: Path) -> None:
    paths = files(tmp_path, ca=CA.pem)
    assert chosen(UpstreamContext(*paths).current) is None
    context = UpstreamContext(*paths, offers_http2=True)
    without = context.http1()
    assert context.http1() is without
    assert chosen(context.current) == "h2"
    assert chosen(without) is None
    Path(paths[0]).write_bytes(OTHER_CA.pem)
    context.files.check()
    assert context.http1() is not without
    assert chosen(context.current) == "h2"


def test_files_that_became_bad_are_no_tls_error(tmp_path: Path) -> None:
    paths = files(tmp_path, ca=CA.pem)
    context = UpstreamContext(*paths, offers_http2=True)
    Path(paths[0]).write_bytes(b"half written\n")
    with pytest.raises(OSError, match="holds no certificate"):
        context.http1()


def test_bad_files_end_the_start(tmp_path: Path) -> None:
    with pytest.raises(TlsFileError):
        UpstreamContext(*files(tmp_path, ca=b""))

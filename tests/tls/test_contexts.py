import datetime as dt
import ipaddress
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from OpenSSL import SSL

from pyrbacproxy.tls.engine import ServerEngine, TlsError
from pyrbacproxy.tls.files import TlsFileError
from pyrbacproxy.tls.names import GROUPS, cipher_list
from pyrbacproxy.tls.server_context import (
    ServingPair,
    TlsSettings,
    offered_groups,
    parse_pool,
    problems,
    read_pair,
    self_signed_pair,
    server_context,
)
from tests.tls.parties import (
    SERVER,
    Client,
    Issued,
    as_pem,
    authority,
    issue,
    rsa_key,
    with_version,
)

CA = authority("CN=ca")
EC = issue("CN=ec", issuer=CA, purposes=SERVER)
RSA = issue("CN=rsa", issuer=CA, key=rsa_key(), purposes=SERVER)
ED25519 = issue("CN=ed25519", issuer=CA, key=ed25519.Ed25519PrivateKey.generate())
SEC1 = EC.key_pem(PrivateFormat.TraditionalOpenSSL)
PKCS1 = RSA.key_pem(PrivateFormat.TraditionalOpenSSL)
EC_PARAMETERS = b"-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"
GARBAGE = b"-----BEGIN %s-----\nQUJD\n-----END %s-----\n"


def encrypted(issued: Issued) -> bytes:
    return issued.key.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
    )


def write(folder: Path, **files: bytes) -> TlsSettings:
    """The settings for the files given: certificate, key, both, ca."""
    for name, content in files.items():
        (folder / name).write_bytes(content)
    certificate = "certificate" if "certificate" in files else "both"
    key = "key" if "key" in files else "both"
    return TlsSettings(
        certificate_file=str(folder / certificate),
        key_file=str(folder / key),
        client_ca_file=str(folder / "ca") if "ca" in files else "",
    )


def handshake(pair: ServingPair, settings: TlsSettings, client: Client) -> ServerEngine:
    engine = ServerEngine(server_context(pair, settings))
    client.handshake(engine)
    return engine


# FR28
@pytest.mark.parametrize(
    ("text", "issued", "links"),
    [
        pytest.param(EC.pem + EC.key_pem(), EC, 1, id="certificate, key"),
        pytest.param(EC.key_pem() + EC.pem, EC, 1, id="key, certificate"),
        pytest.param(EC.pem + EC.key_pem() + CA.pem, EC, 2, id="key inside the chain"),
        pytest.param(EC_PARAMETERS + SEC1 + EC.pem + CA.pem, EC, 2, id="SEC 1 with parameters"),
        pytest.param(EC.pem + EC_PARAMETERS + SEC1, EC, 1, id="certificate, parameters, key"),
        pytest.param(RSA.pem + PKCS1, RSA, 1, id="PKCS#1"),
        pytest.param(RSA.pem + RSA.key_pem(), RSA, 1, id="PKCS#8"),
        pytest.param(ED25519.pem + ED25519.key_pem(), ED25519, 1, id="Ed25519"),
        pytest.param(b"# text\n" + EC.pem + b"more\n" + EC.key_pem(), EC, 1, id="text between"),
        pytest.param(EC.pem + EC.key_pem() + RSA.key_pem(), EC, 1, id="the first key counts"),
    ],
)
def test_one_file_holds_both_in_any_order(
    tmp_path: Path, text: bytes, issued: Issued, links: int
) -> None:
    settings = write(tmp_path, both=text)
    assert problems(settings) == []
    pair = read_pair(settings.certificate_file, settings.key_file)
    assert pair.chain[0] == issued.der
    assert len(pair.chain) == links
    client = Client()
    handshake(pair, settings, client)
    served = client.connection.get_peer_certificate()
    assert served is not None
    assert served.to_cryptography() == issued.certificate


def test_two_files_hold_one_each(tmp_path: Path) -> None:
    settings = write(tmp_path, certificate=RSA.pem + CA.pem, key=PKCS1)
    pair = read_pair(settings.certificate_file, settings.key_file)
    assert pair.chain == (RSA.der, CA.der)


def test_a_pair_does_not_show_its_key() -> None:
    assert "key" not in repr(EC.pair)


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        (
            {"certificate": b"", "key": SEC1},
            "--tls-cert-file: {}/certificate: holds no certificate",
        ),
        (
            {"certificate": b"half written\n", "key": SEC1},
            "--tls-cert-file: {}/certificate: holds no certificate",
        ),
        (
            {"certificate": GARBAGE.replace(b"%s", b"CERTIFICATE"), "key": SEC1},
            "--tls-cert-file: {}/certificate: bad certificate",
        ),
        (
            {"certificate": EC.pem, "key": b""},
            "--tls-private-key-file: {}/key: holds no private key",
        ),
        (
            {"certificate": EC.pem, "key": SEC1[:-20]},
            "--tls-private-key-file: {}/key: holds no private key",
        ),
        (
            {"certificate": EC.pem, "key": GARBAGE.replace(b"%s", b"PRIVATE KEY")},
            "--tls-private-key-file: {}/key: bad private key",
        ),
        (
            {"certificate": EC.pem, "key": encrypted(EC)},
            "--tls-private-key-file: {}/key: the private key is encrypted",
        ),
        (
            {"certificate": EC.pem, "key": RSA.key_pem()},
            "--tls-private-key-file: {0}/key: the private key does not match {0}/certificate",
        ),
        ({"both": EC.pem + PKCS1}, "--tls-cert-file: {0}/both: the private key does not match"),
        ({"certificate": EC.pem}, "--tls-private-key-file: {}/both: cannot be read: No such file"),
        ({"key": SEC1}, "--tls-cert-file: {}/both: cannot be read: No such file"),
        (
            {"both": EC.pem + SEC1, "ca": b""},
            "--client-ca-file: {}/ca: holds no certificate",
        ),
        (
            {"both": EC.pem + SEC1, "ca": GARBAGE.replace(b"%s", b"CERTIFICATE")},
            "--client-ca-file: {}/ca: bad certificate",
        ),
        (
            {"both": as_pem(with_version(EC.der, 5)) + SEC1},
            "--tls-cert-file: {}/both: bad certificate: number 1: 6 is not a valid X509 version",
        ),
    ],
)
def test_a_bad_file_is_a_problem_that_names_flag_and_file(
    tmp_path: Path, files: dict[str, bytes], complaint: str
) -> None:
    (found,) = problems(write(tmp_path, **files))
    assert found.startswith(complaint.format(tmp_path))
    assert "QUJD" not in found


def test_every_problem_is_reported(tmp_path: Path) -> None:
    settings = write(tmp_path, certificate=b"", key=b"", ca=b"")
    assert [problem.split(":")[0] for problem in problems(settings)] == [
        "--tls-cert-file",
        "--tls-private-key-file",
        "--client-ca-file",
    ]


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        (TlsSettings(), []),
        (
            TlsSettings(certificate_file="/a"),
            ["--tls-cert-file=/a needs --tls-private-key-file"],
        ),
        (TlsSettings(key_file="/a"), ["--tls-private-key-file=/a needs --tls-cert-file"]),
    ],
)
def test_both_or_none(settings: TlsSettings, complaint: list[str]) -> None:
    assert problems(settings) == complaint


def test_a_key_of_another_kind_is_refused(tmp_path: Path) -> None:
    settings = write(
        tmp_path,
        both=EC.pem + issue("CN=dsa", issuer=CA, key=dsa.generate_private_key(1024)).key_pem(),
    )
    with pytest.raises(TlsFileError, match="neither RSA, ECDSA nor Ed25519"):
        read_pair(settings.certificate_file, settings.key_file)


def test_what_openssl_finds_too_weak_is_a_problem(tmp_path: Path) -> None:
    weak = issue("CN=weak", issuer=CA, key=rsa_key(1024))
    (found,) = problems(write(tmp_path, both=weak.pem + weak.key_pem()))
    assert found.startswith(f"--tls-cert-file: {tmp_path}/both: OpenSSL: ")


@pytest.mark.parametrize(
    ("hostname", "name"),
    [
        ("node-1.example.org", x509.DNSName("node-1.example.org")),
        ("192.0.2.7", x509.IPAddress(ipaddress.ip_address("192.0.2.7"))),
        ("n" * 63 + ".example.org", x509.DNSName("n" * 63 + ".example.org")),
    ],
)
def test_the_self_signed_pair_is_as_the_originals(hostname: str, name: x509.GeneralName) -> None:
    before = dt.datetime.now(dt.UTC)
    pair = self_signed_pair(hostname)
    leaf, ca = map(x509.load_der_x509_certificate, pair.chain)
    assert isinstance(pair.key, rsa.RSAPrivateKey)
    assert pair.key.key_size == 2048
    leaf.verify_directly_issued_by(ca)
    assert list(leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value) == [
        name
    ]
    purposes = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(purposes) == [ExtendedKeyUsageOID.SERVER_AUTH]
    (common_name,) = leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    host, _, second = str(common_name.value).rpartition("@")
    assert hostname.endswith(host)
    started = leaf.not_valid_before_utc + dt.timedelta(hours=1)
    assert int(second) == started.timestamp()
    assert abs(started - before) < dt.timedelta(minutes=5)
    assert leaf.not_valid_after_utc - leaf.not_valid_before_utc == dt.timedelta(days=365)
    handshake(pair, TlsSettings(), Client())


@pytest.mark.parametrize(
    ("minimum", "offered", "version"),
    [
        (0x0303, SSL.TLS1_3_VERSION, "TLSv1.3"),
        (0x0303, SSL.TLS1_2_VERSION, "TLSv1.2"),
        (0x0302, SSL.TLS1_1_VERSION, "TLSv1.1"),
        (0x0301, SSL.TLS1_VERSION, "TLSv1"),
        (0x0301, SSL.TLS1_3_VERSION, "TLSv1.3"),
    ],
)
@pytest.mark.parametrize("issued", [EC, RSA], ids=["ECDSA", "RSA"])
def test_versions_from_the_minimum_up_are_served(
    issued: Issued, minimum: int, offered: int, version: str
) -> None:
    settings = TlsSettings(minimum=minimum)
    assert handshake(issued.pair, settings, Client(version=offered)).version == version


@pytest.mark.parametrize(
    ("minimum", "offered"),
    [
        (0x0304, SSL.TLS1_2_VERSION),
        (0x0303, SSL.TLS1_1_VERSION),
        (0x0302, SSL.TLS1_VERSION),
    ],
)
def test_versions_below_the_minimum_are_refused(minimum: int, offered: int) -> None:
    with pytest.raises(TlsError):
        handshake(EC.pair, TlsSettings(minimum=minimum), Client(version=offered))


# FR33
@pytest.mark.parametrize(
    ("issued", "suites", "offered", "chosen"),
    [
        pytest.param(EC, (), "ECDHE-ECDSA-AES128-SHA", "ECDHE-ECDSA-AES128-SHA", id="default CBC"),
        pytest.param(EC, (), "ALL", "ECDHE-ECDSA-AES128-GCM-SHA256", id="our order"),
        pytest.param(
            RSA,
            ("TLS_RSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA"),
            "AES128-GCM-SHA256",
            "AES128-GCM-SHA256",
            id="RSA key exchange, listed",
        ),
        pytest.param(RSA, (), "AES128-GCM-SHA256", "", id="RSA key exchange, not listed"),
        pytest.param(RSA, (), "ECDHE-RSA-AES128-SHA256", "", id="no CBC-SHA256 by default"),
        pytest.param(
            EC,
            ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",),
            "ECDHE-ECDSA-AES128-GCM-SHA256",
            "",
            id="outside the list",
        ),
        pytest.param(EC, ("TLS_AES_128_GCM_SHA256",), "ALL", "", id="TLS 1.3 only (D33)"),
    ],
)
def test_suites_below_tls_13_are_those_listed(
    issued: Issued, suites: tuple[str, ...], offered: str, chosen: str
) -> None:
    settings = TlsSettings(cipher_list=cipher_list(suites).openssl)
    client = Client(version=SSL.TLS1_2_VERSION, ciphers=offered)
    try:
        handshake(issued.pair, settings, client)
    except TlsError:
        assert chosen == ""
    else:
        assert client.connection.get_cipher_name() == chosen


@pytest.mark.parametrize("suites", [(), ("TLS_RSA_WITH_RC4_128_SHA",), ("TLS_AES_256_GCM_SHA384",)])
def test_tls_13_is_always_on(suites: tuple[str, ...]) -> None:
    settings = TlsSettings(cipher_list=cipher_list(suites).openssl)
    client = Client()
    handshake(EC.pair, settings, client)
    assert client.connection.get_cipher_name() == "TLS_AES_128_GCM_SHA256"


# FR29: what becomes of the certificate is not the handshake's to say.
@pytest.mark.parametrize("version", [SSL.TLS1_3_VERSION, SSL.TLS1_2_VERSION], ids=["1.3", "1.2"])
@pytest.mark.parametrize(
    "identity",
    [
        pytest.param(issue("CN=stranger", issuer=authority("CN=elsewhere")), id="unknown CA"),
        pytest.param(issue("CN=late", issuer=CA, hours=(-9000, -8000)), id="expired"),
        pytest.param(issue("CN=server", issuer=CA, purposes=SERVER), id="for servers"),
        pytest.param(issue("CN=self"), id="self-signed"),
        pytest.param(issue("CN=weak", key=rsa_key(1024)), id="weak key"),
        pytest.param(issue("CN=large", key=ec.generate_private_key(ec.SECP521R1())), id="P-521"),
        pytest.param(ED25519, id="Ed25519"),
    ],
)
def test_any_client_certificate_completes_the_handshake(identity: Issued, version: int) -> None:
    client = Client(identity=identity, version=version)
    engine = handshake(EC.pair, TlsSettings(), client)
    assert engine.peer_chain() == (identity.der,)
    # Asked for, with no hint at an authority.
    assert client.connection.get_client_ca_list() == []


def test_a_pool_is_parsed_under_its_files_name() -> None:
    assert len(parse_pool(CA.pem, "/ca").anchors) == 1
    with pytest.raises(TlsFileError, match=r"^/ca: holds no certificate$"):
        parse_pool(b"", "/ca")


# --- groups (reference 5.3) ---------------------------------------------------------------


@pytest.mark.parametrize("version", [SSL.TLS1_2_VERSION, SSL.TLS1_3_VERSION])
@pytest.mark.parametrize(
    ("asked", "chosen"),
    [
        ("X25519", "x25519"),
        ("P-256", "secp256r1"),
        ("P-384", "secp384r1"),
        ("P-521", "secp521r1"),
        ("X448", ""),
        ("ffdhe2048", ""),
    ],
)
def test_the_groups_are_the_originals(asked: str, chosen: str, version: int) -> None:
    client = Client(groups=asked, version=version)
    try:
        handshake(RSA.pair, TlsSettings(), client)  # ECDSA's own curve counts before 1.3
    except TlsError:
        assert chosen == ""
    else:
        assert client.connection.get_group_name() == chosen


@pytest.mark.parametrize(
    ("asked", "chosen"),
    [
        ("X25519MLKEM768", "X25519MLKEM768"),
        ("P-256:X25519MLKEM768", "secp256r1"),  # without a second hello
        ("X25519MLKEM768:P-256", "X25519MLKEM768"),
        ("X448:X25519", "x25519"),
    ],
)
def test_post_quantum_comes_first_where_the_client_has_it_ready(asked: str, chosen: str) -> None:
    client = Client(groups=asked)
    handshake(EC.pair, TlsSettings(), client)
    assert client.connection.get_group_name() == chosen


class OldLibrary:
    """OpenSSL that lacks some groups, as cryptography's bindings show it."""

    def __init__(self, known: str) -> None:
        self.known = known.split()

    def SSL_CTX_set1_curves_list(self, _context: object, groups: bytes) -> int:  # noqa: N802
        return int({*groups.decode().split(":")} <= {*self.known})

    def ERR_clear_error(self) -> None:  # noqa: N802
        """Nothing is left behind."""


@pytest.mark.parametrize(
    ("known", "offered", "said"),
    [
        (" ".join(GROUPS), GROUPS, ""),
        ("X25519 P-256 P-384 P-521", GROUPS[1:], "OpenSSL lacks X25519MLKEM768"),
        ("P-256 P-384 P-521", GROUPS[2:], "OpenSSL lacks"),
        ("P-256", (), "OpenSSL's own"),
    ],
)
def test_what_openssl_lacks_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    known: str,
    offered: tuple[str, ...],
    said: str,
) -> None:
    monkeypatch.setattr("pyrbacproxy.tls.server_context._util.lib", OldLibrary(known))
    with caplog.at_level(1):
        assert offered_groups.__wrapped__() == offered
    assert said in caplog.text
    assert bool(said) is bool(caplog.text)


def test_bindings_without_groups_leave_openssls_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyrbacproxy.tls.server_context._util.lib", object())
    assert offered_groups.__wrapped__() == ()

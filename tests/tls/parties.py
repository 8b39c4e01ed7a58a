"""The two parties of the TLS tests: an authority that issues certificates, a client in memory."""

import base64
import datetime as dt
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from OpenSSL import SSL, _util

from pyrbacproxy.tls.certificate import from_der
from pyrbacproxy.tls.engine import ServerEngine
from pyrbacproxy.tls.server_context import PrivateKey, ServingPair

NOON = dt.datetime(2030, 6, 1, 12, tzinfo=dt.UTC)
CLIENT = (ExtendedKeyUsageOID.CLIENT_AUTH,)
SERVER = (ExtendedKeyUsageOID.SERVER_AUTH,)
ANY = (ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,)
AnyKey = PrivateKey | dsa.DSAPrivateKey


@dataclass(frozen=True)
class Issued:
    certificate: x509.Certificate
    key: AnyKey

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(Encoding.DER)

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    def key_pem(self, form: PrivateFormat = PrivateFormat.PKCS8) -> bytes:
        return self.key.private_bytes(Encoding.PEM, form, NoEncryption())

    @property
    def pair(self) -> ServingPair:
        assert isinstance(self.key, PrivateKey)
        return ServingPair((self.der,), from_der(self.der), self.key)


def with_version(certificate: bytes, number: int) -> bytes:
    """The certificate (DER) with another version, 0 for v1; OpenSSL alone takes any."""
    tag = b"\xa0\x03\x02\x01"
    assert tag in certificate
    start = certificate.index(tag) + len(tag)
    return certificate[:start] + bytes((number,)) + certificate[start + 1 :]


def as_pem(certificate: bytes) -> bytes:
    """DER → PEM, whatever the certificate is worth."""
    body = base64.encodebytes(certificate)
    return b"-----BEGIN CERTIFICATE-----\n" + body + b"-----END CERTIFICATE-----\n"


def issue(
    *subject: str,
    issuer: Issued | None = None,
    key: AnyKey | None = None,
    is_authority: bool | None = None,
    path_length: int | None = None,
    purposes: tuple[x509.ObjectIdentifier, ...] = (),
    hours: tuple[int, int] = (-1, 1),
    extensions: tuple[tuple[x509.ExtensionType, bool], ...] = (),
) -> Issued:
    """A certificate with a subject like ("O=dev", "CN=alice"), valid for `hours` around NOON.

    `is_authority` None leaves the basic constraints out.
    """
    key = key or ec.generate_private_key(ec.SECP256R1())
    name = _name(subject)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer.certificate.subject if issuer else name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOON + dt.timedelta(hours=hours[0]))
        .not_valid_after(NOON + dt.timedelta(hours=hours[1]))
    )
    if is_authority is not None:
        constraints = x509.BasicConstraints(ca=is_authority, path_length=path_length)
        builder = builder.add_extension(constraints, critical=True)
    if purposes:
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
    for extension, is_critical in extensions:
        builder = builder.add_extension(extension, critical=is_critical)
    signer = issuer.key if issuer else key
    return Issued(
        builder.sign(
            signer, None if isinstance(signer, ed25519.Ed25519PrivateKey) else hashes.SHA256()
        ),
        key,
    )


def authority(
    *subject: str, issuer: Issued | None = None, hours: tuple[int, int] = (-2, 2)
) -> Issued:
    return issue(*subject, issuer=issuer, is_authority=True, hours=hours)


def rsa_key(bits: int = 2048) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


class Client:
    """A TLS client in memory, as permissive as OpenSSL allows."""

    def __init__(
        self,
        *,
        alpn: tuple[bytes, ...] = (),
        version: int = SSL.TLS1_3_VERSION,
        ciphers: str = "ALL",
        identity: Issued | None = None,
        chain: tuple[Issued, ...] = (),
        groups: str = "",
    ) -> None:
        context = SSL.Context(SSL.TLS_CLIENT_METHOD)
        if groups:
            # pyOpenSSL has no name for it.
            assert _util.lib.SSL_CTX_set1_curves_list(context._context, groups.encode())
        context.set_min_proto_version(SSL.TLS1_VERSION)
        context.set_max_proto_version(version)
        context.set_cipher_list(f"{ciphers}:@SECLEVEL=0".encode())
        if alpn:
            context.set_alpn_protos(list(alpn))
        if identity:
            assert isinstance(identity.key, PrivateKey)
            context.use_certificate(identity.certificate)
            context.use_privatekey(identity.key)
        for link in chain:
            context.add_extra_chain_cert(link.certificate)
        self._context = context
        self.connection = SSL.Connection(context, None)
        self.connection.set_connect_state()

    def offer_session_again(self) -> None:
        """Start a new connection that offers the session of the last one."""
        session = self.connection.get_session()
        assert session
        self.connection = SSL.Connection(self._context, None)
        self.connection.set_connect_state()
        self.connection.set_session(session)

    def handshake(self, engine: ServerEngine) -> None:
        """Both sides until each is done; raises what either raises."""
        is_done = False
        while not (is_done and engine.is_ready):
            try:
                self.connection.do_handshake()
                is_done = True
            except SSL.WantReadError:
                pass
            assert engine.receive(self.outgoing()) == b""
            if ciphertext := b"".join(engine.outgoing()):
                self.connection.bio_write(ciphertext)

    def say(self, plaintext: bytes) -> bytes:
        """The ciphertext of what is said."""
        self.connection.sendall(plaintext)
        return self.outgoing()

    def hear(self, ciphertext: bytes) -> bytes:
        """The plaintext of what is heard."""
        for start in range(0, len(ciphertext), 65536):
            self.connection.bio_write(ciphertext[start : start + 65536])
        heard = b""
        try:
            while True:
                heard += self.connection.recv(65536)
        except SSL.WantReadError:
            return heard

    def outgoing(self) -> bytes:
        said = b""
        try:
            while True:
                said += self.connection.bio_read(65536)
        except SSL.WantReadError:
            return said


def _name(subject: tuple[str, ...]) -> x509.Name:
    kinds = {"CN": NameOID.COMMON_NAME, "O": NameOID.ORGANIZATION_NAME}
    pairs = (part.split("=", 1) for part in subject)
    return x509.Name([x509.NameAttribute(kinds[kind], value) for kind, value in pairs])

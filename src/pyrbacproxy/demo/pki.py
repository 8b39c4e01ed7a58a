"""A throw-away PKI in a folder: an authority, serving pairs, client certificates.

For the demo and the tests only: keys lie unencrypted on disk, mode 0600, and everything expires
within a week.
"""

import datetime as dt
import ipaddress
import os
import ssl
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from pyrbacproxy.values import Frozen

_LIFETIME = dt.timedelta(days=7)
# They begin a little in the past, so that a clock that was just set back does not refuse them.
_BACKDATED = dt.timedelta(minutes=5)
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


class Pair(Frozen):
    """A certificate with its key: two files, and one with both, as the kubelet writes its own."""

    certificate_file: Path
    key_file: Path
    combined_file: Path


class Authority:
    """An authority whose key stays in memory; `certificate_file` is what others trust."""

    def __init__(self, folder: Path, name: str = "demo-ca") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._certificate(self._name, self._key, _authority_extensions())
        self.certificate_file = folder / f"{name}.crt"
        self.certificate_file.write_bytes(_pem(certificate))

    def serving(
        self, file_name: str, names: Sequence[str] = _LOOPBACK_NAMES, *, common_name: str = ""
    ) -> Pair:
        """Issue a serving pair for host names and addresses; files are called after `file_name`."""
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name or file_name)])
        alternatives = x509.SubjectAlternativeName([_alternative(name) for name in names])
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
        return self._issue(file_name, subject, [(alternatives, False), (usage, False)])

    def client(self, file_name: str, common_name: str, organizations: Sequence[str] = ()) -> Pair:
        """Issue a client pair: Kubernetes reads the user name from CN and the groups from O."""
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in organizations]
        attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, common_name))
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        return self._issue(file_name, x509.Name(attributes), [(usage, False)])

    def _issue(
        self, file_name: str, subject: x509.Name, extensions: list[tuple[x509.ExtensionType, bool]]
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        leaf = [(x509.BasicConstraints(ca=False, path_length=None), True), *extensions]
        certificate = _pem(self._certificate(subject, key, leaf))
        key_text = _key_pem(key)
        pair = Pair(
            self._folder / f"{file_name}.crt",
            self._folder / f"{file_name}.key",
            self._folder / f"{file_name}.pem",
        )
        pair.certificate_file.write_bytes(certificate)
        write_secret(pair.key_file, key_text)
        write_secret(pair.combined_file, certificate + key_text)
        return pair

    def _certificate(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        extensions: Sequence[tuple[x509.ExtensionType, bool]],
    ) -> x509.Certificate:
        begin = dt.datetime.now(dt.UTC) - _BACKDATED
        # Key identifiers tell authorities of the same name apart.
        authority_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(begin + _LIFETIME)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
            .add_extension(authority_key, False)
        )
        for extension, is_critical in extensions:
            builder = builder.add_extension(extension, is_critical)
        return builder.sign(self._key, hashes.SHA256())


def write_secret(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read, even for the moment before a chmod."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        os.fchmod(stream.fileno(), 0o600)
        stream.write(content)


def server_context(pair: Pair, client_authority: Authority) -> ssl.SSLContext:
    """A serving context that asks for a certificate of `client_authority` and does without one."""
    context = ssl.create_default_context(
        ssl.Purpose.CLIENT_AUTH, cafile=client_authority.certificate_file
    )
    context.load_cert_chain(pair.certificate_file, pair.key_file)
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


def client_context(authority: Authority, pair: Pair | None = None) -> ssl.SSLContext:
    """A client's context that trusts `authority` alone and presents `pair`, when given."""
    context = ssl.create_default_context(cafile=authority.certificate_file)
    if pair:
        context.load_cert_chain(pair.certificate_file, pair.key_file)
    return context


def _authority_extensions() -> list[tuple[x509.ExtensionType, bool]]:
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    return [(x509.BasicConstraints(ca=True, path_length=None), True), (usage, True)]


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )

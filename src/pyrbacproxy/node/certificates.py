"""A PEM file → the certificates in it, and whether a key is there; the key itself is not kept."""

from cryptography import x509
from cryptography.hazmat.primitives import hashes

from pyrbacproxy.node.facts import Certificate, CertificateFile
from pyrbacproxy.tls.certificate import from_der, from_pem
from pyrbacproxy.tls.pem import certificate_blocks, key_block


def certificate_file(content: bytes, path: str) -> CertificateFile:
    """What the file holds; `problem` is set when it holds no certificate or a broken one."""
    try:
        blocks = certificate_blocks(content)
        if not blocks:
            return CertificateFile(path, problem="holds no certificate")
        certificates = tuple(_certificate(from_pem(one)) for one in blocks)
    except ValueError:
        return CertificateFile(path, problem="holds a certificate that cannot be read")
    return CertificateFile(path, certificates, has_key=key_block(content) is not None)


def fingerprint(der: bytes) -> str:
    """SHA-256 of a certificate, as `Certificate` has it. Raises ValueError."""
    return from_der(der).fingerprint(hashes.SHA256()).hex()


def _certificate(certificate: x509.Certificate) -> Certificate:
    return Certificate(
        certificate.subject.rfc4514_string(),
        certificate.not_valid_before_utc.timestamp(),
        certificate.not_valid_after_utc.timestamp(),
        certificate.fingerprint(hashes.SHA256()).hex(),
    )

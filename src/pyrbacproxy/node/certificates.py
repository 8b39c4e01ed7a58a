"""A PEM file → the certificates in it, and whether a key is there; the key itself is not kept."""

from pyrbacproxy.node.facts import Certificate, CertificateFile
from pyrbacproxy.tls.certificate import from_der, name_text
from pyrbacproxy.tls.pem import certificates, key_block


def certificate_file(content: bytes, path: str) -> CertificateFile:
    """What the file holds; `problem` is set when it holds no certificate or a broken one."""
    try:
        found = tuple(_certificate(der) for der in certificates(content).ders)
    except ValueError:
        return CertificateFile(path, problem="holds a certificate that cannot be read")
    if not found:
        return CertificateFile(path, problem="holds no certificate")
    return CertificateFile(path, found, has_key=key_block(content) is not None)


def fingerprint(der: bytes) -> str:
    """SHA-256 of a certificate, as `Certificate` has it. Raises ValueError."""
    return from_der(der).fingerprint


def _certificate(der: bytes) -> Certificate:
    certificate = from_der(der)
    return Certificate(
        name_text(certificate.subject_attributes),
        certificate.not_before,
        certificate.not_after,
        certificate.fingerprint,
    )

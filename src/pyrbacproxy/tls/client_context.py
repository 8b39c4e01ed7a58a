"""The contexts of every outgoing connection: to upstream, API server, issuer and egress proxy.

A server is verified in the handshake, by OpenSSL and by the rules of Go's crypto/tls as far as
OpenSSL has them: the host is a SAN and never the CN, every certificate of the CA file is an anchor,
TLS 1.2 is the lowest version, and RFC 5280's demands on authorities (VERIFY_X509_STRICT, which
Python's own default contexts set from 3.13 on) don't count.

One rule can't be had: OpenSSL takes an authorityKeyIdentifier that names another issuer or serial
for the mark of another authority (X509_check_akid), Go for a hint. No flag turns that off.
"""

import logging
import ssl

from pyrbacproxy.tls import pem

_LOG = logging.getLogger(__name__)


def client_context(
    authorities: bytes | None = None, *, source: str = "the CA", is_verified: bool = True
) -> ssl.SSLContext:
    """A context that trusts the certificates in a PEM text, all of them; None: the system's roots.

    `source` names the text in warnings. Without `is_verified` any server will do. Raises ValueError
    for a text without certificates and for one with a certificate that OpenSSL can't read.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.hostname_checks_common_name = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    # A renegotiation could put another server behind the one that was verified.
    context.options |= ssl.OP_NO_RENEGOTIATION
    if not is_verified:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif authorities is None:
        context.load_default_certs()
    else:
        _load(context, authorities, source)
    return context


def _load(context: ssl.SSLContext, text: bytes, source: str) -> None:
    """Trust every certificate in a PEM text. Raises ValueError."""
    # Not as a file: OpenSSL leaves out, in silence, what its PEM reader doesn't find. Not by
    # `cryptography` either: it refuses encodings of extensions that OpenSSL and Go read.
    try:
        found = pem.certificates(text)
    except ValueError as error:
        raise ValueError(f"holds a bad certificate: {error}") from error
    for number in found.with_headers:
        _LOG.warning("%s: certificate %d is not used, for it has PEM headers", source, number)
    if not found.ders:
        raise ValueError("holds no certificate")
    for number, der in found.numbered():
        # OpenSSL would take what follows for another certificate, or for nothing.
        if len(der) != _encoded_bytes(der):
            raise ValueError(
                f"holds a bad certificate, number {number}: it holds more or less than one value"
            )
        try:
            context.load_verify_locations(cadata=der)
        except (ssl.SSLError, ValueError) as error:
            why = (isinstance(error, ssl.SSLError) and error.reason) or error
            raise ValueError(f"holds a bad certificate, number {number}: {why}") from error


def _encoded_bytes(der: bytes) -> int:
    """How long the outermost value says that it is, its head included; 0 without a length."""
    head, length = der[:2], der[1:2]
    if len(head) < 2:  # noqa: PLR2004 -- tag and length
        return 0
    if length[0] < 0x80:  # noqa: PLR2004 -- X.690 §8.1.3.4: the short form
        return 2 + length[0]
    following = length[0] & 0x7F
    return 2 + following + int.from_bytes(der[2 : 2 + following], "big")

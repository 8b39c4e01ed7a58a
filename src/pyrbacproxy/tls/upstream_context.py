"""The stdlib context towards an https upstream: its CA, our client pair, kept fresh (D4)."""

import ssl

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from pyrbacproxy.tls import pem
from pyrbacproxy.tls.contexts import read_pair
from pyrbacproxy.tls.watched_files import TlsFileError, WatchedFiles, read_file


def upstream_context(ca_file: str, certificate_file: str, key_file: str) -> ssl.SSLContext:
    """A context that checks chain and host name; "" means system roots, or no client pair.

    Raises TlsFileError.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # As Go: a host name is a SAN, and every certificate in the file is an anchor.
    context.hostname_checks_common_name = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if ca_file:
        context.load_verify_locations(cadata=_anchors(read_file(ca_file), ca_file))
    else:
        context.load_default_certs()
    if certificate_file:
        # Says what is wrong better than OpenSSL, which would even ask for a password.
        read_pair(certificate_file, key_file)
        try:
            context.load_cert_chain(certificate_file, key_file)
        except (OSError, ValueError) as error:
            raise TlsFileError(certificate_file, f"cannot be used: {error}") from error
    return context


class UpstreamContext:
    """The context as its files now are: `current` changes when `files` notices a change.

    Raises TlsFileError when they are bad at the start.
    """

    current: ssl.SSLContext

    def __init__(self, ca_file: str, certificate_file: str, key_file: str) -> None:
        def use(_contents: tuple[bytes, ...]) -> None:
            # `ssl` takes a pair by path only. Files changed meanwhile differ at the next check.
            self.current = upstream_context(ca_file, certificate_file, key_file)

        paths = tuple(dict.fromkeys(filter(None, (ca_file, certificate_file, key_file))))
        self.files = WatchedFiles("upstream CA or client certificate", paths, use)
        self.files.load()


def _anchors(text: bytes, path: str) -> bytes:
    blocks = pem.certificate_blocks(text)
    if not blocks:
        raise TlsFileError(path, "holds no certificate")
    try:
        certificates = [x509.load_pem_x509_certificate(block) for block in blocks]
    except ValueError as error:
        raise TlsFileError(path, f"bad certificate: {error}") from error
    return b"".join(certificate.public_bytes(Encoding.DER) for certificate in certificates)

"""The stdlib context towards an https upstream or issuer, kept fresh: its CA, our pair (D4)."""

import ssl

from pyrbacproxy.tls import pem
from pyrbacproxy.tls.certificate import from_der
from pyrbacproxy.tls.contexts import read_pair
from pyrbacproxy.tls.watched_files import TlsFileError, WatchedFiles, read_file


def upstream_context(
    ca_file: str, certificate_file: str, key_file: str, *, offers_http2: bool = False
) -> ssl.SSLContext:
    """A context that checks chain and host name; "" means system roots, or no client pair.

    Raises TlsFileError.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # As Go: a host name is a SAN, and every certificate in the file is an anchor.
    context.hostname_checks_common_name = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    # As Go: whoever answers has shown once and for all who they are.
    context.options |= ssl.OP_NO_RENEGOTIATION
    if offers_http2:
        context.set_alpn_protocols(["h2", "http/1.1"])
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

    `name` is what the log calls them. Raises TlsFileError when they are bad at the start.
    """

    current: ssl.SSLContext

    def __init__(
        self,
        ca_file: str,
        certificate_file: str = "",
        key_file: str = "",
        *,
        offers_http2: bool = False,
        name: str = "upstream CA or client certificate",
    ) -> None:
        self._http1: ssl.SSLContext | None = None

        def make(*, offers_http2: bool) -> ssl.SSLContext:
            return upstream_context(ca_file, certificate_file, key_file, offers_http2=offers_http2)

        def use(_contents: tuple[bytes, ...]) -> None:
            # `ssl` takes a pair by path only. Files changed meanwhile differ at the next check.
            self.current = make(offers_http2=offers_http2)
            self._http1 = None

        self._make = make

        paths = tuple(dict.fromkeys(filter(None, (ca_file, certificate_file, key_file))))
        self.files = WatchedFiles(name, paths, use)
        self.files.load()

    def http1(self) -> ssl.SSLContext:
        """The same without an offer of HTTP/2; made when it is first asked for.

        Raises OSError for files that have become bad since.
        """
        if self._http1 is None:
            try:
                self._http1 = self._make(offers_http2=False)
            except TlsFileError as error:
                raise OSError(str(error)) from error
        return self._http1


def _anchors(text: bytes, path: str) -> bytes:
    try:
        ders = pem.certificates(text).ders
        for der in ders:
            from_der(der)
    except ValueError as error:
        raise TlsFileError(path, f"bad certificate: {error}") from error
    if not ders:
        raise TlsFileError(path, "holds no certificate")
    return b"".join(ders)

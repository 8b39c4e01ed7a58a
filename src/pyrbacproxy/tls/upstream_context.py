"""The context towards an https upstream or issuer, kept fresh: its CA, our pair (D4)."""

import ssl

from pyrbacproxy.tls.client_context import client_context
from pyrbacproxy.tls.files import TlsFileError, WatchedFiles, read_file
from pyrbacproxy.tls.server_context import read_pair


def upstream_context(
    ca_file: str, certificate_file: str, key_file: str, *, offers_http2: bool = False
) -> ssl.SSLContext:
    """A context that checks chain and host name; "" means system roots, or no client pair.

    Raises TlsFileError.
    """
    authorities = read_file(ca_file) if ca_file else None
    try:
        context = client_context(authorities, source=ca_file)
    except ValueError as error:
        raise TlsFileError(ca_file, str(error)) from error
    if offers_http2:
        context.set_alpn_protocols(["h2", "http/1.1"])
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

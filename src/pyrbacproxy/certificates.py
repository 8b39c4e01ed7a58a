"""The TLS contexts in use, made from `Settings`, and what keeps them fresh."""

import socket

from OpenSSL import SSL

from pyrbacproxy.config.settings import Settings
from pyrbacproxy.tls.client_chain import ClientChains
from pyrbacproxy.tls.files import TlsFileError
from pyrbacproxy.tls.reloader import TlsReloader
from pyrbacproxy.tls.server_context import self_signed_pair, server_context
from pyrbacproxy.tls.upstream_context import UpstreamContext


class Certificates:
    """The contexts of listeners, upstream and issuer, the client CA pool, and their reloader.

    Everything is read once at the making; with a gate a client CA may be missing, and the pair
    when the gate waits for it. Raises TlsFileError.
    """

    def __init__(self, settings: Settings) -> None:
        self.chains = ClientChains()
        self.upstream: UpstreamContext | None = None
        self.issuer: UpstreamContext | None = None
        self._serving: SSL.Context | None = None
        # For the endpoints port alone, until the pair is whole.
        self._stand_in: SSL.Context | None = None
        tls, upstream = settings.tls, settings.upstream
        if upstream.is_tls:
            self.upstream = UpstreamContext(
                upstream.ca_file,
                upstream.client_certificate_file,
                upstream.client_key_file,
                offers_http2=upstream.offers_http2,
            )
        if settings.oidc is not None:
            self.issuer = UpstreamContext(settings.oidc.ca_file, name="OIDC issuer CA")
        self.reloader = TlsReloader(
            tls,
            self._use,
            self.chains.replace_pool,
            [made.files for made in (self.upstream, self.issuer) if made is not None],
            is_pair_awaited=settings.gate.waits_for_pair,
            is_client_ca_awaited=settings.gate.has_waits,
        )
        self.reloader.load()
        try:
            self.reloader.load_client_ca()
        except TlsFileError as error:
            # One that is there and bad mends itself no more with a gate than without.
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
        is_missing = settings.gate.waits_for_pair and self.load_pair() != ""
        if is_missing or (settings.secure is not None and not tls.certificate_file):
            own = server_context(self_signed_pair(socket.gethostname()), tls)
            if is_missing:
                self._stand_in = own
            else:
                self._serving = own

    def load_pair(self) -> str:
        """Read the awaited pair; what is wrong with it, "" for nothing."""
        try:
            self.reloader.load_pair()
        except TlsFileError as error:
            return str(error)
        return ""

    def load_client_ca(self) -> str:
        """The same for the client CA that was missing at the making."""
        try:
            self.reloader.load_client_ca()
        except TlsFileError as error:
            return str(error)
        return ""

    @property
    def served(self) -> SSL.Context | None:
        """The one that clients of the secure port are shown, if there is one yet."""
        return self._serving

    def serving(self) -> SSL.Context:
        """The secure listener's; never the stand-in."""
        if self._serving is None:
            raise RuntimeError("a secure listener without a pair")
        return self._serving

    def of_endpoints(self) -> SSL.Context:
        """The endpoints port's."""
        return self._stand_in or self.serving()

    def _use(self, context: SSL.Context) -> None:
        self._serving = context
        self._stand_in = None

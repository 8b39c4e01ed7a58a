"""What serves a client's connection: HTTP/1.1 or HTTP/2, as ALPN or the first bytes say."""

import asyncio
import time
from collections.abc import Callable

from pyrbacproxy.http2.limits import Code, Http2Limits
from pyrbacproxy.model import Peer
from pyrbacproxy.proxy.client_http1 import Http1Connection
from pyrbacproxy.proxy.decisions import PeerSource
from pyrbacproxy.proxy.exchange import ConnectionHandler, Services, TunnelSide
from pyrbacproxy.proxy.transport import ClientTransport, SecureTransport
from pyrbacproxy.tls.client_chain import ClientChains
from pyrbacproxy.tls.names import is_fit_for_http2


class ClientProtocol:
    """Makes what serves a connection. `http2` is None where HTTP/2 is turned off."""

    def __init__(
        self, chains: ClientChains, http2: Http2Limits | None, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._chains = chains
        self._http2 = http2
        self._loop = loop

    def secure(self, transport: SecureTransport, services: Services) -> ConnectionHandler:
        """By ALPN."""
        peer = PeerSource(
            self._chains,
            address=transport.peer_address,
            chain=transport.peer_chain(),
            wall_clock=time.time,
        )
        if self._http2 is None or transport.alpn() != b"h2":
            return Http1Connection(transport, services, peer=peer, loop=self._loop)
        # Reference 5.4.
        fault = None if is_fit_for_http2(transport.cipher()) else Code.INADEQUATE_SECURITY
        return self._http2_connection(transport, services, self._http2, peer, fault)

    def plain(self, transport: ClientTransport, services: Services) -> ConnectionHandler:
        """By the first bytes."""
        constant = Peer(transport.peer_address)
        limits, loop = self._http2, self._loop

        def peer() -> Peer:
            return constant

        def http1() -> ConnectionHandler:
            return Http1Connection(transport, services, peer=peer, loop=loop)

        if limits is None:
            return http1()
        # Imported for the first client without TLS: to those with it it is only memory.
        from pyrbacproxy.http2.prior_knowledge import PriorKnowledge  # noqa: PLC0415

        return PriorKnowledge(
            transport,
            services.limits,
            http1=http1,
            http2=lambda: self._http2_connection(transport, services, limits, peer),
            loop=loop,
        )

    def _http2_connection(
        self,
        transport: TunnelSide,
        services: Services,
        limits: Http2Limits,
        peer: Callable[[], Peer],
        fault: Code | None = None,
    ) -> ConnectionHandler:
        # Imported for the first client that speaks it: to the others the library is only memory.
        from pyrbacproxy.http2.server import Http2Connection  # noqa: PLC0415

        return Http2Connection(transport, services, limits, peer=peer, loop=self._loop, fault=fault)

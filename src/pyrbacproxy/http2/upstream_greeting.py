"""A new upstream connection until it is known what it speaks: what ALPN chose, or HTTP/2 anyway."""

import asyncio
import ssl
from collections.abc import Callable


def chose_http2(transport: asyncio.BaseTransport) -> bool:
    """Whether the TLS handshake ended with HTTP/2 (RFC 7301)."""
    tls = transport.get_extra_info("ssl_object")
    return isinstance(tls, ssl.SSLObject) and tls.selected_alpn_protocol() == "h2"


class Greeting(asyncio.Protocol):
    """Hands the transport to the protocol that `choose` makes for it."""

    def __init__(self, choose: Callable[[asyncio.BaseTransport], asyncio.Protocol]) -> None:
        self._choose = choose
        self._early = b""
        self._has_ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connected, TLS handshake included."""
        protocol = self._choose(transport)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if self._early:
            protocol.data_received(self._early)
        if self._has_ended:
            protocol.connection_lost(None)

    def data_received(self, data: bytes) -> None:
        """An upstream that speaks first, through a tunnel that isn't ours yet."""
        self._early += data

    def connection_lost(self, exc: Exception | None) -> None:
        """And one that went at once."""
        del exc
        self._has_ended = True

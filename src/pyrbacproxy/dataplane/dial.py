"""One new connection to the upstream: plain or TLS, straight or through an egress proxy (D34)."""

import asyncio
import ssl
from collections.abc import Callable

from pyrbacproxy.dataplane.limits import Limits
from pyrbacproxy.egress_proxy import ProxyAddress

_MAX_ANSWER_BYTES = 16_384


class Dialler:
    """Dials one address. `context` gives the TLS context of the moment, for https only.

    An http upstream behind a proxy is the proxy's business: it is connected to, and the requests
    name the upstream in absolute-form (`heads.Destination`). For an https upstream the proxy is
    asked for a tunnel (RFC 9110 §9.3.6).
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        limits: Limits,
        *,
        scheme: str,
        host: str,
        port: int,
        proxy: ProxyAddress | None,
        context: Callable[[], ssl.SSLContext] | None,
    ) -> None:
        self._loop = loop
        self._limits = limits
        self._is_tls = scheme == "https"
        self._host = host
        self._port = port
        self._proxy = proxy
        self._context = context

    async def dial(self, protocol: asyncio.Protocol) -> None:
        """Connect `protocol`. Raises OSError (refused, TLS failure) and TimeoutError."""
        context = self._context() if self._is_tls and self._context is not None else None
        if self._is_tls and context is None:
            raise OSError("no TLS context for an https upstream")
        if self._proxy is None:
            await self._connect(lambda: protocol, self._host, self._port, context)
        elif context is None:
            await self._connect_to_proxy(self._proxy, lambda: protocol)
        else:
            await self._tunnel(self._proxy, protocol, context)

    async def _connect(
        self,
        make_protocol: Callable[[], asyncio.Protocol],
        host: str,
        port: int,
        context: ssl.SSLContext | None,
    ) -> asyncio.Transport:
        handshake_seconds = self._limits.upstream_handshake_seconds
        async with asyncio.timeout(self._limits.connect_seconds):
            transport, _ = await self._loop.create_connection(
                make_protocol,
                host,
                port,
                ssl=context,
                server_hostname=host if context is not None else None,
                ssl_handshake_timeout=handshake_seconds if context is not None else None,
            )
        return transport

    async def _connect_to_proxy(
        self, proxy: ProxyAddress, make_protocol: Callable[[], asyncio.Protocol]
    ) -> asyncio.Transport:
        context = ssl.create_default_context() if proxy.scheme == "https" else None
        return await self._connect(make_protocol, proxy.host, proxy.port, context)

    async def _tunnel(
        self, proxy: ProxyAddress, protocol: asyncio.Protocol, context: ssl.SSLContext
    ) -> None:
        asking = _TunnelRequest(self._loop)
        transport = await self._connect_to_proxy(proxy, lambda: asking)
        try:
            transport.write(self._tunnel_head(proxy))
            async with asyncio.timeout(self._limits.connect_seconds):
                await asking.answer
                upgraded = await self._loop.start_tls(
                    transport,
                    protocol,
                    context,
                    server_hostname=self._host,
                    ssl_handshake_timeout=self._limits.upstream_handshake_seconds,
                )
        except BaseException:
            transport.abort()
            raise
        if upgraded is None:
            raise ConnectionError("the egress proxy closed the tunnel")
        protocol.connection_made(upgraded)

    def _tunnel_head(self, proxy: ProxyAddress) -> bytes:
        host = f"[{self._host}]" if ":" in self._host else self._host
        lines = [f"CONNECT {host}:{self._port} HTTP/1.1", f"Host: {host}:{self._port}"]
        if proxy.authorization:
            lines.append(f"Proxy-Authorization: {proxy.authorization}")
        return "\r\n".join([*lines, "", ""]).encode()


class _TunnelRequest(asyncio.Protocol):
    """Waits for a proxy's answer to CONNECT; `answer` fails with OSError unless it is a 2xx."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.answer: asyncio.Future[None] = loop.create_future()
        self._received = b""

    def data_received(self, data: bytes) -> None:
        """Some of the answer's head: a 2xx has no body (RFC 9110 §9.3.6)."""
        self._received += data
        if self.answer.done():
            return
        if b"\r\n\r\n" in self._received:
            status = self._received.split(b" ", 2)[1:2]
            if status and len(status[0]) >= 3 and status[0].startswith(b"2"):  # noqa: PLR2004 - 2xx
                self.answer.set_result(None)
            else:
                self.answer.set_exception(ConnectionError("the egress proxy refused the tunnel"))
        elif len(self._received) > _MAX_ANSWER_BYTES:
            self.answer.set_exception(ConnectionError("the egress proxy's answer is too long"))

    def connection_lost(self, exc: Exception | None) -> None:
        """The proxy closed instead of answering."""
        if not self.answer.done():
            self.answer.set_exception(exc or ConnectionError("the egress proxy closed"))

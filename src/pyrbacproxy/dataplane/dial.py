"""Dials the upstream, within the limits and with the TLS context of the moment."""

import asyncio
import ssl
from collections.abc import Callable

from pyrbacproxy import egress_dial
from pyrbacproxy.dataplane.limits import Limits
from pyrbacproxy.egress_proxy import ProxyAddress


class Dialler:
    """Dials one address, or the unix socket at `socket_path`.

    `context` gives the TLS context of the moment.
    """

    def __init__(
        self,
        limits: Limits,
        *,
        is_tls: bool,
        host: str,
        port: int,
        proxy: ProxyAddress | None,
        context: Callable[[], ssl.SSLContext] | None,
        socket_path: str = "",
    ) -> None:
        self._limits = limits
        self._is_tls = is_tls
        self._socket_path = socket_path
        self._route = egress_dial.Route(host, port, proxy)
        self._lookup = egress_dial.lookup_of(self._route)
        self._context = context

    @property
    def address(self) -> str:
        """What is dialled, for the log."""
        host = f"[{self._route.host}]" if ":" in self._route.host else self._route.host
        return self._socket_path or f"{host}:{self._route.port}"

    async def dial(self, protocol: asyncio.Protocol) -> None:
        """Connect `protocol`. Raises OSError (refused, TLS failure) and TimeoutError."""
        context = self._context() if self._is_tls and self._context is not None else None
        if self._is_tls and context is None:
            raise OSError("no TLS context for an https upstream")
        async with asyncio.timeout(self._limits.connect_seconds):
            if self._socket_path:
                loop = asyncio.get_running_loop()
                await loop.create_unix_connection(lambda: protocol, self._socket_path)
                return
            await self._lookup.works()
            await egress_dial.dial(
                self._route,
                protocol,
                context=context,
                handshake_seconds=self._limits.upstream_handshake_seconds,
            )

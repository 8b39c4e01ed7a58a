"""Dials the upstream, within the limits and with the TLS context of the moment."""

import asyncio
import socket
import ssl
from collections.abc import Callable

from pyrbacproxy import egress_dial
from pyrbacproxy.dataplane.limits import Limits
from pyrbacproxy.egress_proxy import ProxyAddress
from pyrbacproxy.record import Failure


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
        """Connect `protocol`. Raises DialError."""
        try:
            async with asyncio.timeout(self._limits.connect_seconds):
                await self._dial(protocol)
        except TimeoutError:
            raise self.too_late() from None
        except (OSError, UnicodeError) as error:
            words = egress_dial.in_words(error, "the upstream")
            raise self.failed(_failure(error), words) from error

    def failed(self, failure: Failure, words: str) -> "DialError":
        """The error that says so of this address, and of the proxy on the way."""
        proxy = self._route.proxy
        through = f" through the egress proxy {proxy.host}:{proxy.port}" if proxy else ""
        return DialError(failure, f"{self.address}{through}: {words}")

    def too_late(self) -> "DialError":
        """The error of a dial that took too long."""
        seconds = self._limits.connect_seconds
        return self.failed(Failure.CONNECT_TIMEOUT, f"no connection within {seconds:g} s")

    async def _dial(self, protocol: asyncio.Protocol) -> None:
        if self._socket_path:
            loop = asyncio.get_running_loop()
            await loop.create_unix_connection(lambda: protocol, self._socket_path)
            return
        context = self._context() if self._is_tls and self._context is not None else None
        if self._is_tls and context is None:
            raise OSError("no TLS context for an https upstream")
        await self._lookup.works()
        await egress_dial.dial(
            self._route,
            protocol,
            context=context,
            handshake_seconds=self._limits.upstream_handshake_seconds,
        )


class DialError(OSError):
    """There is no connection to the upstream; `cause` is its address and what happened."""

    def __init__(self, failure: Failure, cause: str) -> None:
        super().__init__(cause)
        self.failure = failure
        self.cause = cause


def loss(exc: Exception | None) -> tuple[Failure, str]:
    """Why a connection that was made is lost, and the cause where that says more.

    With TLS 1.3 a server that wants another client certificate says so after the handshake.
    """
    if isinstance(exc, ssl.SSLError):
        return Failure.TLS_FAILED, egress_dial.in_words(exc, "the upstream")
    return (Failure.CLOSED_EARLY if exc is None else Failure.CONNECTION_LOST), ""


_FAILURES = (
    (ssl.SSLCertVerificationError, Failure.NOT_TRUSTED),
    (ssl.SSLError, Failure.TLS_FAILED),
    ((socket.gaierror, UnicodeError), Failure.NAME_NOT_FOUND),
    (egress_dial.TunnelRefusedError, Failure.TUNNEL_REFUSED),
    (ConnectionRefusedError, Failure.REFUSED),
)


def _failure(error: OSError | UnicodeError) -> Failure:
    for kinds, failure in _FAILURES:
        if isinstance(error, kinds):
            return failure
    return Failure.NO_CONNECTION

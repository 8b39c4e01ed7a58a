"""The first bytes of a client without TLS → HTTP/1 or HTTP/2 by prior knowledge (RFC 9113 §3.3)."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

from pyrbacproxy.http2.frames import PREFACE
from pyrbacproxy.model import ExchangeRecord, Failure
from pyrbacproxy.proxy.exchange import ConnectionHandler, Limits, Use
from pyrbacproxy.proxy.transport import Deadline


class Host(Protocol):
    """What of a `client_transport.ClientTransport` is used."""

    def set_handler(self, handler: ConnectionHandler) -> None:
        """Let this one serve from now on."""
        ...

    def close(self) -> None:
        """Flush and close."""
        ...


class PriorKnowledge:
    """Waits for the first bytes and hands the connection over; a `ConnectionHandler`.

    Most clients are known by their first byte. `http1` and `http2` make what serves it then.
    """

    __slots__ = ("_begun", "_deadline", "_http1", "_http2", "_limits", "_transport")

    def __init__(
        self,
        transport: Host,
        limits: Limits,
        *,
        http1: Callable[[], ConnectionHandler],
        http2: Callable[[], ConnectionHandler],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._transport = transport
        self._limits = limits
        self._http1 = http1
        self._http2 = http2
        self._begun = b""
        self._deadline = Deadline(loop, transport.close)
        self._deadline.set(limits.idle_seconds)

    @property
    def use(self) -> Use:
        """Nothing was asked for yet."""
        return Use.NEW

    def announce_close(self) -> None:
        """In which version is not known."""

    def awaiting(self) -> Iterable[ExchangeRecord]:
        """Nothing was asked for yet."""
        return ()

    def data_received(self, data: bytes) -> None:
        """Some plaintext."""
        is_first = not self._begun
        self._begun += data
        if self._begun.startswith(PREFACE):
            self._become(self._http2)
        elif not PREFACE.startswith(self._begun):
            self._become(self._http1)
        elif is_first:
            self._deadline.set(self._limits.read_header_seconds)

    def eof_received(self) -> bool:
        """The client sends no more, and has asked for nothing."""
        return False

    def connection_lost(self, failure: Failure | None = None) -> None:  # noqa: ARG002 - `ConnectionHandler`'s
        """Closed, by whomever: nothing was asked."""
        self._deadline.cancel()

    def pause_writing(self) -> None:
        """Nothing was written."""

    def resume_writing(self) -> None:
        """Nothing was written."""

    def drain(self) -> None:
        """Finish what has begun, then close."""
        self._become(self._http1).drain()

    def _become(self, make: Callable[[], ConnectionHandler]) -> ConnectionHandler:
        self._deadline.cancel()
        handler, begun = make(), self._begun
        self._transport.set_handler(handler)
        if begun:
            handler.data_received(begun)
        return handler

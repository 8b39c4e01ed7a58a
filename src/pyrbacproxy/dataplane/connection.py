"""A transport while it lasts: on a lost one calls do nothing, and a peer must go on reading.

What every connection of the data plane needs of asyncio, whatever is spoken on it.
"""

import asyncio
from typing import cast

from pyrbacproxy.dataplane.deadline import StallWatch
from pyrbacproxy.dataplane.limits import Limits


class Connection(asyncio.Protocol):
    """One connection; `transport`, if it is made already. Who serves on it derives from this.

    A write buffer that does not shrink for `write_stall_seconds` ends it, so that nobody who stops
    reading can hold it.
    """

    __slots__ = ("_limits", "_stall", "_transport")

    def __init__(
        self,
        limits: Limits,
        loop: asyncio.AbstractEventLoop,
        transport: asyncio.Transport | None = None,
    ) -> None:
        self._limits = limits
        self._transport = transport
        self._stall = StallWatch(
            loop,
            limits.write_stall_seconds,
            pending_bytes=self._pending_bytes,
            stalled=self._stalled,
        )

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connected; towards an upstream TLS handshake included."""
        self._transport = tcp = cast("asyncio.Transport", transport)
        tcp.set_write_buffer_limits(self._limits.write_high_water_bytes)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Closed, by whomever."""
        self._transport = None
        self._stall.cancel()

    def pause_writing(self) -> None:
        """The write buffer is over its mark."""
        self._stall.start()

    def resume_writing(self) -> None:
        """The write buffer is low again."""
        self._stall.stop()

    # For who serves

    def write(self, *pieces: bytes | memoryview) -> None:
        """Send, all in one go."""
        if self._transport is not None:
            self._transport.writelines(pieces)

    def pause_reading(self) -> None:
        """Read no more."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read on."""
        if self._transport is not None:
            self._transport.resume_reading()

    def abort(self) -> None:
        """Close at once, whatever is unsent."""
        if self._transport is not None:
            self._transport.abort()

    def _stalled(self) -> None:
        """The peer has stopped reading."""
        self.abort()

    def _pending_bytes(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

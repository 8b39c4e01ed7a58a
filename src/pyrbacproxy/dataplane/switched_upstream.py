"""An upstream connection behind its 101: the `asyncio.Protocol` without HTTP on it."""

import asyncio

from pyrbacproxy.dataplane.connection import Connection
from pyrbacproxy.dataplane.limits import Limits
from pyrbacproxy.dataplane.sinks import Inner
from pyrbacproxy.dataplane.socket_options import probe_when_quiet, reset_on_close
from pyrbacproxy.record import Failure


class SwitchedUpstream(Connection):
    """The upstream's side of a tunnel; a `sinks.Side`. `transport` is None if it is lost already.

    `is_write_paused`: the transport's buffer is over its mark.
    """

    __slots__ = ("_is_write_paused", "_user")

    def __init__(
        self,
        transport: asyncio.Transport | None,
        limits: Limits,
        loop: asyncio.AbstractEventLoop,
        *,
        is_write_paused: bool = False,
    ) -> None:
        super().__init__(limits, loop, transport)
        self._is_write_paused = is_write_paused
        self._user: Inner | None = None

    # sinks.Side

    def serve(self, user: Inner) -> None:
        """Tell `user` what comes from now on."""
        self._user = user
        if self._transport is None:
            user.connection_lost()
            return
        self._transport.set_protocol(self)
        probe_when_quiet(self._transport)
        if self._is_write_paused:
            self._stall.start()

    def end_sending(self) -> bool:
        """Flush and say that no more comes; TLS in asyncio can't say it without a close."""
        if self._transport is None or not self._transport.can_write_eof():
            return False
        self._transport.write_eof()
        return True

    def close(self) -> None:
        """Flush and close."""
        if self._transport is not None:
            self._stall.start()
            self._transport.close()

    def linger(self) -> None:
        """Close: the client that the upstream's bytes were for is gone."""
        self.close()

    def cut(self) -> None:
        """Close at once, by a reset."""
        if self._transport is not None:
            reset_on_close(self._transport)
            self.abort()

    # asyncio.Protocol

    def data_received(self, data: bytes) -> None:
        """Some bytes."""
        if self._user is not None:
            self._user.data_received(data)

    def eof_received(self) -> bool:
        """The upstream sends no more; whether it stays open for what still goes to it."""
        if self._user is None or self._transport is None:
            return False
        return self._user.eof_received() and self._transport.can_write_eof()

    def connection_lost(self, exc: Exception | None) -> None:
        """Closed, by whomever."""
        super().connection_lost(exc)
        self._tell_loss(None)

    def pause_writing(self) -> None:
        """The write buffer is over its mark."""
        super().pause_writing()
        if self._user is not None:
            self._user.pause_writing()

    def resume_writing(self) -> None:
        """The write buffer is low again."""
        super().resume_writing()
        if self._user is not None:
            self._user.resume_writing()

    def _stalled(self) -> None:
        self._tell_loss(Failure.WRITE_STALL)
        self.abort()

    def _tell_loss(self, failure: Failure | None) -> None:
        user, self._user = self._user, None
        if user is not None:
            user.connection_lost(failure)

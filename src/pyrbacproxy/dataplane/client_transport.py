"""The TCP side of a client connection, with or without TLS on top (`secure_transport`).

It serves an `Inner` with plaintext and looks like a transport to it.
"""

import asyncio
from collections.abc import Callable, Iterable

from pyrbacproxy.dataplane.connection import Connection
from pyrbacproxy.dataplane.deadline import Deadline
from pyrbacproxy.dataplane.limits import Limits
from pyrbacproxy.dataplane.sinks import Inner, Use
from pyrbacproxy.dataplane.socket_options import probe_when_quiet, reset_on_close, unread_bytes
from pyrbacproxy.record import ExchangeRecord, Failure


class ClientTransport(Connection):
    """One client's connection without TLS.

    `make_inner(transport)` is called when the connection can carry plaintext and returns what
    serves it. `on_closed(transport)` is called when it is over. `peer_address` is the client's IP
    address.
    """

    def __init__(
        self,
        make_inner: Callable[["ClientTransport"], Inner],
        *,
        limits: Limits,
        loop: asyncio.AbstractEventLoop,
        on_closed: Callable[["ClientTransport"], None],
    ) -> None:
        super().__init__(limits, loop)
        self._make_inner = make_inner
        self._on_closed = on_closed
        self._inner: Inner | None = None
        self._is_deaf = False
        self._swallowed_bytes = 0
        self._lingering = Deadline(loop, self.close)
        self._has_ended = False
        # Why we closed it at once, if we did.
        self._failure: Failure | None = None
        self.peer_address = ""

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """TCP is there."""
        super().connection_made(transport)
        self.peer_address = _plain_address(transport.get_extra_info("peername"))
        self._connected()

    def data_received(self, data: bytes) -> None:
        """Some plaintext, for there is no TLS."""
        if self._is_deaf:
            self._swallow(data)
        elif self._inner is not None:
            self._inner.data_received(data)

    def eof_received(self) -> bool:
        """The client sends no more: it may still read (FR34)."""
        self._end()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """TCP is gone."""
        super().connection_lost(exc)
        self._lingering.cancel()
        inner, self._inner = self._inner, None
        if inner is not None:
            inner.connection_lost(self._failure)
        self._on_closed(self)

    def pause_writing(self) -> None:
        """The write buffer is over its mark."""
        super().pause_writing()
        if self._inner is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        """The write buffer is low again."""
        super().resume_writing()
        if self._inner is not None:
            self._inner.resume_writing()

    # What the inner side sees

    def hand_over(self, inner: Inner) -> None:
        """Let this one serve from now on."""
        self._inner = inner

    def serve(self, user: Inner) -> None:
        """Be one side of a tunnel from now on, of which `user` is the end; a `sinks.Side`."""
        self._inner = user
        if self._transport is not None:
            probe_when_quiet(self._transport)

    def end_sending(self) -> bool:
        """Flush and say that no more comes; the client may go on sending."""
        if self._transport is not None:
            self._transport.write_eof()
        return True

    def linger(self) -> None:
        """End the sending, and close when the client ends its own, or after `linger_seconds`.

        What the client still sends is discarded; too much of it closes the connection. Closing at
        once, with bytes unread, would send a reset that can overtake the last answer (RFC 9112
        §9.6).
        """
        if self._transport is not None and not self._is_deaf:
            self._say_goodbye(self._transport)
            self._linger(self._transport)

    def close(self) -> None:
        """Flush and close."""
        if self._transport is not None and not self._transport.is_closing():
            if not self._is_deaf:
                self._say_goodbye(self._transport)
            self._shut(self._transport)

    def cut(self) -> None:
        """Flush and close so that the client sees that the end is missing."""
        if self._transport is not None and not self._transport.is_closing():
            # For a body without length, plain TCP has no other way to say it.
            reset_on_close(self._transport)
            self._shut(self._transport)

    # What the listener sees

    @property
    def use(self) -> Use:
        """What the connection is used for; one that is closing is busy."""
        if self._is_deaf:
            return Use.BUSY
        return Use.NEW if self._inner is None else self._inner.use

    @property
    def is_quiet(self) -> bool:
        """Whether no byte is under way in either direction.

        Of one that has asked for nothing only those count that the loop is about to read: it could
        begin what it never ends, or not take what would let us read on.
        """
        transport = self._transport
        if transport is None or transport.is_closing():
            return False
        if self.use is Use.NEW:
            return not (transport.is_reading() and unread_bytes(transport))
        return self._is_between_messages(transport) and not unread_bytes(transport)

    def make_way(self) -> None:
        """Close, for another connection takes its place; it is not busy."""
        if self._inner is None:
            self.abort()
            return
        self._inner.say_goodbye()
        self.close()

    def awaiting(self) -> Iterable[ExchangeRecord]:
        """The exchanges that have a request at the upstream and no answer yet."""
        return () if self._inner is None else self._inner.awaiting()

    def cut_off(self) -> None:
        """Close at once: we end, and its time is over."""
        self._failure = Failure.CUT_AT_SHUTDOWN
        self.abort()

    def drain(self) -> None:
        """Finish what is running, then close."""
        if self._inner is not None:
            self._inner.drain()

    def _stalled(self) -> None:
        self._failure = Failure.CLIENT_STOPPED_READING
        super()._stalled()

    # For TLS to differ in

    def _connected(self) -> None:
        self._inner = self._make_inner(self)

    def _say_goodbye(self, transport: asyncio.Transport) -> None:
        """Tell the client that this is a proper end; TCP's own is enough here."""

    def _end(self) -> None:
        """Tell the inner side once that the client sends no more; without one, that is all."""
        if self._has_ended:
            return
        self._has_ended = True
        if self._is_deaf:
            self.close()
        elif self._inner is None:
            self.abort()
        elif not self._inner.eof_received():
            self.close()

    def _is_between_messages(self, transport: asyncio.Transport) -> bool:
        return not transport.get_write_buffer_size()

    def _linger(self, transport: asyncio.Transport) -> None:
        self._is_deaf = True
        if self._has_ended:
            self.close()
            return
        transport.resume_reading()
        transport.write_eof()
        self._lingering.set(self._limits.linger_seconds)

    def _swallow(self, data: bytes) -> None:
        self._swallowed_bytes += len(data)
        if self._swallowed_bytes > self._limits.max_lingered_bytes:
            self.close()

    def _shut(self, transport: asyncio.Transport) -> None:
        self._is_deaf = True
        self._stall.start()
        transport.close()


def _plain_address(peername: tuple[str, int] | None) -> str:
    """The IP address; IPv4 that came in on a dual-stack socket is written as IPv4."""
    if not peername:
        # Gone before it was looked at.
        return ""
    return peername[0].removeprefix("::ffff:") if "." in peername[0] else peername[0]

"""The TCP side of client connections, with or without TLS, and timers that cost one assignment."""

import asyncio
import fcntl
import logging
import socket
import struct
import sys
import termios
from collections.abc import Callable, Iterable
from math import inf
from typing import cast

from OpenSSL import SSL

from pyrbacproxy.background import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS
from pyrbacproxy.model import ExchangeRecord, Failure
from pyrbacproxy.proxy.exchange import ConnectionHandler, Limits, Use
from pyrbacproxy.tls.engine import PlainHttpError, ServerEngine, TlsError

# --- deadline -------------------------------------------------------------------------
#
# Timers that cost an assignment: a deadline that moves with each request, a watch over a writer.
#
# A loop timer for every request would cost more than parsing it. Here one timer per connection
# stays armed; when it fires too early, because the deadline moved on, it is armed again for the
# rest.


class Deadline:
    """Calls `due` once, when the time last set has come; `set` and `clear` are cheap."""

    __slots__ = ("_armed_for", "_due", "_handle", "_loop", "_pause_seconds", "_when")

    def __init__(self, loop: asyncio.AbstractEventLoop, due: Callable[[], None]) -> None:
        self._loop = loop
        self._due = due
        self._when = inf
        self._armed_for = inf
        self._handle: asyncio.TimerHandle | None = None
        self._pause_seconds = FIRST_PAUSE_SECONDS

    def set(self, seconds: float) -> None:
        """Be due in so many seconds, whatever was set before."""
        self._when = when = self._loop.time() + seconds
        if when < self._armed_for:
            self._arm(when)

    def clear(self) -> None:
        """Not be due at all, for now."""
        self._when = inf

    def cancel(self) -> None:
        """Give the loop's timer back; for the end of the connection."""
        self._when = inf
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
            self._armed_for = inf

    def _arm(self, when: float) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._armed_for = when
        self._handle = self._loop.call_at(when, self._fire)

    def _fire(self) -> None:
        self._handle = None
        self._armed_for = inf
        if self._when == inf:
            return
        # The loop's clock is coarse (uvloop: milliseconds), so a timer may fire a little early.
        if self._when - self._loop.time() > 0.001:  # noqa: PLR2004 - said in the line above
            self._arm(self._when)
            return
        self._when = inf
        try:
            self._due()
        except Exception as error:  # noqa: BLE001 - what was due would never be done
            self._loop.call_exception_handler({"message": "a deadline", "exception": error})
            self.set(self._pause_seconds)
            self._pause_seconds = min(2 * self._pause_seconds, LONGEST_PAUSE_SECONDS)
        else:
            self._pause_seconds = FIRST_PAUSE_SECONDS


class StallWatch:
    """Calls `stalled` when a write buffer has not shrunk for `seconds`; who reads slowly is spared.

    Looks every quarter of the time, so a stall is noticed after 1 to 1.25 times `seconds`.
    """

    __slots__ = ("_deadline", "_least_bytes", "_pending_bytes", "_seconds", "_stalled", "_still")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        seconds: float,
        *,
        pending_bytes: Callable[[], int],
        stalled: Callable[[], None],
    ) -> None:
        self._seconds = seconds
        self._pending_bytes = pending_bytes
        self._stalled = stalled
        self._least_bytes = 0
        self._still = 0
        self._deadline = Deadline(loop, self._look)

    def start(self) -> None:
        """The buffer is over its mark, or the connection closes once it is empty (it may be)."""
        self._least_bytes = self._pending_bytes()
        self._still = 0
        if self._least_bytes:
            self._deadline.set(self._seconds / 4)

    def stop(self) -> None:
        """The buffer is low again."""
        self._deadline.clear()

    def cancel(self) -> None:
        """The connection is over."""
        self._deadline.cancel()

    def _look(self) -> None:
        pending = self._pending_bytes()
        if pending < self._least_bytes:
            self._still = 0
        else:
            self._still += 1
        self._least_bytes = pending
        if self._still > 3:  # noqa: PLR2004 - four quarters
            self._stalled()
        else:
            self._deadline.set(self._seconds / 4)


# --- socket options -------------------------------------------------------------------
# What TCP is asked to do for a connection, beyond carrying its bytes.

# SO_LINGER with no time: close by a reset.
_RESET = struct.pack("ii", 1, 0)
# Go's defaults, so the original's: a peer that vanished is noticed after two and a half minutes.
_PROBES = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 9),
)


def reset_on_close(transport: asyncio.BaseTransport) -> None:
    """End by a reset: where nothing else can say so, it shows that the end is missing."""
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)


def probe_when_quiet(transport: asyncio.BaseTransport) -> None:
    """Have TCP look whether the peer is still there, for a connection without a time limit."""
    handle = transport.get_extra_info("socket")
    if handle.family == socket.AF_UNIX:
        return  # The kernel knows at once when that peer is gone.
    for option in _PROBES:
        handle.setsockopt(*option)


def unread_bytes(transport: asyncio.BaseTransport) -> int:
    """How many bytes the kernel holds that were not read yet; 0 for a socket that is gone."""
    number = transport.get_extra_info("socket").fileno()
    if number < 0:
        return 0
    found = fcntl.ioctl(number, termios.FIONREAD, bytes(4))
    return int.from_bytes(found, sys.byteorder)


# --- connection -----------------------------------------------------------------------
#
# A transport while it lasts: on a lost one calls do nothing, and a peer must go on reading.
#
# What every connection of the data plane needs of asyncio, whatever is spoken on it.


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


# --- client transport -----------------------------------------------------------------
#
# The TCP side of a client connection, with or without TLS on top (`secure_transport`).
#
# It serves an `ConnectionHandler` with plaintext and looks like a transport to it.


class ClientTransport(Connection):
    """One client's connection without TLS.

    `make_handler(transport)` is called when the connection can carry plaintext and returns what
    serves it. `on_closed(transport)` is called when it is over. `peer_address` is the client's IP
    address.
    """

    def __init__(
        self,
        make_handler: Callable[["ClientTransport"], ConnectionHandler],
        *,
        limits: Limits,
        loop: asyncio.AbstractEventLoop,
        on_closed: Callable[["ClientTransport"], None],
    ) -> None:
        super().__init__(limits, loop)
        self._make_handler = make_handler
        self._on_closed = on_closed
        self._handler: ConnectionHandler | None = None
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
        elif self._handler is not None:
            self._handler.data_received(data)

    def eof_received(self) -> bool:
        """The client sends no more: it may still read (FR34)."""
        self._end()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """TCP is gone."""
        super().connection_lost(exc)
        self._lingering.cancel()
        handler, self._handler = self._handler, None
        if handler is not None:
            handler.connection_lost(self._failure)
        self._on_closed(self)

    def pause_writing(self) -> None:
        """The write buffer is over its mark."""
        super().pause_writing()
        if self._handler is not None:
            self._handler.pause_writing()

    def resume_writing(self) -> None:
        """The write buffer is low again."""
        super().resume_writing()
        if self._handler is not None:
            self._handler.resume_writing()

    # What the connection handler sees

    def set_handler(self, handler: ConnectionHandler) -> None:
        """Let this one serve from now on."""
        self._handler = handler

    def serve(self, user: ConnectionHandler) -> None:
        """Be one side of a tunnel from now on, of which `user` is the end; a `TunnelSide`."""
        self._handler = user
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
            self._announce_close(self._transport)
            self._linger(self._transport)

    def close(self) -> None:
        """Flush and close."""
        if self._transport is not None and not self._transport.is_closing():
            if not self._is_deaf:
                self._announce_close(self._transport)
            self._shut(self._transport)

    def close_truncated(self) -> None:
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
        return Use.NEW if self._handler is None else self._handler.use

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

    def evict(self) -> None:
        """Close, for another connection takes its place; it is not busy."""
        if self._handler is None:
            self.abort()
            return
        self._handler.announce_close()
        self.close()

    def awaiting(self) -> Iterable[ExchangeRecord]:
        """The exchanges that have a request at the upstream and no answer yet."""
        return () if self._handler is None else self._handler.awaiting()

    def abort(self, failure: Failure | None = None) -> None:
        """End it at once, whatever is unsent. The handler gets the first `failure`."""
        self._failure = self._failure or failure
        super().abort()

    def drain(self) -> None:
        """Finish what is running, then close."""
        if self._handler is not None:
            self._handler.drain()

    def _stalled(self) -> None:
        self.abort(Failure.CLIENT_STOPPED_READING)

    # For TLS to differ in

    def _connected(self) -> None:
        self._handler = self._make_handler(self)

    def _announce_close(self, transport: asyncio.Transport) -> None:
        """Tell the client that this is a proper end; TCP's own is enough here."""

    def _end(self) -> None:
        """Tell the handler once that the client sends no more; without one, abort."""
        if self._has_ended:
            return
        self._has_ended = True
        if self._is_deaf:
            self.close()
        elif self._handler is None:
            self.abort()
        elif not self._handler.eof_received():
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


# --- secure transport -----------------------------------------------------------------
#
# A client connection with TLS: the `asyncio.Protocol` over TCP that runs a TLS engine.
#
# A sink and a source of plaintext. It knows no HTTP, with one exception: a client that speaks plain
# HTTP is told so.

_LOG = logging.getLogger(__name__)
# What every port scanner can cause is no error of ours (FR51).
_V2 = 20 - 2


class SecureTransport(ClientTransport):
    """One TLS connection of a client; `make_handler` is called when the handshake is done.

    `context` gives the server context of the moment, once per connection. `on_handshake` is called
    once, with the version agreed on or with one word for the failure: `plain_http`, `tls_error`,
    `timeout`, `connection_lost`.
    """

    def __init__(
        self,
        make_handler: Callable[["SecureTransport"], ConnectionHandler],
        *,
        context: Callable[[], SSL.Context],
        limits: Limits,
        loop: asyncio.AbstractEventLoop,
        on_closed: Callable[[ClientTransport], None],
        on_handshake: Callable[[str, str], None],
    ) -> None:
        super().__init__(
            lambda _: make_handler(self), limits=limits, loop=loop, on_closed=on_closed
        )
        self._engine = ServerEngine(context())
        self._on_handshake = on_handshake
        self._is_handshaking = True
        self._is_draining = False
        self._handshake = Deadline(loop, self._handshake_is_late)

    def peer_chain(self) -> tuple[bytes, ...]:
        """The certificates that the client presented (DER, leaf first), none of them verified."""
        return self._engine.peer_chain()

    def alpn(self) -> bytes:
        """The protocol agreed on, b"" if none."""
        return self._engine.alpn()

    def cipher(self) -> str:
        """The cipher suite, by OpenSSL's name."""
        return self._engine.cipher

    def data_received(self, data: bytes) -> None:
        """Some ciphertext."""
        transport = self._transport
        if self._is_deaf:
            self._swallow(data)
            return
        if transport is None:
            return
        engine = self._engine
        try:
            plaintext = engine.receive(data)
        except TlsError as error:
            self._refuse(transport, error)
            return
        answer = engine.outgoing()
        if answer:
            transport.writelines(answer)
        handler = self._handler
        if handler is None:
            if not engine.is_ready:
                return
            self._handshake.cancel()
            self._tell_handshake(engine.version)
            handler = self._handler = self._make_handler(self)
            if self._is_draining:
                handler.drain()
        if plaintext:
            handler.data_received(plaintext)
        if engine.is_peer_closed:
            self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        """TCP is gone."""
        self._handshake.cancel()
        self._tell_handshake(failure="connection_lost")
        super().connection_lost(exc)
        # The collector, which finds this transport's cycles, knows nothing of OpenSSL's memory.
        del self._engine

    def write(self, *pieces: bytes | memoryview) -> None:
        """Encrypt and send."""
        if self._transport is not None:
            engine = self._engine
            if len(pieces) == 1:
                self._transport.writelines(engine.sealed(pieces[0]))
                return
            for piece in pieces:
                engine.send(piece)
            self._transport.writelines(engine.outgoing())

    def end_sending(self) -> bool:
        """Flush and say close_notify, without TCP's end: TLS may still have to answer."""
        if self._transport is not None:
            self._announce_close(self._transport)
        return True

    def close_truncated(self) -> None:
        """Flush and close without close_notify: the client sees that the end is missing."""
        if self._transport is not None and not self._transport.is_closing():
            self._shut(self._transport)

    def drain(self) -> None:
        """Finish what is running, then close; who is shaking hands is about to ask."""
        self._is_draining = True
        if self._handler is None:
            self._handshake.set(self._limits.first_request_seconds)
        super().drain()

    def _connected(self) -> None:
        self._handshake.set(self._limits.handshake_seconds)

    def _announce_close(self, transport: asyncio.Transport) -> None:
        """Say close_notify; an answer to it is not waited for (RFC 8446 §6.1)."""
        self._engine.shutdown()
        goodbye = self._engine.outgoing()
        if goodbye:
            transport.writelines(goodbye)

    def _is_between_messages(self, transport: asyncio.Transport) -> bool:
        return super()._is_between_messages(transport) and not self._engine.has_partial_record

    def _refuse(self, transport: asyncio.Transport, error: TlsError) -> None:
        """Garbage, or a failed handshake: send the alert that OpenSSL made of it, and close.

        Before there is an exchange the client gets time to read it: it may still be sending.
        """
        _LOG.log(_V2, "TLS handshake error from %s: %s", self.peer_address, error)
        last = b"".join(self._engine.outgoing())
        is_plain = isinstance(error, PlainHttpError)
        self._tell_handshake(failure="plain_http" if is_plain else "tls_error")
        if is_plain:
            last += PlainHttpError.ANSWER
        if last:
            transport.write(last)
        if self._handler is None:
            self._handshake.cancel()
            self._linger(transport)
        else:
            self._shut(transport)

    def _handshake_is_late(self) -> None:
        _LOG.log(_V2, "TLS handshake error from %s: too slow", self.peer_address)
        self._tell_handshake(failure="timeout")
        self.abort()

    def _tell_handshake(self, version: str = "", failure: str = "") -> None:
        if self._is_handshaking:
            self._is_handshaking = False
            self._on_handshake(version, failure)

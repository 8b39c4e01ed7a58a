"""One HTTP/1.1 connection to the upstream: idle in a pool, serving an exchange, or a tunnel's side.

An exchange has a connection to itself from the request's head to the answer's end. Then the
connection goes back to the pool if both messages are complete and the upstream keeps it open, and
is closed in any doubt: bytes that were left on it would be the next exchange's answer. Behind a 101
it is handed over to a `SwitchedUpstream`, and HTTP knows it no more.
"""

import asyncio
import ssl

from pyrbacproxy import dialing
from pyrbacproxy.http1 import writer
from pyrbacproxy.http1.framing import NO_BODY, Framing, Kind
from pyrbacproxy.http1.head import Headers, RemoteProtocolError
from pyrbacproxy.http1.parser import (
    END,
    InterimReceived,
    KnownResponses,
    ResponseEvent,
    ResponseParser,
    ResponseReceived,
)
from pyrbacproxy.model import Failure
from pyrbacproxy.proxy.exchange import ConnectionHandler, Limits, Released, UpstreamUser
from pyrbacproxy.proxy.transport import Connection, Deadline, probe_when_quiet, reset_on_close


class UpstreamPool:
    """The idle connections to one upstream, and what all connections to it share.

    At most `limits.max_idle_upstreams` are kept. The newest is taken first: it is the least likely
    to have been closed by the upstream meanwhile, and the older ones age until their idle time is
    over.
    """

    __slots__ = (
        "_idle",
        "_is_last_persistent",
        "_last_received",
        "known_responses",
        "limits",
        "loop",
    )

    def __init__(self, limits: Limits, loop: asyncio.AbstractEventLoop) -> None:
        self.limits = limits
        self.loop = loop
        self.known_responses: KnownResponses = {}
        self._last_received: ResponseReceived | None = None
        self._is_last_persistent = False
        # Oldest first.
        self._idle: list[UpstreamConnection] = []

    def __len__(self) -> int:
        return len(self._idle)

    def check_out(self) -> "UpstreamConnection | None":
        """The connection used last, now the caller's; None when none is idle."""
        return self._idle.pop() if self._idle else None

    def check_in(self, connection: "UpstreamConnection") -> None:
        """Keep a connection for the next exchange, and close the oldest one of too many."""
        connection.close_after(self.limits.upstream_idle_seconds)
        self._idle.append(connection)
        if len(self._idle) > self.limits.max_idle_upstreams:
            self._idle.pop(0).close()

    def remove(self, connection: "UpstreamConnection") -> None:
        """The connection is closing, idle or not."""
        if connection in self._idle:
            self._idle.remove(connection)

    def close(self) -> None:
        """Close the idle connections."""
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def is_persistent(self, received: ResponseReceived) -> bool:
        """Whether the upstream keeps its connection; looked up once for a head that repeats."""
        if received is not self._last_received:
            self._last_received = received
            self._is_last_persistent = received.head.is_persistent
        return self._is_last_persistent


class UpstreamConnection(Connection):
    """One connection: an `UpstreamSink` while an exchange has it, else idle or closed.

    The usual answer, a head that is known and all of its body in one read, needs no parser; any
    other makes one.
    """

    __slots__ = (
        "_framing",
        "_idle",
        "_is_persistent",
        "_is_read_paused",
        "_is_write_paused",
        "_method",
        "_parser",
        "_pool",
        "_user",
        "is_reused",
    )

    def __init__(self, pool: UpstreamPool) -> None:
        super().__init__(pool.limits, pool.loop)
        self._pool = pool
        self._user: UpstreamUser | None = None
        # Made when a response needs one.
        self._parser: ResponseParser | None = None
        self._is_persistent = False
        self._is_read_paused = False
        self._is_write_paused = False
        self._method = b""
        # The request's.
        self._framing = NO_BODY
        self.is_reused = False
        self._idle = Deadline(pool.loop, self.close)

    # asyncio.Protocol

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        user = self._user
        if user is None:
            # Unasked bytes would be the next exchange's answer.
            self.close()
            return
        if self._parser is None:
            if self._deliver_whole(user, data):
                return
            self._parser = self._new_parser()
            # An upstream that answers, however badly, is not stale: it isn't asked twice for that.
            self.is_reused = False
        try:
            events = self._parser.feed(data)
        except RemoteProtocolError:
            self._fail(Failure.BROKE_HTTP)
            return
        parser = self._parser
        self._deliver(user, events)
        if self._user is user and parser.fault is not None:
            self._fail(Failure.BROKE_HTTP)

    def eof_received(self) -> None:
        """The upstream ended its sending: the transport closes, as nothing can follow."""
        user = self._user
        if user is None:
            # The usual end of an idle one: no exchange may get it any more.
            self.close()
            return
        parser = self._parser or self._new_parser()
        try:
            events = parser.feed_eof()
        except RemoteProtocolError:
            self._fail(Failure.CLOSED_EARLY)
            return
        self._deliver(user, events)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed, or failed with `exc`."""
        super().connection_lost(exc)
        self._idle.cancel()
        self._pool.remove(self)
        if self._user is not None:
            self._fail(*loss(exc))

    def pause_writing(self) -> None:
        """The write buffer is over its mark."""
        self._is_write_paused = True
        super().pause_writing()
        if self._user is not None:
            self._user.upstream_paused()

    def resume_writing(self) -> None:
        """The write buffer is low again."""
        self._is_write_paused = False
        super().resume_writing()
        if self._user is not None:
            self._user.upstream_resumed()

    # UpstreamSink

    @property
    def was_refused(self) -> bool:
        """False: an HTTP/1.1 upstream can't say that it did nothing with a request."""
        return False

    @property
    def is_open(self) -> bool:
        """Whether it may be used."""
        return self._transport is not None and not self._transport.is_closing()

    def begin(self, user: UpstreamUser, method: bytes, head: bytes, framing: Framing) -> None:
        """Send a request head; the answer goes to `user`."""
        self._idle.clear()
        self._user = user
        self._method = method
        self._framing = framing
        if self._transport is not None:
            self._transport.write(head)

    def body(self, data: bytes) -> None:
        """Send body bytes; on a lost connection they vanish, and the loss is reported."""
        if self._transport is not None:
            is_chunked = self._framing.kind is Kind.CHUNKED
            self._transport.write(writer.chunk(data) if is_chunked else data)

    def end(self, trailers: Headers | None) -> None:
        """The request is complete."""
        if self._transport is not None and self._framing.kind is Kind.CHUNKED:
            self._transport.write(writer.last_chunk(trailers))

    def pause_reading(self) -> None:
        """Stop reading."""
        self._is_read_paused = True
        super().pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        self._is_read_paused = False
        super().resume_reading()

    def release(self) -> Released:
        """Give the connection up to a tunnel, with what was read behind the 101."""
        pool, parser, transport = self._pool, self._parser, self._transport
        self._user = self._transport = self._parser = None
        self._idle.cancel()
        self._stall.cancel()
        pool.remove(self)
        is_paused = self._is_write_paused
        side = SwitchedUpstream(transport, pool.limits, pool.loop, is_write_paused=is_paused)
        waiting = b"" if parser is None else parser.leftover
        return Released(side, waiting, is_write_paused=is_paused)

    def close(self) -> None:
        """Abort the connection; no more events follow."""
        self._user = None
        self._parser = None
        self._pool.remove(self)
        self.abort()

    def close_after(self, seconds: float) -> None:
        """Close unless a request begins within so many seconds."""
        self._idle.set(seconds)

    # The answer

    def _deliver_whole(self, user: UpstreamUser, data: bytes) -> bool:
        """The usual answer, a known head and all of its body in one read, needs no parser."""
        end = data.find(b"\r\n\r\n") + 4
        received = self._pool.known_responses.get(data[:end])
        if (
            received is None
            or self._method == b"HEAD"
            or received.framing.kind is not Kind.LENGTH
            or len(data) != end + received.framing.length
        ):
            return False
        self._respond(user, received)
        if self._user is user:
            if received.framing.length:
                user.response_side.body(memoryview(data)[end:])
            self._end(user)
        return True

    def _respond(self, user: UpstreamUser, received: ResponseReceived) -> None:
        # A body that lasts until the close leaves nothing to keep.
        is_bounded = received.framing.kind is not Kind.UNTIL_CLOSE
        self._is_persistent = is_bounded and self._pool.is_persistent(received)
        user.response(received)

    def _deliver(self, user: UpstreamUser, events: list[ResponseEvent]) -> None:
        """Hand events on until the exchange closes or releases the connection."""
        response = user.response_side
        for event in events:
            if isinstance(event, bytes):
                response.body(event)
            elif event is END:
                self._end(user)
            elif isinstance(event, ResponseReceived):
                self._respond(user, event)
            elif isinstance(event, InterimReceived):
                user.interim(event.head)
            else:
                response.trailers(event.headers)
            if self._user is not user:
                return
        response.flush()

    def _end(self, user: UpstreamUser) -> None:
        """The response is complete: keep the connection if nothing speaks against it."""
        parser, self._parser, self._user = self._parser, None, None
        is_clean = (parser is None or not parser.leftover) and user.is_request_ended
        if is_clean and self._is_persistent and self.is_open:
            self.is_reused = True
            if self._is_read_paused:  # by an exchange that is over: the next one must be read
                self.resume_reading()
            self._pool.check_in(self)
        else:
            self.close()
        user.response_ended()

    def _fail(self, failure: Failure, cause: str = "") -> None:
        user = self._user
        self.close()
        if user is not None:
            user.upstream_lost(failure, cause)

    def _new_parser(self) -> ResponseParser:
        return ResponseParser(
            request_method=self._method,
            max_head_bytes=self._limits.max_header_bytes,
            known=self._pool.known_responses,
        )

    def _stalled(self) -> None:
        self._fail(Failure.WRITE_STALL)


def loss(exc: Exception | None) -> tuple[Failure, str]:
    """Why a connection that was made is lost, and the cause where that says more.

    With TLS 1.3 a server that wants another client certificate says so after the handshake.
    """
    if isinstance(exc, ssl.SSLError):
        return Failure.TLS_FAILED, dialing.in_words(exc, "the upstream")
    return (Failure.CLOSED_EARLY if exc is None else Failure.CONNECTION_LOST), ""


class SwitchedUpstream(Connection):
    """The connection behind a 101: the upstream's side of a tunnel, without HTTP on it.

    `transport` is None if it is lost already; `is_write_paused`: its buffer is over its mark.
    """

    __slots__ = ("_handler", "_is_write_paused")

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
        self._handler: ConnectionHandler | None = None

    # TunnelSide

    def serve(self, handler: ConnectionHandler) -> None:
        """Give `handler` what comes from now on."""
        self._handler = handler
        if self._transport is None:
            handler.connection_lost()
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

    def close_truncated(self) -> None:
        """Close at once, by a reset."""
        if self._transport is not None:
            reset_on_close(self._transport)
            self.abort()

    # asyncio.Protocol

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        if self._handler is not None:
            self._handler.data_received(data)

    def eof_received(self) -> bool:
        """The upstream sends no more; whether it stays open for what still goes to it."""
        if self._handler is None or self._transport is None:
            return False
        return self._handler.eof_received() and self._transport.can_write_eof()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed, or failed with `exc`."""
        super().connection_lost(exc)
        self._report_loss(None)

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

    def _stalled(self) -> None:
        self._report_loss(Failure.WRITE_STALL)
        self.abort()

    def _report_loss(self, failure: Failure | None) -> None:
        handler, self._handler = self._handler, None
        if handler is not None:
            handler.connection_lost(failure)

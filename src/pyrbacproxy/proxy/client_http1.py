"""Serves one HTTP/1.1 client connection: parser, keep-alive, pipelining, deadlines, half-close."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Literal, TypeAlias

from pyrbacproxy.http1 import writer
from pyrbacproxy.http1.head import Headers, RemoteProtocolError, RequestHead, Response, ResponseHead
from pyrbacproxy.http1.parser import (
    END,
    End,
    RequestEvent,
    RequestParser,
    RequestReceived,
    ResponseReceived,
    Trailers,
)
from pyrbacproxy.model import ExchangeRecord, Failure, Peer
from pyrbacproxy.proxy import heads
from pyrbacproxy.proxy.decisions import Decisions
from pyrbacproxy.proxy.exchange import (
    ByteSink,
    ClientSink,
    Ending,
    Exchange,
    Limits,
    PauseReason,
    Piece,
    ReadPause,
    Released,
    ResponseProgress,
    ResponseState,
    Services,
    TunnelSide,
    Use,
    malformed,
    refusal,
)
from pyrbacproxy.proxy.transport import Deadline

# --- half closed ----------------------------------------------------------------------
#
# What becomes of an exchange whose client ended its sending after a whole request.
#
# It may still read, and then it gets its answer (FR34); or it is gone, and then the upstream's work
# is for nobody (FR51). TCP tells the two apart only to who writes: a client that is gone answers
# with a reset.
#
# Before the response head the bytes for that are a 100 (Continue), which whoever still reads
# discards (RFC 9110 §15.2.1). They are sent again, at growing distances: the loop no longer looks
# at a socket that was read to its end, so it is the write after the reset that fails and ends the
# connection. HTTP/1.0 has no 100: such a client is waited for blindly, but not for ever.
#
# Later there is nothing to send but the response: while it comes the writes tell, and when it rests
# the client is taken for gone, as by the original at once.


class HalfClosed:
    """Looks after one exchange; asks the client's side to call `woken` after a while."""

    __slots__ = (
        "_client",
        "_exchange",
        "_is_blind",
        "_limits",
        "_probe_seconds",
        "_sent_bytes",
        "_transport",
    )

    def __init__(
        self, exchange: Exchange, client: ClientSink, transport: ByteSink, limits: Limits
    ) -> None:
        self._exchange = exchange
        self._client = client
        self._transport = transport
        self._limits = limits
        self._is_blind = False
        self._probe_seconds = limits.half_closed_seconds
        self._sent_bytes = exchange.record.sent_bytes
        is_relaying = exchange.response_side.state is ResponseState.RELAYING
        client.wake_after(
            limits.half_closed_rest_seconds if is_relaying else limits.half_closed_seconds
        )

    def woken(self) -> None:
        """Make a client that is gone tell so."""
        exchange = self._exchange
        if exchange.response_side.state is not ResponseState.RELAYING:
            self._probe()
            return
        sent = exchange.record.sent_bytes
        if sent == self._sent_bytes and not self._client.is_write_paused:
            exchange.client_lost()
            return
        self._sent_bytes = sent
        self._client.wake_after(self._limits.half_closed_rest_seconds)

    def _probe(self) -> None:
        is_full = self._client.is_write_paused
        if is_full or self._exchange.request_side.head.minor:
            # A full write buffer tells by itself: it stalls, or its client is gone.
            if not is_full:
                self._transport.write(writer.GO_AHEAD)
            self._client.wake_after(self._probe_seconds)
            self._probe_seconds *= 2
        elif self._is_blind:
            self._exchange.client_lost()
        else:
            self._is_blind = True
            self._client.wake_after(self._limits.half_closed_blind_seconds)


# --- response side --------------------------------------------------------------------
#
# The response's half of an exchange with an HTTP/1 client: from the upstream's events to bytes.
#
# What comes in one read goes out in one write: a head waits for the first bytes of its body, until
# `flush` at the latest. Short pieces are joined, so that they fill one TLS record; long ones are
# passed on without a copy.

_CONTINUE = 100
# One TLS record. Joining longer pieces would cost more than the record that it saves.
_JOINED_BYTES = 16_384
# As in `request_side`.
_RELAYING = ResponseState.RELAYING
_DONE = ResponseState.DONE


class Http1Response(ResponseProgress):
    """Writes one response to an HTTP/1 client; a `ClientResponse`."""

    __slots__ = (
        "_client",
        "_has_gone_ahead",
        "_has_long",
        "_is_chunked",
        "_is_head",
        "_minor",
        "_out",
        "_record",
        "_services",
        "_trailers",
    )

    def __init__(
        self, services: Services, client: ByteSink, record: ExchangeRecord, request: RequestHead
    ) -> None:
        super().__init__()
        self._services = services
        self._client = client
        self._record = record
        self._is_head = request.method == b"HEAD"
        self._minor = request.minor
        self._out: list[Piece] = []
        self._has_long = False
        self._trailers: Headers | None = None
        self._is_chunked = False
        self._has_gone_ahead = False

    def whole(self, response: Response, *, closes: bool) -> None:
        """An answer of our own instead of the upstream's."""
        self.step(_DONE)
        self._record.status = response.status
        if not self._is_head:
            self._record.sent_bytes = len(response.body)
        self._client.write(
            heads.own_response(
                response,
                date=self._services.date(),
                is_head=self._is_head,
                closes=closes,
                minor=self._minor,
            )
        )

    def go_ahead(self) -> None:
        """A 100 (Continue), once and before the answer; never to HTTP/1.0 (RFC 9110 §15.2)."""
        is_early = self.state < _RELAYING
        if is_early and self._minor and not self._has_gone_ahead:
            self._has_gone_ahead = True
            self._client.write(writer.GO_AHEAD)

    def interim(self, head: ResponseHead) -> None:
        """Pass a 1xx on."""
        if head.status == _CONTINUE:
            self.go_ahead()
        elif self._minor:
            self._client.write(heads.interim(head))

    def head(self, received: ResponseReceived, *, closes: bool) -> bool:
        """Begin the final response; true if only the connection's end can end its body."""
        self.step(_RELAYING)
        head = self._services.heads.response(
            received,
            minor=self._minor,
            closes=closes,
            date=self._services.date(),
        )
        self._is_chunked = head.is_chunked
        self._record.status = received.head.status
        self._out.append(head.raw)
        return head.must_close

    def body(self, data: Piece) -> None:
        """Body bytes, without framing."""
        size = len(data)
        self._record.sent_bytes += size
        self._has_long = self._has_long or size > _JOINED_BYTES
        if self._is_chunked:
            self._out += (b"%x\r\n" % size, data, b"\r\n")
        else:
            self._out.append(data)

    def trailers(self, trailers: Headers) -> None:
        """What follows the upstream's chunked body."""
        self._trailers = heads.relayed_trailers(trailers, heads.same_trailers)

    def ended(self) -> None:
        """The response is complete."""
        if self._is_chunked:
            self._out.append(writer.last_chunk(self._trailers))
        self.flush()
        self.step(_DONE)

    def flush(self) -> None:
        """Send the client what was gathered."""
        out = self._out
        if not out:
            return
        if self._has_long:
            self._has_long = False
            self._client.write(*out)
        else:
            self._client.write(b"".join(out))
        out.clear()


# --- request queue --------------------------------------------------------------------
#
# What a client has sent and no exchange has taken yet: the parser's events, its fault last.
#
# The parser gives at most 16 requests at once and holds back what follows them, or what follows a
# request for a tunnel; it goes on when all that it gave is taken.

Queued: TypeAlias = RequestEvent | RemoteProtocolError


class RequestQueue:
    """The events of one connection's requests."""

    __slots__ = ("_events", "_parser")

    def __init__(self, *, max_head_bytes: int) -> None:
        self._parser = RequestParser(max_head_bytes=max_head_bytes)
        # Short, and a list takes a tenth of a deque's memory in an idle connection.
        self._events: list[Queued] = []

    def __len__(self) -> int:
        return len(self._events)

    @property
    def is_idle(self) -> bool:
        """At a message's boundary, with nothing begun and nothing waiting."""
        return not self._events and self._parser.is_idle

    @property
    def has_more(self) -> bool:
        """Whether something waits, be it unparsed."""
        return bool(self._events) or self._parser.is_held

    @property
    def has_begun_head(self) -> bool:
        """Whether some bytes of a head are here, but not all."""
        return self._parser.has_begun_head

    def feed(self, data: bytes) -> bool:
        """Take bytes; false if they only wait behind others, so that no more should be read."""
        was_held = self._parser.is_held
        self._collect(lambda: self._parser.feed(data))
        return not was_held

    def refill(self) -> None:
        """Go on with what was held back, if nothing else waits."""
        if not self._events and self._parser.is_held:
            self._collect(self._parser.resume)

    def take(self) -> Queued:
        """The next event. Raises IndexError if there is none."""
        return self._events.pop(0)

    def take_rest(self) -> bytes:
        """The bytes behind a request for a tunnel, once all of that request is taken."""
        return self._parser.take_held()

    def clear(self) -> None:
        """Forget what waits."""
        self._events.clear()

    def _collect(self, parse: Callable[[], list[RequestEvent]]) -> None:
        if self._parser.fault is not None:
            return
        try:
            self._events.extend(parse())
        except RemoteProtocolError as fault:
            self._events.append(fault)
        else:
            if self._parser.fault is not None:
                self._events.append(self._parser.fault)


# --- timeouts ----------------------------------------------------------------------
#
# How long a client's HTTP/1 connection goes on, and how it ends (RFC 9112 §9.3, §9.6).
#
# While an exchange runs, its times are its own business; between two of them, and after our last
# word, each thing that is waited for has one time in `Limits`.


class ConnectionTimeouts:
    """Ends the connection that `transport` is; `due` is told when a time is over, whosesoever.

    `is_open`: requests are taken. `has_served`: one was. `has_ended`: the client sends no
    more. `is_draining`: we are shutting down.
    """

    __slots__ = (
        "_deadline",
        "_is_in_head",
        "_limits",
        "_queue",
        "_transport",
        "has_ended",
        "has_served",
        "is_draining",
        "is_open",
    )

    def __init__(
        self,
        transport: TunnelSide,
        queue: RequestQueue,
        limits: Limits,
        *,
        loop: asyncio.AbstractEventLoop,
        due: Callable[[], None],
    ) -> None:
        self._transport = transport
        self._queue = queue
        self._limits = limits
        self._deadline = Deadline(loop, due)
        self._is_in_head = False
        self.has_served = False
        self.has_ended = False
        self.is_draining = False
        self.is_open = True
        self.idle()

    @property
    def is_last(self) -> bool:
        """Whether no request may follow the one that is served."""
        return self.is_draining or (self.has_ended and not self._queue.has_more)

    # What is waited for

    def begin(self) -> None:
        """An exchange begins."""
        self.has_served = True
        self._is_in_head = False
        self._deadline.clear()

    def wake_after(self, seconds: float) -> None:
        """The exchange's own time."""
        self._deadline.set(seconds)

    def idle(self) -> None:
        """Nothing was asked for yet."""
        self._deadline.set(self._limits.idle_seconds)

    def wait(self) -> None:
        """Wait for the next request, or for its rest; close if none may come."""
        if self._queue.has_begun_head and not self.has_ended:
            if not self._is_in_head:
                self._is_in_head = True  # once for each head, not for each byte of it (FR58)
                self._deadline.set(self._limits.read_header_seconds)
        elif self.is_draining and not (self.has_served or self.has_ended):
            self._deadline.set(self._limits.first_request_seconds)
        elif self.is_last:
            self.close()
        else:
            self.idle()

    # How it ends

    def close(self) -> None:
        """All is said."""
        self.is_open = False
        self._deadline.clear()
        self._transport.close()

    def linger(self) -> None:
        """Our last word is said, but the client may still be talking."""
        self.is_open = False
        self._queue.clear()
        self._deadline.clear()
        self._transport.linger()

    def close_truncated(self) -> None:
        """The client is to see that the end is missing."""
        self.is_open = False
        self._transport.close_truncated()

    def stop(self) -> None:
        """The connection is lost, or released to another owner."""
        self.is_open = False
        self._deadline.cancel()


# --- downstream -----------------------------------------------------------------------
# Plaintext towards the client: parser, timers, keep-alive, queue; one exchange after the other.

# Requests answered at once that one turn may take: a read of refused ones is most of a second, and
# the next read is there by then.
_TURN = 32
# As in `request_side`.
_TRUNCATE = Ending.TRUNCATE
_KEEP_ALIVE = Ending.KEEP_ALIVE


class Http1Connection:
    """One client connection's exchanges; a `ConnectionHandler` and a `ClientSink`.

    `peer` is asked for each request (`PeerSource`, or a constant without TLS).
    """

    __slots__ = (
        "_decisions",
        "_exchange",
        "_half_closed",
        "_is_advancing",
        "_loop",
        "_peer",
        "_queue",
        "_read_pause",
        "_services",
        "_timeouts",
        "_transport",
        "is_write_paused",
    )

    def __init__(
        self,
        transport: TunnelSide,
        services: Services,
        *,
        peer: Callable[[], Peer],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._transport = transport
        self._services = services
        self._peer = peer
        self._loop = loop
        self._queue = RequestQueue(max_head_bytes=services.limits.max_header_bytes)
        self._timeouts = ConnectionTimeouts(
            transport, self._queue, services.limits, loop=loop, due=self._due
        )
        self._exchange: Exchange | None = None
        self._decisions = Decisions(services, self)
        self._half_closed: HalfClosed | None = None
        self._read_pause = ReadPause()
        self._is_advancing = False
        self.is_write_paused = False

    # ConnectionHandler

    @property
    def use(self) -> Use:
        """What the connection is used for."""
        if self._exchange is not None or self._queue or not self._timeouts.is_open:
            return Use.BUSY
        if not self._timeouts.has_served:
            return Use.NEW
        return Use.IDLE if self._queue.is_idle and not self.is_write_paused else Use.BUSY

    def announce_close(self) -> None:
        """HTTP/1.1 has no word for it outside an answer."""

    def awaiting(self) -> Iterable[ExchangeRecord]:
        """The exchange, if it waits for the upstream's answer."""
        exchange = self._exchange
        return (exchange.record,) if exchange is not None and exchange.is_awaiting else ()

    def data_received(self, data: bytes) -> None:
        """Some plaintext."""
        if not self._timeouts.is_open:
            return
        if self._exchange is None and self._queue.is_idle and not self.is_write_paused:
            known = self._decisions.recall(data, self._peer())
            if known is not None:
                exchange = self._decisions.reopen(known)
                self._begin(exchange)
                exchange.forward(known.decided, known.upstream_head)
                return
        is_current = self._queue.feed(data)
        self._advance()
        if self._queue or not (is_current or self._exchange is None):
            self.pause_reading(PauseReason.QUEUE)

    def eof_received(self) -> bool:
        """The client sends no more; true keeps the other direction open."""
        self._timeouts.has_ended = True
        exchange = self._exchange
        if exchange is None or not self._timeouts.is_open:
            return self._timeouts.is_open and self._queue.has_more
        if not exchange.request_side.is_ended:
            exchange.request_truncated()
            if exchange is not self._exchange:
                return self._timeouts.is_open
        self._half_closed = HalfClosed(exchange, self, self._transport, self._services.limits)
        return True

    def connection_lost(self, failure: Failure | None = None) -> None:
        """Closed, by whomever; `failure`: by us, for this reason."""
        self._timeouts.stop()
        if self._exchange is not None:
            self._exchange.client_lost(failure)

    def pause_writing(self) -> None:
        """The write buffer is over its mark."""
        self.is_write_paused = True
        if self._exchange is not None:
            self._exchange.client_paused()

    def resume_writing(self) -> None:
        """The write buffer is low again."""
        self.is_write_paused = False
        if self._exchange is not None:
            self._exchange.client_resumed()
        self._advance()

    def drain(self) -> None:
        """Finish what is running, then close."""
        self._timeouts.is_draining = True
        self._advance()

    # ClientSink

    @property
    def must_close(self) -> bool:
        """Whether the connection ends with this exchange."""
        return self._timeouts.is_last

    def response_side(self, record: ExchangeRecord, request: RequestHead) -> Http1Response:
        """What writes the response."""
        return Http1Response(self._services, self._transport, record, request)

    def pause_reading(self, reason: PauseReason) -> None:
        """Stop handing over body bytes."""
        if self._read_pause.hold(reason):
            self._transport.pause_reading()

    def resume_reading(self, *reasons: PauseReason) -> None:
        """Go on, if no other reason holds it."""
        if self._read_pause.release(*reasons):
            self._transport.resume_reading()

    def wake_after(self, seconds: float) -> None:
        """Wake the exchange after so many seconds."""
        self._timeouts.wake_after(seconds)

    def release(self) -> Released:
        """Let go of the connection; HTTP is over on it."""
        self._exchange = self._half_closed = None
        self._timeouts.stop()
        self.resume_reading(*self._read_pause.reasons)
        rest, has_ended = self._queue.take_rest(), self._timeouts.has_ended
        return Released(self._transport, rest, has_ended, self.is_write_paused)

    def finished(self, ending: Ending) -> None:
        """The exchange is over: the next one, or the end."""
        exchange, self._exchange = self._exchange, None
        self._half_closed = None
        if is_held := bool(self._read_pause.reasons):
            self.resume_reading(PauseReason.BODY_WAITS, PauseReason.UPSTREAM_FULL)
        if ending is _TRUNCATE:
            self._timeouts.close_truncated()
        elif ending is _KEEP_ALIVE and not self._timeouts.is_last:
            if not is_held and self._queue.is_idle:
                # As `_advance` would, with less looking around: the usual case.
                self._timeouts.idle()
            else:
                self._advance()
        elif exchange is not None and exchange.request_side.is_ended and not self._queue.has_more:
            self._timeouts.close()
        else:
            self._timeouts.linger()

    # The queue

    def _advance(self) -> None:
        """Work the queue off as far as it goes; a loop, for a refusal may be answered in it."""
        if self._is_advancing or not self._timeouts.is_open:
            return
        self._is_advancing = True
        left = _TURN
        try:
            while self._timeouts.is_open and self._is_next_due():
                left -= self._exchange is None
                if left < 0:
                    self.pause_reading(PauseReason.QUEUE)
                    self._loop.call_soon(self._advance_later)
                    return
                self._take(self._queue.take())
        finally:
            self._is_advancing = False
        if self._timeouts.is_open:
            self._settle()

    def _advance_later(self) -> None:
        """Called by the loop, which would leave a connection that failed half served."""
        try:
            self._advance()
        except Exception:
            self._transport.close_truncated()
            raise

    def _is_next_due(self) -> bool:
        if self._exchange is not None:
            return bool(self._queue) and not self._exchange.request_side.is_ended
        self._queue.refill()
        return bool(self._queue) and not self.is_write_paused

    def _take(self, event: Queued) -> None:
        exchange = self._exchange
        if isinstance(event, RequestReceived):
            if not event.framing.has_body:
                self._queue.take()  # its end, which the exchange knows of already
            exchange, question = self._decisions.open(event, self._peer())
            self._begin(exchange)
            self._decisions.ask(exchange, question)
        elif isinstance(event, RemoteProtocolError):
            if exchange is None:
                self._refuse(event)
            else:
                exchange.request_malformed(event.status)
        elif exchange is not None:
            _tell_rest(exchange, event)

    def _settle(self) -> None:
        """The queue stands still: read on, and wait for what is missing."""
        if not self._queue:
            self.resume_reading(PauseReason.QUEUE)
        if self._exchange is None:
            self._timeouts.wait()
        elif self._timeouts.has_ended and not self._exchange.request_side.is_ended:
            self._exchange.request_truncated()

    def _begin(self, exchange: Exchange) -> None:
        self._timeouts.begin()
        self._exchange = exchange
        if self._timeouts.has_ended:
            self._half_closed = HalfClosed(exchange, self, self._transport, self._services.limits)

    def _refuse(self, fault: RemoteProtocolError) -> None:
        """Answer a malformed head; nothing after it is served."""
        services, answer = self._services, refusal(fault.status)
        date = services.date()
        self._transport.write(heads.own_response(answer, date=date, is_head=False, closes=True))
        record = malformed(self._peer().address, fault.status, services.clock(), fault)
        record.sent_bytes = len(answer.body)
        services.observe(record)
        self._timeouts.linger()

    def _due(self) -> None:
        """A time is over: the exchange's, or ours."""
        waker = self._half_closed or self._exchange
        if waker is None:
            self._timeouts.close()
        else:
            waker.woken()


def _tell_rest(exchange: Exchange, event: bytes | Trailers | Literal[End.END]) -> None:
    """What follows a request's head."""
    if event is END:
        exchange.request_ended()
    elif isinstance(event, bytes):
        exchange.request_side.body(event)
    else:
        exchange.request_side.trailers(event.headers)

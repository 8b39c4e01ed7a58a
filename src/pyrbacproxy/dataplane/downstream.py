"""Plaintext towards the client: parser, timers, keep-alive, queue; one exchange after the other."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Literal

from pyrbacproxy.dataplane.decisions import Decisions
from pyrbacproxy.dataplane.exchange import Exchange
from pyrbacproxy.dataplane.flow_control import Brake, Reason
from pyrbacproxy.dataplane.half_closed import HalfClosed
from pyrbacproxy.dataplane.malformed import malformed, refusal
from pyrbacproxy.dataplane.persistence import Persistence
from pyrbacproxy.dataplane.request_queue import Queued, RequestQueue
from pyrbacproxy.dataplane.response_side import ResponseSide
from pyrbacproxy.dataplane.services import Services
from pyrbacproxy.dataplane.sinks import Ending, Released, Side, Use
from pyrbacproxy.http1 import writer
from pyrbacproxy.http1.errors import RemoteProtocolError
from pyrbacproxy.http1.head import RequestHead
from pyrbacproxy.http1.parser import END, End, RequestReceived, Trailers
from pyrbacproxy.peer import Peer
from pyrbacproxy.record import ExchangeRecord, Failure

# Requests answered at once that one turn may take: a read of refused ones is most of a second, and
# the next read is there by then.
_TURN = 32
# As in `request_side`.
_ABORT = Ending.ABORT
_KEEP_ALIVE = Ending.KEEP_ALIVE


class Downstream:
    """One client connection's exchanges; a `sinks.Inner` and a `sinks.ClientSink`.

    `peer` is asked for each request (`PeerSource`, or a constant without TLS).
    """

    __slots__ = (
        "_brake",
        "_decisions",
        "_exchange",
        "_half_closed",
        "_is_advancing",
        "_loop",
        "_peer",
        "_persistence",
        "_queue",
        "_services",
        "_transport",
        "is_write_paused",
    )

    def __init__(
        self,
        transport: Side,
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
        self._persistence = Persistence(
            transport, self._queue, services.limits, loop=loop, due=self._due
        )
        self._exchange: Exchange | None = None
        self._decisions = Decisions(services, self)
        self._half_closed: HalfClosed | None = None
        self._brake = Brake()
        self._is_advancing = False
        self.is_write_paused = False

    # sinks.Inner

    @property
    def use(self) -> Use:
        """What the connection is used for."""
        if self._exchange is not None or self._queue or not self._persistence.is_open:
            return Use.BUSY
        if not self._persistence.has_served:
            return Use.NEW
        return Use.IDLE if self._queue.is_idle and not self.is_write_paused else Use.BUSY

    def say_goodbye(self) -> None:
        """HTTP/1.1 has no word for it outside an answer."""

    def awaiting(self) -> Iterable[ExchangeRecord]:
        """The exchange, if it waits for the upstream's answer."""
        exchange = self._exchange
        return (exchange.record,) if exchange is not None and exchange.is_awaiting else ()

    def data_received(self, data: bytes) -> None:
        """Some plaintext."""
        if not self._persistence.is_open:
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
            self.pause_reading(Reason.QUEUE)

    def eof_received(self) -> bool:
        """The client sends no more; true keeps the other direction open."""
        self._persistence.has_ended = True
        exchange = self._exchange
        if exchange is None or not self._persistence.is_open:
            return self._persistence.is_open and self._queue.has_more
        if not exchange.request_side.is_ended:
            exchange.request_cut_short()
            if exchange is not self._exchange:
                return self._persistence.is_open
        self._half_closed = HalfClosed(exchange, self, self._transport, self._services.limits)
        return True

    def connection_lost(self, failure: Failure | None = None) -> None:
        """Closed, by whomever; `failure`: by us, for this reason."""
        self._persistence.let_go()
        if self._exchange is not None:
            self._exchange.client_gone(failure)

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
        self._persistence.is_draining = True
        self._advance()

    # sinks.ClientSink

    @property
    def must_close(self) -> bool:
        """Whether the connection ends with this exchange."""
        return self._persistence.is_last

    def response_side(self, record: ExchangeRecord, request: RequestHead) -> ResponseSide:
        """What writes the response."""
        return ResponseSide(self._services, self._transport, record, request)

    def pause_reading(self, reason: Reason) -> None:
        """Stop handing over body bytes."""
        if self._brake.hold(reason):
            self._transport.pause_reading()

    def resume_reading(self, *reasons: Reason) -> None:
        """Go on, if nobody else holds it."""
        if self._brake.release(*reasons):
            self._transport.resume_reading()

    def wake_after(self, seconds: float) -> None:
        """Wake the exchange after so many seconds."""
        self._persistence.wake_after(seconds)

    def release(self) -> Released:
        """Let go of the connection; HTTP is over on it."""
        self._exchange = self._half_closed = None
        self._persistence.let_go()
        self.resume_reading(*self._brake.reasons)
        rest, has_ended = self._queue.take_rest(), self._persistence.has_ended
        return Released(self._transport, rest, has_ended, self.is_write_paused)

    def finished(self, ending: Ending) -> None:
        """The exchange is over: the next one, or the end."""
        exchange, self._exchange = self._exchange, None
        self._half_closed = None
        if is_held := bool(self._brake.reasons):
            self.resume_reading(Reason.BODY_WAITS, Reason.UPSTREAM_FULL)
        if ending is _ABORT:
            self._persistence.cut()
        elif ending is _KEEP_ALIVE and not self._persistence.is_last:
            if not is_held and self._queue.is_idle:
                # As `_advance` would, with less looking around: the usual case.
                self._persistence.idle()
            else:
                self._advance()
        elif exchange is not None and exchange.request_side.is_ended and not self._queue.has_more:
            self._persistence.close()
        else:
            self._persistence.linger()

    # The queue

    def _advance(self) -> None:
        """Work the queue off as far as it goes; a loop, for a refusal may be answered in it."""
        if self._is_advancing or not self._persistence.is_open:
            return
        self._is_advancing = True
        left = _TURN
        try:
            while self._persistence.is_open and self._is_next_due():
                left -= self._exchange is None
                if left < 0:
                    self.pause_reading(Reason.QUEUE)
                    self._loop.call_soon(self._advance_later)
                    return
                self._take(self._queue.take())
        finally:
            self._is_advancing = False
        if self._persistence.is_open:
            self._settle()

    def _advance_later(self) -> None:
        """Called by the loop, which would leave a connection that failed half served."""
        try:
            self._advance()
        except Exception:
            self._transport.cut()
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
                exchange.request_broken(event.status)
        elif exchange is not None:
            _tell_rest(exchange, event)

    def _settle(self) -> None:
        """The queue stands still: read on, and wait for what is missing."""
        if not self._queue:
            self.resume_reading(Reason.QUEUE)
        if self._exchange is None:
            self._persistence.wait()
        elif self._persistence.has_ended and not self._exchange.request_side.is_ended:
            self._exchange.request_cut_short()

    def _begin(self, exchange: Exchange) -> None:
        self._persistence.begin()
        self._exchange = exchange
        if self._persistence.has_ended:
            self._half_closed = HalfClosed(exchange, self, self._transport, self._services.limits)

    def _refuse(self, fault: RemoteProtocolError) -> None:
        """Answer a head that is none; nothing after it is served."""
        services, answer = self._services, refusal(fault.status)
        whole = writer.whole(answer, date=services.date(), is_head=False, close=True)
        self._transport.write(whole)
        record = malformed(self._peer().address, fault.status, services.clock(), fault)
        record.sent_bytes = len(answer.body)
        services.observe(record)
        self._persistence.linger()

    def _due(self) -> None:
        """A time is over: the exchange's, or ours."""
        waker = self._half_closed or self._exchange
        if waker is None:
            self._persistence.close()
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

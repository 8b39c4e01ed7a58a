"""One stream of an HTTP/2 client: the client's side of one exchange, and what of its answer waits.

The two directions of a stream are held apart from those of all others: a body that the upstream
does not take leaves this stream's window closed, and a client that opens no window for this stream
pauses this stream's upstream.
"""

import asyncio
from typing import Protocol

from pyrbacproxy.dataplane.deadline import Deadline
from pyrbacproxy.dataplane.exchange import Exchange
from pyrbacproxy.dataplane.flow_control import Brake, Reason
from pyrbacproxy.dataplane.services import Services
from pyrbacproxy.dataplane.sinks import Ending, Piece, Released
from pyrbacproxy.http1.errors import LocalProtocolError
from pyrbacproxy.http1.framing import Kind
from pyrbacproxy.http1.head import Headers, RequestHead
from pyrbacproxy.http2.errors import Code, MalformedStreamError
from pyrbacproxy.http2.head_block import Fields
from pyrbacproxy.http2.outbox import Outbox
from pyrbacproxy.http2.response import Http2Response, response_to
from pyrbacproxy.record import ExchangeRecord, Failure

# The upstream is read no more while so much waits for a window, and again when so little does.
_HIGH_BYTES = 32_768
_LOW_BYTES = 8_192


class Streams(Protocol):
    """The connection, as one of its streams needs it."""

    def send_head(self, stream: int, fields: Fields, *, ends: bool) -> None:
        """A head, or trailers."""
        ...

    def send_data(self, stream: int, data: Piece, *, ends: bool) -> None:
        """Body bytes for which there is room."""
        ...

    def room(self, stream: int) -> int:
        """How many bytes of body may go out now; none while the connection's buffer is full."""
        ...

    def credit(self, stream: int, size: int) -> None:
        """The client may send so much more on the stream."""
        ...

    def reset(self, stream: int, code: Code) -> None:
        """End the stream early; it is told nothing any more."""
        ...

    def answered(self, stream: int) -> None:
        """The whole response is sent."""
        ...

    def flush(self) -> None:
        """Send what was gathered."""
        ...


class Http2Stream:
    """A `sinks.ClientSink` and a `response.FrameSink`.

    `exchange` is what it carries, while it lasts. `is_open`: something may still be sent on it.
    `has_answered`: a final head was. `has_whole_request`: the client has ended its sending.
    `window` is the stream's, in bytes.
    """

    __slots__ = (
        "_brake",
        "_ending",
        "_is_paused",
        "_left_bytes",
        "_loop",
        "_outbox",
        "_owed_bytes",
        "_services",
        "_stall",
        "_streams",
        "_wake",
        "_window",
        "exchange",
        "has_answered",
        "has_whole_request",
        "is_open",
        "number",
    )

    def __init__(
        self,
        number: int,
        streams: Streams,
        services: Services,
        *,
        window: int,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.number = number
        self.is_open = True
        self.has_answered = False
        self.has_whole_request = False
        self._streams = streams
        self._services = services
        self._window = window
        self._loop = loop
        self.exchange: Exchange | None = None
        self._brake = Brake()
        self._outbox = Outbox()
        # The trailers, once the body is complete.
        self._ending: Fields | None = None
        self._is_paused = False
        # None: the client did not say how long its body is.
        self._left_bytes: int | None = None
        self._owed_bytes = 0
        # Made when they are needed: most streams are over before.
        self._wake: Deadline | None = None
        self._stall: Deadline | None = None

    def begin(self, exchange: Exchange) -> None:
        """Here is the exchange that this stream carries."""
        self.exchange = exchange
        framing = exchange.request_side.framing
        if framing.kind is not Kind.CHUNKED:
            self._left_bytes = framing.length

    # The client's frames

    def data(self, data: bytes, flow_bytes: int) -> None:
        """Some of the body. Raises MalformedStreamError if that is more than was announced."""
        if self._left_bytes is not None:
            self._left_bytes -= len(data)
            if self._left_bytes < 0:
                raise MalformedStreamError("a body longer than its length")
        self._owed_bytes += flow_bytes
        if self.exchange is not None and data:
            self.exchange.request_side.body(data)
        self._credit()

    def ended(self, trailers: Headers) -> None:
        """The request is complete. Raises MalformedStreamError if something of it is missing."""
        self.has_whole_request = True
        if self._left_bytes:
            raise MalformedStreamError("a body shorter than its length")
        exchange = self.exchange
        if exchange is not None and exchange.request_side.framing.has_body:
            if trailers.pairs:
                exchange.request_side.trailers(trailers)
            exchange.request_ended()

    def gone(self, failure: Failure | None = None) -> None:
        """The stream is over before its time, whoever ended it; `failure`: we did, and why."""
        self.close()
        if self.exchange is not None:
            self.exchange.client_gone(failure)

    # sinks.ClientSink

    @property
    def is_write_paused(self) -> bool:
        """Whether something waits for a window."""
        return self._outbox.size > 0

    @property
    def must_close(self) -> bool:
        """A stream carries one exchange: nothing follows for which a request had to be drained."""
        return True

    def response_side(self, record: ExchangeRecord, request: RequestHead) -> Http2Response:
        """What writes the response."""
        return response_to(request, self, record, date=self._services.date)

    def pause_reading(self, reason: Reason) -> None:
        """Open the stream's window no further."""
        self._brake.hold(reason)

    def resume_reading(self, *reasons: Reason) -> None:
        """Go on, if nobody else holds it."""
        if self._brake.release(*reasons):
            self._credit()

    def wake_after(self, seconds: float) -> None:
        """Wake the exchange after so many seconds."""
        if self._wake is None:
            self._wake = Deadline(self._loop, self._woken)
        self._wake.set(seconds)

    def release(self) -> Released:
        """Raises LocalProtocolError: no HTTP/2 client can ask for an upgrade (RFC 9113 §8.6)."""
        raise LocalProtocolError("an upgrade of an HTTP/2 stream")

    def finished(self, ending: Ending) -> None:
        """The exchange is over; what waits is still sent, unless the end is missing."""
        self.exchange = None
        if self._wake is not None:
            self._wake.cancel()
        if ending is Ending.ABORT and self.is_open:
            self.close()
            self._streams.reset(self.number, Code.INTERNAL_ERROR)

    # response.FrameSink

    def send_head(self, fields: Fields, *, ends: bool) -> None:
        """A head, interim or final; `ends`: it is the whole response."""
        if not self.is_open:
            return
        self.has_answered = self.has_answered or fields[0][1] >= b"2"
        self._streams.send_head(self.number, fields, ends=ends)
        if ends:
            self._sent_all()

    def send_body(self, data: Piece) -> None:
        """Some of the body; it is sent with the next `flush`."""
        if self.is_open:
            self._outbox.put(data)

    def send_end(self, trailers: Fields) -> None:
        """The end of the body, with trailers if there are any; sent with the next `flush`."""
        self._ending = trailers

    def flush(self) -> None:
        """That was all for now."""
        while self.send_one():
            pass
        self.watch()
        self._streams.flush()

    # What waits

    def send_one(self) -> bool:
        """Send one frame of what waits; false if nothing may go."""
        outbox, ending = self._outbox, self._ending
        if not outbox.size:
            return self._send_ending(ending)
        room = self._streams.room(self.number)
        if room <= 0:
            return False
        piece = outbox.take(room)
        is_last = not outbox.size and ending == []
        self._streams.send_data(self.number, piece, ends=is_last)
        if self._stall is not None:
            self._stall.set(self._services.limits.write_stall_seconds)
        if is_last:
            self._sent_all()
        return True

    def watch(self) -> None:
        """Pause or resume the upstream, and give a client that takes nothing so much time."""
        waiting, exchange = self._outbox.size, self.exchange
        if exchange is not None and self._is_paused != (waiting > self._mark):
            self._is_paused = not self._is_paused
            if self._is_paused:
                exchange.client_paused()
            else:
                exchange.client_resumed()
        if not waiting:
            self._end_stall()
        elif self._stall is None:
            self._stall = Deadline(self._loop, self._stalled)
            self._stall.set(self._services.limits.write_stall_seconds)

    @property
    def _mark(self) -> int:
        return _LOW_BYTES if self._is_paused else _HIGH_BYTES

    def _send_ending(self, ending: Fields | None) -> bool:
        """Send the end that nothing waits before, if it is known; whether it was."""
        if ending is None or not self.is_open:
            return False
        if ending:
            self._streams.send_head(self.number, ending, ends=True)
        else:
            self._streams.send_data(self.number, b"", ends=True)
        self._sent_all()
        return True

    def _sent_all(self) -> None:
        self.close()
        self._streams.answered(self.number)

    def close(self) -> None:
        """Send nothing any more, nor what waits."""
        self.is_open = False
        self._outbox.clear()
        self._end_stall()

    def _end_stall(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def _credit(self) -> None:
        """Open the window by what was taken, in large steps."""
        is_due = 2 * self._owed_bytes >= self._window and not self._brake.reasons
        if is_due and self.is_open and not self.has_whole_request and self.exchange is not None:
            self._streams.credit(self.number, self._owed_bytes)
            self._owed_bytes = 0

    def _woken(self) -> None:
        if self.exchange is not None:
            self.exchange.woken()

    def _stalled(self) -> None:
        self.close()
        self._streams.reset(self.number, Code.CANCEL)
        if self.exchange is not None:
            self.exchange.client_gone(Failure.CLIENT_STOPPED_READING)

"""One stream of an HTTP/2 client: its request, response and unsent body bytes."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from pyrbacproxy.http1.framing import Kind
from pyrbacproxy.http1.head import Headers, LocalProtocolError, RequestHead, Response, ResponseHead
from pyrbacproxy.http1.parser import ResponseReceived
from pyrbacproxy.http2.codec import Fields
from pyrbacproxy.http2.fields import interim_fields, own_fields, relayed_fields, trailer_fields
from pyrbacproxy.http2.limits import Code, MalformedStreamError
from pyrbacproxy.model import ExchangeRecord, Failure
from pyrbacproxy.proxy.exchange import (
    Ending,
    Exchange,
    PauseReason,
    Piece,
    ReadPause,
    Released,
    ResponseProgress,
    ResponseState,
    Services,
)
from pyrbacproxy.proxy.heads import relayed_trailers, same_trailers
from pyrbacproxy.proxy.transport import Deadline
from pyrbacproxy.values import replace

# --- outbox ---------------------------------------------------------------------------
# What of one response's body waits until the client's windows let it go.


class Outbox:
    """Pieces in order, cut as small as there is room. `size` is how many bytes wait.

    A piece may be a view of a buffer as large as one read; `body` keeps it alive.
    """

    __slots__ = ("_pieces", "size")

    def __init__(self) -> None:
        self._pieces: deque[Piece] = deque()
        self.size = 0

    def put(self, piece: Piece) -> None:
        """Add bytes at the end."""
        if piece:
            self._pieces.append(piece)
            self.size += len(piece)

    def take(self, room: int) -> Piece:
        """The next bytes, at most `room`; b"" if there are none. Short pieces are joined."""
        if not self._pieces:
            return b""
        first = self._pieces.popleft()
        if len(first) > room:
            view = memoryview(first)
            self._pieces.appendleft(view[room:])
            first = view[:room]
        elif self._pieces and len(first) + len(self._pieces[0]) <= room:
            first = self._joined(first, room)
        self.size -= len(first)
        return first

    def clear(self) -> None:
        """Forget what waits."""
        self._pieces.clear()
        self.size = 0

    def _joined(self, first: Piece, room: int) -> bytes:
        pieces, size = [first], len(first)
        while self._pieces and size + len(self._pieces[0]) <= room:
            piece = self._pieces.popleft()
            pieces.append(piece)
            size += len(piece)
        return b"".join(pieces)


# --- response -------------------------------------------------------------------------
#
# The response's half of an exchange with an HTTP/2 client: from the upstream's events to frames.
#
# A head waits for what follows it, until `flush` at the latest, so that one without a body ends its
# stream by itself.

_CONTINUE = 100
# gRPC's PROTOCOL-HTTP2.md; the kind of message follows behind a +.
_GRPC = b"application/grpc"
_GO_AHEAD: Fields = [(b":status", b"100")]


class FrameSink(Protocol):
    """One stream, as the response needs it. What is sent on a stream that was reset vanishes."""

    def send_head(self, fields: Fields, *, ends: bool) -> None:
        """A head, interim or final; `ends`: it is the whole response."""
        ...

    def send_body(self, data: Piece) -> None:
        """Some of the body."""
        ...

    def send_end(self, trailers: Fields) -> None:
        """The end of the body, with trailers if there are any."""
        ...

    def flush(self) -> None:
        """That was all for now."""
        ...


def response_to(
    request: RequestHead, stream: FrameSink, record: ExchangeRecord, *, date: Callable[[], bytes]
) -> "Http2Response":
    """What writes the response to this request."""
    content_type = request.headers.get(b"content-type") or b""
    return Http2Response(
        stream,
        record,
        date=date,
        is_head=request.method == b"HEAD",
        is_grpc=content_type.startswith(_GRPC),
    )


class Http2Response(ResponseProgress):
    """Writes one response to an HTTP/2 client; a `ClientResponse`. `date` is an HttpDate.

    `is_head`, `is_grpc`: what was asked for.
    """

    __slots__ = (
        "_date",
        "_has_gone_ahead",
        "_head",
        "_is_grpc",
        "_is_head",
        "_record",
        "_stream",
        "_trailers",
    )

    def __init__(
        self,
        stream: FrameSink,
        record: ExchangeRecord,
        *,
        date: Callable[[], bytes],
        is_head: bool,
        is_grpc: bool = False,
    ) -> None:
        super().__init__()
        self._stream = stream
        self._record = record
        self._date = date
        self._is_head = is_head
        self._is_grpc = is_grpc
        self._has_gone_ahead = False
        # What still waits for the first bytes of its body.
        self._head: Fields | None = None
        self._trailers: Fields = []

    def whole(self, response: Response, *, closes: bool) -> None:  # noqa: ARG002 - a stream always ends
        """An answer of our own instead of the upstream's."""
        self.step(ResponseState.DONE)
        self._record.status = response.status
        if self._is_grpc:
            # Its clients show no text, and the end of one may reach them before its status does:
            # they tell of an unknown error then, and not of a refusal.
            response = replace(response, body=b"")
        fields = own_fields(response, self._date())
        body = b"" if self._is_head else response.body
        self._record.sent_bytes = len(body)
        self._stream.send_head(fields, ends=not body)
        if body:
            self._stream.send_body(body)
            self._stream.send_end([])
        self._stream.flush()

    def go_ahead(self) -> None:
        """A 100 (Continue), once and before the answer."""
        if self.state < ResponseState.RELAYING and not self._has_gone_ahead:
            self._has_gone_ahead = True
            self._stream.send_head(_GO_AHEAD, ends=False)
            self._stream.flush()

    def interim(self, head: ResponseHead) -> None:
        """Pass a 1xx on."""
        if head.status == _CONTINUE:
            self.go_ahead()
        else:
            self._stream.send_head(interim_fields(head), ends=False)
            self._stream.flush()

    def head(self, received: ResponseReceived, *, closes: bool) -> bool:  # noqa: ARG002 - a stream always ends
        """Begin the final response; never true, for its end can be told."""
        self.step(ResponseState.RELAYING)
        self._head = relayed_fields(received, self._date())
        self._record.status = received.head.status
        return False

    def body(self, data: Piece) -> None:
        """Body bytes, without framing."""
        self._record.sent_bytes += len(data)
        self._send_head(ends=False)
        self._stream.send_body(data)

    def trailers(self, trailers: Headers) -> None:
        """What follows the upstream's body."""
        self._trailers = trailer_fields(relayed_trailers(trailers, same_trailers))

    def ended(self) -> None:
        """The response is complete."""
        is_all = self._head is not None and not self._trailers
        self._send_head(ends=is_all)
        if not is_all:
            self._stream.send_end(self._trailers)
        self._stream.flush()
        self.step(ResponseState.DONE)

    def flush(self) -> None:
        """Send the client what was gathered."""
        self._send_head(ends=False)
        self._stream.flush()

    def _send_head(self, *, ends: bool) -> None:
        fields, self._head = self._head, None
        if fields is not None:
            self._stream.send_head(fields, ends=ends)


# --- stream ---------------------------------------------------------------------------
#
# One stream of an HTTP/2 client: the client's side of one exchange, and what of its answer waits.
#
# The two directions of a stream are held apart from those of all others: a body that the upstream
# does not take leaves this stream's window closed, and a client that opens no window for this
# stream pauses this stream's upstream.

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
        """End the stream early; it gets no more events."""
        ...

    def answered(self, stream: int) -> None:
        """The whole response is sent."""
        ...

    def flush(self) -> None:
        """Send what was gathered."""
        ...


class Http2Stream:
    """A `ClientSink` and a `FrameSink`.

    `exchange` is what it carries, while it lasts. `is_open`: something may still be sent on it.
    `has_answered`: a final head was. `has_whole_request`: the client has ended its sending.
    `window` is the stream's, in bytes.
    """

    __slots__ = (
        "_ending",
        "_is_paused",
        "_left_bytes",
        "_loop",
        "_outbox",
        "_owed_bytes",
        "_read_pause",
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
        self._read_pause = ReadPause()
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
        """The stream was ended early by either side; `failure` says why, if by us."""
        self.close()
        if self.exchange is not None:
            self.exchange.client_lost(failure)

    # ClientSink

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

    def pause_reading(self, reason: PauseReason) -> None:
        """Open the stream's window no further."""
        self._read_pause.hold(reason)

    def resume_reading(self, *reasons: PauseReason) -> None:
        """Go on, if nobody else holds it."""
        if self._read_pause.release(*reasons):
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
        if ending is Ending.TRUNCATE and self.is_open:
            self.close()
            self._streams.reset(self.number, Code.INTERNAL_ERROR)

    # FrameSink

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
        is_due = 2 * self._owed_bytes >= self._window and not self._read_pause.reasons
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
            self.exchange.client_lost(Failure.CLIENT_STOPPED_READING)

"""Serves one HTTP/2 client connection: streams, frames, deadlines and GOAWAY."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from enum import Enum, auto

from pyrbacproxy.http1.head import RemoteProtocolError, Response
from pyrbacproxy.http1.parser import RequestReceived
from pyrbacproxy.http2 import frames
from pyrbacproxy.http2.codec import (
    GONE_AWAY,
    OPENING,
    Budget,
    Data,
    Ended,
    Engine,
    Fields,
    Happened,
    Opened,
    Reset,
    settings_cost,
)
from pyrbacproxy.http2.fields import checked_trailers, misplaced_field, read_head, written_head
from pyrbacproxy.http2.frames import Frame, FrameReader
from pyrbacproxy.http2.limits import Code, ConnectionFaultError, Http2Limits, MalformedStreamError
from pyrbacproxy.http2.stream import Http2Response, Http2Stream, Streams
from pyrbacproxy.model import ExchangeRecord, Failure, Peer
from pyrbacproxy.proxy.decisions import Decisions
from pyrbacproxy.proxy.exchange import (
    ByteSink,
    Limits,
    Piece,
    Services,
    TunnelSide,
    Use,
    malformed,
    refusal,
)
from pyrbacproxy.proxy.transport import Deadline

# --- streams --------------------------------------------------------------------------
# The open streams of one HTTP/2 connection, and all that is written to it, each in its turn.

_MOST_GATHERED_BYTES = 65_536


class OpenStreams:
    """A `stream.Streams`.

    `turned` is called once at the end of each turn of the loop in which anything was sent or is
    over: to `write`, all in one go. `is_write_paused`: the connection's write buffer is over its
    mark.
    """

    __slots__ = (
        "_budget",
        "_by_number",
        "_engine",
        "_has_turned",
        "_loop",
        "_sink",
        "_turned",
        "is_write_paused",
    )

    def __init__(
        self,
        engine: Engine,
        sink: ByteSink,
        budget: Budget,
        *,
        loop: asyncio.AbstractEventLoop,
        turned: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._sink = sink
        self._budget = budget
        self._loop = loop
        self._turned = turned
        self._has_turned = True
        self._by_number: dict[int, Http2Stream] = {}
        self.is_write_paused = False

    def __len__(self) -> int:
        return len(self._by_number)

    def awaiting(self) -> list[ExchangeRecord]:
        """The exchanges that have a request at the upstream and no answer yet."""
        exchanges = (stream.exchange for stream in self._by_number.values())
        return [found.record for found in exchanges if found is not None and found.is_awaiting]

    def add(self, stream: Http2Stream) -> None:
        """One more."""
        self._by_number[stream.number] = stream

    def get(self, number: int) -> Http2Stream | None:
        """The stream of that number, if it is not over."""
        return self._by_number.get(number)

    def drop(self, number: int) -> Http2Stream | None:
        """The client ended it: forget it. It is for the caller to tell it so."""
        return self._by_number.pop(number, None)

    def end_all(self, failure: Failure | None = None) -> None:
        """The connection is over; `failure`: by us, for this reason.

        What one of them leaves behind may be another's chance to go on: so all are closed before,
        and who waits, mostly the newest, goes first.
        """
        streams = list(reversed(self._by_number.values()))
        self._by_number.clear()
        for stream in streams:
            stream.close()
        for stream in streams:
            stream.gone(failure)

    # stream.Streams

    def send_head(self, stream: int, fields: Fields, *, ends: bool) -> None:
        """A head, or trailers."""
        self._engine.send_head(stream, fields, ends=ends)

    def send_data(self, stream: int, data: Piece, *, ends: bool) -> None:
        """Body bytes for which there is room."""
        self._engine.send_data(stream, data, ends=ends)
        self._budget.moved(len(data))

    def room(self, stream: int) -> int:
        """How many bytes of body may go out now; none while the connection's buffer is full."""
        return 0 if self.is_write_paused else self._engine.room(stream)

    def credit(self, stream: int, size: int) -> None:
        """The client may send so much more on the stream."""
        self._engine.credit(stream, size)
        self.flush()

    def reset(self, stream: int, code: Code) -> None:
        """End the stream early."""
        self._engine.reset(stream, code)
        self._over(stream)

    def answered(self, stream: int) -> None:
        """The whole response is sent; what more the client sends of its request is dropped."""
        self._budget.answered()
        if not self._by_number[stream].has_whole_request:
            self._engine.reset(stream, Code.NO_ERROR)
        self._over(stream)

    def flush(self) -> None:
        """Send what was gathered when the turn ends, or now if it is much."""
        if self._has_turned:
            self._has_turned = False
            self._loop.call_soon(self._turn)
        self._write_much()

    # All together

    def write(self) -> None:
        """Send what was gathered."""
        data = self._engine.outgoing()
        if data:
            self._sink.write(data)

    @property
    def is_overfull(self) -> bool:
        """Whether the client must first take what it was sent; what was gathered counts, if much.

        Bodies wait for windows, but nothing else that is written does: heads, acknowledgements.
        """
        self._write_much()
        return self.is_write_paused

    def pump(self) -> None:
        """A window has opened: a frame of each stream that waits, in turns."""
        waiting = [stream for stream in self._by_number.values() if stream.is_write_paused]
        sending = waiting
        while sending:
            sending = [stream for stream in sending if stream.send_one()]
            self.write()
        for stream in waiting:
            stream.watch()

    def _over(self, stream: int) -> None:
        self._by_number.pop(stream, None)
        self.flush()

    def _turn(self) -> None:
        self._has_turned = True
        self._turned()

    def _write_much(self) -> None:
        """So that the connection's buffer tells in time that it is full."""
        if self._engine.gathered > _MOST_GATHERED_BYTES:
            self.write()


# --- requests -------------------------------------------------------------------------
# A stream that a client opens → an exchange that is decided on, or an answer at once.

_TOO_LARGE = 431
# What is remembered is held for as long as the connection lives.
_LONGEST_KNOWN = 8192


class Requests:
    """Puts the requests of one connection to the decisions; `peer` is asked for each.

    `window` is what a stream may send ahead, in bytes.
    """

    __slots__ = ("_known_fields", "_known_raw", "_loop", "_peer", "_services", "_window")

    def __init__(
        self,
        services: Services,
        peer: Callable[[], Peer],
        *,
        window: int,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._services = services
        self._peer = peer
        self._window = window
        self._loop = loop
        # A client mostly asks the same again, and then `head_block` gives the same fields.
        self._known_fields: Fields | None = None
        self._known_raw = b""

    def stream(self, streams: Streams, number: int, *, is_whole: bool) -> Http2Stream:
        """A stream that was opened; `is_whole`: no body follows its head."""
        stream = Http2Stream(number, streams, self._services, window=self._window, loop=self._loop)
        stream.has_whole_request = is_whole
        return stream

    def begin(self, stream: Http2Stream, fields: Fields | None) -> None:
        """Take a head (None: it was too large). Raises MalformedStreamError."""
        peer = self._peer()
        try:
            self._begin(stream, fields, peer)
        except MalformedStreamError:
            services = self._services
            services.observe(malformed(peer.address, 0, services.clock()))
            raise

    def _begin(self, stream: Http2Stream, fields: Fields | None, peer: Peer) -> None:
        misplaced = refusal(_TOO_LARGE) if fields is None else misplaced_field(fields)
        if misplaced is not None:
            why = "the head is too large" if fields is None else "a misplaced header field"
            self._refuse(stream, misplaced, peer, fields, why)
            return
        assert fields is not None, "a head that is too large was refused"  # noqa: S101 - for the type
        decisions = Decisions(self._services, stream)
        try:
            raw = self._written(fields, is_whole=stream.has_whole_request)
            known = decisions.recall(raw, peer)
            received = self._read(raw) if known is None else known.question.received
        except RemoteProtocolError as fault:
            self._refuse(stream, refusal(fault.status), peer, fields, fault)
            return
        if stream.has_whole_request and received.framing.has_body:
            raise MalformedStreamError("a body shorter than its length")
        if known is not None:
            exchange = decisions.reopen(known)
            stream.begin(exchange)
            exchange.forward(known.decided, known.upstream_head)
        else:
            exchange, question = decisions.open(received, peer)
            stream.begin(exchange)
            decisions.ask(exchange, question)

    def _written(self, fields: Fields, *, is_whole: bool) -> bytes:
        if is_whole and fields is self._known_fields:
            return self._known_raw
        raw = written_head(fields, is_whole=is_whole)
        if is_whole and len(raw) <= _LONGEST_KNOWN:
            self._known_fields, self._known_raw = fields, raw
        return raw

    def _read(self, raw: bytes) -> RequestReceived:
        return read_head(raw, max_bytes=self._services.limits.max_header_bytes)

    def _refuse(
        self,
        stream: Http2Stream,
        response: Response,
        peer: Peer,
        fields: Fields | None,
        why: object,
    ) -> None:
        """Answer a head that is not valid."""
        services = self._services
        record = malformed(peer.address, response.status, services.clock(), why)
        is_head = (b":method", b"HEAD") in (fields or ())
        answer = Http2Response(stream, record, date=services.date, is_head=is_head)
        answer.whole(response, closes=True)
        services.observe(record)


# --- patience -------------------------------------------------------------------------
#
# How long an HTTP/2 connection as a whole is waited for, and what for.
#
# A time begins once for each thing that is waited for, so that neither bytes of a head nor pings
# can stretch it (FR58).


class Waits(Enum):
    """What the connection is waited for with."""

    PREFACE = auto()  # and the first settings
    FIRST = auto()  # we are stopping, and nothing was asked for yet
    BLOCK = auto()  # the rest of a head
    IDLE = auto()
    NOTHING = auto()  # streams have their own times


class Patience:
    """Calls `due` when the time for what is waited for is over. `waits` tells what that is."""

    __slots__ = ("_after", "_deadline", "_seconds", "waits")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, limits: Limits, due: Callable[[], None]
    ) -> None:
        self._seconds = {
            Waits.PREFACE: limits.read_header_seconds,
            Waits.FIRST: limits.first_request_seconds,
            Waits.BLOCK: limits.read_header_seconds,
            Waits.IDLE: limits.idle_seconds,
        }
        self._deadline = Deadline(loop, due)
        self.waits = Waits.NOTHING
        self._after = 0

    def wait(self, waits: Waits, *, after: int = 0) -> None:
        """Wait for this from now on, unless it is waited for since this last stream already."""
        if waits is self.waits and after == self._after:
            return
        self.waits, self._after = waits, after
        if waits is Waits.NOTHING:
            self._deadline.clear()
        else:
            self._deadline.set(self._seconds[waits])

    def cancel(self) -> None:
        """Give the loop's timer back; for the end of the connection."""
        self._deadline.cancel()


# --- intake ---------------------------------------------------------------------------
# What a client's frames do to its streams: open, feed and reset them; each frame is paid for.


class Intake:
    """Takes the frames of one connection; `most` streams may be open at a time.

    `is_refusing`: what is opened from now on is not served. `is_over`: the client opens no more.
    """

    __slots__ = ("_budget", "_engine", "_most", "_requests", "_streams", "is_over", "is_refusing")

    def __init__(
        self, engine: Engine, streams: OpenStreams, budget: Budget, requests: Requests, *, most: int
    ) -> None:
        self._engine = engine
        self._streams = streams
        self._budget = budget
        self._requests = requests
        self._most = most
        self.is_refusing = False
        self.is_over = False

    def take(self, frame: Frame) -> bool:
        """Do what it says; true if that may let go on what waits for a window.

        Raises ConnectionFaultError.
        """
        happened = self._engine.receive(frame)
        for event in happened:
            self._take(event)
        self._pay(frame, happened)
        return OPENING in happened

    def _take(self, event: Happened) -> None:
        if isinstance(event, Opened):
            self._open(event)
        elif isinstance(event, Reset):
            self._was_reset(event)
        elif isinstance(event, Data | Ended):
            stream = self._streams.get(event.stream)
            if stream is not None:
                self._more(stream, event)
        elif event is GONE_AWAY:
            self.is_over = True

    def _open(self, opened: Opened) -> None:
        if self.is_refusing or len(self._streams) >= self._most:
            self._engine.reset(opened.stream, Code.REFUSED_STREAM)
            if not self.is_refusing:
                self._abandoned()
            return
        stream = self._requests.stream(self._streams, opened.stream, is_whole=opened.is_whole)
        self._streams.add(stream)
        try:
            self._requests.begin(stream, opened.fields)
        except MalformedStreamError:
            self._break(stream)

    def _more(self, stream: Http2Stream, event: Data | Ended) -> None:
        try:
            if isinstance(event, Data):
                stream.data(event.data, event.flow_bytes)
            else:
                stream.ended(checked_trailers(event.trailers))
        except MalformedStreamError:
            self._break(stream)

    def _was_reset(self, reset: Reset) -> None:
        """Cancel the exchange at once: no more may run than there are streams (CVE-2023-44487)."""
        stream = self._streams.drop(reset.stream)
        if stream is None:
            return
        had_answer = stream.has_answered
        stream.gone()
        if reset.is_ours or not had_answer:
            self._abandoned()

    def _break(self, stream: Http2Stream) -> None:
        """What the client sent on this stream is malformed."""
        stream.gone(Failure.MALFORMED_BODY)
        self._streams.reset(stream.number, Code.PROTOCOL_ERROR)
        self._abandoned()

    def _abandoned(self) -> None:
        if not self._budget.abandoned():
            raise ConnectionFaultError(Code.ENHANCE_YOUR_CALM, "streams reset before their answers")

    def _pay(self, frame: Frame, happened: list[Happened]) -> None:
        """Charge a frame that asked for no work."""
        if frame.kind == frames.HEADERS and happened:
            return
        size = sum(len(event.data) for event in happened if isinstance(event, Data))
        self._budget.moved(size)
        cost = settings_cost(frame.payload) if frame.kind == frames.SETTINGS else 1
        if not size and not self._budget.spend(cost):
            raise ConnectionFaultError(Code.ENHANCE_YOUR_CALM, "a flood of frames")


# --- connection -----------------------------------------------------------------------
#
# Plaintext towards an HTTP/2 client: bytes in, turns, deadlines, GOAWAY.
#
# What `proxy.client_http1` is for HTTP/1.1; each stream carries one exchange.

_LOG = logging.getLogger(__name__)
# As for what is wrong with a handshake.
_V2 = 20 - 2
# A header list of the most that is allowed, in literals without Huffman code, takes no more.
_BLOCK_SLACK = 4096


class Http2Connection:
    """One client connection's streams; a `ConnectionHandler`.

    `peer` is asked for each request. `fault` ends the connection at once (a suite of TLS that is
    too weak).
    """

    __slots__ = (
        "_engine",
        "_intake",
        "_is_draining",
        "_is_open",
        "_loop",
        "_patience",
        "_reader",
        "_streams",
        "_transport",
    )

    def __init__(
        self,
        transport: TunnelSide,
        services: Services,
        limits: Http2Limits,
        *,
        peer: Callable[[], Peer],
        loop: asyncio.AbstractEventLoop,
        fault: Code | None = None,
    ) -> None:
        max_header_bytes = services.limits.max_header_bytes
        budget = Budget(limits.streams, services.clock)
        requests = Requests(services, peer, window=limits.window, loop=loop)
        self._transport = transport
        self._loop = loop
        self._reader = FrameReader(
            max_frame_bytes=limits.frame, max_block_bytes=max_header_bytes + _BLOCK_SLACK
        )
        self._engine = Engine(limits, max_header_bytes=max_header_bytes)
        self._streams = OpenStreams(
            self._engine, transport, budget, loop=loop, turned=self._turn_ended
        )
        self._intake = Intake(self._engine, self._streams, budget, requests, most=limits.streams)
        self._patience = Patience(loop, services.limits, self._due)
        self._is_open = True
        self._is_draining = False
        if fault is None:
            self._streams.write()
            self._patience.wait(Waits.PREFACE)
        else:
            self._fail(fault, "too weak a suite for HTTP/2")

    # ConnectionHandler

    @property
    def use(self) -> Use:
        """What the connection is used for."""
        if len(self._streams) or not self._is_open:
            return Use.BUSY
        if not self._engine.last_stream:
            return Use.NEW
        return Use.BUSY if self._reader.has_begun else Use.IDLE

    def announce_close(self) -> None:
        """By GOAWAY (RFC 9113 §6.8); streams opened from now on are refused."""
        self._intake.is_refusing = True
        self._engine.go_away(Code.NO_ERROR)
        self._streams.write()

    def awaiting(self) -> Iterable[ExchangeRecord]:
        """Of the streams, those that wait for the upstream's answer."""
        return self._streams.awaiting()

    def data_received(self, data: bytes) -> None:
        """Some plaintext."""
        if not self._is_open:
            return
        try:
            self._read(data)
        except ConnectionFaultError as fault:
            self._fail(fault.code, str(fault))
            return
        self._streams.flush()
        if self._reader.is_held:
            self._transport.pause_reading()
            self._loop.call_soon(self._go_on_later)

    def eof_received(self) -> bool:
        """The client sends no more, and so gets no more than what is answered: HTTP/2 needs both
        ways.
        """
        self._streams.write()
        self._end()
        return False

    def connection_lost(self, failure: Failure | None = None) -> None:
        """Closed, by whomever; `failure`: by us, for this reason."""
        self._end(failure)
        self._patience.cancel()

    def pause_writing(self) -> None:
        """The write buffer is over its mark: streams wait, and nothing more is asked of us."""
        self._streams.is_write_paused = True
        if self._is_open:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """The write buffer is low again."""
        self._streams.is_write_paused = False
        if self._is_open:
            self._streams.pump()
        self._go_on()

    def drain(self) -> None:
        """Open no more streams; finish those that are running, then close."""
        self._is_draining = True
        self._turn_ended()

    # What comes

    def _go_on(self) -> None:
        """Take what was held back: it was others' turn, or the client had to take something."""
        if self._is_open and not self._streams.is_write_paused:
            self._transport.resume_reading()
            self.data_received(b"")

    def _go_on_later(self) -> None:
        """Called by the loop, which would leave a connection that failed half served."""
        try:
            self._go_on()
        except Exception:
            self._transport.close_truncated()
            raise

    def _read(self, data: bytes) -> None:
        is_open = False
        for frame in self._reader.feed(data):
            is_open |= self._intake.take(frame)
            if self._streams.is_overfull:
                # What is left waits in the reader: an answer takes many times what asks for it.
                break
        if is_open:
            self._streams.pump()

    # What is waited for

    def _turn_ended(self) -> None:
        """Nothing is left to do for now: set the deadline for what is waited for.

        Called by the loop, as `_go_on_later`.
        """
        try:
            self._settle()
        except Exception:
            self._transport.close_truncated()
            raise

    def _settle(self) -> None:
        if not self._is_open:
            return
        self._streams.write()
        if self._is_draining and self._engine.last_stream and not self._intake.is_refusing:
            self.announce_close()
        if not len(self._streams) and (self._intake.is_refusing or self._intake.is_over):
            self._close()
        else:
            self._patience.wait(self._waiting_for(), after=self._engine.last_stream)

    def _waiting_for(self) -> Waits:
        if self._is_draining and not self._engine.last_stream:
            return Waits.FIRST
        if not self._reader.has_settings:
            return Waits.PREFACE
        # What is held back is not the client's fault.
        if self._reader.has_begun_block and not self._streams.is_write_paused:
            return Waits.BLOCK
        return Waits.NOTHING if len(self._streams) else Waits.IDLE

    def _due(self) -> None:
        """The deadline has come."""
        if self._patience.waits in (Waits.IDLE, Waits.FIRST):
            self.announce_close()
            self._close()
        else:
            self._fail(Code.PROTOCOL_ERROR, "a head that does not come")

    # The end

    def _fail(self, code: int, why: str) -> None:
        """Tell the client what it did wrong; nothing of it is served any more."""
        _LOG.log(_V2, "HTTP/2 connection ended: %s", why)
        self._end()
        self._engine.go_away(code)
        self._streams.write()
        self._close()

    def _close(self) -> None:
        """Let the client read our last word, though it may be opening more streams."""
        self._end()
        self._patience.wait(Waits.NOTHING)
        self._transport.linger()

    def _end(self, failure: Failure | None = None) -> None:
        self._is_open = False
        self._streams.end_all(failure)

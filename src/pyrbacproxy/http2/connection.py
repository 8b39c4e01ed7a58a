"""Plaintext towards an HTTP/2 client: frames in, streams, timers, floods, GOAWAY.

What `dataplane.downstream` is for HTTP/1.1; each stream carries one exchange.
"""

import asyncio
import logging
from collections.abc import Callable
from enum import Enum, auto

from pyrbacproxy.dataplane.services import Services
from pyrbacproxy.dataplane.sinks import Transport
from pyrbacproxy.http2 import frames
from pyrbacproxy.http2.budget import Budget, settings_cost
from pyrbacproxy.http2.engine import Data, Ended, Engine, Happened, Opened, Opening, Reset
from pyrbacproxy.http2.errors import Code, ConnectionFaultError, MalformedStreamError
from pyrbacproxy.http2.frames import Frame, FrameReader
from pyrbacproxy.http2.limits import Http2Limits
from pyrbacproxy.http2.patience import Patience, Waits
from pyrbacproxy.http2.request_head import checked_trailers
from pyrbacproxy.http2.requests import Requests
from pyrbacproxy.http2.stream import Http2Stream
from pyrbacproxy.http2.streams import OpenStreams
from pyrbacproxy.peer import Peer

_LOG = logging.getLogger(__name__)
# As for what is wrong with a handshake.
_V2 = 20 - 2
# A header list of the most that is allowed, in literals without Huffman code, takes no more.
_BLOCK_SLACK = 4096


class _Stage(Enum):
    OPEN = auto()
    LINGERING = auto()
    CLOSED = auto()


class Http2Connection:
    """One client connection's streams; a `sinks.Inner`.

    `peer` is asked for each request. `fault` ends the connection at once (a suite of TLS that is
    too weak).
    """

    __slots__ = (
        "_budget",
        "_engine",
        "_has_said_goodbye",
        "_is_draining",
        "_is_leaving",
        "_limits",
        "_loop",
        "_patience",
        "_reader",
        "_requests",
        "_services",
        "_stage",
        "_streams",
        "_transport",
    )

    def __init__(
        self,
        transport: Transport,
        services: Services,
        limits: Http2Limits,
        *,
        peer: Callable[[], Peer],
        loop: asyncio.AbstractEventLoop,
        fault: Code | None = None,
    ) -> None:
        max_header_bytes = services.limits.max_header_bytes
        self._transport = transport
        self._services = services
        self._limits = limits
        self._loop = loop
        self._requests = Requests(services, peer)
        self._reader = FrameReader(
            max_frame_bytes=limits.frame, max_block_bytes=max_header_bytes + _BLOCK_SLACK
        )
        self._engine = Engine(limits, max_header_bytes=max_header_bytes)
        self._budget = Budget(limits.streams, services.clock)
        self._streams = OpenStreams(self._engine, transport, self._budget, self._settle)
        self._stage = _Stage.OPEN
        self._is_draining = False
        self._has_said_goodbye = False
        self._is_leaving = False
        self._patience = Patience(loop, services.limits, self._due)
        if fault is None:
            self._streams.write()
            self._patience.wait(Waits.PREFACE)
        else:
            self._fail(fault, "too weak a suite for HTTP/2")

    def data_received(self, data: bytes) -> None:
        """Some plaintext."""
        if self._stage is not _Stage.OPEN:
            return
        self._streams.is_busy = True
        try:
            self._read(data)
        except ConnectionFaultError as fault:
            self._fail(fault.code, str(fault))
        finally:
            self._streams.is_busy = False
        if self._stage is _Stage.OPEN:
            self._streams.write()
            self._settle()
        if self._reader.is_held and self._stage is _Stage.OPEN:
            self._transport.pause_reading()
            self._loop.call_soon(self._go_on)

    def eof_received(self) -> bool:
        """The client sends no more, and so gets no more: HTTP/2 needs both ways."""
        self._end()
        return False

    def connection_lost(self, failure: str = "") -> None:
        """Closed, by whomever; `failure`: by us, for this reason."""
        self._end(failure)
        self._patience.cancel()

    def pause_writing(self) -> None:
        """The write buffer is over its mark: streams wait, and nothing more is asked of us."""
        self._streams.is_write_paused = True
        if self._stage is _Stage.OPEN:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """The write buffer is low again."""
        self._streams.is_write_paused = False
        if self._stage is _Stage.OPEN:
            self._streams.pump()
        self._go_on()

    def drain(self) -> None:
        """Open no more streams; finish those that are running, then close."""
        self._is_draining = True
        self._settle()

    def _go_on(self) -> None:
        """Take what was held back: it was others' turn, or the client had to take something."""
        if self._stage is _Stage.OPEN and not self._streams.is_write_paused:
            self._transport.resume_reading()
            self.data_received(b"")

    def _read(self, data: bytes) -> None:
        is_open = False
        for frame in self._reader.feed(data):
            happened = self._engine.receive(frame)
            for event in happened:
                self._take(event)
            is_open = is_open or any(isinstance(event, Opening) for event in happened)
            self._pay(frame, happened)
            if self._streams.is_overfull:
                # What is left waits in the reader: an answer takes many times what asks for it.
                break
        if is_open:
            self._streams.pump()

    def _take(self, event: Happened) -> None:
        if isinstance(event, Opened):
            self._open(event)
        elif isinstance(event, Reset):
            self._was_reset(event)
        elif isinstance(event, Data | Ended):
            stream = self._streams.get(event.stream)
            if stream is not None:
                self._more(stream, event)
        elif not isinstance(event, Opening):
            self._is_leaving = True

    def _open(self, opened: Opened) -> None:
        # Even if it is answered at once, what is waited for next is waited for anew.
        self._patience.wait(Waits.NOTHING)
        if self._has_said_goodbye or len(self._streams) >= self._limits.streams:
            self._engine.reset(opened.stream, Code.REFUSED_STREAM)
            if not self._has_said_goodbye:
                self._abandoned()
            return
        stream = Http2Stream(
            opened.stream,
            self._streams,
            self._services,
            window=self._limits.window,
            loop=self._loop,
        )
        stream.has_whole_request = opened.is_whole
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
        stream.gone("malformed request body")
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

    def _settle(self) -> None:
        """Nothing is left to do for now: set the deadline for what is waited for."""
        if self._stage is not _Stage.OPEN:
            return
        if self._is_draining and self._engine.last_stream and not self._has_said_goodbye:
            self._say_goodbye()
        if not len(self._streams) and (self._has_said_goodbye or self._is_leaving):
            self._close()
            return
        self._patience.wait(self._waiting_for())

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
        if self._stage is _Stage.LINGERING:
            self._close()
        elif self._patience.waits in (Waits.IDLE, Waits.FIRST):
            self._say_goodbye()
            self._close()
        else:
            self._fail(Code.PROTOCOL_ERROR, "a head that does not come")

    def _say_goodbye(self) -> None:
        self._has_said_goodbye = True
        self._engine.go_away(Code.NO_ERROR)
        self._streams.write()

    def _fail(self, code: int, why: str) -> None:
        """Tell the client what it did wrong; nothing of it is served any more."""
        _LOG.log(_V2, "HTTP/2 connection ended: %s", why)
        self._stage = _Stage.LINGERING
        self._streams.end_all()
        self._engine.go_away(code)
        self._streams.write()
        self._transport.linger()
        self._patience.wait(Waits.LINGERING)

    def _close(self) -> None:
        self._stage = _Stage.CLOSED
        self._patience.wait(Waits.NOTHING)
        self._transport.close()

    def _end(self, failure: str = "") -> None:
        self._stage = _Stage.CLOSED
        self._streams.end_all(failure)

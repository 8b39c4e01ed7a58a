"""Plaintext towards an HTTP/2 client: bytes in, turns, deadlines, GOAWAY.

What `dataplane.downstream` is for HTTP/1.1; each stream carries one exchange.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable

from pyrbacproxy.dataplane.services import Services
from pyrbacproxy.dataplane.sinks import Side, Use
from pyrbacproxy.http2.budget import Budget
from pyrbacproxy.http2.engine import Engine
from pyrbacproxy.http2.errors import Code, ConnectionFaultError
from pyrbacproxy.http2.frames import FrameReader
from pyrbacproxy.http2.intake import Intake
from pyrbacproxy.http2.limits import Http2Limits
from pyrbacproxy.http2.patience import Patience, Waits
from pyrbacproxy.http2.requests import Requests
from pyrbacproxy.http2.streams import OpenStreams
from pyrbacproxy.peer import Peer
from pyrbacproxy.record import ExchangeRecord, Failure

_LOG = logging.getLogger(__name__)
# As for what is wrong with a handshake.
_V2 = 20 - 2
# A header list of the most that is allowed, in literals without Huffman code, takes no more.
_BLOCK_SLACK = 4096


class Http2Connection:
    """One client connection's streams; a `sinks.Inner`.

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
        transport: Side,
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

    # sinks.Inner

    @property
    def use(self) -> Use:
        """What the connection is used for."""
        if len(self._streams) or not self._is_open:
            return Use.BUSY
        if not self._engine.last_stream:
            return Use.NEW
        return Use.BUSY if self._reader.has_begun else Use.IDLE

    def say_goodbye(self) -> None:
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
            self._transport.cut()
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
            self._transport.cut()
            raise

    def _settle(self) -> None:
        if not self._is_open:
            return
        self._streams.write()
        if self._is_draining and self._engine.last_stream and not self._intake.is_refusing:
            self.say_goodbye()
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
            self.say_goodbye()
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

"""What a client's frames do to its streams: open, feed and reset them; each frame is paid for."""

from pyrbacproxy.http2 import frames
from pyrbacproxy.http2.budget import Budget, settings_cost
from pyrbacproxy.http2.engine import (
    GONE_AWAY,
    OPENING,
    Data,
    Ended,
    Engine,
    Happened,
    Opened,
    Reset,
)
from pyrbacproxy.http2.errors import Code, ConnectionFaultError, MalformedStreamError
from pyrbacproxy.http2.frames import Frame
from pyrbacproxy.http2.request_head import checked_trailers
from pyrbacproxy.http2.requests import Requests
from pyrbacproxy.http2.stream import Http2Stream
from pyrbacproxy.http2.streams import OpenStreams
from pyrbacproxy.record import Failure


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

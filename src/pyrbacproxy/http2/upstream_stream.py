"""One stream towards an upstream: an exchange's request and its answer.

Flow control: what came is the exchange's at once, but the stream's window opens again only when the
client takes it, so a slow client holds its own stream alone. What the peer has no window for waits
here, and the client's body is held meanwhile.
"""

import asyncio
from collections import deque
from typing import Protocol

from h2 import events
from h2.connection import H2Connection
from h2.errors import ErrorCodes

from pyrbacproxy.dataplane.deadline import StallWatch
from pyrbacproxy.dataplane.limits import Limits
from pyrbacproxy.dataplane.sinks import Released, UpstreamUser
from pyrbacproxy.http1.errors import RemoteProtocolError
from pyrbacproxy.http1.framing import Framing, Kind
from pyrbacproxy.http1.head import Headers
from pyrbacproxy.http1.parser import InterimReceived
from pyrbacproxy.http2 import upstream_heads
from pyrbacproxy.http2.upstream_heads import Field
from pyrbacproxy.record import Failure

# What an upstream may send ahead of a slow client, for each stream.
WINDOW_BYTES = 262_144


class Carrier(Protocol):
    """The connection below a stream; `http2.upstream_connection` is the one implementation."""

    h2: H2Connection
    limits: Limits
    loop: asyncio.AbstractEventLoop
    is_write_paused: bool
    has_served: bool

    def open(self, stream: "UpstreamStream", head: bytes, *, is_whole: bool) -> int:
        """Send a request head, as HTTP/1.1 writes it; the new stream's id."""
        ...

    def is_alive(self, stream_id: int) -> bool:
        """Whether `h2` still sends on it: it knows of the end that a frame brings before we do."""
        ...

    def takes(self, list_bytes: int) -> bool:
        """Whether the upstream reads header lists as large; a larger one may end all streams."""
        ...

    def flush(self) -> None:
        """Send what `h2` has ready."""
        ...

    def release(self, stream: "UpstreamStream", error: ErrorCodes | None) -> None:
        """The stream is over; reset it with `error` unless it has ended both ways."""
        ...


class UpstreamStream:
    """An `UpstreamSink`; the connection tells it what came."""

    __slots__ = (
        "_carrier",
        "_ends",
        "_framing",
        "_has_ended",
        "_is_held",
        "_is_paused",
        "_left",
        "_method",
        "_stall",
        "_trailers",
        "_unopened",
        "_user",
        "_waiting",
        "_was_served",
        "id",
        "was_refused",
    )

    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier
        self._user: UpstreamUser | None = None
        self.id = 0
        self._method = b""
        self.was_refused = False
        self._was_served = False
        # The request's body.
        self._waiting: deque[memoryview] = deque()
        self._trailers: Headers | None = None
        self._ends = False
        self._has_ended = False
        self._is_held = False
        self._stall: StallWatch | None = None
        # The answer's body.
        self._framing: Framing | None = None
        self._left = 0
        self._is_paused = False
        self._unopened = 0

    # UpstreamSink

    @property
    def is_reused(self) -> bool:
        """Whether the connection may have gone stale."""
        return self._was_served

    def begin(self, user: UpstreamUser, method: bytes, head: bytes, framing: Framing) -> None:
        """Send a request head; the answer is told to `user`."""
        self._user = user
        self._method = method
        self._was_served = self._carrier.has_served
        self._has_ended = not framing.has_body
        self.id = self._carrier.open(self, head, is_whole=self._has_ended)

    def body(self, data: bytes) -> None:
        """Send body bytes, now or when there is a window for them."""
        self._waiting.append(memoryview(data))
        self.send_more()

    def end(self, trailers: Headers | None) -> None:
        """The body is complete once what waits was sent."""
        self._ends = True
        self._trailers = trailers
        self.send_more()

    def pause_reading(self) -> None:
        """Open the window no more: what it still lets through comes all the same."""
        self._is_paused = True

    def resume_reading(self) -> None:
        """Open the window for what came meanwhile."""
        self._is_paused = False
        self._open_window()
        self._carrier.flush()

    def release(self) -> Released:
        """Nobody asks: a 101 is malformed here. Raises RuntimeError."""
        raise RuntimeError("no stream becomes a tunnel")

    def close(self) -> None:
        """Reset the stream, not the connection; nothing is told any more."""
        self._leave(ErrorCodes.CANCEL)
        self._carrier.flush()

    # What the connection tells

    def take(self, event: events.Event) -> None:
        """Some of the answer, or its end."""
        user = self._user
        if user is None:
            return
        # Whoever says something about the stream is not stale.
        self._was_served = False
        try:
            if isinstance(event, events.DataReceived):
                self._data(user, event.data, event.flow_controlled_length)
            elif isinstance(event, events.ResponseReceived):
                self._headers(user, event.headers, is_ended=event.stream_ended is not None)
            elif isinstance(event, events.InformationalResponseReceived):
                self._headers(user, event.headers, is_ended=False)
            elif isinstance(event, events.TrailersReceived):
                user.response_side.trailers(upstream_heads.trailers(event.headers))
            elif isinstance(event, events.StreamEnded):
                self._ended(user)
            elif isinstance(event, events.StreamReset):
                self._reset(event.error_code)
            elif isinstance(event, events.WindowUpdated):
                self.send_more()
        except RemoteProtocolError:
            self.lose(Failure.BROKE_HTTP, ErrorCodes.PROTOCOL_ERROR)

    def _headers(self, user: UpstreamUser, fields: list[Field], *, is_ended: bool) -> None:
        received = upstream_heads.response(fields, self._method, is_ended=is_ended)
        if isinstance(received, InterimReceived):
            user.interim(received.head)
            return
        self._framing = received.framing
        self._left = received.framing.length
        user.response(received)

    def _data(self, user: UpstreamUser, data: bytes, counted: int) -> None:
        """Body bytes; `counted` of the window, padding included."""
        if not self._may_come(len(data)):
            raise RemoteProtocolError("a body where none can be")
        if data:
            user.response_side.body(data)
        self._unopened += counted
        if not self._is_paused and self._user is user:
            self._open_window()

    def _ended(self, user: UpstreamUser) -> None:
        if self._left or self._framing is None:
            self.lose(Failure.CLOSED_EARLY, ErrorCodes.PROTOCOL_ERROR)
            return
        self._carrier.has_served = True
        self._leave(None if self._has_ended else ErrorCodes.CANCEL)
        user.response_ended()

    def _reset(self, error: int) -> None:
        self.was_refused = error == ErrorCodes.REFUSED_STREAM
        self.lose(Failure.STREAM_REFUSED if self.was_refused else Failure.STREAM_RESET, None)

    def lose(self, failure: Failure, error: ErrorCodes | None, cause: str = "") -> None:
        """Over too early: tell so, and the upstream with `error`."""
        user = self._user
        self._leave(error)
        if user is not None:
            user.upstream_lost(failure, cause)

    def flush(self) -> None:
        """That was all for now."""
        user = self._user
        if user is not None and self._framing is not None:
            user.response_side.flush()

    def send_more(self) -> None:
        """Send what there is a window for; hold the client while something waits."""
        user = self._user
        if user is None:
            return
        self._send_waiting()
        if self._waiting:
            self._hold(user)
            return
        if self._ends and not self._has_ended:
            self._send_end()
        self._let_go(user)
        self._carrier.flush()

    # The request's body

    def _send_waiting(self) -> None:
        h2 = self._carrier.h2
        while self._waiting and not self._carrier.is_write_paused:
            room = min(h2.local_flow_control_window(self.id), h2.max_outbound_frame_size)
            if room <= 0:
                break
            data = self._waiting.popleft()
            if len(data) > room:
                self._waiting.appendleft(data[room:])
            h2.send_data(self.id, data[:room])
            self._carrier.flush()

    def _send_end(self) -> None:
        self._has_ended = True
        h2 = self._carrier.h2
        # The original sends none at all.
        if self._trailers and self._carrier.takes(upstream_heads.list_bytes(self._trailers)):
            fields = [(name.lower(), value) for name, value in self._trailers]
            h2.send_headers(self.id, fields, end_stream=True)
        else:
            h2.end_stream(self.id)

    def _hold(self, user: UpstreamUser) -> None:
        if self._is_held:
            return
        self._is_held = True
        if self._stall is None:
            carrier = self._carrier
            self._stall = StallWatch(
                carrier.loop,
                carrier.limits.write_stall_seconds,
                pending_bytes=lambda: sum(map(len, self._waiting)),
                stalled=self._stalled,
            )
        self._stall.start()
        user.upstream_paused()

    def _let_go(self, user: UpstreamUser) -> None:
        if self._is_held and self._stall is not None:
            self._is_held = False
            self._stall.stop()
            user.upstream_resumed()

    def _stalled(self) -> None:
        self.lose(Failure.WRITE_STALL, ErrorCodes.CANCEL)
        self._carrier.flush()

    # The answer's body

    def _may_come(self, size: int) -> bool:
        """Whether so many bytes fit to the head; counts them."""
        if self._framing is None:
            return False
        if self._framing.kind is Kind.CHUNKED:
            return True
        self._left -= size
        return self._left >= 0

    def _open_window(self) -> None:
        if self._unopened >= WINDOW_BYTES // 2 and self._carrier.is_alive(self.id):
            opened, self._unopened = self._unopened, 0
            self._carrier.h2.increment_flow_control_window(opened, self.id)

    def _leave(self, error: ErrorCodes | None) -> None:
        self._user = None
        self._waiting.clear()
        if self._stall is not None:
            self._stall.cancel()
        if self.id:
            self._carrier.release(self, error)
            self.id = 0

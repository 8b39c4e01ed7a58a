"""One HTTP/2 connection to the upstream and its streams."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from h2 import events
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings
from hpack.exceptions import HPACKDecodingError, OversizedHeaderListError
from hpack.hpack import Decoder
from hpack.struct import HeaderTuple

from pyrbacproxy.http1.framing import Framing, Kind
from pyrbacproxy.http1.head import Headers, RemoteProtocolError
from pyrbacproxy.http1.parser import InterimReceived
from pyrbacproxy.http2 import codec, upstream_fields
from pyrbacproxy.http2.codec import HeadBlockDecoder
from pyrbacproxy.http2.frames import GOAWAY, cut, last_stream
from pyrbacproxy.http2.limits import ConnectionFaultError
from pyrbacproxy.http2.upstream_fields import Field
from pyrbacproxy.model import Failure
from pyrbacproxy.proxy.exchange import Limits, Released, UpstreamUser
from pyrbacproxy.proxy.transport import Connection, Deadline, StallWatch
from pyrbacproxy.proxy.upstream_http1 import loss

# --- upstream decoder -----------------------------------------------------------------
#
# What `h2` decodes an upstream's header blocks with: `head_block`, under the library's name.
#
# The library's own copies the rest of the block for each literal: a megabyte of small ones, which
# is within the limit for heads, held the loop for half a minute.

# Towards an upstream of HTTP/1.1 the head's size is the only limit; no head has more in earnest.
_MOST_FIELDS = 10_000


class UpstreamDecoder(Decoder):
    """The header blocks of one upstream's connection, in their order."""

    def __init__(self, *, max_list_bytes: int) -> None:
        super().__init__(max_list_bytes)
        self._blocks = HeadBlockDecoder(max_list_bytes=max_list_bytes, most_fields=_MOST_FIELDS)

    def decode(self, data: bytes, raw: bool = False) -> Iterable[HeaderTuple]:  # noqa: ARG002, FBT001, FBT002 - the library's signature
        """The fields in order. Raises HPACKDecodingError, also for too many or too long ones."""
        try:
            fields = self._blocks.decode(bytes(data))
        except ConnectionFaultError as fault:
            raise HPACKDecodingError(str(fault)) from fault
        if fields is None:
            raise OversizedHeaderListError("a header list that is too large")
        return [HeaderTuple(name, value) for name, value in fields]


# --- upstream stream ------------------------------------------------------------------
#
# One stream towards an upstream: an exchange's request and its answer.
#
# Flow control: what came is the exchange's at once, but the stream's window opens again only when
# the client takes it, so a slow client holds its own stream alone. What the peer has no window for
# waits here, and the client's body is held meanwhile.

# What an upstream may send ahead of a slow client, for each stream.
WINDOW_BYTES = 262_144


class Carrier(Protocol):
    """The connection below a stream; `http2.upstream` is the one implementation."""

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
        """Send a request head; the answer goes to `user`."""
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
        """Never called: a 101 is malformed in HTTP/2. Raises RuntimeError."""
        raise RuntimeError("no stream becomes a tunnel")

    def close(self) -> None:
        """Reset the stream, not the connection; no more events follow."""
        self._leave(ErrorCodes.CANCEL)
        self._carrier.flush()

    # What the connection tells

    def take(self, event: events.Event) -> None:
        """Some of the answer, or its end."""
        user = self._user
        if user is None:
            return
        # An upstream that says something about the stream is not stale.
        self._was_served = False
        try:
            if isinstance(event, events.DataReceived):
                self._data(user, event.data, event.flow_controlled_length)
            elif isinstance(event, events.ResponseReceived):
                self._headers(user, event.headers, is_ended=event.stream_ended is not None)
            elif isinstance(event, events.InformationalResponseReceived):
                self._headers(user, event.headers, is_ended=False)
            elif isinstance(event, events.TrailersReceived):
                user.response_side.trailers(upstream_fields.trailers(event.headers))
            elif isinstance(event, events.StreamEnded):
                self._ended(user)
            elif isinstance(event, events.StreamReset):
                self._reset(event.error_code)
            elif isinstance(event, events.WindowUpdated):
                self.send_more()
        except RemoteProtocolError:
            self.lose(Failure.BROKE_HTTP, ErrorCodes.PROTOCOL_ERROR)

    def _headers(self, user: UpstreamUser, fields: list[Field], *, is_ended: bool) -> None:
        received = upstream_fields.response(fields, self._method, is_ended=is_ended)
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
        if self._trailers and self._carrier.takes(upstream_fields.list_bytes(self._trailers)):
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


# --- upstream connection --------------------------------------------------------------
# The `asyncio.Protocol` towards an upstream that speaks HTTP/2: one connection, many streams.

# For all streams together: opened at once, for each has a window of its own.
_CONNECTION_WINDOW_BYTES = 4_194_304
_FIRST_WINDOW_BYTES = 65_535
_FRAME_BYTES = 65_536
# Where an upstream names no limit; Go's client has the same.
_MOST_STREAMS = 1000
_LAST_STREAM_ID = 2**31 - 1
# Answers to PING and SETTINGS that an upstream asks for and doesn't read.
_MOST_UNREAD_BYTES = 1_048_576


class Keeper(Protocol):
    """Whose connections they are; `http2.upstream_connector` has the one implementation."""

    limits: Limits
    loop: asyncio.AbstractEventLoop
    scheme: bytes

    def freed(self) -> None:
        """There may be room for another stream."""
        ...

    def forget(self, connection: "UpstreamConnection") -> None:
        """No stream may be begun on it any more."""
        ...


class UpstreamConnection(Connection):
    """One connection. `settled` is called once: whether the upstream speaks HTTP/2."""

    def __init__(self, keeper: Keeper, settled: Callable[[bool], None]) -> None:
        super().__init__(keeper.limits, keeper.loop)
        self._keeper = keeper
        self.limits = keeper.limits
        self.loop = keeper.loop
        self.h2 = _client(keeper.limits)
        self.is_write_paused = False
        self.has_served = False
        self._settled: Callable[[bool], None] | None = settled
        self._received = bytearray()
        self._streams: dict[int, UpstreamStream] = {}
        self._is_going = False
        self._unopened = 0
        self._idle = Deadline(keeper.loop, self.close)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connected, TLS handshake included."""
        super().connection_made(transport)
        self.h2.initiate_connection()
        self.h2.increment_flow_control_window(_CONNECTION_WINDOW_BYTES - _FIRST_WINDOW_BYTES)
        self.flush()

    def data_received(self, data: bytes) -> None:
        """Some frames."""
        touched: dict[int, UpstreamStream] = {}
        self._received += data
        try:
            for raw in cut(self._received, _FRAME_BYTES):
                if raw[3] == GOAWAY:
                    self._go_away(last_stream(raw))
                    continue
                for event in self.h2.receive_data(raw):
                    self._take(event, touched)
        except (ProtocolError, ConnectionFaultError):
            self.flush()
            self._lose(Failure.BROKE_HTTP)
            return
        for stream in touched.values():
            stream.flush()
        self._open_window()
        self.flush()
        if self._pending_bytes() > _MOST_UNREAD_BYTES + self.limits.write_high_water_bytes:
            self._stalled()

    def eof_received(self) -> None:
        """The upstream ended its sending: nothing can be answered any more."""
        self._lose(Failure.CLOSED_EARLY)

    def connection_lost(self, exc: Exception | None) -> None:
        """Closed, by whomever."""
        super().connection_lost(exc)
        self._lose(*loss(exc))

    def pause_writing(self) -> None:
        """The write buffer is over its mark."""
        super().pause_writing()
        self.is_write_paused = True

    def resume_writing(self) -> None:
        """The write buffer is low again."""
        super().resume_writing()
        self.is_write_paused = False
        self._send_more()

    # For the connector

    @property
    def is_open(self) -> bool:
        """Whether it may be used."""
        return (
            self._transport is not None and not self._is_going and not self._transport.is_closing()
        )

    @property
    def is_idle(self) -> bool:
        """Whether no stream is open: it may be stale without our knowing."""
        return not self._streams

    @property
    def has_room(self) -> bool:
        """Whether another stream may be begun now."""
        most = min(self.h2.remote_settings.max_concurrent_streams, _MOST_STREAMS)
        return self.is_open and len(self._streams) < most

    def stream(self) -> UpstreamStream:
        """For one request; it counts from `begin` on."""
        return UpstreamStream(self)

    def close(self) -> None:
        """Say goodbye and close; streams that are left are lost."""
        if self._transport is not None and not self._transport.is_closing():
            self.h2.close_connection()
            self.flush()
            self._transport.close()
        self._end(Failure.CONNECTION_CLOSED)

    def takes(self, list_bytes: int) -> bool:
        """Whether the upstream reads header lists as large; a larger one may end all streams."""
        most = self.h2.remote_settings.max_header_list_size
        return most is None or list_bytes <= most

    # What streams ask for

    def open(self, stream: UpstreamStream, head: bytes, *, is_whole: bool) -> int:
        """Send a request head, as HTTP/1.1 writes it; the new stream's id."""
        self._idle.clear()
        stream_id = self.h2.get_next_available_stream_id()
        if stream_id + 2 > _LAST_STREAM_ID:
            self._go()
        fields = upstream_fields.request_fields(head, self._keeper.scheme)
        self.h2.send_headers(stream_id, fields, end_stream=is_whole)
        self._streams[stream_id] = stream
        self.flush()
        return stream_id

    def is_alive(self, stream_id: int) -> bool:
        """Whether `h2` still sends on it: it knows of the end that a frame brings before we do."""
        found = self.h2.streams.get(stream_id)
        return found is not None and not found.closed

    def flush(self) -> None:
        """Send what `h2` has ready."""
        data = self.h2.data_to_send()
        if data:
            self.write(data)

    def release(self, stream: UpstreamStream, error: ErrorCodes | None) -> None:
        """The stream is over; reset it with `error` unless it has ended both ways."""
        if self._streams.pop(stream.id, None) is None:
            return
        if error is not None and self.is_alive(stream.id):
            self.h2.reset_stream(stream.id, error)
        if self._streams:
            self._keeper.freed()
        elif self._is_going:
            self.close()
        else:
            self._idle.set(self.limits.upstream_idle_seconds)
            self._keeper.freed()

    # What comes

    def _take(self, event: events.Event, touched: dict[int, UpstreamStream]) -> None:
        if isinstance(event, events.RemoteSettingsChanged):
            self._settle()
        elif isinstance(event, events.WindowUpdated) and not event.stream_id:
            self._send_more()
        elif isinstance(event, events.DataReceived):
            # What a stream holds back is bounded by its own window.
            self._unopened += event.flow_controlled_length
        stream = self._streams.get(getattr(event, "stream_id", None) or 0)
        if stream is not None:
            touched[stream.id] = stream
            stream.take(event)

    def _settle(self) -> None:
        if self._settled is not None:
            self._settled(True)
            self._settled = None
            self._idle.set(self.limits.upstream_idle_seconds)
        self._send_more()
        self._keeper.freed()

    def _go_away(self, last: int) -> None:
        """Streams above `last` were not looked at; what is below is still answered.

        The library would take it for the end, and refuse every frame behind it.
        """
        self._go()
        for stream in [found for number, found in self._streams.items() if number > last]:
            stream.was_refused = True
            stream.lose(Failure.STREAM_REFUSED, ErrorCodes.CANCEL)
        if not self._streams:
            self.close()

    def _go(self) -> None:
        """Begin no more streams."""
        self._is_going = True
        self._keeper.forget(self)

    def _send_more(self) -> None:
        """Windows opened, or the write buffer is low again."""
        for stream in list(self._streams.values()):
            stream.send_more()

    def _open_window(self) -> None:
        if self._unopened >= WINDOW_BYTES:
            opened, self._unopened = self._unopened, 0
            self.h2.increment_flow_control_window(opened)

    def _lose(self, failure: Failure, cause: str = "") -> None:
        self.abort()
        self._end(failure, cause)

    def _stalled(self) -> None:
        self._lose(Failure.WRITE_STALL)

    def _end(self, failure: Failure, cause: str = "") -> None:
        self._go()
        self._idle.cancel()
        self._stall.cancel()
        if self._settled is not None:
            self._settled(False)
            self._settled = None
        streams, self._streams = self._streams, {}
        for stream in streams.values():
            stream.lose(failure, None, cause)


def _client(limits: Limits) -> H2Connection:
    """Our end; what the library checks of heads is checked by `upstream_heads`, by streams."""
    h2 = codec.new_h2_connection(
        Settings(
            client=True,
            initial_values={
                SettingCodes.ENABLE_PUSH: 0,
                SettingCodes.INITIAL_WINDOW_SIZE: WINDOW_BYTES,
                SettingCodes.MAX_FRAME_SIZE: _FRAME_BYTES,
                SettingCodes.MAX_HEADER_LIST_SIZE: limits.max_header_bytes,
            },
        ),
        is_client=True,
    )
    h2.max_inbound_frame_size = _FRAME_BYTES
    h2.decoder = UpstreamDecoder(max_list_bytes=limits.max_header_bytes)
    return h2

"""The `asyncio.Protocol` towards an upstream that speaks HTTP/2: one connection, many streams."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from h2 import events
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings

from pyrbacproxy.dataplane.connection import Connection
from pyrbacproxy.dataplane.deadline import Deadline
from pyrbacproxy.dataplane.dial import loss
from pyrbacproxy.dataplane.limits import Limits
from pyrbacproxy.http2 import h2_library, upstream_heads
from pyrbacproxy.http2.errors import ConnectionFaultError
from pyrbacproxy.http2.frames import GOAWAY, cut, last_stream
from pyrbacproxy.http2.upstream_decoder import UpstreamDecoder
from pyrbacproxy.http2.upstream_stream import WINDOW_BYTES, UpstreamStream
from pyrbacproxy.record import Failure

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
    """One connection. `settled` is told once whether the upstream speaks HTTP/2."""

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
        fields = upstream_heads.request_fields(head, self._keeper.scheme)
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
    h2 = h2_library.connection(
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

"""One client's HTTP/2 connection in memory: frames in → events and frames out (the `h2` library).

What the library does not leave to us is done before it or behind it:

- Header blocks are read by `head_block`, and h2 gets an empty one: it would end the connection
  over a body that differs from its length, where resetting the stream is right (RFC 9113 §8.1.1).
- It takes no part in counting streams: one too many is refused, not the connection's end.
- GOAWAY would forbid it to send on, either way: those frames are read and written here.
- Settings that nobody knows, and frames that ask for nothing, do not reach it: it keeps the former.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias

from h2.events import (
    DataReceived,
    Event,
    RequestReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
    WindowUpdated,
)
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings

from pyrbacproxy.http2 import frames, h2_library
from pyrbacproxy.http2.errors import ConnectionFaultError
from pyrbacproxy.http2.frames import Frame
from pyrbacproxy.http2.head_block import TABLE_BYTES, Fields, HeadBlockDecoder
from pyrbacproxy.http2.limits import Http2Limits

# What Go adds for the fields' own overhead (reference 15.12).
_LIST_SLACK = 320
_ANY = 2**24 - 1
_SETTING_BYTES = 6
_KNOWN_SETTINGS = frozenset(code.value for code in SettingCodes)
_PROTOCOL_WINDOW = 65_535
# Larger frames would let one stream hold the connection for long.
_SENT_FRAME = 16_384
_HANDED_ON = (
    frames.DATA,
    frames.HEADERS,
    frames.RST_STREAM,
    frames.SETTINGS,
    frames.PING,
    frames.WINDOW_UPDATE,
)


@dataclass(frozen=True, slots=True)
class Opened:
    """A request's head; `fields` is None when it was too large. `is_whole`: no body follows."""

    stream: int
    fields: Fields | None
    is_whole: bool


@dataclass(frozen=True, slots=True)
class Data:
    """Some of a body; `flow_bytes` is what it took of the windows."""

    stream: int
    data: bytes
    flow_bytes: int


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a request; `trailers` is None when they were too large."""

    stream: int
    trailers: Fields | None


@dataclass(frozen=True, slots=True)
class Reset:
    """A stream is over before its time; `is_ours`: for what the client did to its window."""

    stream: int
    is_ours: bool


@dataclass(frozen=True, slots=True)
class Opening:
    """A window may have opened, or the client's settings changed."""


@dataclass(frozen=True, slots=True)
class GoneAway:
    """The client opens no more streams."""


Happened: TypeAlias = Opened | Data | Ended | Reset | Opening | GoneAway
OPENING: Final = Opening()
GONE_AWAY: Final = GoneAway()


class _LocalSettings(Settings):
    """Ours, but for the number of streams, which the caller counts."""

    @property
    def max_concurrent_streams(self) -> int:
        return 2**31

    @max_concurrent_streams.setter
    def max_concurrent_streams(self, value: int) -> None:
        self[SettingCodes.MAX_CONCURRENT_STREAMS] = value


class Engine:
    """The server's side. After any call `outgoing` is due to the client.

    Each call may raise ConnectionFaultError: the connection is over then.
    """

    __slots__ = ("_decoder", "_h2", "_out", "_owed", "_window", "last_stream")

    def __init__(self, limits: Http2Limits, *, max_header_bytes: int) -> None:
        self._h2 = h2_library.connection(_LocalSettings(client=False), is_client=False)
        max_list = max_header_bytes + _LIST_SLACK
        self._decoder = HeadBlockDecoder(max_list_bytes=max_list)
        self._out = bytearray()
        # Bytes of bodies since the last update of the connection's window.
        self._owed = 0
        self._window = max(limits.connection_window, _PROTOCOL_WINDOW)
        self.last_stream = 0
        self._h2.update_settings(
            {
                SettingCodes.MAX_FRAME_SIZE: limits.frame,
                SettingCodes.MAX_CONCURRENT_STREAMS: limits.streams,
                SettingCodes.MAX_HEADER_LIST_SIZE: max_list,
                SettingCodes.HEADER_TABLE_SIZE: TABLE_BYTES,
                SettingCodes.INITIAL_WINDOW_SIZE: limits.window,
            }
        )
        if self._window > _PROTOCOL_WINDOW:
            self._h2.increment_flow_control_window(self._window - _PROTOCOL_WINDOW)
        self._h2.receive_data(frames.PREFACE)

    def receive(self, frame: Frame) -> list[Happened]:
        """What a frame means."""
        if frame.kind == frames.GOAWAY:
            return [GONE_AWAY]
        if frame.kind not in _HANDED_ON:
            return []
        fields: Fields | None = None
        if frame.kind == frames.HEADERS:
            fields = self._decoder.decode(frame.payload)
            frame = Frame(frame.kind, frame.flags, frame.stream, b"")
        elif frame.kind == frames.SETTINGS and not frame.flags & frames.ACK:
            frame = _with_known_settings(frame)
        # Their sizes were looked at.
        self._h2.max_inbound_frame_size = _ANY
        try:
            events = self._h2.receive_data(bytes(frame))
        except ProtocolError as error:
            # It has written the GOAWAY, but this class writes its own.
            self._h2.clear_outbound_data_buffer()
            raise ConnectionFaultError(error.error_code, "HTTP/2 was broken") from error
        if frame.kind == frames.SETTINGS:
            return [OPENING]
        return self._told(frame, fields, events)

    @property
    def gathered(self) -> int:
        """How many bytes are due to the client."""
        self._collect()
        return len(self._out)

    def outgoing(self) -> bytes:
        """The bytes due to the client; they are forgotten."""
        self._collect()
        out = bytes(self._out)
        self._out.clear()
        return out

    def send_head(self, stream: int, fields: Fields, *, ends: bool) -> None:
        """A head, interim or final, or trailers."""
        self._h2.send_headers(stream, fields, end_stream=ends)

    def room(self, stream: int) -> int:
        """How many bytes of body may go into one frame of the stream now; 0 or less for none."""
        return min(
            _SENT_FRAME,
            self._h2.max_outbound_frame_size,
            self._h2.local_flow_control_window(stream),
        )

    def send_data(self, stream: int, data: bytes | memoryview, *, ends: bool) -> None:
        """Body bytes, no more than there is room for."""
        self._h2.send_data(stream, data, end_stream=ends)

    def reset(self, stream: int, code: int) -> None:
        """End a stream."""
        self._h2.reset_stream(stream, code)

    def credit(self, stream: int, size: int) -> None:
        """The stream may send so many bytes more."""
        self._h2.increment_flow_control_window(size, stream)

    def go_away(self, code: int) -> None:
        """Say that streams opened from now on are not served."""
        self._collect()
        payload = self.last_stream.to_bytes(4) + int(code).to_bytes(4)
        self._out += bytes(Frame(frames.GOAWAY, 0, 0, payload))

    def _collect(self) -> None:
        self._out += self._h2.data_to_send()

    def _told(self, frame: Frame, fields: Fields | None, events: list[Event]) -> list[Happened]:
        happened: list[Happened] = []
        for event in events:
            if isinstance(event, RequestReceived):
                self.last_stream = frame.stream
                is_whole = bool(frame.flags & frames.END_STREAM)
                happened.append(Opened(frame.stream, fields, is_whole))
            elif isinstance(event, DataReceived):
                self._return_window(event.flow_controlled_length or 0)
                size = event.flow_controlled_length or 0
                happened.append(Data(frame.stream, event.data or b"", size))
            elif isinstance(event, TrailersReceived):
                happened.append(Ended(frame.stream, fields))
            elif isinstance(event, StreamEnded) and frame.kind == frames.DATA:
                happened.append(Ended(frame.stream, []))
            elif isinstance(event, StreamReset):
                happened.append(Reset(frame.stream, is_ours=not event.remote_reset))
            elif isinstance(event, WindowUpdated):
                happened.append(OPENING)
        return happened

    def _return_window(self, size: int) -> None:
        """Give the connection's window back at once: a stream that is held has its own.

        So one whose upstream is slow stops no other.
        """
        self._owed += size
        if 2 * self._owed >= self._window:
            self._h2.increment_flow_control_window(self._owed)
            self._owed = 0


def _with_known_settings(frame: Frame) -> Frame:
    """Without those that the library would keep for nothing: there are 65,536 numbers."""
    payload = frame.payload
    if len(payload) % _SETTING_BYTES:
        return frame
    pieces = [payload[at : at + _SETTING_BYTES] for at in range(0, len(payload), _SETTING_BYTES)]
    known = [piece for piece in pieces if int.from_bytes(piece[:2]) in _KNOWN_SETTINGS]
    return Frame(frame.kind, frame.flags, frame.stream, b"".join(known))

"""One client's HTTP/2 connection in memory: frames in, events and frames out (`h2` library)."""

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from h2.config import H2Configuration
from h2.connection import H2Connection
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
from hpack.exceptions import HPACKError
from hpack.hpack import Encoder
from hpack.huffman_table import decode_huffman
from hpack.table import HeaderTable

from pyrbacproxy.http2 import frames
from pyrbacproxy.http2.frames import Frame
from pyrbacproxy.http2.limits import Code, ConnectionFaultError, Http2Limits
from pyrbacproxy.values import Frozen

# --- head block -----------------------------------------------------------------------
#
# A header block → fields, as HPACK says (RFC 7541); bounded against bombs.
#
# The library's own decoder copies what is left of the block for each literal, so that a megabyte of
# small ones would hold the loop for minutes, and writes values to a debug log. Tables and Huffman
# code are the library's. A block that is too large is read to its end all the same: it changes the
# table that the next ones refer to, and its stream can be answered with 431.

Fields: TypeAlias = list[tuple[bytes, bytes]]

TABLE_BYTES = 4096
# RFC 7541 §4.1: what an entry counts beside its octets.
_ENTRY_BYTES = 32
# Go's limit for the lines of a head (reference 15.1) and room for the pseudo-headers; four times as
# many are no mistake.
_MOST_FIELDS = 506
_BOMB_FACTOR = 4
# A tenth of a second, in which no other client is served: the library reads it letter by letter.
_MOST_HUFFMAN_BYTES = 131_072
# What is longer is in no table, for a letter takes 30 bits at most: it need not be known.
_LONGEST_IN_TABLE = TABLE_BYTES * 30 // 8
# RFC 7541 §4.2: at most two updates make sense.
_MOST_TABLE_UPDATES = 2
# What is remembered is held for as long as the connection lives.
_LONGEST_KNOWN = 4096
# 2**28 is far above all that is allowed here.
_MOST_INTEGER_BYTES = 4


class HeadBlockDecoder:
    """The header blocks of one peer, in their order."""

    __slots__ = (
        "_has_table_changed",
        "_huffman_left",
        "_known_block",
        "_known_fields",
        "_max_list",
        "_most_fields",
        "_table",
    )

    def __init__(self, *, max_list_bytes: int, most_fields: int = _MOST_FIELDS) -> None:
        self._max_list = max_list_bytes
        self._most_fields = most_fields
        self._table = HeaderTable()
        self._has_table_changed = False
        self._huffman_left = 0
        # The last block, if it left the table as it was: a client mostly asks the same again.
        self._known_block = b""
        self._known_fields: Fields = []

    def decode(self, block: bytes) -> Fields | None:
        """The fields in order, in the same list as before if a block comes again; None if there are
        too many, or too long ones (431).

        Raises ConnectionFaultError: the table is no longer what the client thinks that it is.
        """
        if block == self._known_block:
            return self._known_fields
        self._has_table_changed = False
        self._huffman_left = _MOST_HUFFMAN_BYTES
        try:
            fields = self._decode(block)
        except (HPACKError, IndexError) as error:
            message = "a header block that cannot be read"
            raise ConnectionFaultError(Code.COMPRESSION_ERROR, message) from error
        if fields is None or self._has_table_changed or len(block) > _LONGEST_KNOWN:
            self._known_block, self._known_fields = b"", []
        else:
            self._known_block, self._known_fields = block, fields
        return fields

    def _decode(self, block: bytes) -> Fields | None:
        fields: Fields = []
        position = size = count = updates = 0
        while position < len(block):
            if block[position] & 0xE0 == 0x20:  # noqa: PLR2004 - the bits 001 of RFC 7541 §6.3
                updates += 1
                if count or updates > _MOST_TABLE_UPDATES:
                    raise HPACKError("a table size update out of place")
                position = self._resize(block, position)
                continue
            field, position = self._field(block, position)
            count += 1
            if count > _BOMB_FACTOR * self._most_fields:
                raise ConnectionFaultError(Code.ENHANCE_YOUR_CALM, "a header block of many fields")
            size += len(field[0]) + len(field[1]) + _ENTRY_BYTES
            if size <= self._max_list and count <= self._most_fields:
                fields.append(field)
        return fields if len(fields) == count else None

    def _resize(self, block: bytes, position: int) -> int:
        size, position = _integer(block, position, 5)
        if size > TABLE_BYTES:
            raise HPACKError("a table larger than ours")
        self._table.maxsize = size
        self._has_table_changed = True
        return position

    def _field(self, block: bytes, position: int) -> tuple[tuple[bytes, bytes], int]:
        first = block[position]
        if first & 0x80:
            index, position = _integer(block, position, 7)
            return self._table.get_by_index(index), position
        is_kept = bool(first & 0x40)
        index, position = _integer(block, position, 6 if is_kept else 4)
        if index:
            name = self._table.get_by_index(index)[0]
        else:
            name, position = self._string(block, position)
        value, position = self._string(block, position)
        if is_kept:
            self._table.add(name, value)
            self._has_table_changed = True
        return (name, value), position

    def _string(self, block: bytes, position: int) -> tuple[bytes, int]:
        """A string (RFC 7541 §5.2) and where it ends."""
        is_huffman = block[position] & 0x80
        length, position = _integer(block, position, 7)
        end = position + length
        if end > len(block):
            raise HPACKError("a string that is cut short")
        text = block[position:end]
        return (self._spelled(text) if is_huffman else text), end

    def _spelled(self, code: bytes) -> bytes:
        """What Huffman code says; of too much of it, something that makes the list too large."""
        if len(code) <= self._huffman_left:
            self._huffman_left -= len(code)
            return decode_huffman(code)
        if len(code) <= _LONGEST_IN_TABLE:
            raise ConnectionFaultError(Code.ENHANCE_YOUR_CALM, "a header block of Huffman code")
        return bytes(self._max_list)


def _integer(block: bytes, position: int, prefix_bits: int) -> tuple[int, int]:
    """An integer (RFC 7541 §5.1) and where it ends. Raises IndexError where the block is cut."""
    most = (1 << prefix_bits) - 1
    number = block[position] & most
    position += 1
    if number < most:
        return number, position
    for shift in range(0, 7 * _MOST_INTEGER_BYTES, 7):
        byte = block[position]
        position += 1
        number += (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the last one lacks the top bit
            return number, position
    raise HPACKError("an integer that is too large")


# --- h2 library -----------------------------------------------------------------------
#
# The `h2` library as either end of a connection: it judges no heads, and keeps little.
#
# Its encoder takes the square of a value's length for Huffman code, a minute for 400 KB, keeps as
# much as the peer allows, and works as long for the same head again; of 65,536 streams it would
# remember how they ended.

Field: TypeAlias = tuple[bytes, bytes]


def new_h2_connection(settings: Settings, *, is_client: bool) -> H2Connection:
    """Our end, with our settings. A client's secrets stay out of the peer's table."""
    made = _Connection(
        H2Configuration(
            client_side=is_client,
            header_encoding=None,
            validate_inbound_headers=False,
            normalize_inbound_headers=False,
            validate_outbound_headers=False,
            normalize_outbound_headers=is_client,
        )
    )
    made.local_settings = settings
    made.encoder = _Encoder()
    return made


class _Connection(H2Connection):
    MAX_CLOSED_STREAMS = 1024


class _Encoder(Encoder):
    """Never keeps more than 4096 bytes, uses no Huffman code, and remembers the last block."""

    def __init__(self) -> None:
        super().__init__()
        # It left the table as it was: one head mostly follows another that is the same.
        self._known_fields: list[Field] = []
        self._known_block = b""

    @property
    def header_table_size(self) -> int:
        return self.header_table.maxsize

    @header_table_size.setter
    def header_table_size(self, value: int) -> None:
        """RFC 7541 §4.2: between two blocks the least size and the last one are told. The library
        forgets them when the same size comes twice.
        """
        size = min(value, TABLE_BYTES)
        if size != self.header_table.maxsize:
            self.header_table.maxsize = size
            least = min((*self.table_size_changes, size))
            self.table_size_changes = [least, size] if least < size else [size]

    def encode(  # type: ignore[override] # of the forms of a header h2 uses one
        self,
        headers: Iterable[Field],
        huffman: bool = False,  # noqa: ARG002, FBT001, FBT002 - the library's signature
    ) -> bytes:
        fields = list(headers)
        table = self.header_table
        if fields == self._known_fields and not table.resized:
            return self._known_block
        before = table.resized, [*table.dynamic_entries]
        block = super().encode(fields, huffman=False)
        is_known = before == (False, [*table.dynamic_entries]) and len(block) <= TABLE_BYTES
        self._known_fields, self._known_block = (fields, block) if is_known else ([], b"")
        return block


# --- engine ---------------------------------------------------------------------------
#
# One client's HTTP/2 connection in memory: frames in → events and frames out (the `h2` library).
#
# What the library does not leave to us is done before it or behind it:
#
# - Header blocks are read by `head_block`, and h2 gets an empty one: it would end the connection
#   over a body that differs from its length, where resetting the stream is right (RFC 9113 §8.1.1).
# - It takes no part in counting streams: one too many is refused, not the connection's end.
# - GOAWAY would forbid it to send on, either way: those frames are read and written here.
# - Unknown settings, and frames that ask for nothing, do not reach it: it keeps the former.

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


class Opened(Frozen):
    """A request's head; `fields` is None when it was too large. `is_whole`: no body follows."""

    stream: int
    fields: Fields | None
    is_whole: bool


class Data(Frozen):
    """Some of a body; `flow_bytes` is what it took of the windows."""

    stream: int
    data: bytes
    flow_bytes: int


class Ended(Frozen):
    """The end of a request; `trailers` is None when they were too large."""

    stream: int
    trailers: Fields | None


class Reset(Frozen):
    """A stream is over before its time; `is_ours`: for what the client did to its window."""

    stream: int
    is_ours: bool


class Opening(Frozen):
    """A window may have opened, or the client's settings changed."""


class GoneAway(Frozen):
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
        self._h2 = new_h2_connection(_LocalSettings(client=False), is_client=False)
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


# --- budget ---------------------------------------------------------------------------
#
# What a client may make us do for nothing: frames that ask for no work, streams that it gives up.
#
# Each such frame costs, time and useful work pay it back. A client that runs out of both is told to
# calm down: pings, settings, priorities, window updates of a byte, empty DATA, CONTINUATION
# (CVE-2019-9511 to 9518), resets in a hurry (CVE-2023-44487), and whatever makes us reset streams
# (CVE-2025-8671).

_CAPACITY = 4000.0
_PER_SECOND = 100.0
# A SETTINGS frame may change the window of each stream.
_SETTINGS_COST = 10

# For each answer, and for each piece of a body that a client may take back windows for, as Go's
# does (`inflowMinRefresh`): the updates of stream and connection, and a ping to measure with. A
# small frame pays for what opened the window for it, and nothing else.
_USEFUL_WORK = 3
_USEFUL_BYTES = 1024
_PIECE_BYTES = 4096
_ABANDONED_PER_STREAM = 4


def settings_cost(payload: bytes) -> int:
    """What a SETTINGS frame costs: one of the largest size has 43,690 settings."""
    return _SETTINGS_COST + len(payload) // _SETTING_BYTES


class Budget:
    """One connection's account. `clock` tells monotonic seconds; it is asked rarely."""

    __slots__ = ("_abandoned", "_clock", "_left", "_max_abandoned", "_paid_at")

    def __init__(self, max_streams: int, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._left = _CAPACITY
        self._paid_at = clock()
        self._abandoned = 0
        self._max_abandoned = _ABANDONED_PER_STREAM * max_streams

    def spend(self, cost: int = 1) -> bool:
        """Pay for a frame; false if there is nothing left to pay with."""
        self._left -= cost
        if self._left < 0:
            now = self._clock()
            self._left = min(_CAPACITY, self._left + (now - self._paid_at) * _PER_SECOND)
            self._paid_at = now
        return self._left >= 0

    def moved(self, size: int) -> None:
        """So many bytes of a body went one way or the other."""
        if size:
            pieces = -(-size // _PIECE_BYTES)
            work = _USEFUL_WORK * pieces if size >= _USEFUL_BYTES else 1
            self._left = min(_CAPACITY, self._left + work)

    def answered(self) -> None:
        """A stream got its whole answer."""
        self._left = min(_CAPACITY, self._left + _USEFUL_WORK)
        if self._abandoned:
            self._abandoned -= 1

    def abandoned(self) -> bool:
        """A stream was reset by either side without its answer; false if too many were."""
        self._abandoned += 1
        return self._abandoned <= self._max_abandoned

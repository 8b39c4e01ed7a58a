"""Bytes → frames, bounded: the preface, sizes, and one whole header block for HEADERS and what
continues it.

It stands before the library for what that leaves open: how many frames of which kind came, whether
a header block is begun and how long it has become (CONTINUATION floods).
"""

from collections.abc import Iterator
from typing import Final

from pyrbacproxy.http2.limits import Code, ConnectionFaultError
from pyrbacproxy.values import Frozen

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA: Final = 0
HEADERS: Final = 1
RST_STREAM: Final = 3
SETTINGS: Final = 4
_PUSH_PROMISE = 5
PING: Final = 6
GOAWAY: Final = 7
WINDOW_UPDATE: Final = 8
CONTINUATION: Final = 9
# One bit, three meanings.
END_STREAM: Final = 0x1
ACK: Final = 0x1
_END_HEADERS = 0x4
_PADDED = 0x8
_PRIORITY = 0x20
_HEADER_BYTES = 9
_PRIORITY_BYTES = 5
_GOAWAY_BYTES = 8
# The top bit is reserved.
_STREAM_BITS = 0x7FFF_FFFF
# What one turn may take, in frames; a head is worth as many. It is 20 ms, and a read may bring 2 s.
_TURN = 512
_HEAD_WEIGHT = 8
# A block of the largest size in frames of the least size takes half as many.
_MOST_CONTINUATIONS = 128


class Frame(Frozen):
    """One frame. HEADERS are whole: padding, priority and CONTINUATION are gone."""

    kind: int
    flags: int
    stream: int
    payload: bytes

    def __bytes__(self) -> bytes:
        start = len(self.payload).to_bytes(3) + bytes((self.kind, self.flags))
        return start + self.stream.to_bytes(4) + self.payload


class FrameReader:
    """The frames of one client.

    `has_begun_block` tells that some of a header block is here, but not all; `has_settings`, that
    the client has greeted us; `is_held`, that more may be had at once, though not in this turn.
    A caller that stops taking what `feed` gives finds the rest there with the next bytes.
    """

    __slots__ = (
        "_block",
        "_continued",
        "_has_preface",
        "_max_block",
        "_max_frame",
        "_opening",
        "_partial",
        "has_settings",
        "is_held",
    )

    def __init__(self, *, max_frame_bytes: int, max_block_bytes: int) -> None:
        self._max_frame = max_frame_bytes
        self._max_block = max_block_bytes
        self._partial = bytearray()
        self._has_preface = False
        self.has_settings = False
        self.is_held = False
        # The HEADERS frame of a block that goes on, and the block so far.
        self._opening: Frame | None = None
        self._block = bytearray()
        self._continued = 0

    @property
    def has_begun(self) -> bool:
        """Whether some bytes of a frame are here, or of a header block, but not all."""
        return bool(self._partial) or self._opening is not None

    @property
    def has_begun_block(self) -> bool:
        """Whether a header block is still to be completed."""
        return self._opening is not None or self._partial[3:4] == bytes((HEADERS,))

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that these bytes complete, a turn's at most. Raises ConnectionFaultError."""
        self.is_held = False
        left = _TURN
        partial = self._partial
        partial += data
        if not self._has_preface:
            if not partial.startswith(PREFACE[: len(partial)]):
                raise ConnectionFaultError(Code.PROTOCOL_ERROR, "no HTTP/2 preface")
            if len(partial) < len(PREFACE):
                return
            self._has_preface = True
            del partial[: len(PREFACE)]
        for raw in cut(partial, self._max_frame):
            left -= _HEAD_WEIGHT if raw[3] == HEADERS else 1
            whole = self._assembled(_parsed(raw))
            if whole is not None:
                yield whole
            if left <= 0:
                self.is_held = len(partial) >= _HEADER_BYTES
                return

    def _assembled(self, frame: Frame) -> Frame | None:
        """The frame, or the HEADERS that it completes; None while a block goes on."""
        if not self.has_settings:
            # The preface ends with them (RFC 9113 §3.4).
            if frame.kind != SETTINGS or frame.flags & ACK:
                raise ConnectionFaultError(Code.PROTOCOL_ERROR, "no SETTINGS at the start")
            self.has_settings = True
        opening = self._opening
        if opening is not None:
            return self._continue(opening, frame)
        if frame.kind == HEADERS:
            return self._begin(frame)
        if frame.kind in (CONTINUATION, _PUSH_PROMISE):
            raise ConnectionFaultError(Code.PROTOCOL_ERROR, "a frame out of place")
        return frame

    def _begin(self, frame: Frame) -> Frame | None:
        block = _bare_block(frame)
        if frame.flags & _END_HEADERS:
            return _headers(frame, block)
        self._opening = frame
        self._block += block
        self._continued = 0
        return None

    def _continue(self, opening: Frame, frame: Frame) -> Frame | None:
        if frame.kind != CONTINUATION or frame.stream != opening.stream:
            raise ConnectionFaultError(Code.PROTOCOL_ERROR, "a frame inside a header block")
        self._continued += 1
        self._block += frame.payload
        if len(self._block) > self._max_block or self._continued > _MOST_CONTINUATIONS:
            raise ConnectionFaultError(Code.ENHANCE_YOUR_CALM, "a header block without end")
        if not frame.flags & _END_HEADERS:
            return None
        block = bytes(self._block)
        self._block.clear()
        self._opening = None
        return _headers(opening, block)


def cut(buffer: bytearray, max_frame_bytes: int) -> Iterator[bytes]:
    """Take the whole frames off the buffer's beginning; the fourth byte of each is its kind.

    Raises ConnectionFaultError when the next one says that it is longer, whatever has come of it.
    """
    while len(buffer) >= _HEADER_BYTES:
        size = int.from_bytes(buffer[:3])
        if size > max_frame_bytes:
            raise ConnectionFaultError(Code.FRAME_SIZE_ERROR, "a frame is too long")
        end = _HEADER_BYTES + size
        if len(buffer) < end:
            return
        raw = bytes(buffer[:end])
        del buffer[:end]
        yield raw


def last_stream(raw: bytes) -> int:
    """Of a GOAWAY (RFC 9113 §6.8). Raises ConnectionFaultError for one that is cut short."""
    if len(raw) < _HEADER_BYTES + _GOAWAY_BYTES:
        raise ConnectionFaultError(Code.FRAME_SIZE_ERROR, "a GOAWAY that is cut short")
    return int.from_bytes(raw[_HEADER_BYTES : _HEADER_BYTES + 4]) & _STREAM_BITS


def _parsed(raw: bytes) -> Frame:
    return Frame(raw[3], raw[4], int.from_bytes(raw[5:9]) & _STREAM_BITS, raw[_HEADER_BYTES:])


def _headers(opening: Frame, block: bytes) -> Frame:
    return Frame(HEADERS, opening.flags & END_STREAM | _END_HEADERS, opening.stream, block)


def _bare_block(frame: Frame) -> bytes:
    """The header block fragment of a HEADERS frame (RFC 9113 §6.2)."""
    start, end = 0, len(frame.payload)
    if frame.flags & _PADDED:
        start = 1
        end -= frame.payload[0] if frame.payload else 0
    if frame.flags & _PRIORITY:
        start += _PRIORITY_BYTES
    if start > end:
        raise ConnectionFaultError(Code.PROTOCOL_ERROR, "a HEADERS frame that is cut short")
    return frame.payload[start:end]

"""GOAWAY taken out of what an upstream sends: `h2` would take it for the end of the connection.

A server that says GOAWAY still answers what it has begun (RFC 9113 §6.8), and a polite one says it
twice, with a PING between. `h2` refuses every frame behind the first one. And it judges the length
of a frame when all of it is there: of one that is too long, 16 MB, with all streams mute meanwhile.
"""

from dataclasses import dataclass
from typing import TypeAlias

from pyrbacproxy.http1.errors import RemoteProtocolError
from pyrbacproxy.http2.frames import GOAWAY

_HEADER_BYTES = 9
_LEAST_BYTES = 8
_MOST_BYTES = 16_384
_ID_MASK = 0x7FFF_FFFF


@dataclass(frozen=True, slots=True)
class GoAway:
    """Streams above `last_stream_id` were not looked at, and no new one may be begun."""

    last_stream_id: int


Piece: TypeAlias = bytes | GoAway


class GoAways:
    """Watches the frames of one connection go by."""

    __slots__ = ("_held", "_left", "_max_frame")

    def __init__(self, *, max_frame_bytes: int) -> None:
        self._max_frame = max_frame_bytes
        self._held = b""
        # Of the frame that the last bytes belong to.
        self._left = 0

    def feed(self, data: bytes) -> list[Piece]:
        """The same bytes in order, each GOAWAY as one; an unfinished frame header waits.

        Raises RemoteProtocolError for a GOAWAY that can't be one, and a frame that is too long.
        """
        data, self._held = self._held + data, b""
        pieces: list[Piece] = []
        begin, position = 0, self._left
        while position + _HEADER_BYTES <= len(data):
            size = int.from_bytes(data[position : position + 3], "big")
            if size > self._max_frame:
                raise RemoteProtocolError("a frame is too long")
            end = position + _HEADER_BYTES + size
            if data[position + 3] == GOAWAY:
                if not _LEAST_BYTES <= size <= _MOST_BYTES:
                    raise RemoteProtocolError("a malformed GOAWAY")
                if end > len(data):
                    break
                _pass(pieces, data[begin:position])
                pieces.append(_read(data, position))
                begin = end
            position = end
        passed = min(position, len(data))
        _pass(pieces, data[begin:passed])
        self._held = data[passed:]
        self._left = position - passed
        return pieces


def _pass(pieces: list[Piece], data: bytes) -> None:
    if data:
        pieces.append(data)


def _read(data: bytes, position: int) -> GoAway:
    start = position + _HEADER_BYTES
    return GoAway(int.from_bytes(data[start : start + 4], "big") & _ID_MASK)

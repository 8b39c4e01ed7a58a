"""HTTP/2 limits, and the error codes that end a connection or a stream (RFC 9113 §7)."""

from enum import IntEnum

from pyrbacproxy.values import Frozen

# --- errors ---------------------------------------------------------------------------
# What ends an HTTP/2 connection, or one stream of it: the codes of RFC 9113 §7 that we use.


class Code(IntEnum):
    """Error codes (RFC 9113 §7)."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    ENHANCE_YOUR_CALM = 11
    INADEQUATE_SECURITY = 12


class ConnectionFaultError(Exception):
    """The client broke the connection's rules: it ends with `code` (a number of RFC 9113 §7)."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class MalformedStreamError(Exception):
    """A malformed message: its stream is reset with PROTOCOL_ERROR (RFC 9113 §8.1.1)."""


# --- limits ---------------------------------------------------------------------------
# `Http2Limits`: what a client is told about one HTTP/2 connection, and what that may cost.

_LEAST_FRAME = 16_384
_LARGEST_FRAME = 16_777_215
_LARGEST_WINDOW = 2**31 - 1
# Of RFC 9113 §6.9.2, for the connection: it cannot be made smaller.
_LEAST_CONNECTION_WINDOW = 65_535
# What the original's library takes instead of a size or a number that is out of range.
_FALLBACK_BYTES = 1_048_576
_FALLBACK_STREAMS = 250


class Http2Limits(Frozen):
    """Sizes in bytes. `window` is one stream's; `connection_window` is shared by all streams."""

    streams: int = 100
    frame: int = 262_144
    window: int = 262_144
    connection_window: int = 26_214_400


def limits_of(max_streams: int, max_size: int) -> Http2Limits:
    """What the two flags mean; values out of range become others as in the original (D19)."""
    connection_window = max_size * max_streams
    return Http2Limits(
        streams=max_streams or _FALLBACK_STREAMS,
        frame=_within(max_size, _LEAST_FRAME, _LARGEST_FRAME),
        window=_within(max_size, 1, _LARGEST_WINDOW),
        connection_window=_within(connection_window, _LEAST_CONNECTION_WINDOW, _LARGEST_WINDOW),
    )


def _within(size: int, least: int, largest: int) -> int:
    return size if least <= size <= largest else _FALLBACK_BYTES

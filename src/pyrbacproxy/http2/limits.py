"""`Http2Limits`: what a client is told about one HTTP/2 connection, and what that may cost."""

from dataclasses import dataclass

_LEAST_FRAME = 16_384
_LARGEST_FRAME = 16_777_215
_LARGEST_WINDOW = 2**31 - 1
# Of RFC 9113 §6.9.2, for the connection: it cannot be made smaller.
_LEAST_CONNECTION_WINDOW = 65_535
# What the original's library takes instead of a size or a number that is out of range.
_FALLBACK_BYTES = 1_048_576
_FALLBACK_STREAMS = 250


@dataclass(frozen=True, slots=True)
class Http2Limits:
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

import pytest

from pyrbacproxy.http1.errors import RemoteProtocolError
from pyrbacproxy.http2.upstream_goaway import GoAway, GoAways


def frame(kind: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, 0)) + bytes(4) + payload


def goaway_watch() -> GoAways:
    return GoAways(max_frame_bytes=16_384)


DATA = frame(0, b"x" * 20)
PING = frame(6, b"12345678")
GOAWAY = frame(7, b"\x80\0\0\5" + bytes(4) + b"bye")
STREAM = DATA + GOAWAY + PING + frame(7, bytes(8)) + DATA


@pytest.mark.parametrize("size", [*range(1, 40), len(STREAM)])
def test_each_goaway_is_told_in_its_place_however_the_bytes_come(size: int) -> None:
    goaways = goaway_watch()
    pieces: list[bytes | GoAway] = []
    for start in range(0, len(STREAM), size):
        for piece in goaways.feed(STREAM[start : start + size]):
            if pieces and isinstance(piece, bytes) and isinstance(pieces[-1], bytes):
                pieces[-1] += piece
            else:
                pieces.append(piece)
    assert pieces == [DATA, GoAway(5), PING, GoAway(0), DATA]


def test_what_belongs_to_a_frame_is_passed_on_at_once() -> None:
    goaways = goaway_watch()
    assert goaways.feed(DATA[:15]) == [DATA[:15]]
    assert goaways.feed(DATA[15:] + b"\0") == [DATA[15:]]
    assert goaways.feed(b"") == []


@pytest.mark.parametrize("size", [7, 16_385])
def test_a_goaway_has_bounds(size: int) -> None:
    with pytest.raises(RemoteProtocolError):
        goaway_watch().feed(frame(7, bytes(size)))


def test_a_frame_that_is_too_long_is_told_by_its_header() -> None:
    with pytest.raises(RemoteProtocolError):
        goaway_watch().feed(DATA + (16_385).to_bytes(3, "big") + bytes(6))
    assert goaway_watch().feed((16_384).to_bytes(3, "big") + bytes(6)) != []

import pytest

from pyrbacproxy.http2.frames import (
    CONTINUATION,
    DATA,
    GOAWAY,
    HEADERS,
    PING,
    PREFACE,
    SETTINGS,
    Frame,
    FrameReader,
    cut,
    last_stream,
)
from pyrbacproxy.http2.limits import Code, ConnectionFaultError

END_HEADERS = 0x4


def reader(*, greeted: bool = True) -> FrameReader:
    made = FrameReader(max_frame_bytes=16_384, max_block_bytes=100)
    if greeted:
        assert len(list(made.feed(PREFACE + bytes(Frame(SETTINGS, 0, 0, b""))))) == 1
    return made


def read(made: FrameReader, *frames: Frame) -> list[Frame]:
    return list(made.feed(b"".join(map(bytes, frames))))


def test_frames_come_out_as_they_went_in_however_they_are_cut() -> None:
    sent = [Frame(SETTINGS, 0, 0, b""), Frame(PING, 0, 0, b"12345678"), Frame(DATA, 1, 5, b"x")]
    wire = PREFACE + b"".join(map(bytes, sent))
    assert list(reader(greeted=False).feed(wire)) == sent
    made = reader(greeted=False)
    assert [frame for byte in wire for frame in made.feed(bytes([byte]))] == sent


def test_what_is_not_taken_is_kept() -> None:
    made = reader()
    pings = b"".join(bytes(Frame(PING, 0, 0, b"%08d" % number)) for number in range(3))
    assert next(made.feed(pings)).payload == b"00000000"
    assert [frame.payload for frame in made.feed(b"")] == [b"00000001", b"00000002"]


def test_a_turn_has_an_end() -> None:
    made = reader()
    pings = b"".join(bytes(Frame(PING, 0, 0, b"%08d" % number)) for number in range(1000))
    first = list(made.feed(pings))
    assert made.is_held
    second = list(made.feed(b""))
    assert not made.is_held
    assert [int(frame.payload) for frame in first + second] == list(range(1000))
    heads = bytes(Frame(HEADERS, END_HEADERS, 1, b"abc")) * 100
    assert len(list(made.feed(heads))) < 100
    assert made.is_held


@pytest.mark.parametrize("frame", [Frame(SETTINGS, 1, 0, b""), Frame(PING, 0, 0, bytes(8))])
def test_who_does_not_begin_with_settings_is_told(frame: Frame) -> None:
    made = reader(greeted=False)
    with pytest.raises(ConnectionFaultError) as fault:
        list(made.feed(PREFACE + bytes(frame)))
    assert fault.value.code == Code.PROTOCOL_ERROR
    assert not made.has_settings


def test_the_reserved_bit_is_nothing() -> None:
    made = reader()
    assert list(made.feed(b"\0\0\0\x06\0\x80\0\0\x03")) == [Frame(PING, 0, 3, b"")]


@pytest.mark.parametrize("start", [b"GET / HTTP/1.1\r\n", b"PRI * HTTP/2.1"])
def test_what_is_no_preface_is_told_at_once(start: bytes) -> None:
    with pytest.raises(ConnectionFaultError) as fault:
        list(reader(greeted=False).feed(start))
    assert fault.value.code == Code.PROTOCOL_ERROR


def test_a_frame_that_is_too_long_is_told_by_its_header() -> None:
    with pytest.raises(ConnectionFaultError) as fault:
        list(reader().feed((16_385).to_bytes(3) + bytes(6)))
    assert fault.value.code == Code.FRAME_SIZE_ERROR


BLOCKS = {
    "whole": ([Frame(HEADERS, END_HEADERS | 1, 1, b"abc")], 1),
    "continued": (
        [
            Frame(HEADERS, 0, 1, b"a"),
            Frame(CONTINUATION, 0, 1, b"b"),
            Frame(CONTINUATION, END_HEADERS, 1, b"c"),
        ],
        0,
    ),
    "padded": ([Frame(HEADERS, END_HEADERS | 0x8, 1, b"\x02abc\0\0")], 0),
    "with a priority": ([Frame(HEADERS, END_HEADERS | 0x20, 1, b"12345abc")], 0),
    "padded, with a priority": ([Frame(HEADERS, END_HEADERS | 0x28, 1, b"\x0112345abc\0")], 0),
}


@pytest.mark.parametrize("case", BLOCKS.values(), ids=BLOCKS)
def test_headers_come_out_whole_and_bare(case: tuple[list[Frame], int]) -> None:
    frames, ends = case
    made = reader()
    assert read(made, *frames) == [Frame(HEADERS, END_HEADERS | ends, 1, b"abc")]
    assert not made.has_begun_block
    assert read(made, Frame(PING, 0, 0, b"")) == [Frame(PING, 0, 0, b"")]


def test_a_begun_block_is_known() -> None:
    made = reader()
    assert not made.has_begun_block
    whole = bytes(Frame(HEADERS, 0, 1, b"a"))
    list(made.feed(whole[:4]))
    assert made.has_begun_block
    list(made.feed(whole[4:]))
    assert made.has_begun_block


FAULTS = {
    "another frame inside a block": (
        [Frame(HEADERS, 0, 1, b""), Frame(PING, 0, 0, b"")],
        Code.PROTOCOL_ERROR,
    ),
    "another stream's continuation": (
        [Frame(HEADERS, 0, 1, b""), Frame(CONTINUATION, 0, 3, b"")],
        Code.PROTOCOL_ERROR,
    ),
    "a continuation of nothing": ([Frame(CONTINUATION, 0, 1, b"")], Code.PROTOCOL_ERROR),
    "a push": ([Frame(5, 0, 1, b"")], Code.PROTOCOL_ERROR),
    "more padding than frame": ([Frame(HEADERS, 0x8, 1, b"\x05abc")], Code.PROTOCOL_ERROR),
    "no room for the padding's length": ([Frame(HEADERS, 0x8, 1, b"")], Code.PROTOCOL_ERROR),
    "half a priority": ([Frame(HEADERS, 0x20, 1, b"12")], Code.PROTOCOL_ERROR),
    "a block that is too long": (
        [Frame(HEADERS, 0, 1, bytes(60)), Frame(CONTINUATION, 0, 1, bytes(41))],
        Code.ENHANCE_YOUR_CALM,
    ),
    "continuations for ever": (
        [Frame(HEADERS, 0, 1, b""), *[Frame(CONTINUATION, 0, 1, b"")] * 129],
        Code.ENHANCE_YOUR_CALM,
    ),
}


@pytest.mark.parametrize("case", FAULTS.values(), ids=FAULTS)
def test_faults(case: tuple[list[Frame], Code]) -> None:
    frames, code = case
    with pytest.raises(ConnectionFaultError) as fault:
        read(reader(), *frames)
    assert fault.value.code == code


def goaway(payload: bytes) -> bytes:
    return bytes(Frame(GOAWAY, 0, 0, payload))


WHOLE = [bytes(Frame(DATA, 1, 5, b"x" * 20)), goaway(bytes(8)), bytes(Frame(PING, 0, 0, bytes(8)))]


@pytest.mark.parametrize("size", [1, 2, 8, 9, 10, 17, 100])
def test_frames_are_cut_off_whole_however_the_bytes_come(size: int) -> None:
    wire, buffer, found = b"".join(WHOLE), bytearray(), []
    for start in range(0, len(wire), size):
        buffer += wire[start : start + size]
        found += list(cut(buffer, 20))
    assert found == WHOLE
    assert not buffer


def test_the_last_stream_of_a_goaway() -> None:
    assert last_stream(goaway(b"\x80\0\0\5" + bytes(4) + b"bye")) == 5
    with pytest.raises(ConnectionFaultError) as fault:
        last_stream(goaway(bytes(7)))
    assert fault.value.code == Code.FRAME_SIZE_ERROR

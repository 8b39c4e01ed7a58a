import pytest
from h2.connection import H2Connection
from hpack.hpack import Encoder

from pyrbacproxy.http2.codec import GONE_AWAY, OPENING, Data, Ended, Engine, Happened, Opened, Reset
from pyrbacproxy.http2.frames import Frame, FrameReader
from pyrbacproxy.http2.limits import Code, ConnectionFaultError, Http2Limits
from tests.http2.talk import Client, request

HEADERS, ENDS = 1, 0x5


class Pair:
    """An engine and a client."""

    def __init__(self, limits: Http2Limits | None = None) -> None:
        self.engine = Engine(limits or Http2Limits(), max_header_bytes=65_536)
        self.client = Client()
        self.reader = FrameReader(max_frame_bytes=2**24 - 1, max_block_bytes=70_000)
        self.happened: list[Happened] = []
        self.turn()
        self.turn()

    def turn(self) -> list[Happened]:
        """What the client has to say, and what is answered."""
        happened: list[Happened] = []
        for frame in self.reader.feed(self.client.h2.data_to_send()):
            happened += self.engine.receive(frame)
        self.client.hear(self.engine.outgoing())
        return happened


def frame_of(kind: int, flags: int = 0, stream: int = 1, payload: bytes = b"") -> Frame:
    return Frame(kind, flags, stream, payload)


def settings_of(*pairs: tuple[int, int]) -> bytes:
    return b"".join(code.to_bytes(2) + value.to_bytes(4) for code, value in pairs)


def test_the_settings_are_told_in_one_frame() -> None:
    pair = Pair(Http2Limits(7, 65_536, 65_536, 7 * 65_536))
    told = pair.client.h2.remote_settings
    assert told.max_concurrent_streams == 7
    assert told.initial_window_size == told.max_frame_size == 65_536
    assert told.max_header_list_size == 65_536 + 320
    assert pair.client.h2.outbound_flow_control_window == 7 * 65_536
    first = Engine(Http2Limits(), max_header_bytes=65_536).outgoing()
    assert [first[3], int.from_bytes(first[:3])] == [4, 30]


def test_a_request_and_its_body() -> None:
    pair = Pair()
    pair.client.h2.send_headers(1, request(method=b"POST"))
    pair.client.h2.send_data(1, b"abc")
    pair.client.h2.send_data(1, b"", end_stream=True)
    assert pair.turn() == [
        Opened(1, request(method=b"POST"), is_whole=False),
        Data(1, b"abc", 3),
        Data(1, b"", 0),
        Ended(1, []),
    ]
    assert pair.engine.last_stream == 1


def test_trailers() -> None:
    pair = Pair()
    pair.client.h2.send_headers(1, request(method=b"POST"))
    pair.client.h2.send_headers(1, [(b"x-sum", b"1")], end_stream=True)
    assert pair.turn()[1:] == [Ended(1, [(b"x-sum", b"1")])]


def test_a_length_that_differs_is_not_for_the_library_to_judge() -> None:
    pair = Pair()
    pair.client.h2.send_headers(1, request(b"/", (b"content-length", b"9"), method=b"POST"))
    pair.client.h2.send_data(1, b"a", end_stream=True)
    assert pair.turn()[1:] == [Data(1, b"a", 1), Ended(1, [])]


def test_a_head_that_is_too_large_is_told() -> None:
    pair = Pair()
    block = Encoder().encode([*request(), *[(b"x-%d" % n, b"y" * 9000) for n in range(8)]])
    assert pair.engine.receive(frame_of(HEADERS, ENDS, 1, block)) == [
        Opened(1, None, is_whole=True)
    ]


def test_resets_and_windows() -> None:
    pair = Pair()
    pair.client.h2.send_headers(1, request(), end_stream=True)
    pair.turn()
    pair.client.h2.increment_flow_control_window(5, 1)
    assert pair.turn() == [OPENING]
    pair.client.h2.reset_stream(1, Code.CANCEL)
    assert pair.turn() == [Reset(1, is_ours=False)]


def test_a_window_that_is_blown_up_resets_its_stream() -> None:
    pair = Pair()
    pair.client.h2.send_headers(1, request(), end_stream=True)
    pair.turn()
    blown = frame_of(8, 0, 1, (2**31 - 1).to_bytes(4))
    assert pair.engine.receive(blown) == [Reset(1, is_ours=True)]


def test_an_answer() -> None:
    pair = Pair()
    pair.client.h2.send_headers(1, request(), end_stream=True)
    pair.turn()
    pair.engine.send_head(1, [(b":status", b"103")], ends=False)
    pair.engine.send_head(1, [(b":status", b"200")], ends=False)
    assert pair.engine.room(1) == 16_384
    pair.engine.send_data(1, memoryview(b"abc"), ends=False)
    pair.engine.send_head(1, [(b"x-sum", b"1")], ends=True)
    pair.turn()
    assert pair.client.statuses == {1: [103, 200]}
    assert pair.client.bodies == {1: b"abc"}
    assert pair.client.trailers == {1: [(b"x-sum", b"1")]}
    assert pair.client.ended == {1}


def test_the_connection_s_window_comes_back_by_itself_the_stream_s_does_not() -> None:
    pair = Pair(Http2Limits(100, 65_535, 65_535, 65_535))
    window = pair.client.h2.local_flow_control_window
    pair.client.h2.send_headers(1, request(method=b"POST"))
    for _ in range(3):
        pair.client.h2.send_data(1, bytes(16_384))
    pair.client.h2.send_headers(3, request(method=b"POST"))
    pair.turn()
    assert (window(1), window(3)) == (65_535 - 3 * 16_384, 49_151)
    pair.engine.credit(1, 100)
    pair.turn()
    assert window(1) == 65_535 - 3 * 16_384 + 100


def test_goaway_either_way_leaves_what_runs_alone() -> None:
    pair = Pair()
    pair.client.h2.send_headers(1, request(), end_stream=True)
    pair.turn()
    assert pair.engine.receive(frame_of(7, 0, 0, bytes(8))) == [GONE_AWAY]
    pair.engine.go_away(Code.NO_ERROR)
    pair.engine.send_head(1, [(b":status", b"200")], ends=True)
    out = pair.engine.outgoing()
    assert out[:17] == bytes(Frame(7, 0, 0, b"\0\0\0\x01\0\0\0\0"))
    pair.client.hear(out[17:])
    assert pair.client.statuses == {1: [200]}


def test_one_stream_too_many_is_for_others_to_refuse() -> None:
    pair = Pair(Http2Limits(2, 16_384, 65_535, 65_535))
    block = Encoder().encode(request())
    opened = [pair.engine.receive(frame_of(HEADERS, ENDS, n, block)) for n in (1, 3, 5, 7)]
    assert all(isinstance(happened[0], Opened) for happened in opened)
    pair.engine.reset(7, Code.REFUSED_STREAM)
    assert pair.engine.outgoing().endswith(bytes(frame_of(3, 0, 7, b"\0\0\0\x07")))


@pytest.mark.parametrize("kind", [2, 10, 12, 99])
def test_frames_that_ask_for_nothing_do_nothing(kind: int) -> None:
    pair = Pair()
    assert pair.engine.receive(frame_of(kind, 0, 0, b"abcde")) == []
    assert pair.engine.outgoing() == b""


def test_pings_and_settings_are_answered() -> None:
    pair = Pair()
    assert pair.engine.receive(frame_of(6, 0, 0, b"12345678")) == []
    assert pair.engine.receive(frame_of(4, 0, 0, settings_of((4, 10)))) == [OPENING]
    assert pair.engine.outgoing() == bytes(Frame(6, 1, 0, b"12345678")) + bytes(Frame(4, 1, 0, b""))


def test_settings_that_nobody_knows_are_not_kept() -> None:
    pair = Pair()
    unknown = settings_of(*((code, 1) for code in range(100, 200)))
    pair.engine.receive(frame_of(4, 0, 0, unknown + settings_of((5, 20_000))))
    settings = pair.engine._h2.remote_settings
    assert settings.max_frame_size == 20_000
    assert not set(settings) & set(range(100, 200))


def test_our_encoder_keeps_no_more_than_4096_bytes_whatever_the_client_allows() -> None:
    pair = Pair()
    pair.engine.receive(frame_of(4, 0, 0, settings_of((1, 2**32 - 1))))
    assert pair.engine._h2.encoder.header_table_size == 4096
    pair.engine.receive(frame_of(4, 0, 0, settings_of((1, 100))))
    assert pair.engine._h2.encoder.header_table_size == 100
    pair.client.h2.decoder.max_allowed_table_size = 100
    pair.client.h2.send_headers(1, request(), end_stream=True)
    pair.turn()
    pair.engine.send_head(1, [(b":status", b"200"), (b"x", b"y")], ends=True)
    pair.turn()
    assert pair.client.statuses == {1: [200]}


FAULTS = {
    "settings cut short": (frame_of(4, 0, 0, b"abc"), Code.FRAME_SIZE_ERROR),
    "a stream of even number": (frame_of(HEADERS, ENDS, 2, b"\x82"), Code.PROTOCOL_ERROR),
    "data on a stream that never was": (frame_of(0, 0, 5, b"x"), Code.PROTOCOL_ERROR),
    "a window update of nothing": (frame_of(8, 0, 0, bytes(4)), Code.PROTOCOL_ERROR),
    "a block that cannot be read": (
        frame_of(HEADERS, ENDS, 1, b"\xff\xff"),
        Code.COMPRESSION_ERROR,
    ),
}


@pytest.mark.parametrize("case", FAULTS.values(), ids=FAULTS)
def test_faults_end_the_connection_and_one_goaway_is_written(case: tuple[Frame, Code]) -> None:
    frame, code = case
    pair = Pair()
    with pytest.raises(ConnectionFaultError) as fault:
        pair.engine.receive(frame)
    assert fault.value.code == code
    assert pair.engine.outgoing() == b""
    pair.engine.go_away(code)
    assert pair.engine.outgoing()[3] == 7


def test_the_library_is_kept_from_remembering_and_counting() -> None:
    h2 = Pair().engine._h2
    assert h2.MAX_CLOSED_STREAMS < H2Connection.MAX_CLOSED_STREAMS
    h2.local_settings.max_concurrent_streams = 3
    assert h2.local_settings.max_concurrent_streams > 2**30

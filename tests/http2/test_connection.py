"""The connection as a whole: deadlines, goodbyes, and floods (FR62, CVE by CVE)."""

from collections.abc import Callable

import pytest
from hpack.hpack import Encoder

from pyrbacproxy.http2.frames import PREFACE, Frame
from pyrbacproxy.http2.limits import Code, Http2Limits
from pyrbacproxy.http2.server import Http2Connection
from pyrbacproxy.model import Failure
from pyrbacproxy.proxy.exchange import Limits, Use
from tests.http2.talk import SETTINGS, STREAM, Talk, head, request

FEW = Http2Limits(10, 16_384, 65_535, 26_214_400)
PING = Frame(6, 0, 0, b"12345678")


def reset(number: int) -> Frame:
    return Frame(3, 0, number, int(Code.CANCEL).to_bytes(4))


def greeted(limits: Limits | None = None, http2: Http2Limits | None = FEW) -> Talk:
    """Preface and settings are exchanged."""
    return Talk(limits, http2).exchange()


def goodbye(talk: Talk, code: Code) -> bool:
    """Whether the connection is ending so."""
    return talk.client.goaways == [code] and talk.transport.done[0] in ("linger", "close")


# --- deadlines ------------------------------------------------------------------------


def test_a_client_that_never_greets_is_given_up() -> None:
    talk = Talk(Limits(read_header_seconds=30))
    assert isinstance(talk.connection, Http2Connection)
    talk.connection.data_received(PREFACE[:10])
    talk.loop.advance(29)
    talk.connection.data_received(PREFACE[10:])
    assert talk.transport.done == []
    talk.loop.advance(1.5)
    assert talk.transport.done == ["linger"]


def test_an_idle_connection_says_goodbye_and_pings_do_not_stretch_it() -> None:
    talk = greeted(Limits(idle_seconds=90))
    talk.loop.advance(80)
    talk.ask(b"/deny")
    for _ in range(8):
        talk.loop.advance(10)
        talk.raw(PING)
    assert talk.transport.done == []
    talk.loop.advance(11)
    talk.listen()
    assert talk.client.goaways == [Code.NO_ERROR]
    assert talk.transport.done == ["linger"]


def test_a_stream_that_takes_its_time_keeps_the_connection() -> None:
    talk = greeted(Limits(idle_seconds=90))
    number = talk.ask()
    talk.loop.advance(1000)
    talk.answer()
    assert talk.client.ended == {number}
    assert talk.transport.done == []


def test_a_head_that_dribbles_is_given_up_though_bytes_come_and_streams_run() -> None:
    talk = greeted(Limits(read_header_seconds=30))
    talk.ask()
    talk.raw(head(3, flags=0))
    for _ in range(29):
        talk.loop.advance(1)
        talk.raw(Frame(9, 0, 3, b""))
    assert talk.transport.done == []
    talk.loop.advance(2)
    talk.listen()
    assert goodbye(talk, Code.PROTOCOL_ERROR)
    assert talk.upstream().done == ["close"]


# --- the end --------------------------------------------------------------------------


def test_draining_lets_streams_finish_and_refuses_new_ones() -> None:
    talk = greeted()
    number = talk.ask()
    talk.connection.drain()
    talk.connection.drain()
    sent, talk.transport.sent = talk.transport.sent, b""
    assert sent == bytes(Frame(7, 0, 0, b"\0\0\0\x01\0\0\0\0"))
    talk.connection.data_received(bytes(head(3)))
    talk.loop.turn()
    sent, talk.transport.sent = talk.transport.sent, b""
    assert sent == bytes(Frame(3, 0, 3, b"\0\0\0\x07"))
    assert talk.transport.done == []
    talk.answer()
    assert talk.client.ended == {number}
    assert talk.transport.done == ["linger"]


def test_draining_an_idle_connection_ends_it() -> None:
    talk = greeted()
    talk.ask(b"/deny")
    talk.connection.drain()
    talk.listen()
    assert goodbye(talk, Code.NO_ERROR)


def test_who_has_just_connected_is_served_once() -> None:
    talk = greeted()
    talk.connection.drain()
    assert talk.transport.sent == b""
    number = talk.ask(b"/deny")
    assert talk.client.statuses == {number: [401]}
    assert goodbye(talk, Code.NO_ERROR)


def test_but_does_not_wait_for_ever() -> None:
    talk = greeted(Limits(first_request_seconds=5))
    talk.connection.drain()
    talk.loop.advance(6)
    talk.listen()
    assert goodbye(talk, Code.NO_ERROR)


def test_a_client_s_goodbye_lets_streams_finish() -> None:
    talk = greeted()
    number = talk.ask()
    talk.raw(Frame(7, 0, 0, bytes(8)))
    assert talk.transport.done == []
    talk.answer()
    assert talk.client.ended == {number}
    assert talk.transport.done == ["linger"]


def test_the_end_of_its_sending_is_the_client_s_end() -> None:
    talk = greeted()
    talk.ask()
    assert not talk.connection.eof_received()
    assert talk.upstream().done == ["close"]
    talk.connection.data_received(bytes(PING))
    talk.connection.drain()
    talk.connection.resume_writing()
    talk.connection.connection_lost()
    talk.loop.turn()
    assert talk.loop.timers == []
    assert talk.records == [(0, "client gone")]


def test_what_was_answered_in_the_turn_of_the_client_s_end_reaches_it() -> None:
    talk = greeted()
    number = talk.client.h2.get_next_available_stream_id()
    talk.client.h2.send_headers(number, request(b"/deny"), end_stream=True)
    talk.connection.data_received(talk.client.h2.data_to_send())
    assert not talk.connection.eof_received()
    talk.listen()
    assert talk.client.statuses == {number: [401]}
    assert talk.client.ended == {number}


def test_why_we_ended_the_connection_is_told_of_every_stream() -> None:
    talk = greeted()
    talk.ask()
    talk.ask()
    talk.connection.connection_lost(Failure.CUT_AT_SHUTDOWN)
    assert talk.records == [(0, "cut at shutdown")] * 2


def test_a_suite_that_is_too_weak() -> None:
    talk = Talk(fault=Code.INADEQUATE_SECURITY)
    talk.listen()
    assert goodbye(talk, Code.INADEQUATE_SECURITY)
    talk.connection.data_received(PREFACE)
    talk.loop.advance(5)
    assert talk.transport.done == ["linger"]


@pytest.mark.parametrize(
    ("start", "code"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", Code.PROTOCOL_ERROR),
        (PREFACE + bytes(PING), Code.PROTOCOL_ERROR),
        (PREFACE + bytes(Frame(4, 1, 0, b"")), Code.PROTOCOL_ERROR),
        (PREFACE + SETTINGS + b"\xff\xff\xff" + bytes(6), Code.FRAME_SIZE_ERROR),
        (PREFACE + SETTINGS + bytes(Frame(0, 0, 1, b"x")), Code.PROTOCOL_ERROR),
    ],
)
def test_faults(start: bytes, code: Code) -> None:
    talk = Talk(http2=FEW)
    talk.connection.data_received(start)
    talk.listen()
    assert goodbye(talk, code)


# --- FR62: floods ---------------------------------------------------------------------


def flood(talk: Talk, frames: list[Frame]) -> None:
    """As many bytes as come, in reads of 64 frames, until the connection ends."""
    for start in range(0, len(frames), 64):
        if talk.transport.done:
            return
        talk.raw(*frames[start : start + 64])


def cut(talk: Talk) -> bool:
    return goodbye(talk, Code.ENHANCE_YOUR_CALM)


FLOODS = {
    "pings": [PING] * 4100,
    "settings": [Frame(4, 0, 0, b"\0\x04\0\0\0\x05")] * 410,
    "many settings": [Frame(4, 0, 0, b"\0\x04\0\0\0\x05" * 2000)] * 2,
    "settings acknowledged": [Frame(4, 1, 0, b"")] * 410,
    "priorities": [Frame(2, 0, 1, bytes(5))] * 4100,
    "frames that nobody knows": [Frame(99, 0, 0, b"")] * 4100,
    "window updates": [Frame(8, 0, 0, b"\0\0\0\x01")] * 4100,
    "empty data": [head(1, flags=0x4), *[Frame(0, 0, 1, b"")] * 4100],
    "padding": [head(1, flags=0x4), *[Frame(0, 0x8, 1, b"\0")] * 4100],
    "resets of nothing": [head(1, b"/deny"), *[reset(1)] * 4100],
    "heads of a stream that is over": [head(1, flags=0x4), reset(1), *[head(1)] * 4100],
    "goodbyes": [head(1), *[Frame(7, 0, 0, bytes(8))] * 4100],
}


@pytest.mark.parametrize("frames", FLOODS.values(), ids=FLOODS)
def test_fr62_frames_for_nothing_are_bounded(frames: list[Frame]) -> None:
    talk = greeted()
    flood(talk, frames)
    assert cut(talk)


def test_fr62_rapid_reset_is_bounded() -> None:
    """CVE-2023-44487: what was reset is cancelled at once, and soon there is no more of it."""
    talk = greeted()
    flood(talk, [frame for n in range(1, 200, 2) for frame in (head(n), reset(n))])
    assert cut(talk)
    assert len(talk.connector.upstreams) == 41
    assert all(upstream.done == ["close"] for upstream in talk.connector.upstreams)


def test_fr62_who_also_reads_answers_may_change_their_mind() -> None:
    talk = greeted()
    for n in range(1, 801, 4):
        talk.raw(head(n), reset(n), head(n + 2, b"/deny"))
    assert talk.transport.done == []


def test_fr62_a_watch_that_is_ended_by_the_client_counts_for_nothing() -> None:
    talk = greeted()
    for _ in range(100):
        number = talk.ask()
        talk.answer(-1, STREAM, b"x", ends=False)
        talk.client.h2.reset_stream(number, Code.CANCEL)
        talk.exchange()
    assert talk.transport.done == []


def lying(number: int) -> list[Frame]:
    """A body that is longer than its length."""
    fields = [*request(method=b"PUT"), (b"content-length", b"1")]
    block = Encoder().encode([(name, value, True) for name, value in fields])
    return [Frame(1, 0x4, number, block), Frame(0, 0, number, b"ab")]


PROVOCATIONS: dict[str, Callable[[int], list[Frame]]] = {
    "a window blown up": lambda n: [head(n), Frame(8, 0, n, (2**31 - 1).to_bytes(4))],
    "a malformed head": lambda n: [Frame(1, 0x5, n, b"\x82")],
    "a body that differs from its length": lying,
}


@pytest.mark.parametrize("provocation", PROVOCATIONS.values(), ids=PROVOCATIONS)
def test_fr62_resets_that_the_client_provokes_count_too(
    provocation: Callable[[int], list[Frame]],
) -> None:
    """CVE-2025-8671: the server resets, the client opens the next."""
    talk = greeted()
    flood(talk, [frame for n in range(1, 200, 2) for frame in provocation(n)])
    assert cut(talk)
    assert len(talk.connector.upstreams) <= 41


def test_fr62_more_streams_than_allowed_are_refused_and_bounded() -> None:
    talk = greeted()
    talk.raw(*[head(n) for n in range(1, 25, 2)])
    assert len(talk.connector.upstreams) == 10
    assert talk.transport.done == []
    flood(talk, [head(n) for n in range(25, 200, 2)])
    assert cut(talk)
    assert len(talk.connector.upstreams) == 10


def test_fr62_continuations_are_bounded() -> None:
    talk = greeted()
    flood(talk, [head(1, flags=0), *[Frame(9, 0, 1, b"")] * 200])
    assert cut(talk)
    talk = greeted(Limits(max_header_bytes=10_000))
    flood(talk, [head(1, flags=0), *[Frame(9, 0, 1, bytes(1000))] * 200])
    assert cut(talk)


def test_fr62_header_bombs_are_bounded() -> None:
    talk = greeted()
    entry = Encoder().encode([(b"x-bomb", b"y" * 4000)])
    talk.raw(Frame(1, 0x5, 1, entry + b"\xbe" * 4000))
    assert cut(talk)


def test_fr62_a_head_that_is_too_large_is_answered() -> None:
    talk = greeted(Limits(max_header_bytes=10_000), Http2Limits())
    number = talk.ask(b"/x", (b"x-large", b"y" * 9_000), (b"x-larger", b"z" * 2_000))
    assert talk.client.statuses == {number: [431]}
    number = talk.ask(b"/deny", (b"x-large", b"y" * 9_800))
    assert talk.client.statuses[number] == [401]
    assert talk.transport.done == []


def test_fr62_a_window_that_opens_byte_by_byte_is_slow_and_no_flood() -> None:
    talk = Talk(http2=FEW, window=1)
    talk.client.takes = False
    number = talk.ask()
    talk.answer(-1, STREAM, bytes(30_000), ends=False)
    for _ in range(3000):
        talk.raw(Frame(8, 0, number, b"\0\0\0\x01"))
    assert talk.transport.done == []
    assert len(talk.client.bodies[number]) == 3001


def test_fr62_a_client_without_windows_holds_little() -> None:
    talk = Talk(http2=FEW, window=0)
    for _ in range(10):
        talk.ask()
    for index in range(10):
        talk.answer(index, STREAM, bytes(40_000), ends=False)
    assert [upstream.done for upstream in talk.connector.upstreams] == [["pause"]] * 10
    talk.loop.advance(61)
    talk.listen()
    assert len(talk.client.resets) == 10
    assert [upstream.done[-1] for upstream in talk.connector.upstreams] == ["close"] * 10


def test_fr62_who_takes_no_answers_is_not_heard() -> None:
    """Heads wait for no window: without a body, each answer would only add to the buffer."""
    talk = greeted(http2=Http2Limits())
    answered: list[int] = []
    write = talk.transport.write

    def fill(*pieces: bytes | memoryview) -> None:
        write(*pieces)
        talk.connection.pause_writing()

    talk.transport.write = fill  # type: ignore[method-assign] # a buffer of one piece
    fields = [(name, value, True) for name, value in request(b"/deny", method=b"HEAD")]
    block = Encoder().encode(fields)
    talk.raw(*[Frame(1, 0x5, number, block) for number in range(1, 10_000, 2)])
    while talk.client.ended:
        answered.append(len(talk.client.ended))
        talk.client.ended.clear()
        talk.connection.resume_writing()
        talk.listen()
    assert sum(answered) == 5000
    assert max(answered) < 100
    assert set(talk.transport.done) == {"pause", "resume"}


def test_fr62_one_read_is_not_all_that_we_do() -> None:
    """A read of heads takes seconds; others are served between its turns."""
    talk = greeted(http2=Http2Limits())
    talk.raw(*[head(number, b"/deny") for number in range(1, 401, 2)])
    assert 10 < len(talk.client.ended) < 100
    assert talk.transport.done[0] == "pause"
    talk.loop.advance(0)
    talk.listen()
    assert len(talk.client.ended) == 200
    assert talk.transport.done == ["pause", "resume"] * (len(talk.transport.done) // 2)


def test_a_head_that_we_hold_back_ourselves_has_its_time() -> None:
    talk = greeted(Limits(read_header_seconds=30))
    talk.connection.pause_writing()
    talk.raw(PING, head(1, b"/deny"))
    talk.loop.advance(40)
    talk.connection.resume_writing()
    talk.listen()
    assert talk.client.ended == {1}
    assert talk.transport.done == ["pause", "resume"]


def test_fr62_large_bodies_are_no_flood() -> None:
    talk = greeted()
    number = talk.ask(method=b"POST", body=b"")
    for _ in range(4500):
        talk.upstream().take()
        talk.client.h2.send_data(number, bytes(2000))
        talk.client.h2.ping(b"12345678")
        talk.exchange()
    assert talk.transport.done == []
    talk.client.h2.end_stream(number)
    talk.answer(-1, STREAM, b"x", ends=False)
    for _ in range(1000):
        talk.user().response_side.body(bytes(8000))
        talk.exchange()
        talk.client.bodies.clear()
    assert talk.transport.done == []


@pytest.mark.parametrize("step", ["_settle", "_go_on"])
def test_d38_what_breaks_when_the_loop_calls_cuts_the_connection(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else would end it: what is raised there reaches only the log."""

    def breaks(_: Http2Connection) -> None:
        raise TypeError("unforeseen")

    talk = Talk()
    talk.exchange()
    monkeypatch.setattr(Http2Connection, step, breaks)
    with pytest.raises(TypeError):
        talk.raw(*(head(number, b"/deny") for number in range(1, 2001, 2)))
    assert talk.transport.done[-1] == "close_truncated"


# --- D52: what the connection is used for ----------------------------------------------


def used(talk: Talk) -> Use:
    return talk.connection.use


def test_d52_a_connection_is_new_until_its_first_stream_and_idle_without_one() -> None:
    talk = greeted()
    assert used(talk) is Use.NEW
    talk.ask()
    assert used(talk) is Use.BUSY
    assert len(list(talk.connection.awaiting())) == 1
    talk.answer()
    assert used(talk) is Use.IDLE
    assert list(talk.connection.awaiting()) == []
    talk.connection.data_received(bytes(PING)[:5])
    assert used(talk) is Use.BUSY


def test_d52_it_says_goodbye_and_opens_no_more_streams() -> None:
    talk = greeted()
    talk.ask(b"/deny")
    talk.connection.announce_close()
    talk.listen()
    assert talk.client.goaways == [Code.NO_ERROR]
    assert used(talk) is Use.IDLE

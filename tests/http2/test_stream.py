"""Both directions of one stream, seen from the client's end."""

import pytest

from pyrbacproxy.http1.head import Headers, LocalProtocolError, ResponseHead
from pyrbacproxy.http2.frames import DATA, END_STREAM, HEADERS, cut
from pyrbacproxy.http2.limits import Code, Http2Limits
from pyrbacproxy.http2.stream import Http2Stream
from pyrbacproxy.model import Failure
from pyrbacproxy.proxy.exchange import Limits
from tests.http2.talk import OK, STREAM, Talk
from tests.proxy.dialogue import ConnectorTape, received

SMALL = Http2Limits(100, 16_384, 65_535, 26_214_400)


def test_a_body_and_its_trailers_go_up() -> None:
    talk = Talk()
    number = talk.ask(method=b"POST", body=b"abc")
    talk.client.h2.send_headers(number, [(b"x-sum", b"1")], end_stream=True)
    talk.exchange()
    assert talk.upstream().take().endswith(b"Transfer-Encoding: chunked\r\n\r\nabc")
    assert talk.upstream().trailers == Headers([(b"x-sum", b"1")])
    assert talk.upstream().done == ["end"]


def test_a_body_with_length_goes_up_as_such() -> None:
    talk = Talk()
    number = talk.ask(b"/x", (b"content-length", b"3"), method=b"POST", body=b"abc")
    talk.client.h2.end_stream(number)
    talk.exchange()
    assert talk.upstream().take().endswith(b"Content-Length: 3\r\n\r\nabc")
    assert talk.upstream().done == ["end"]


def test_a_length_of_nothing_may_be_said_and_shown() -> None:
    talk = Talk()
    number = talk.ask(b"/x", (b"content-length", b"0"), method=b"POST", body=b"")
    talk.client.h2.end_stream(number)
    talk.exchange()
    talk.answer()
    assert talk.client.ended == {number}
    assert talk.client.resets == {}


@pytest.mark.parametrize(("body", "more"), [(b"abc", b"d"), (b"ab", b"")])
def test_a_body_that_differs_from_its_length_resets_the_stream(body: bytes, more: bytes) -> None:
    talk = Talk()
    number = talk.ask(b"/x", (b"content-length", b"3"), method=b"POST", body=body)
    talk.client.h2.send_data(number, more, end_stream=True)
    talk.exchange()
    assert talk.client.resets == {number: Code.PROTOCOL_ERROR}
    assert talk.upstream().done == ["close"]
    assert talk.records == [(0, "malformed request body")]
    assert talk.client.goaways == []


def test_bytes_before_the_upstream_is_there_wait_and_hold_the_window() -> None:
    talk = Talk(http2=SMALL)
    ready = talk.world.services.connector
    talk.world.services.connector = ConnectorTape()
    number = talk.ask(method=b"POST", body=b"")
    for _ in range(3):
        talk.client.h2.send_data(number, bytes(16_384))
    talk.exchange()
    assert talk.client.h2.local_flow_control_window(number) == 65_535 - 3 * 16_384
    stream = talk.connection._streams.get(number)
    assert isinstance(stream, Http2Stream)
    assert stream.exchange is not None
    ready.connect(stream.exchange, is_fresh=False)
    talk.exchange()
    assert talk.client.h2.local_flow_control_window(number) == 65_535
    assert len(talk.upstream().take()) > 3 * 16_384


def test_a_slow_upstream_holds_its_own_stream_and_no_other() -> None:
    talk = Talk(http2=SMALL)
    slow = talk.ask(method=b"POST", body=b"x")
    talk.user().upstream_paused()
    quick = talk.ask(method=b"POST", body=b"x")
    window = talk.client.h2.local_flow_control_window
    for _ in range(20):
        for number in (slow, quick):
            if window(number) >= 16_384:
                talk.client.h2.send_data(number, bytes(16_384))
        talk.exchange()
    assert window(slow) < 16_384
    assert len(talk.upstream(0).take()) < 66_000
    assert len(talk.upstream(1).take()) > 20 * 16_384
    talk.user(0).upstream_resumed()
    talk.exchange()
    assert window(slow) > 32_768


def test_a_slow_client_pauses_its_own_upstream_and_no_other() -> None:
    talk = Talk(window=20_000)
    talk.client.takes = False
    slow, quick = talk.ask(), talk.ask()
    talk.answer(0, STREAM, bytes(60_000), ends=False)
    assert len(talk.client.bodies[slow]) == 20_000
    assert talk.upstream(0).done == ["pause"]
    talk.answer(1, STREAM, b"q" * 10_000)
    assert talk.client.ended == {quick}
    talk.client.h2.increment_flow_control_window(25_000, slow)
    talk.exchange()
    assert len(talk.client.bodies[slow]) == 45_000
    assert talk.upstream(0).done == ["pause"]
    talk.client.h2.increment_flow_control_window(100_000, slow)
    talk.client.h2.increment_flow_control_window(100_000)
    talk.exchange()
    assert talk.upstream(0).done == ["pause", "resume"]
    assert len(talk.client.bodies[slow]) == 60_000
    talk.user(0).response_ended()
    talk.exchange()
    assert talk.client.ended == {slow, quick}


def test_the_end_follows_what_waits() -> None:
    for trailers in (Headers(), Headers([(b"Grpc-Status", b"0")])):
        talk = Talk(window=10)
        talk.client.takes = False
        number = talk.ask()
        user = talk.user()
        talk.answer(-1, STREAM, b"0123456789abcdef", ends=False)
        if trailers.pairs:
            user.response_side.trailers(trailers)
        user.response_ended()
        talk.exchange()
        assert talk.client.ended == set()
        assert talk.records == [(200, None)]
        talk.client.h2.increment_flow_control_window(10, number)
        talk.exchange()
        assert talk.client.bodies == {number: b"0123456789abcdef"}
        assert talk.client.ended == {number}
        assert (number in talk.client.trailers) is bool(trailers.pairs)


def test_a_client_that_opens_no_window_is_given_up() -> None:
    talk = Talk(Limits(write_stall_seconds=60), window=10)
    talk.client.takes = False
    number, other = talk.ask(), talk.ask()
    talk.answer(0, STREAM, bytes(100_000), ends=False)
    talk.loop.advance(59)
    talk.client.h2.increment_flow_control_window(1, number)
    talk.exchange()
    talk.loop.advance(59)
    talk.listen()
    assert talk.client.resets == {}
    talk.loop.advance(2)
    talk.listen()
    assert talk.client.resets == {number: Code.CANCEL}
    assert talk.upstream(0).done == ["pause", "close"]
    assert talk.records == [(200, "client stopped reading")]
    talk.answer(1)
    assert talk.client.ended == {other}


def test_so_is_one_that_took_all_and_opens_none_for_what_follows() -> None:
    talk = Talk(Limits(write_stall_seconds=60), window=10)
    talk.client.takes = False
    number = talk.ask()
    talk.answer(-1, STREAM, bytes(20), ends=False)
    talk.client.h2.increment_flow_control_window(10, number)
    talk.exchange()
    talk.loop.advance(100)
    talk.user().response_side.body(bytes(10))
    talk.user().response_side.flush()
    talk.loop.advance(61)
    talk.listen()
    assert talk.client.resets == {number: Code.CANCEL}


def test_a_body_s_last_piece_ends_it() -> None:
    """An empty frame behind it would cost as much as all the others."""
    talk = Talk()
    talk.ask()
    talk.user().response(received(OK))
    talk.user().response_side.body(b"o")
    talk.user().response_side.body(b"k")
    talk.user().response_ended()
    talk.loop.turn()
    frames = list(cut(bytearray(talk.transport.sent), 100))
    assert [(raw[3], raw[4]) for raw in frames] == [(HEADERS, 0x4), (DATA, END_STREAM)]
    assert frames[-1].endswith(b"ok")


def test_so_is_one_whose_answer_is_complete() -> None:
    talk = Talk(Limits(write_stall_seconds=60), window=10)
    talk.client.takes = False
    number = talk.ask()
    talk.answer(-1, STREAM, bytes(100))
    talk.loop.advance(61)
    talk.listen()
    assert talk.client.resets == {number: Code.CANCEL}


def test_a_reset_cancels_the_upstream_at_once() -> None:
    talk = Talk()
    number = talk.ask()
    talk.client.h2.reset_stream(number, Code.CANCEL)
    talk.exchange()
    assert talk.upstream().done == ["close"]
    assert talk.records == [(0, "client gone")]


def test_a_reset_cancels_a_decision() -> None:
    talk = Talk()
    number = talk.ask(b"/ask")
    talk.client.h2.reset_stream(number, Code.CANCEL)
    talk.exchange()
    assert talk.world.runner.cancelled == 1


def test_an_upstream_that_dies_is_seen_to() -> None:
    talk = Talk()
    number = talk.ask()
    talk.answer(-1, STREAM, b"some", ends=False)
    talk.user().upstream_lost(Failure.CLOSED_EARLY)
    talk.listen()
    assert talk.client.bodies == {number: b"some"}
    assert talk.client.resets == {number: Code.INTERNAL_ERROR}
    assert talk.client.ended == set()
    assert talk.records == [(200, "upstream closed early")]


def test_an_answer_before_the_request_s_end_ends_that_too() -> None:
    talk = Talk()
    number = talk.ask(method=b"POST", body=b"abc")
    talk.answer()
    assert talk.client.bodies == {number: b"ok"}
    assert talk.client.resets == {number: Code.NO_ERROR}
    assert talk.records == [(200, None)]


def test_both_directions_at_once() -> None:
    talk = Talk()
    number = talk.ask(method=b"POST", body=b"one")
    talk.answer(-1, STREAM, b"1", ends=False)
    talk.client.h2.send_data(number, b"two", end_stream=True)
    talk.exchange()
    assert talk.upstream().take().endswith(b"onetwo")
    user = talk.user()
    user.response_side.body(b"2")
    user.response_side.trailers(Headers([(b"grpc-status", b"0")]))
    user.response_ended()
    talk.listen()
    assert talk.client.bodies == {number: b"12"}
    assert talk.client.trailers == {number: [(b"grpc-status", b"0")]}
    assert talk.client.resets == {}


def test_what_comes_while_the_answer_waits_goes_nowhere() -> None:
    talk = Talk(window=1)
    talk.client.takes = False
    number = talk.ask(b"/deny", method=b"POST", body=b"abc")
    talk.client.h2.send_data(number, b"def")
    talk.exchange()
    talk.client.h2.end_stream(number)
    talk.exchange()
    talk.client.h2.increment_flow_control_window(100, number)
    talk.exchange()
    assert talk.client.ended == {number}
    assert talk.client.resets == {}


def test_interim_heads_and_a_go_ahead() -> None:
    talk = Talk()
    number = talk.ask(b"/x", (b"expect", b"100-continue"), method=b"POST", body=b"")
    talk.user().interim(ResponseHead(103, b"Early Hints", Headers()))
    talk.loop.advance(2)
    talk.exchange()
    assert talk.client.statuses == {number: [103, 100]}
    talk.client.h2.send_data(number, b"abc", end_stream=True)
    talk.exchange()
    talk.answer()
    assert talk.client.statuses == {number: [103, 100, 200]}


def test_a_body_that_stalls_gets_408() -> None:
    talk = Talk(Limits(idle_seconds=10))
    number = talk.ask(method=b"POST", body=b"abc")
    talk.loop.advance(21)
    talk.listen()
    assert talk.client.statuses == {number: [408]}
    assert talk.records == [(408, "client stalled")]


def test_head_has_no_body() -> None:
    talk = Talk()
    number = talk.ask(method=b"HEAD")
    user = talk.user()
    user.response(received(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", b"HEAD"))
    user.response_ended()
    talk.listen()
    assert talk.client.heads[number][b"content-length"] == b"9"
    assert talk.client.ended == {number}


def test_timers_are_given_back() -> None:
    talk = Talk(window=1)
    talk.client.takes = False
    number = talk.ask(method=b"POST", body=b"abc")
    talk.answer(-1, STREAM, b"0123", ends=False)
    talk.client.h2.reset_stream(number, Code.CANCEL)
    talk.exchange()
    assert len(talk.loop.timers) == 1


def test_a_stream_is_no_tunnel() -> None:
    talk = Talk()
    talk.ask()
    stream = talk.connection._streams.get(1)
    assert stream is not None
    with pytest.raises(LocalProtocolError):
        stream.release()

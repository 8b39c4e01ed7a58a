"""Dialogues: event in, actions out."""

from collections.abc import Callable

import pytest

from pyrbacproxy.handler import Forward
from pyrbacproxy.http1.framing import CHUNKED, NO_BODY, Framing
from pyrbacproxy.http1.head import Headers, LocalProtocolError, RequestHead, ResponseHead, text
from pyrbacproxy.model import Failure
from pyrbacproxy.proxy.exchange import (
    Ending,
    Exchange,
    PauseReason,
    Released,
    RequestState,
    refusal,
)
from tests.proxy.dialogue import (
    ALLOWED,
    OK,
    STREAM,
    SWITCH,
    UNAUTHORIZED,
    UPGRADE,
    Dialogue,
    UpstreamTape,
    World,
    length,
    received,
)

RELEASED = ("resume", PauseReason.BODY_WAITS, PauseReason.UPSTREAM_FULL)
EXPECT = ((b"Expect", b"100-continue"),)


def test_a_request_is_forwarded_and_its_answer_relayed() -> None:
    talk = Dialogue()
    talk.forward()
    assert talk.upstream.take() == b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n"
    assert talk.upstream.method == b"GET"
    talk.respond(OK, b"ok")
    assert talk.client.take() == OK + b"ok"
    assert talk.client.done == [Ending.KEEP_ALIVE]
    assert talk.world.records == [talk.record]
    record = talk.record
    assert (record.status, record.sent_bytes, record.failure) == (200, 2, None)
    assert record.decided is ALLOWED
    assert record.decided_at == record.upstream_answered_at == record.ended_at == 5.0


def test_nothing_reaches_the_upstream_before_the_verdict_and_nothing_at_all_after_a_refusal() -> (
    None
):
    talk = Dialogue(b"POST", length(7))
    talk.exchange.request_side.body(b"payload")
    assert talk.client.done == [("pause", PauseReason.BODY_WAITS)]
    talk.exchange.decided(UNAUTHORIZED)
    assert talk.world.connector.asked == []
    assert b" 401 " in talk.client.take()
    assert talk.client.done[1:] == [RELEASED]
    talk.exchange.request_ended()
    assert talk.client.done[-1] is Ending.KEEP_ALIVE
    assert talk.record.decided is UNAUTHORIZED.decided


def test_a_body_that_came_early_waits_for_the_upstream() -> None:
    talk = Dialogue(b"POST", length(6), world=World())
    talk.world.connector.ready = []
    talk.forward()
    assert talk.exchange.wants_upstream
    talk.exchange.request_side.body(b"abc")
    talk.exchange.request_side.body(b"def")
    talk.exchange.request_ended()
    talk.exchange.upstream_ready(talk.upstream)
    assert not talk.exchange.wants_upstream
    assert talk.upstream.take().endswith(b"Content-Length: 6\r\n\r\nabcdef")
    assert ("resume", PauseReason.BODY_WAITS) in talk.client.done


def test_trailers_are_relayed_and_announced_without_identity() -> None:
    lines = ((b"Trailer", b"x-sum, x-remote-user, content-length"),)
    talk = Dialogue(b"POST", CHUNKED, lines=lines)
    talk.forward()
    head = talk.upstream.take()
    assert head.endswith(b"Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n")
    talk.exchange.request_side.body(b"abc")
    sent = Headers([(b"x-sum", b"1"), (b"X-Remote-User", b"root"), (b"content-length", b"9")])
    talk.exchange.request_side.trailers(sent)
    talk.exchange.request_ended()
    assert talk.upstream.take() == b"abc"
    assert talk.upstream.trailers == Headers([(b"x-sum", b"1")])


def test_a_head_that_cannot_be_written_is_told_before_anything_is_done() -> None:
    talk = Dialogue()
    head = RequestHead(b"GET", b"/x", Headers([(b"X", b"a\r\nb")]))
    with pytest.raises(LocalProtocolError):
        talk.exchange.decided(Forward(head, ALLOWED))
    assert talk.world.connector.asked == []
    talk.exchange.decided(UNAUTHORIZED)
    assert talk.record.status == 401


@pytest.mark.parametrize(
    ("framing", "lines", "ending"),
    [
        pytest.param(length(10**10), (), Ending.CLOSE, id="more than is worth reading"),
        pytest.param(length(262_144), (), Ending.KEEP_ALIVE, id="as much as is read"),
        pytest.param(length(262_145), (), Ending.CLOSE, id="one byte more"),
        pytest.param(CHUNKED, (), Ending.CLOSE, id="unknown length"),
        pytest.param(length(3), EXPECT, Ending.CLOSE, id="held back"),
    ],
)
def test_the_unread_body_of_a_refused_request(
    framing: Framing, lines: tuple[tuple[bytes, bytes], ...], ending: Ending
) -> None:
    talk = Dialogue(b"POST", framing, lines=lines)
    talk.exchange.decided(UNAUTHORIZED)
    answer = talk.client.take()
    assert b"100 Continue" not in answer
    assert (b"Connection: close" in answer) == (ending is Ending.CLOSE)
    if ending is Ending.KEEP_ALIVE:
        assert talk.client.done == [RELEASED]
        talk.exchange.request_side.body(b"drained")
        talk.exchange.request_ended()
    assert talk.client.done[-1] is ending


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (Failure.REFUSED, 502),
        (Failure.NOT_TRUSTED, 502),
        (Failure.NO_UPGRADE, 502),
        (Failure.CONNECT_TIMEOUT, 504),
    ],
)
def test_no_upstream(failure: Failure, status: int) -> None:
    talk = Dialogue(world=World())
    talk.world.connector.ready = []
    talk.forward()
    talk.exchange.upstream_failed(failure, "up.test:1: why")
    assert talk.client.take().split(b"\r\n")[0].startswith(b"HTTP/1.1 %d " % status)
    assert talk.client.done == [Ending.KEEP_ALIVE]
    assert (talk.record.failure, talk.record.cause) == (failure, "up.test:1: why")


def test_an_upstream_lost_before_its_head_is_a_502() -> None:
    talk = Dialogue(b"POST", length(1))
    talk.forward()
    talk.exchange.request_side.body(b"x")
    talk.exchange.request_ended()
    talk.exchange.upstream_lost(Failure.CLOSED_EARLY)
    assert talk.client.take() == b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"
    assert talk.client.done == [Ending.KEEP_ALIVE]


@pytest.mark.parametrize("raw", [OK, STREAM], ids=["length", "chunked"])
def test_an_upstream_lost_in_its_body_is_an_abort_that_shows(raw: bytes) -> None:
    talk = Dialogue()
    talk.forward()
    talk.respond(raw, b"p", ends=False)
    talk.exchange.upstream_lost(Failure.CLOSED_EARLY)
    assert not talk.client.take().endswith(b"0\r\n\r\n")
    assert talk.client.done == [Ending.TRUNCATE]
    assert talk.record.failure == "upstream closed early"


@pytest.mark.parametrize(
    ("method", "framing", "is_reused", "is_asked_again"),
    [
        pytest.param(b"GET", Framing(CHUNKED.kind), True, False, id="with a body"),
        pytest.param(b"POST", length(0), True, False, id="not safe"),
        pytest.param(b"GET", length(0), False, False, id="fresh"),
        pytest.param(b"GET", length(0), True, True, id="stale"),
        pytest.param(b"HEAD", length(0), True, True, id="stale HEAD"),
    ],
)
def test_a_stale_connection_is_forgiven_once(
    method: bytes, framing: Framing, *, is_reused: bool, is_asked_again: bool
) -> None:
    world = World(UpstreamTape(is_reused=is_reused))
    talk = Dialogue(method, framing, world=world)
    second = UpstreamTape(is_reused=True)
    world.connector.ready.append(second)
    talk.forward()
    talk.exchange.upstream_lost(Failure.CLOSED_EARLY)
    assert world.connector.asked == [False, True][: 1 + is_asked_again]
    assert bool(second.take()) == is_asked_again
    if is_asked_again:
        assert talk.client.take() == b""
        talk.exchange.upstream_lost(Failure.CLOSED_EARLY)
    assert b" 502 " in talk.client.take()


@pytest.mark.parametrize(
    ("framing", "is_asked_again"), [(length(0), True), (length(3), False), (CHUNKED, False)]
)
def test_what_an_upstream_refused_to_look_at_is_asked_once_more(
    framing: Framing, *, is_asked_again: bool
) -> None:
    world = World(UpstreamTape())
    talk = Dialogue(b"POST", framing, world=world)
    talk.forward()
    talk.upstream.was_refused = True
    talk.exchange.upstream_lost(Failure.STREAM_REFUSED)
    assert world.connector.asked == [False, True][: 1 + is_asked_again]


def test_who_has_said_anything_is_not_stale() -> None:
    talk = Dialogue(world=World(UpstreamTape(is_reused=True)))
    talk.forward()
    talk.exchange.interim(ResponseHead(103, b"Early Hints", Headers()))
    talk.exchange.upstream_lost(Failure.CLOSED_EARLY)
    assert talk.world.connector.asked == [False]


def test_an_early_answer_is_relayed_at_once_and_ends_the_connection() -> None:
    talk = Dialogue(b"POST", CHUNKED)
    talk.forward()
    talk.exchange.request_side.body(b"abc")
    talk.upstream.take()
    talk.exchange.response_side.flush()
    talk.respond(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\n", b"no", ends=False)
    talk.exchange.request_side.body(b"def")
    assert talk.upstream.take() == b"def", "the upstream may want it all the same"
    talk.exchange.response_ended()
    answer = talk.client.take()
    assert answer.startswith(b"HTTP/1.1 413 Too Large\r\n")
    assert b"Connection: close" in answer
    assert talk.client.done[-1] is Ending.CLOSE


def test_an_early_answer_to_a_short_body_keeps_the_connection() -> None:
    talk = Dialogue(b"POST", length(6))
    talk.forward()
    talk.exchange.request_side.body(b"abc")
    talk.respond(OK, b"no")
    assert talk.client.done == [RELEASED]
    talk.exchange.request_side.body(b"def")
    talk.exchange.request_ended()
    assert talk.client.done[-1] is Ending.KEEP_ALIVE
    assert talk.upstream.take().endswith(b"abc")


def test_the_go_ahead_is_the_upstreams() -> None:
    talk = Dialogue(b"POST", length(3), lines=EXPECT)
    talk.forward()
    assert talk.client.wakes[-1] == 1.0
    talk.exchange.interim(ResponseHead(100, b"Continue", Headers()))
    assert talk.client.take() == b"HTTP/1.1 100 Continue\r\n\r\n"
    talk.exchange.woken()
    assert talk.client.take() == b"", "one is enough"


def test_a_silent_upstream_gets_the_body_after_a_while() -> None:
    talk = Dialogue(b"POST", length(3), lines=EXPECT)
    talk.forward()
    talk.exchange.woken()
    assert talk.client.take() == b"HTTP/1.1 100 Continue\r\n\r\n"
    talk.exchange.interim(ResponseHead(100, b"Continue", Headers()))
    assert talk.client.take() == b""


def test_a_client_that_does_not_wait_needs_no_go_ahead() -> None:
    talk = Dialogue(b"POST", length(3), lines=EXPECT)
    talk.forward()
    talk.exchange.request_side.body(b"abc")
    talk.exchange.woken()
    assert talk.client.take() == b""


@pytest.mark.parametrize(
    "talk",
    [
        pytest.param(Dialogue, id="not asked for"),
        pytest.param(lambda: Dialogue(lines=UPGRADE, minor=0), id="HTTP/1.0"),
        pytest.param(lambda: Dialogue(lines=((b"Upgrade", b"other"), UPGRADE[0])), id="another"),
        pytest.param(lambda: Dialogue(b"POST", length(3), lines=UPGRADE), id="before the body"),
    ],
)
def test_an_unwanted_switch_of_protocols_is_a_502(talk: Callable[[], Dialogue]) -> None:
    said = talk()
    said.forward()
    said.exchange.response(received(SWITCH))
    assert b" 502 " in said.client.take()
    assert said.upstream.done == ["close"]
    assert "release" not in said.client.done
    assert said.record.failure == "upstream switched protocols"


@pytest.mark.parametrize("framing", [NO_BODY, length(3)])
def test_a_wanted_switch_of_protocols_is_a_tunnel(framing: Framing) -> None:
    talk = Dialogue(b"POST", framing, lines=UPGRADE)
    talk.client.released = Released(talk.client.side, b"early")
    talk.upstream.released = Released(talk.upstream.side, b"late")
    talk.forward()
    if framing.has_body:
        talk.exchange.request_side.body(b"abc")
        talk.exchange.request_ended()
    talk.exchange.response(received(SWITCH))
    assert talk.client.take() == SWITCH
    assert talk.upstream.side.sent == b"early"
    assert talk.client.side.sent == b"late"
    assert (talk.client.done[-1:], talk.upstream.done[-1:]) == (["release"], ["release"])
    assert talk.world.records == []
    assert talk.client.side.user is not None
    talk.client.side.user.connection_lost()
    assert talk.world.records == [talk.record]
    assert (talk.record.status, talk.record.failure) == (101, "client gone")
    assert (talk.record.received_bytes, talk.record.sent_bytes) == (framing.length + 5, 4)


def test_an_upgrade_that_is_declined_is_an_ordinary_answer() -> None:
    talk = Dialogue(lines=UPGRADE)
    talk.forward()
    talk.respond(OK, b"ok")
    assert talk.client.take() == OK + b"ok"
    assert talk.client.done == [Ending.KEEP_ALIVE]


@pytest.mark.parametrize("when", ["deciding", "connecting", "awaiting"])
def test_a_broken_body_before_the_answer_is_a_400(when: str) -> None:
    talk = Dialogue(b"POST", CHUNKED)
    cancelled: list[bool] = []
    talk.exchange.cancel = lambda: cancelled.append(True)
    if when == "connecting":
        talk.world.connector.ready = []
    if when != "deciding":
        talk.forward()
    talk.exchange.request_side.body(b"abc")
    talk.exchange.request_malformed(400)
    assert talk.client.take().startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert talk.client.done[-1] is Ending.CLOSE
    assert cancelled == [True] * (when == "deciding")
    assert talk.upstream.done == ["close"] * (when == "awaiting")
    assert talk.record.failure == "malformed request body"


@pytest.mark.parametrize("is_answered", [False, True])
def test_a_broken_body_after_an_answer_has_begun_aborts_it_unless_it_is_whole(
    *, is_answered: bool
) -> None:
    talk = Dialogue(b"POST", length(9))
    talk.forward()
    talk.respond(OK, b"ok", ends=is_answered)
    before = talk.client.take()
    talk.exchange.request_malformed(400)
    assert talk.client.take() == b""
    assert before
    # Nothing is missing of a whole answer, and a reset could destroy it.
    assert talk.client.done[-1] is (Ending.CLOSE if is_answered else Ending.TRUNCATE)


def test_a_client_that_goes_takes_the_upstream_along() -> None:
    talk = Dialogue()
    talk.forward()
    talk.respond(OK, b"o", ends=False)
    talk.exchange.client_lost()
    assert talk.upstream.done == ["close"]
    assert talk.client.done == [Ending.TRUNCATE]
    assert talk.record.failure == "client gone"


def test_a_client_that_goes_meanwhile_ends_the_decision() -> None:
    talk = Dialogue()
    cancelled: list[bool] = []
    talk.exchange.cancel = lambda: cancelled.append(True)
    talk.exchange.client_lost()
    assert cancelled == [True]
    assert talk.world.records == [talk.record]


def test_a_client_that_goes_while_an_upstream_is_dialled_waits_for_none() -> None:
    talk = Dialogue()
    talk.world.connector.ready = []
    talk.forward()
    talk.exchange.client_lost()
    assert talk.world.connector.cancelled == [talk.exchange]
    assert talk.record.failure == "client gone"


def test_who_is_too_fast_is_paused() -> None:
    talk = Dialogue(b"POST", CHUNKED)
    talk.exchange.client_paused()
    talk.exchange.client_resumed()
    talk.forward()
    talk.exchange.client_paused()
    talk.exchange.client_resumed()
    assert talk.upstream.done == ["pause", "resume"]
    talk.exchange.upstream_paused()
    talk.exchange.upstream_resumed()
    assert talk.client.done == [
        ("pause", PauseReason.UPSTREAM_FULL),
        ("resume", PauseReason.UPSTREAM_FULL),
    ]


@pytest.mark.parametrize("why", ["client", "shutdown", "response"])
def test_the_connection_closes(why: str) -> None:
    talk = Dialogue(keeps_alive=why != "client")
    talk.client.must_close = why == "shutdown"
    if why == "response":
        talk.exchange.decided(type(UNAUTHORIZED)(refusal(400), UNAUTHORIZED.decided))
    else:
        talk.forward()
        talk.respond(OK, b"ok")
    assert b"Connection: close" in talk.client.take()
    assert talk.client.done == [Ending.CLOSE]


def test_a_body_without_end_for_an_old_client_closes() -> None:
    talk = Dialogue(minor=0)
    talk.forward()
    talk.respond(STREAM, b"old")
    assert talk.client.take() == b"HTTP/1.0 200 OK\r\n\r\nold"
    assert talk.client.done == [Ending.CLOSE]


def test_no_second_answer() -> None:
    talk = Dialogue()
    talk.forward()
    talk.respond(OK, b"ok")
    with pytest.raises(RuntimeError, match="cannot become"):
        talk.exchange.respond(text(500, "late"))


def test_a_dialogue_knows_when_the_request_has_ended() -> None:
    exchange: Exchange = Dialogue().exchange
    assert exchange.is_request_ended
    talk = Dialogue(b"POST", length(1))
    assert not talk.exchange.is_request_ended
    assert talk.exchange.request_side.state is RequestState.RECEIVING


def test_a_body_has_its_time_before_the_answer_and_after_it_but_not_during_it() -> None:
    talk = Dialogue(b"POST", length(3))
    talk.forward()
    talk.exchange.woken()
    assert talk.client.done == []
    talk.exchange.woken()
    assert talk.client.take().startswith(b"HTTP/1.1 408 ")
    assert talk.record.failure == "client stalled"
    assert talk.client.done[-1] is Ending.CLOSE
    talk = Dialogue(b"POST", length(3))
    talk.forward()
    talk.respond(OK, b"o", ends=False)
    talk.exchange.woken()
    assert Ending.CLOSE not in talk.client.done
    talk.exchange.response_side.body(b"k")
    talk.exchange.response_ended()
    assert talk.client.wakes[-1] == 5.0
    talk.exchange.woken()
    assert talk.client.done[-1] is Ending.CLOSE

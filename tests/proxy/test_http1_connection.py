"""Bytes of a client in, bytes to it out; time goes on by hand."""

import pytest

from pyrbacproxy.http1.head import Headers
from pyrbacproxy.model import Failure, Outcome, Peer
from pyrbacproxy.proxy.client_http1 import Http1Connection
from pyrbacproxy.proxy.exchange import Limits, Released, UpstreamUser, Use
from tests.fakes import ManualLoop
from tests.proxy.dialogue import (
    DATE,
    OK,
    SWITCH,
    SideTape,
    UpstreamTape,
    World,
    forwarding_handler,
    received,
)

GET = b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n"
UPGRADE = b"GET /x HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: echo\r\nHost: h\r\n\r\n"
DENY = b"GET /deny HTTP/1.1\r\nHost: h\r\n\r\n"
POST = b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n"
CHUNKS = b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"


class Users:
    """A connector that notes who asks and gives each a new upstream."""

    def __init__(self) -> None:
        self.users: list[UpstreamUser] = []
        self.upstreams: list[UpstreamTape] = []

    def connect(self, user: UpstreamUser, *, is_fresh: bool) -> None:
        del is_fresh
        self.users.append(user)
        self.upstreams.append(UpstreamTape())
        user.upstream_ready(self.upstreams[-1])

    def cancel(self, user: UpstreamUser) -> None:
        """Nobody waits: each is given one at once."""


class Talk:
    """A connection between tapes."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.loop = ManualLoop()
        self.world = World(limits=limits or Limits(), clock=self.loop.time)
        self.connector = Users()
        self.world.services.connector = self.connector
        self.transport = SideTape()
        self.peer = Peer("192.0.2.1")
        self.down = Http1Connection(
            self.transport,
            self.world.services,
            peer=lambda: self.peer,
            loop=self.loop.as_loop(),
        )

    def hear(self) -> bytes:
        sent, self.transport.sent = self.transport.sent, b""
        return sent.replace(b"Date: " + DATE + b"\r\n", b"")

    def answer(self, raw: bytes = OK, body: bytes = b"ok") -> None:
        """The newest upstream answers."""
        user = self.connector.users[-1]
        user.response(received(raw))
        user.response_side.body(body)
        user.response_ended()

    @property
    def statuses(self) -> list[int]:
        return [record.status for record in self.world.records]


def test_one_request_after_the_other() -> None:
    talk = Talk()
    for number in range(3):
        talk.down.data_received(GET)
        assert len(talk.connector.users) == number + 1
        talk.answer()
        assert talk.hear() == OK + b"ok"
    assert talk.transport.done == []
    assert [upstream.take() for upstream in talk.connector.upstreams] == [
        b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n"
    ] * 3


def test_others_have_their_turn_between_pipelined_requests() -> None:
    """Refused at once, a read of them is a second's work, and the next read is there by then."""
    talk = Talk()
    talk.down.data_received(GET.replace(b"/x", b"/deny") * 100)
    assert 10 < len(talk.statuses) < 50
    assert talk.transport.done == ["pause"]
    assert talk.down.eof_received()
    talk.loop.advance(0)
    assert talk.statuses == [401] * 100
    assert talk.transport.done == ["pause", "close"]


def test_a_request_byte_by_byte() -> None:
    talk = Talk()
    for byte in POST + b"abc":
        talk.down.data_received(bytes([byte]))
    assert talk.connector.upstreams[0].take().endswith(b"\r\n\r\nabc")
    talk.answer()
    assert talk.hear() == OK + b"ok"


def test_pipelined_requests_are_answered_in_order_and_only_so_many_wait() -> None:
    talk = Talk()
    talk.down.data_received(GET * 40)
    assert len(talk.connector.users) == 1
    assert talk.transport.done == ["pause"]
    for _ in range(40):
        talk.answer()
    assert talk.hear() == (OK + b"ok") * 40
    assert talk.transport.done == ["pause", "resume"]


def test_refusals_by_the_thousand_do_not_deepen_the_stack() -> None:
    talk = Talk()
    talk.down.data_received(DENY * 5000)
    talk.loop.advance(0)
    assert talk.statuses == [401] * 5000
    assert talk.transport.done == ["pause", "resume"]


def test_a_refused_body_is_never_taken_for_a_request() -> None:
    talk = Talk()
    hidden = DENY
    head = b"POST /deny HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % len(hidden)
    talk.down.data_received(head)
    talk.down.data_received(hidden)
    talk.down.data_received(DENY)
    assert talk.statuses == [401, 401]
    assert talk.connector.users == []


def test_a_body_too_long_to_be_drained_ends_in_lingering() -> None:
    talk = Talk()
    talk.down.data_received(
        b"POST /deny HTTP/1.1\r\nHost: h\r\nContent-Length: 10000000000\r\n\r\n"
    )
    assert b"Connection: close" in talk.hear()
    assert talk.transport.done == ["linger"]
    talk.down.data_received(GET)
    assert talk.statuses == [401]


@pytest.mark.parametrize("before", [b"", DENY], ids=["first", "after another"])
def test_what_is_no_request_is_refused_and_nothing_after_it_is_served(before: bytes) -> None:
    talk = Talk()
    talk.down.data_received(before + b"GET / HTTP/1.1\r\nHost: h\r\nbroken\r\n\r\n" + DENY)
    talk.down.data_received(DENY)
    assert talk.statuses == ([401, 400] if before else [400])
    assert talk.hear().endswith(b"Connection: close\r\n\r\n400 Bad Request")
    assert talk.transport.done == ["linger"]
    assert talk.world.records[-1].sent_bytes == len("400 Bad Request")
    decided = talk.world.records[-1].decided
    assert decided is not None
    assert decided.outcome is Outcome.REFUSED


def test_a_fault_behind_a_request_waits_for_its_answer() -> None:
    talk = Talk()
    talk.down.data_received(GET + b"nonsense\r\n\r\n")
    assert talk.hear() == b""
    talk.answer()
    assert talk.hear().startswith(OK + b"okHTTP/1.1 400 ")
    assert talk.statuses == [200, 400]


def test_bad_chunks_are_the_clients_fault() -> None:
    talk = Talk()
    talk.down.data_received(CHUNKS + b"3\r\nabc\r\nzz\r\n")
    assert talk.hear().startswith(b"HTTP/1.1 400 ")
    assert talk.connector.upstreams[0].done == ["close"]
    assert talk.transport.done[-1] == "linger"


def test_trailers_reach_the_upstream() -> None:
    talk = Talk()
    talk.down.data_received(CHUNKS + b"3\r\nabc\r\n0\r\nX-Late: 1\r\n\r\n")
    assert talk.connector.upstreams[0].trailers == Headers([(b"X-Late", b"1")])


def test_a_client_is_held_while_its_body_waits() -> None:
    talk = Talk()
    talk.down.data_received(b"POST /ask HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nab")
    assert talk.transport.done == ["pause"]
    talk.world.runner.waiting.pop()()
    assert talk.transport.done == ["pause", "resume"]
    talk.down.data_received(b"c")
    talk.answer()
    assert talk.statuses == [200]


def test_a_full_client_stops_the_upstream_and_the_next_request() -> None:
    talk = Talk()
    talk.down.data_received(GET)
    talk.down.pause_writing()
    assert talk.connector.upstreams[0].done == ["pause"]
    talk.answer()
    talk.down.data_received(GET)
    assert len(talk.connector.users) == 1
    talk.down.resume_writing()
    assert len(talk.connector.users) == 2
    talk.down.pause_writing()
    talk.down.resume_writing()
    assert talk.connector.upstreams[1].done == ["pause", "resume"]


def test_idle_connections_are_closed() -> None:
    talk = Talk(Limits(idle_seconds=90))
    talk.loop.advance(60)
    talk.down.data_received(DENY)
    talk.loop.advance(89)
    assert talk.transport.done == []
    talk.loop.advance(2)
    assert talk.transport.done == ["close"]
    talk.down.data_received(DENY)
    assert talk.statuses == [401]


def test_a_dribbled_head_has_its_time_from_the_first_byte() -> None:
    talk = Talk(Limits(read_header_seconds=32))
    talk.loop.advance(50)
    for byte in GET[:3]:
        talk.down.data_received(bytes([byte]))
        assert talk.transport.done == []
        talk.loop.advance(10)
    talk.loop.advance(3)
    assert talk.transport.done == ["close"]


def test_a_running_exchange_has_no_deadline() -> None:
    talk = Talk()
    talk.down.data_received(GET)
    talk.loop.advance(10_000)
    assert talk.transport.done == []
    talk.answer()
    assert talk.hear() == OK + b"ok"


def test_a_refused_body_that_does_not_come_ends_the_connection() -> None:
    talk = Talk()
    talk.down.data_received(POST.replace(b"/x", b"/deny"))
    assert talk.statuses == []
    talk.loop.advance(5.1)
    assert talk.statuses == [401]
    assert talk.transport.done[-1] == "linger"


def test_a_body_that_stalls_is_given_up_unless_the_upstream_holds_it() -> None:
    talk = Talk()
    talk.down.data_received(POST + b"a")
    talk.connector.users[0].upstream_paused()
    for _ in range(5):
        talk.loop.advance(90.1)
    assert talk.hear() == b""
    talk.connector.users[0].upstream_resumed()
    talk.loop.advance(90.1)
    talk.down.data_received(b"b")
    talk.loop.advance(90.1)
    assert talk.hear() == b""
    talk.loop.advance(90.1)
    assert talk.hear().startswith(b"HTTP/1.1 408 ")
    assert talk.connector.upstreams[0].done == ["close"]
    assert talk.transport.done[-1] == "linger"


def test_a_silent_upstream_is_not_waited_for_with_the_go_ahead() -> None:
    talk = Talk()
    talk.down.data_received(POST.replace(b"Host", b"Expect: 100-continue\r\nHost"))
    talk.loop.advance(0.9)
    assert talk.hear() == b""
    talk.loop.advance(0.2)
    assert talk.hear() == b"HTTP/1.1 100 Continue\r\n\r\n"


def test_an_idle_client_that_ends_is_gone() -> None:
    assert not Talk().down.eof_received()


@pytest.mark.parametrize("head", [POST, CHUNKS])
def test_fr79_a_client_that_ends_in_its_request_gets_an_answer(head: bytes) -> None:
    talk = Talk()
    talk.down.data_received(head + b"1")
    assert not talk.down.eof_received()
    assert talk.connector.upstreams[0].done == ["close"]
    assert talk.hear().startswith(b"HTTP/1.1 400 ")
    assert talk.transport.done == ["linger"]
    assert talk.world.records[0].failure == "malformed request body"
    assert not talk.down.eof_received()


@pytest.mark.parametrize("is_begun", [False, True], ids=["refused", "answered early"])
def test_fr79_a_client_that_ends_in_an_unwanted_body_keeps_its_answer(*, is_begun: bool) -> None:
    talk = Talk()
    head = b"POST /%s HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\na"
    talk.down.data_received(head % (b"x" if is_begun else b"deny"))
    if is_begun:
        talk.answer()
    assert not talk.down.eof_received()
    assert talk.statuses == [200 if is_begun else 401]
    assert talk.transport.done[-1] == "linger"


def test_fr79_an_answer_on_its_way_goes_on_when_the_client_ends_in_its_body() -> None:
    talk = Talk()
    talk.down.data_received(POST + b"a")
    user = talk.connector.users[0]
    user.response(received(OK))
    assert talk.down.eof_received()
    assert talk.connector.upstreams[0].done == []
    user.response_side.body(b"ok")
    user.response_ended()
    assert talk.hear() == OK + b"ok"
    assert talk.transport.done[-1] == "linger"


def test_fr79_an_answer_that_rests_is_not_waited_for_when_the_client_ended_in_its_body() -> None:
    talk = Talk()
    talk.down.data_received(POST + b"a")
    talk.connector.users[0].response(received(OK))
    assert talk.down.eof_received()
    talk.loop.advance(1)
    assert talk.connector.upstreams[0].done == ["close"]
    assert talk.transport.done[-1] == "close_truncated"


def test_a_half_closed_client_gets_its_answer() -> None:
    talk = Talk()
    talk.down.data_received(GET)
    assert talk.down.eof_received()
    talk.loop.advance(0.6)
    assert talk.hear() == b"HTTP/1.1 100 Continue\r\n\r\n"
    talk.answer()
    assert b"Connection: close" in talk.hear()
    assert talk.transport.done == ["close"]


def test_a_half_closed_client_gets_all_its_answers() -> None:
    talk = Talk()
    talk.down.data_received(GET + GET + DENY)
    assert talk.down.eof_received()
    talk.answer()
    talk.answer()
    assert talk.statuses == [200, 200, 401]
    assert talk.transport.done[-1] == "close"


def test_a_half_closed_client_is_probed_in_each_of_its_exchanges() -> None:
    talk = Talk()
    talk.down.data_received(GET + GET)
    assert talk.down.eof_received()
    talk.answer()
    talk.hear()
    talk.loop.advance(0.6)
    talk.loop.advance(0.6)
    assert talk.hear() == b"HTTP/1.1 100 Continue\r\n\r\n" * 2


def test_fr79_a_client_that_ended_in_a_later_request_gets_an_answer_to_it() -> None:
    talk = Talk()
    talk.down.data_received(GET + POST + b"a")
    assert talk.down.eof_received()
    talk.answer()
    assert talk.connector.upstreams[1].done == ["close"]
    assert talk.statuses == [200, 400]
    assert talk.transport.done[-1] == "linger"


def test_a_half_closed_client_gets_more_answers_than_are_parsed_at_once() -> None:
    talk = Talk()
    talk.down.data_received(GET * 40 + GET[:9])
    for number in range(40):
        if number == 16:
            assert talk.down.eof_received()
        talk.answer()
    assert talk.statuses == [200] * 40
    assert talk.transport.done[-1] == "close"


def test_a_half_closed_client_with_a_full_buffer_is_waited_for() -> None:
    talk = Talk()
    talk.down.pause_writing()
    talk.down.data_received(DENY)
    assert talk.down.eof_received()
    talk.down.resume_writing()
    assert talk.statuses == [401]
    assert talk.transport.done[-1] == "close"


def test_after_an_ended_client_nothing_is_waited_for() -> None:
    talk = Talk()
    talk.down.data_received(GET + b"nonsense\r\n\r\n")
    assert talk.down.eof_received()
    talk.answer()
    assert talk.transport.done[-1] == "linger"


def test_a_lost_connection_takes_everything_along() -> None:
    talk = Talk()
    talk.down.data_received(GET + GET)
    talk.down.connection_lost(Failure.CUT_AT_SHUTDOWN)
    assert talk.connector.upstreams[0].done == ["close"]
    assert [record.failure for record in talk.world.records] == ["cut at shutdown"]
    assert talk.loop.timers == []
    Talk().down.connection_lost()


def test_an_idle_connection_drains_at_once_a_running_one_after_its_answer() -> None:
    idle = Talk()
    idle.down.data_received(DENY)
    idle.down.drain()
    assert idle.transport.done == ["close"]
    talk = Talk()
    talk.down.data_received(GET)
    talk.down.drain()
    assert talk.transport.done == []
    talk.answer()
    assert b"Connection: close" in talk.hear()
    assert talk.transport.done == ["close"]


def test_a_new_connection_has_a_while_to_ask_before_it_drains() -> None:
    silent, talk = Talk(), Talk()
    for each in (silent, talk):
        each.down.drain()
        each.loop.advance(4.9)
        assert each.transport.done == []
    talk.down.data_received(DENY)
    assert b"Connection: close" in talk.hear()
    assert talk.transport.done == ["close"]
    silent.loop.advance(0.2)
    assert silent.transport.done == ["close"]


def test_a_head_that_has_begun_may_come_to_its_end() -> None:
    talk = Talk()
    talk.down.data_received(DENY[:9])
    talk.down.drain()
    assert talk.transport.done == []
    talk.down.data_received(DENY[9:])
    assert b"Connection: close" in talk.hear()
    assert talk.transport.done == ["close"]


def test_an_answer_that_had_begun_before_the_drain_ends_the_connection_too() -> None:
    talk = Talk()
    talk.down.data_received(GET)
    user = talk.connector.users[0]
    user.response(received(OK))
    talk.down.drain()
    user.response_side.body(b"ok")
    user.response_ended()
    assert talk.transport.done[-1] == "close"


def test_a_certificate_that_became_invalid_is_noticed_on_the_next_request() -> None:
    talk = Talk()
    talk.down.data_received(GET)
    talk.answer()
    talk.peer = Peer("192.0.2.1", None, "expired")
    talk.down.data_received(GET)
    talk.answer()
    assert talk.statuses == [200, 200]


def test_what_follows_a_request_for_a_tunnel_waits_for_its_answer() -> None:
    talk = Talk()
    talk.down.data_received(UPGRADE)
    talk.down.data_received(DENY)
    assert talk.transport.done == ["pause"]
    talk.answer()
    assert talk.statuses == [200, 401]
    assert talk.transport.done == ["pause", "resume"]
    talk.down.data_received(UPGRADE)
    talk.answer()
    talk.down.data_received(DENY)
    assert talk.statuses == [200, 401, 200, 401]
    assert talk.transport.done == ["pause", "resume"]


def test_an_idle_connection_after_a_whole_request_waits_for_the_next_head() -> None:
    talk = Talk()
    for _ in range(2):
        talk.down.data_received(DENY[:5])
        talk.loop.advance(30)
        talk.down.data_received(DENY[5:])
        talk.loop.advance(60)
    assert talk.transport.done == []


def test_a_tunnel_gets_what_was_not_read_and_the_connection_is_out_of_our_hands() -> None:
    talk = Talk()
    talk.down.data_received(UPGRADE + b"ear")
    talk.down.data_received(b"ly")
    assert talk.transport.done == ["pause"]
    released = talk.down.release()
    assert released == Released(talk.transport, b"early")
    assert talk.transport.done == ["pause", "resume"]
    talk.down.data_received(GET)
    talk.loop.advance(1000)
    assert len(talk.connector.users) == 1
    assert talk.transport.done == ["pause", "resume"]
    assert talk.loop.timers == []


def test_a_tunnel_is_told_how_its_client_stands() -> None:
    talk = Talk()
    talk.down.data_received(UPGRADE)
    talk.down.pause_writing()
    assert talk.down.eof_received()
    released = talk.down.release()
    assert released == Released(talk.transport, has_ended=True, is_write_paused=True)


def test_an_upgrade_that_becomes_a_tunnel() -> None:
    talk = Talk()
    talk.down.data_received(UPGRADE + b"early")
    talk.connector.users[-1].response(received(SWITCH))
    assert talk.hear() == SWITCH
    assert talk.connector.upstreams[-1].side.sent == b"early"
    assert talk.transport.user is not None
    talk.transport.user.data_received(b"more")
    assert talk.connector.upstreams[-1].side.sent == b"earlymore"


def test_an_upgrade_asks_anew_each_time() -> None:
    """What was decided about its bytes is not remembered."""
    talk = Talk()
    for _ in range(2):
        talk.down.data_received(UPGRADE)
        talk.answer()
    assert talk.world.services.memory.recall(UPGRADE, talk.peer, forwarding_handler, 0.0) is None


def test_d38_what_breaks_when_the_loop_calls_cuts_the_connection() -> None:
    """Nobody else would end it: what is raised there reaches only the log."""
    talk = Talk()
    talk.down.data_received(DENY * 500)
    assert talk.loop.timers, "all of it was one turn"
    del talk.peer
    with pytest.raises(AttributeError):
        talk.loop.advance(0)
    assert talk.transport.done[-1] == "close_truncated"


# --- D52: what the connection is used for ----------------------------------------------


def used(talk: Talk) -> Use:
    return talk.down.use


def test_d52_a_connection_is_new_until_its_first_request_and_idle_between_two() -> None:
    talk = Talk()
    assert used(talk) is Use.NEW
    talk.down.data_received(GET[:5])
    assert used(talk) is Use.NEW
    talk.down.data_received(GET[5:])
    assert used(talk) is Use.BUSY
    assert len(list(talk.down.awaiting())) == 1
    talk.answer()
    assert used(talk) is Use.IDLE
    assert list(talk.down.awaiting()) == []
    talk.down.pause_writing()
    assert used(talk) is Use.BUSY
    talk.down.resume_writing()
    talk.down.data_received(GET[:5])
    assert used(talk) is Use.BUSY
    talk.down.announce_close()
    assert talk.transport.done == []


def test_d52_what_is_closing_is_not_idle() -> None:
    talk = Talk()
    talk.down.data_received(b"nonsense\r\n\r\n")
    assert used(talk) is Use.BUSY

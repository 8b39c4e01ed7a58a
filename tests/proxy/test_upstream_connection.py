"""`UpstreamConnection` on a tape."""

import asyncio

import pytest

from pyrbacproxy.http1.framing import CHUNKED, NO_BODY, Framing
from pyrbacproxy.http1.head import Headers
from pyrbacproxy.proxy.exchange import Limits
from pyrbacproxy.proxy.upstream_http1 import UpstreamConnection, UpstreamPool
from tests.fakes import ManualLoop, TapeTransport
from tests.proxy.dialogue import OK, STREAM, SWITCH, ConnectionHandlerTape, length
from tests.proxy.upstream_user import User


class Talk:
    """One upstream connection on a tape."""

    def __init__(self, method: bytes = b"GET", *, is_request_ended: bool = True) -> None:
        self.loop = ManualLoop()
        self.pool = UpstreamPool(Limits(), self.loop.as_loop())
        self.connection = UpstreamConnection(self.pool)
        self.tcp = TapeTransport()
        self.connection.connection_made(self.tcp)
        self.user = self.begin(method, is_request_ended=is_request_ended)

    def begin(
        self,
        method: bytes = b"GET",
        *,
        is_request_ended: bool = True,
        framing: Framing = NO_BODY,
    ) -> User:
        user = User(is_request_ended=is_request_ended)
        user.upstream_ready(self.connection)
        self.connection.begin(user, method, b"head\r\n\r\n", framing)
        return user

    @property
    def is_kept(self) -> bool:
        return len(self.pool) == 1


def test_a_response_is_told_in_order_and_the_connection_kept() -> None:
    talk = Talk()
    talk.connection.body(b"body")
    assert talk.tcp.written == b"head\r\n\r\nbody"
    talk.connection.data_received(b"HTTP/1.1 103 Early Hints\r\n\r\n" + STREAM + b"2\r\nok\r\n")
    talk.connection.data_received(b"0\r\nA: 1\r\n\r\n")
    assert talk.user.told == [
        "interim 103",
        "response 200",
        "flush",
        "trailers ((b'A', b'1'),)",
        "ended",
    ]
    assert talk.user.heard == b"ok"
    assert talk.is_kept
    assert talk.connection.is_reused


@pytest.mark.parametrize("said", [b"HTTP/1.1 200 O", b"HTTP/1.1 200 OK\r\nA b\r\n\r\n"])
def test_who_answers_badly_is_not_stale(said: bytes) -> None:
    talk = Talk()
    talk.connection.data_received(OK + b"ok")
    user = talk.begin()
    assert talk.connection.is_reused
    talk.connection.data_received(said)
    talk.connection.eof_received()
    assert str(user.told[-1]).startswith("lost: ")
    assert not talk.connection.is_reused


def test_a_known_answer_that_comes_whole_is_told_alike() -> None:
    talk = Talk()
    for raw in (OK + b"ok", OK.replace(b": 2", b": 0")):
        for _ in range(3):
            user = talk.begin()
            talk.connection.data_received(raw)
            assert user.told == ["response 200", "ended"]
            assert user.heard == raw.partition(b"\r\n\r\n")[2]
            assert talk.pool.check_out() is talk.connection


@pytest.mark.parametrize("size", range(1, len(OK) + 2))
def test_a_known_answer_may_come_in_pieces(size: int) -> None:
    talk = Talk()
    talk.connection.data_received(OK + b"ok")
    user = talk.begin()
    talk.connection.data_received((OK + b"ok")[:size])
    talk.connection.data_received((OK + b"ok")[size:])
    assert user.heard == b"ok"
    assert "ended" in user.told


def test_a_known_answer_to_head_has_no_body() -> None:
    talk = Talk()
    talk.connection.data_received(OK + b"ok")
    user = talk.begin(b"HEAD")
    talk.connection.data_received(OK + b"ok")
    assert user.heard == b""
    assert not talk.is_kept, "stray bytes are no body"


@pytest.mark.parametrize(
    ("raw", "is_request_ended"),
    [
        pytest.param(OK + b"okHTTP/1.1 200 OK\r\n", True, id="bytes behind the answer"),
        pytest.param(
            OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") + b"ok", True, id="close"
        ),
        pytest.param(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", True, id="HTTP/1.0"),
        pytest.param(OK + b"ok", False, id="an unfinished request"),
    ],
)
def test_what_ends_the_connection(raw: bytes, *, is_request_ended: bool) -> None:
    talk = Talk(is_request_ended=is_request_ended)
    for _ in range(2):
        talk.connection.data_received(raw)
        assert talk.user.told == ["response 200", "ended"]
        assert talk.user.heard == b"ok"
        assert not talk.is_kept
        assert talk.tcp.done[-1] == "abort"
        known = talk.pool
        talk = Talk(is_request_ended=is_request_ended)
        talk.connection._pool = known


def test_a_body_until_the_close() -> None:
    talk = Talk()
    talk.connection.data_received(b"HTTP/1.1 200 OK\r\n\r\nto the")
    talk.connection.data_received(b" end")
    talk.connection.eof_received()
    talk.connection.connection_lost(None)
    assert talk.user.heard == b"to the end"
    assert talk.user.told == ["response 200", "flush", "flush", "ended"]
    assert not talk.is_kept


@pytest.mark.parametrize("ends", ["eof", "lost", "reset"])
@pytest.mark.parametrize("raw", [b"", OK[:9], OK + b"o", STREAM + b"2\r\nok\r\n"])
def test_an_answer_that_is_cut_is_a_loss(raw: bytes, ends: str) -> None:
    talk = Talk()
    if raw:
        talk.connection.data_received(raw)
    if ends == "eof":
        talk.connection.eof_received()
    talk.connection.connection_lost(ConnectionResetError() if ends == "reset" else None)
    reason = "upstream connection lost" if ends == "reset" else "upstream closed early"
    assert talk.user.told[-1] == f"lost: {reason}"
    assert "ended" not in talk.user.told


@pytest.mark.parametrize("raw", [b"nonsense\r\n\r\n", STREAM + b"2\r\nok\r\nzz\r\n"])
def test_nonsense_is_a_loss(raw: bytes) -> None:
    talk = Talk()
    talk.connection.data_received(raw)
    assert talk.user.told[-1] == "lost: upstream broke HTTP"
    assert talk.tcp.done == ["abort"]


@pytest.mark.parametrize("event", ["response 200", "interim 103"])
def test_who_is_dropped_tells_no_more(event: str) -> None:
    for raw in (b"HTTP/1.1 103 Hints\r\n\r\n" + OK + b"ok", OK + b"ok"):
        talk = Talk()
        talk.connection.data_received(OK + b"ok")
        user = talk.begin()
        user.drops_at = event
        talk.connection.data_received(raw)
        if event in user.told:
            assert user.told[-1] == event
            assert user.heard == b""


def test_an_idle_connection_that_speaks_or_ends_is_dropped() -> None:
    for event in ("bytes", "eof"):
        talk = Talk()
        talk.connection.data_received(OK + b"ok")
        assert talk.is_kept
        if event == "bytes":
            talk.connection.data_received(b"HTTP/1.1 408 Timeout\r\n\r\n")
        else:
            talk.connection.eof_received()
        assert not talk.is_kept
        assert not talk.connection.is_open
        assert talk.user.told[-1] == "ended"


def test_an_idle_connection_is_closed_after_its_time() -> None:
    talk = Talk()
    talk.connection.data_received(OK + b"ok")
    talk.loop.advance(89)
    assert talk.is_kept
    talk.loop.advance(2)
    assert not talk.is_kept
    assert talk.tcp.done == ["abort"]
    talk.connection.connection_lost(None)
    assert talk.loop.timers == []


def test_too_many_idle_connections_are_closed() -> None:
    talk = Talk()
    talk.pool.limits = Limits(max_idle_upstreams=0)
    talk.connection.data_received(OK + b"ok")
    assert talk.tcp.done == ["abort"]


def test_both_directions_can_be_paused() -> None:
    talk = Talk()
    talk.connection.pause_reading()
    talk.connection.resume_reading()
    talk.connection.pause_writing()
    talk.connection.resume_writing()
    assert talk.tcp.done == ["pause", "resume"]
    assert talk.user.told == ["paused", "resumed"]
    talk.connection.data_received(OK + b"ok")
    talk.connection.pause_writing()
    talk.connection.resume_writing()
    assert talk.user.told[-1] == "ended"


@pytest.mark.parametrize("known", [0, 3], ids=["parsed", "known"])
def test_a_whole_answer_that_was_not_to_be_read_on_leaves_a_connection_that_is_read(
    known: int,
) -> None:
    """A client that opens no window pauses the upstream within its last bytes."""

    class Slow(User):
        def body(self, data: bytes | memoryview) -> None:
            super().body(data)
            talk.connection.pause_reading()

    talk = Talk()
    for _ in range(known):
        talk.connection.data_received(OK + b"ok")
        assert talk.pool.check_out() is talk.connection
        talk.begin()
    talk.connection.begin(Slow(), b"GET", b"head\r\n\r\n", NO_BODY)
    talk.connection.data_received(OK + b"ok")
    assert talk.tcp.done == ["pause", "resume"]
    assert talk.is_kept


def test_an_upstream_that_stops_reading_is_given_up() -> None:
    talk = Talk(is_request_ended=False)
    talk.tcp.pending_bytes = 1000
    talk.connection.pause_writing()
    talk.loop.advance(61)
    assert talk.user.told == ["paused", "lost: upstream stopped reading"]


def test_after_its_end_everything_is_harmless() -> None:
    talk = Talk()
    talk.connection.close()
    talk.connection.connection_lost(None)
    talk.connection.close()
    talk.connection.body(b"late")
    talk.connection.begin(User(), b"GET", b"late", NO_BODY)
    talk.connection.end(None)
    talk.connection.pause_reading()
    talk.connection.resume_reading()
    assert talk.connection._pending_bytes() == 0
    assert talk.tcp.written == b"head\r\n\r\n"
    assert talk.user.told == []


def test_a_body_is_framed_as_the_head_says() -> None:
    for framing, sent in (
        (length(5), b"abcde"),
        (CHUNKED, b"3\r\nabc\r\n2\r\nde\r\n0\r\nA: 1\r\n\r\n"),
    ):
        talk = Talk()
        talk.begin(b"POST", framing=framing)
        talk.tcp.written = b""
        talk.connection.body(b"abc")
        talk.connection.body(b"de")
        talk.connection.end(Headers([(b"A", b"1")]))
        assert talk.tcp.written == sent
        assert not talk.connection.was_refused


def test_a_switch_lets_go_of_the_connection_and_what_came_with_it() -> None:
    talk = Talk()
    talk.user.releases_at = "response 101"
    talk.connection.data_received(SWITCH + b"last ")
    assert talk.user.told == ["response 101"]
    released = talk.user.released
    assert released is not None
    assert (released.waiting, released.has_ended, released.is_write_paused) == (
        b"last ",
        False,
        False,
    )
    assert not talk.connection.is_open
    assert not talk.is_kept
    talk.loop.advance(1000)
    assert talk.tcp.done == []
    side = ConnectionHandlerTape(stays_open=True)
    released.side.serve(side)
    assert isinstance(talk.tcp.protocol, asyncio.Protocol)
    talk.tcp.protocol.data_received(b"words")
    assert side.heard == b"words"


@pytest.mark.parametrize("resumed", [True, False])
def test_a_switch_tells_how_the_write_buffer_stands(*, resumed: bool) -> None:
    talk = Talk()
    talk.connection.pause_writing()
    if resumed:
        talk.connection.resume_writing()
    assert talk.connection.release().is_write_paused is not resumed

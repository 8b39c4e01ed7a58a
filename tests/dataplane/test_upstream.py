"""`UpstreamConnection` on a tape; the connector against an upstream of this machine."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest

from pyrbacproxy.dataplane.limits import Limits
from pyrbacproxy.dataplane.sinks import UpstreamSink
from pyrbacproxy.dataplane.upstream import (
    Connector,
    UpstreamConnection,
    UpstreamSettings,
    destination,
)
from pyrbacproxy.egress_proxy import ProxyAddress
from pyrbacproxy.http1.head import Headers, ResponseHead
from pyrbacproxy.http1.parser import ResponseReceived
from tests.dataplane.dialogue import OK, STREAM
from tests.fakes import ManualLoop, TapeTransport

SECONDS = 10.0


class User:
    """An `UpstreamUser` that notes what it is told; it takes itself for what takes the body."""

    def __init__(self, *, is_request_ended: bool = True) -> None:
        self.told: list[object] = []
        self.heard = b""
        self.upstream: UpstreamSink | None = None
        self.is_request_ended = is_request_ended
        self.wants_upstream = True
        self.drops_at = ""
        self.ready = asyncio.Event()

    @property
    def response_side(self) -> "User":
        return self

    def upstream_ready(self, upstream: UpstreamSink) -> None:
        self.upstream = upstream
        self.wants_upstream = False
        self.ready.set()

    def upstream_failed(self, status: int, failure: str) -> None:
        self.told.append((status, failure))
        self.ready.set()

    def interim(self, head: ResponseHead) -> None:
        self.note(f"interim {head.status}")

    def response(self, received: ResponseReceived) -> None:
        self.note(f"response {received.head.status}")

    def body(self, data: bytes | memoryview) -> None:
        self.heard += data

    def trailers(self, trailers: Headers) -> None:
        self.note(f"trailers {trailers.pairs!r}")

    def response_ended(self) -> None:
        self.note("ended")

    def flush(self) -> None:
        self.note("flush")

    def upstream_lost(self, failure: str) -> None:
        self.note(f"lost: {failure}")

    def upstream_paused(self) -> None:
        self.note("paused")

    def upstream_resumed(self) -> None:
        self.note("resumed")

    def note(self, event: str) -> None:
        self.told.append(event)
        if event == self.drops_at and self.upstream is not None:
            self.upstream.close()


class Talk:
    """One upstream connection on a tape."""

    def __init__(self, method: bytes = b"GET", *, is_request_ended: bool = True) -> None:
        self.loop = ManualLoop()
        settings = UpstreamSettings("http", "127.0.0.1", 1)
        self.connector = Connector(settings, Limits(), loop=self.loop.as_loop())
        self.connection = UpstreamConnection(self.connector)
        self.tcp = TapeTransport()
        self.connection.connection_made(self.tcp)
        self.user = self.begin(method, is_request_ended=is_request_ended)

    def begin(self, method: bytes = b"GET", *, is_request_ended: bool = True) -> User:
        user = User(is_request_ended=is_request_ended)
        user.upstream_ready(self.connection)
        self.connection.begin(user, method=method, head=b"head\r\n\r\n")
        return user

    @property
    def is_kept(self) -> bool:
        return len(self.connector._pool) == 1


def test_a_response_is_told_in_order_and_the_connection_kept() -> None:
    talk = Talk()
    talk.connection.write(b"body")
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


def test_a_known_answer_that_comes_whole_is_told_alike() -> None:
    talk = Talk()
    for raw in (OK + b"ok", OK.replace(b": 2", b": 0")):
        for _ in range(3):
            user = talk.begin()
            talk.connection.data_received(raw)
            assert user.told == ["response 200", "ended"]
            assert user.heard == raw.partition(b"\r\n\r\n")[2]
            assert talk.connector._pool.check_out() is talk.connection


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
        known = talk.connector
        talk = Talk(is_request_ended=is_request_ended)
        talk.connection._connector = known


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
    talk.connector._pool._max_idle = 0
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
    talk.connection.write(b"late")
    talk.connection.begin(User(), method=b"GET", head=b"late")
    talk.connection.pause_reading()
    talk.connection.resume_reading()
    assert talk.connection._pending_bytes() == 0
    assert talk.tcp.written == b"head\r\n\r\n"
    assert talk.user.told == []


def test_the_address_stands_in_request_heads() -> None:
    settings = UpstreamSettings("http", "::1", 8080, b"/base", b"a=1")
    assert destination(settings).target(b"/x") == b"/base/x?a=1"
    assert destination(settings).authority == b"[::1]:8080"
    proxy = ProxyAddress("http", "proxy", 3128, "Basic eA==")
    through = destination(UpstreamSettings("http", "up", 80, proxy=proxy))
    assert through.target(b"/x") == b"http://up:80/x"
    assert through.proxy_authorization == b"Basic eA=="
    assert destination(UpstreamSettings("https", "up", 443, proxy=proxy)).target(b"/x") == b"/x"


@contextlib.asynccontextmanager
async def upstream() -> AsyncIterator[int]:
    """A server that accepts and keeps quiet; its port."""
    writers: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: writers.append(writer), "127.0.0.1", 0)
    async with server:
        yield int(server.sockets[0].getsockname()[1])
        for writer in writers:
            writer.close()


async def asked(connector: Connector, *, is_fresh: bool = False) -> User:
    user = User()
    connector.connect(user, is_fresh=is_fresh)
    async with asyncio.timeout(SECONDS):
        await user.ready.wait()
    return user


async def test_connections_are_dialled_and_used_again() -> None:
    async with upstream() as port:
        connector = Connector(UpstreamSettings("http", "127.0.0.1", port), Limits())
        first = (await asked(connector)).upstream
        assert isinstance(first, UpstreamConnection)
        assert not first.is_reused
        connector.take_back(first)
        second = (await asked(connector, is_fresh=True)).upstream
        assert second is not first
        assert (await asked(connector)).upstream is first
        assert isinstance(second, UpstreamConnection)
        connector.take_back(second)
        await connector.close()
        assert not second.is_open
        first.close()


async def test_a_connection_that_nobody_wants_any_more_is_kept() -> None:
    async with upstream() as port:
        connector = Connector(UpstreamSettings("http", "127.0.0.1", port), Limits())
        user = User()
        connector.connect(user, is_fresh=False)
        user.wants_upstream = False
        await asyncio.gather(*connector._dials)
        assert user.upstream is None
        assert len(connector._pool) == 1
        await connector.close()


async def test_a_connection_can_be_dialled_ahead_once_and_fails_in_silence(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with upstream() as port:
        connector = Connector(UpstreamSettings("http", "127.0.0.1", port), Limits())
        connector.warm()
        await asyncio.gather(*connector._dials)
        connector.warm()
        assert not connector._dials
        warm = (await asked(connector)).upstream
        assert isinstance(warm, UpstreamConnection)
        # Used as one that may have been closed meanwhile.
        assert warm.is_reused
        warm.close()
    connector.warm()
    await asyncio.gather(*connector._dials)
    Connector(UpstreamSettings(), Limits()).warm()
    assert len(connector._pool) == 0
    assert caplog.text == ""


async def test_no_connection_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        settings = UpstreamSettings("http", "127.0.0.1", closed.getsockname()[1])
        user = await asked(Connector(settings, Limits()))
    assert user.told == [(502, "upstream refused the connection")]
    assert "cannot connect to the upstream" in caplog.text
    user = await asked(Connector(UpstreamSettings(), Limits()))
    assert user.told == [(502, "no usable upstream")]


async def test_a_connection_that_takes_too_long_is_told() -> None:
    # A backlog that is full answers nobody.
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        with contextlib.ExitStack() as stack:
            for _ in range(4):
                waiting = stack.enter_context(socket.socket())
                waiting.setblocking(False)
                waiting.connect_ex(("127.0.0.1", port))
            limits = Limits(connect_seconds=0.1)
            user = await asked(Connector(UpstreamSettings("http", "127.0.0.1", port), limits))
    assert user.told == [(504, "upstream did not answer the connection in time")]


async def test_closing_ends_what_is_being_dialled() -> None:
    async with upstream() as port:
        connector = Connector(UpstreamSettings("http", "127.0.0.1", port), Limits())
        user = User()
        connector.connect(user, is_fresh=False)
        await connector.close()
    assert user.upstream is None
    assert user.told == []

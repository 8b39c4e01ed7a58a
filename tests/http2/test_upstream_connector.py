"""The connector against upstreams of this machine: h2c, and HTTPS that chooses."""

import asyncio
import contextlib
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path

import pytest
import uvloop
from h2.settings import SettingCodes

from pyrbacproxy.demo import pki
from pyrbacproxy.egress import ProxyAddress
from pyrbacproxy.http1.framing import NO_BODY
from pyrbacproxy.http2.upstream import UpstreamStream
from pyrbacproxy.http2.upstream_connector import Http2Connector
from pyrbacproxy.model import Failure
from pyrbacproxy.proxy.connector import Connector, UpstreamSettings, dialler
from pyrbacproxy.proxy.exchange import Connector as AnyConnector
from pyrbacproxy.proxy.exchange import Limits
from pyrbacproxy.proxy.heads import UpstreamHead
from pyrbacproxy.proxy.upstream_http1 import UpstreamConnection as Http1Connection
from tests.egress_world import world
from tests.http2.upstream_server import Server, serving
from tests.proxy.upstream_user import User

SECONDS = 10.0
UPGRADE = UpstreamHead(
    b"GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    asks_for_upgrade=True,
)


class Asking(User):
    """Sends its request as soon as it can; `over` is set with the last word."""

    def __init__(self, path: str = "/") -> None:
        super().__init__()
        self.upstream_head = UpstreamHead(b"GET %s HTTP/1.1\r\nHost: h\r\n\r\n" % path.encode())
        self.over = asyncio.Event()

    def upstream_ready(self, upstream: object) -> None:
        assert isinstance(upstream, UpstreamStream | Http1Connection)
        super().upstream_ready(upstream)
        upstream.begin(self, b"GET", self.upstream_head.raw, NO_BODY)

    def upstream_failed(self, failure: Failure, cause: str = "") -> None:
        super().upstream_failed(failure, cause)
        self.over.set()

    def response_ended(self) -> None:
        super().response_ended()
        self.over.set()

    def upstream_lost(self, failure: Failure, cause: str = "") -> None:
        super().upstream_lost(failure, cause)
        self.over.set()


async def asked(connector: AnyConnector, path: str = "/", *, is_fresh: bool = False) -> Asking:
    user = Asking(path)
    connector.connect(user, is_fresh=is_fresh)
    await until(user.over.is_set)
    return user


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        for _ in iter(condition, True):
            await asyncio.sleep(0.001)


@contextlib.asynccontextmanager
async def h2c(
    settings: dict[SettingCodes, int] | None = None, limits: Limits | None = None
) -> AsyncIterator[tuple[Http2Connector, Server]]:
    async with serving(settings) as server:
        connector = to(server.port, limits)
        yield connector, server
        await connector.close()


def to(port: int, limits: Limits | None = None) -> Http2Connector:
    limits = limits or Limits()
    settings = UpstreamSettings("https", "127.0.0.1", port, is_h2c=True)
    return Http2Connector(limits, dialler(settings, limits), scheme="https")


async def test_many_requests_share_one_connection() -> None:
    async with h2c() as (connector, server):
        users = [Asking(f"/{number}") for number in range(50)]
        for user in users:
            connector.connect(user, is_fresh=False)
        for number, user in enumerate(users):
            await until(user.over.is_set)
            assert user.heard == b"/%d" % number
        assert (await asked(connector)).heard == b"/"
        assert len(server.sessions) == 1


async def test_another_connection_is_dialled_when_all_are_full() -> None:
    async with h2c({SettingCodes.MAX_CONCURRENT_STREAMS: 2}) as (connector, server):
        users = [Asking("/wait") for _ in range(5)]
        for user in users:
            connector.connect(user, is_fresh=False)
        await until(lambda: sum(len(session.waiting) for session in server.sessions) == 5)
        assert [len(session.waiting) for session in server.sessions] == [2, 2, 1]
        server.answer_waiting()
        for user in users:
            await until(user.over.is_set)


async def test_who_finds_no_room_waits_for_it_when_there_are_connections_enough() -> None:
    settings = {SettingCodes.MAX_CONCURRENT_STREAMS: 1}
    async with h2c(settings, Limits(max_idle_upstreams=1)) as (connector, server):
        users = [Asking("/wait") for _ in range(3)]
        for user in users:
            connector.connect(user, is_fresh=False)
        # Gone before its turn.
        users[1].wants_upstream = False
        for user in (users[0], users[2]):
            await until(lambda: bool(server.sessions and server.sessions[0].waiting))
            server.answer_waiting()
            await until(user.over.is_set)
        assert users[1].upstream is None
        assert len(server.sessions) == 1


async def test_nothing_is_kept_of_who_is_gone() -> None:
    settings = {SettingCodes.MAX_CONCURRENT_STREAMS: 1}
    async with h2c(settings, Limits(max_idle_upstreams=1)) as (connector, server):
        users = [Asking("/wait") for _ in range(100)]
        for user in users:
            connector.connect(user, is_fresh=False)
        await until(lambda: bool(server.sessions and server.sessions[0].waiting))
        for user in users:
            connector.cancel(user)
        assert not connector._waiting
        assert all(user.upstream is None for user in users[1:])


async def test_an_upstream_that_takes_no_streams_is_told() -> None:
    async with h2c({SettingCodes.MAX_CONCURRENT_STREAMS: 0}) as (connector, _):
        user = await asked(connector)
        assert user.told == [Failure.NO_CONNECTION]
        assert user.cause.endswith(": takes no streams")


async def test_a_fresh_one_is_no_idle_one() -> None:
    async with h2c() as (connector, server):
        await asked(connector)
        await asked(connector, is_fresh=True)
        assert len(server.sessions) == 2
        waiting = Asking("/wait")
        connector.connect(waiting, is_fresh=False)
        await asked(connector, is_fresh=True)
        assert len(server.sessions) == 2


async def test_a_connection_that_dies_is_followed_by_another_one() -> None:
    async with h2c() as (connector, server):
        assert (await asked(connector, "/die")).told[0] in (
            "lost: upstream connection lost",
            "lost: upstream closed early",
        )
        assert (await asked(connector)).heard == b"/"
        assert len(server.sessions) == 2


async def test_a_head_that_the_upstream_would_not_read_harms_no_other_request() -> None:
    async with h2c({SettingCodes.MAX_HEADER_LIST_SIZE: 1000}) as (connector, server):
        other = Asking("/wait")
        connector.connect(other, is_fresh=False)
        await until(lambda: bool(server.sessions and server.sessions[0].waiting))
        large = await asked(connector, "/" + "a" * 1000)
        assert large.told == [Failure.HEAD_TOO_LARGE]
        server.answer_waiting()
        await until(other.over.is_set)
        assert other.heard == b"/wait"
        assert len(server.sessions) == 1


async def test_the_first_head_may_be_too_large() -> None:
    async with h2c({SettingCodes.MAX_HEADER_LIST_SIZE: 1000}) as (connector, server):
        large = await asked(connector, "/" + "a" * 1000)
        assert large.told == [Failure.HEAD_TOO_LARGE]
        assert (await asked(connector)).heard == b"/"
        assert len(server.sessions) == 1


async def test_upgrades_are_impossible() -> None:
    async with h2c() as (connector, server):
        user = User()
        user.upstream_head = UPGRADE
        connector.connect(user, is_fresh=False)
        assert user.told == [Failure.NO_UPGRADE]
        assert server.sessions == []


async def test_a_connection_can_be_dialled_ahead() -> None:
    async with h2c() as (connector, server):
        connector.warm()
        await until(lambda: bool(connector._connections))
        connector.warm()
        await asked(connector)
        assert len(server.sessions) == 1


async def test_no_connection_is_told_to_all_who_wait() -> None:
    connector = to(1)
    users = [Asking(), Asking()]
    for user in users:
        connector.connect(user, is_fresh=False)
    for user in users:
        await until(user.over.is_set)
        assert user.told == [Failure.REFUSED]
        assert user.cause == "127.0.0.1:1: Connection refused"
    connector = Http2Connector(Limits(), dialler(UpstreamSettings(), Limits()), scheme="")
    connector.warm()
    assert (await asked(connector)).told == [Failure.NO_UPSTREAM]


async def test_d38_a_dial_that_breaks_is_told() -> None:
    reported: list[str] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: reported.append(context["message"])
    )

    def context() -> ssl.SSLContext:
        raise TypeError("unforeseen")

    dial = dialler(UpstreamSettings("https", "127.0.0.1", 1), Limits(), context)
    connector = Http2Connector(Limits(), dial, scheme="https")
    assert (await asked(connector)).told == [Failure.NO_UPSTREAM]
    assert reported == ["a dial"]


async def test_an_upstream_that_speaks_http_1_is_told() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        connector = to(int(server.sockets[0].getsockname()[1]))
        user = await asked(connector)
        assert user.told == [Failure.NO_HTTP2]
        assert user.cause.endswith(": does not speak HTTP/2")
        await connector.close()


async def test_an_upstream_that_says_nothing_is_told() -> None:
    async with h2c(limits=Limits(connect_seconds=0.1)) as (connector, server):
        server.is_silent = True
        user = await asked(connector)
        assert user.told == [Failure.CONNECT_TIMEOUT]


async def test_closing_ends_what_is_being_dialled() -> None:
    async with h2c() as (connector, server):
        server.is_silent = True
        user = Asking()
        connector.connect(user, is_fresh=False)
        await until(lambda: bool(server.sessions))
        await connector.close()
        assert user.told == []
        assert not connector._dials


# HTTPS


@contextlib.asynccontextmanager
async def https(
    folder: Path, *chosen: str, proxy: ProxyAddress | None = None
) -> AsyncIterator[tuple[Http2Connector, Server]]:
    """Chooses the first of `chosen` that is offered."""
    authority = pki.Authority(folder)
    pair = authority.serving("upstream", names=("localhost",))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pair.certificate_file, pair.key_file)
    tls.set_alpn_protocols(list(chosen))
    offering = ssl.create_default_context(cafile=authority.certificate_file)
    offering.set_alpn_protocols(["h2", "http/1.1"])
    plain = ssl.create_default_context(cafile=authority.certificate_file)
    async with serving(tls=tls) as server:
        server.choose = tls.set_alpn_protocols
        settings = UpstreamSettings("https", "localhost", server.port, proxy=proxy)
        limits = Limits()
        http1 = Connector(settings, limits, context=lambda: plain)
        dial = dialler(settings, limits, lambda: offering)
        connector = Http2Connector(limits, dial, scheme="https", http1=http1)
        yield connector, server
        await connector.close()


async def test_https_that_chooses_http_2(tmp_path: Path) -> None:
    async with https(tmp_path, "h2", "http/1.1") as (connector, server):
        users = [Asking() for _ in range(5)]
        for user in users:
            connector.connect(user, is_fresh=False)
        for user in users:
            await until(user.over.is_set)
            assert user.heard == b"/"
        # All but one were dialled for nothing, as nobody knew.
        await until(lambda: not connector._dials)
        assert len(connector._connections) == 1
        sessions = len(server.sessions)
        assert (await asked(connector)).heard == b"/"
        assert len(server.sessions) == sessions


async def test_https_that_chooses_http_1(tmp_path: Path) -> None:
    async with https(tmp_path, "http/1.1") as (connector, server):
        connector.warm()
        await until(lambda: connector._http1 is not None and connector._http1.has_idle)
        users = [Asking() for _ in range(3)]
        for user in users:
            connector.connect(user, is_fresh=False)
        for user in users:
            await until(user.over.is_set)
            assert user.heard == b"http/1 "
            assert isinstance(user.upstream, Http1Connection)
        assert len(server.sessions) == 3
        assert (await asked(connector, is_fresh=True)).heard == b"http/1 "
        assert len(server.sessions) == 4


async def test_an_upgrade_goes_over_http_1_whatever_is_spoken_else(tmp_path: Path) -> None:
    async with https(tmp_path, "h2", "http/1.1") as (connector, server):
        await asked(connector)
        user = Asking()
        user.upstream_head = UPGRADE
        connector.connect(user, is_fresh=False)
        await until(user.over.is_set)
        assert user.heard == b"http/1 "
        assert [session.is_http2 for session in server.sessions] == [True, False]


async def test_who_is_gone_is_gone_from_both(tmp_path: Path) -> None:
    async with https(tmp_path, "http/1.1") as (connector, _):
        await asked(connector)
        user = Asking()
        assert connector._http1 is not None
        connector._http1.connect(user, is_fresh=True)
        connector.cancel(user)
        assert not connector._http1._dialled_for


async def test_what_the_upstream_chooses_may_change(tmp_path: Path) -> None:
    async with https(tmp_path, "h2") as (connector, server):
        assert (await asked(connector)).heard == b"/"
        server.choose(["http/1.1"])
        assert (await asked(connector, "/die")).told[-1] != "ended"
        assert (await asked(connector)).heard == b"http/1 "
        server.choose(["h2"])
        assert (await asked(connector)).heard == b"http/1 "
        assert (await asked(connector, is_fresh=True)).heard == b"/"
        assert (await asked(connector)).heard == b"/"


async def through_a_proxy(folder: Path) -> None:
    async with world(is_tls=False) as outside:
        proxy = ProxyAddress("http", "127.0.0.1", outside.proxy_port)
        async with https(folder, "h2", proxy=proxy) as (connector, server):
            outside.server_port = server.port
            assert (await asked(connector)).heard == b"/"
            assert (await asked(connector)).heard == b"/"
            assert len(outside.asked) == 1


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_an_egress_proxy_may_stand_between(
    tmp_path: Path, run: Callable[[Coroutine[None, None, None]], None]
) -> None:
    """The upstream speaks first, into a tunnel that TLS has only just made."""
    run(through_a_proxy(tmp_path))


@pytest.mark.parametrize("chosen", ["h2", "http/1.1"])
def test_the_loop_that_serves_hands_transports_over_as_well(tmp_path: Path, chosen: str) -> None:
    async def ask() -> bytes:
        async with https(tmp_path, chosen) as (connector, _):
            return (await asked(connector)).heard

    assert uvloop.run(ask()) == (b"/" if chosen == "h2" else b"http/1 ")


def test_http_2_is_imported_only_by_who_speaks_it() -> None:
    program = "import sys, pyrbacproxy.wiring; print('h2' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"

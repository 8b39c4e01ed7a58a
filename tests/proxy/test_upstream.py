"""The connector against an upstream of this machine."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator

import pytest

from pyrbacproxy.egress import ProxyAddress
from pyrbacproxy.model import Failure
from pyrbacproxy.proxy.connector import Connector, UpstreamSettings, destination
from pyrbacproxy.proxy.exchange import Limits
from pyrbacproxy.proxy.upstream_http1 import UpstreamConnection
from tests.proxy.upstream_user import User

SECONDS = 10.0


def test_dec_n10_this_machine_stands_in_request_heads_to_a_unix_socket() -> None:
    settings = UpstreamSettings("http", socket_path="/run/x.sock")
    assert destination(settings).authority == b"localhost"


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
        connector.pool.check_in(first)
        second = (await asked(connector, is_fresh=True)).upstream
        assert second is not first
        assert (await asked(connector)).upstream is first
        assert isinstance(second, UpstreamConnection)
        connector.pool.check_in(second)
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
        assert len(connector.pool) == 1
        await connector.close()


async def test_nobody_dials_for_who_is_gone() -> None:
    """Or resetting streams would open as many connections (CVE-2023-44487)."""
    async with upstream() as port:
        connector = Connector(UpstreamSettings("http", "127.0.0.1", port), Limits())
        for begins in (False, True):
            user = User()
            connector.connect(user, is_fresh=False)
            (dial,) = connector._dials
            if begins:
                await asyncio.sleep(0)
            connector.cancel(user)
            await asyncio.gather(dial, return_exceptions=True)
            assert dial.cancelled()
        assert (user.upstream, user.told) == (None, [])
        assert not connector._dials
        assert not connector._dialled_for
        # Whose dial is over has none to end.
        connector.cancel(await asked(connector))
        assert not connector._dialled_for
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
    assert len(connector.pool) == 0
    assert caplog.text == ""


async def test_no_connection_is_told() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        settings = UpstreamSettings("http", "127.0.0.1", closed.getsockname()[1])
        user = await asked(Connector(settings, Limits()))
    assert user.told == [Failure.REFUSED]
    assert user.cause == f"127.0.0.1:{settings.port}: Connection refused"
    user = await asked(Connector(UpstreamSettings(), Limits()))
    assert user.told == [Failure.NO_UPSTREAM]


async def test_d38_a_dial_that_breaks_is_told() -> None:
    reported: list[str] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: reported.append(context["message"])
    )

    def context() -> ssl.SSLContext:
        raise TypeError("unforeseen")

    settings = UpstreamSettings("https", "127.0.0.1", 1)
    user = await asked(Connector(settings, Limits(), context=context))
    assert user.told == [Failure.NO_UPSTREAM]
    assert reported == ["a dial"]


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
    assert user.told == [Failure.CONNECT_TIMEOUT]
    assert user.cause == f"127.0.0.1:{port}: no connection within 0.1 s"


async def test_closing_ends_what_is_being_dialled() -> None:
    async with upstream() as port:
        connector = Connector(UpstreamSettings("http", "127.0.0.1", port), Limits())
        user = User()
        connector.connect(user, is_fresh=False)
        await connector.close()
    assert user.upstream is None
    assert user.told == []

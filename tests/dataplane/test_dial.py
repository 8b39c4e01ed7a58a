"""Against an upstream and an egress proxy of this machine; the ways themselves: `egress_dial`."""

import asyncio
import socket
import ssl
from pathlib import Path

import pytest

from pyrbacproxy.dataplane.dial import Dialler
from pyrbacproxy.dataplane.limits import Limits
from pyrbacproxy.egress_proxy import ProxyAddress
from tests.egress_world import HELLO, SECONDS, Talker, trusting, world
from tests.test_lookup import Resolver


def dialler(
    port: int,
    *,
    is_tls: bool,
    connect_seconds: float = SECONDS,
    proxy: ProxyAddress | None = None,
) -> Dialler:
    return Dialler(
        Limits(connect_seconds=connect_seconds),
        is_tls=is_tls,
        host="localhost",
        port=port,
        proxy=proxy,
        context=trusting if is_tls else None,
    )


async def heard(dialler: Dialler) -> bytes:
    talker = Talker()
    async with asyncio.timeout(SECONDS):
        await dialler.dial(talker)
        answer = await talker.answer
    assert talker.transport is not None
    talker.transport.abort()
    return answer


@pytest.mark.parametrize("is_tls", [False, True])
async def test_an_upstream_with_and_without_tls(*, is_tls: bool) -> None:
    async with world(is_tls=is_tls) as made:
        assert await heard(dialler(made.server_port, is_tls=is_tls)) == HELLO


async def test_the_proxy_of_the_settings_is_taken() -> None:
    async with world(is_tls=True) as made:
        proxy = ProxyAddress("http", "127.0.0.1", made.proxy_port, "Basic eA==")
        assert await heard(dialler(1, is_tls=True, proxy=proxy)) == HELLO
        assert len(made.asked) == 1


async def test_the_context_is_the_one_of_the_moment() -> None:
    contexts = [trusting(), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)]
    async with world(is_tls=True) as made:
        limits = Limits(connect_seconds=SECONDS)
        to_upstream = Dialler(
            limits,
            is_tls=True,
            host="localhost",
            port=made.server_port,
            proxy=None,
            context=lambda: contexts.pop(0),
        )
        assert await heard(to_upstream) == HELLO
        with pytest.raises(ssl.SSLCertVerificationError):
            await heard(to_upstream)


@pytest.mark.parametrize(
    ("host", "socket_path", "address"),
    [
        pytest.param("a.test", "", "a.test:1", id="name"),
        pytest.param("::1", "", "[::1]:1", id="IPv6"),
        pytest.param("a.test", "/run/a.sock", "/run/a.sock", id="unix socket"),
    ],
)
def test_the_address_as_the_log_tells_it(host: str, socket_path: str, address: str) -> None:
    made = Dialler(
        Limits(),
        is_tls=False,
        host=host,
        port=1,
        proxy=None,
        context=None,
        socket_path=socket_path,
    )
    assert made.address == address


async def test_dialling_ends_in_time() -> None:
    async with world(is_tls=True) as made:
        made.answer = b""
        proxy = ProxyAddress("http", "127.0.0.1", made.proxy_port)
        with pytest.raises(TimeoutError):
            await heard(dialler(1, is_tls=True, connect_seconds=0.05, proxy=proxy))


async def test_https_without_a_context_is_refused() -> None:
    with pytest.raises(OSError, match="no TLS context"):
        await Dialler(Limits(), is_tls=True, host="::1", port=1, proxy=None, context=None).dial(
            Talker()
        )


async def test_dec_n10_a_unix_socket(tmp_path: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"heard " + await reader.read(100))
        writer.close()

    path = str(tmp_path / "x.sock")
    to_upstream = Dialler(
        Limits(connect_seconds=SECONDS),
        is_tls=False,
        host="",
        port=0,
        proxy=None,
        context=None,
        socket_path=path,
    )
    async with await asyncio.start_unix_server(answer, path):
        assert await heard(to_upstream) == HELLO
    with pytest.raises((ConnectionRefusedError, FileNotFoundError)):
        await to_upstream.dial(Talker())


@pytest.mark.parametrize("proxy", [None, ProxyAddress("http", "a.test", 3128)])
async def test_fr48_a_look_up_that_hangs_is_the_only_one(
    proxy: ProxyAddress | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy's name is looked up where there is one; the server's is the proxy's business."""
    resolver = Resolver()
    monkeypatch.setattr(socket, "getaddrinfo", resolver)
    to_upstream = Dialler(
        Limits(connect_seconds=0.01),
        is_tls=False,
        host="a.test" if proxy is None else "b.test",
        port=80,
        proxy=proxy,
        context=None,
    )
    for _ in range(3):
        with pytest.raises(TimeoutError):
            await to_upstream.dial(Talker())
    resolver.gate.set()
    assert resolver.begun.wait(SECONDS)
    assert resolver.asked == ["a.test"]
    assert resolver.threads[0].daemon

"""Against an upstream and an egress proxy of this machine."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator

import pytest
import trustme

from pyrbacproxy.dataplane.dial import Dialler
from pyrbacproxy.dataplane.limits import Limits
from pyrbacproxy.egress_proxy import ProxyAddress

SECONDS = 10.0
CA = trustme.CA()


class Talker(asyncio.Protocol):
    """Says hello when it is connected, and keeps the answer."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.transport: asyncio.BaseTransport | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.lost.set_result(None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(b"hello")

    def data_received(self, data: bytes) -> None:
        self.answer.set_result(data)


class World:
    """An upstream that says what it heard, with or without TLS, and a proxy in front of it."""

    def __init__(self) -> None:
        self.running: set[asyncio.Task[None]] = set()
        self.asked: list[bytes] = []
        self.answer = b"HTTP/1.1 200 Connection established\r\n\r\n"
        self.upstream_port = 0
        self.proxy_port = 0

    def note_task(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.running.add(task)

    async def upstream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.note_task()
        async with closing(writer):
            writer.write(b"heard " + await reader.read(100))
            await reader.read()

    async def proxy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.note_task()
        async with closing(writer):
            self.asked.append(await reader.readuntil(b"\r\n\r\n"))
            # In two pieces, as it may come.
            writer.write(self.answer[:5])
            await asyncio.sleep(0)
            writer.write(self.answer[5:])
            if not self.answer.startswith(b"HTTP/1.1 200"):
                return
            inner, out = await asyncio.open_connection("127.0.0.1", self.upstream_port)
            async with closing(out):
                await asyncio.gather(_copy(reader, out), _copy(inner, writer))


@contextlib.asynccontextmanager
async def closing(writer: asyncio.StreamWriter) -> AsyncIterator[None]:
    """Close at the end, whatever the other side did."""
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        yield
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while block := await reader.read(65536):
            writer.write(block)
    writer.close()


@contextlib.asynccontextmanager
async def world(*, is_tls: bool) -> AsyncIterator[World]:
    made = World()
    context = None
    if is_tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        CA.issue_cert("localhost").configure_cert(context)
    upstream = await asyncio.start_server(made.upstream, "127.0.0.1", 0, ssl=context)
    proxy = await asyncio.start_server(made.proxy, "127.0.0.1", 0)
    made.upstream_port = upstream.sockets[0].getsockname()[1]
    made.proxy_port = proxy.sockets[0].getsockname()[1]
    async with upstream, proxy:
        yield made
        async with asyncio.timeout(SECONDS):
            await asyncio.gather(*made.running)


def trusting() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    CA.configure_trust(context)
    return context


def dialler(
    port: int, *, is_tls: bool, host: str = "localhost", proxy: ProxyAddress | None = None
) -> Dialler:
    return Dialler(
        Limits(connect_seconds=SECONDS),
        scheme="https" if is_tls else "http",
        host=host,
        port=port,
        proxy=proxy,
        context=trusting if is_tls else None,
    )


async def heard(dialler: Dialler) -> bytes:
    talker = Talker()
    async with asyncio.timeout(SECONDS):
        await dialler.dial(talker)
        answer = await talker.answer
    assert isinstance(talker.transport, asyncio.Transport)
    talker.transport.abort()
    await talker.lost
    return answer


@pytest.mark.parametrize("is_tls", [False, True])
async def test_straight(*, is_tls: bool) -> None:
    async with world(is_tls=is_tls) as made:
        assert await heard(dialler(made.upstream_port, is_tls=is_tls)) == b"heard hello"


async def test_a_certificate_for_another_name_is_refused() -> None:
    async with world(is_tls=True) as made:
        with pytest.raises(ssl.SSLCertVerificationError):
            await heard(dialler(made.upstream_port, is_tls=True, host="127.0.0.1"))


async def test_an_http_upstream_behind_a_proxy_is_the_proxys_business() -> None:
    async with world(is_tls=False) as made:
        proxy = ProxyAddress("http", "127.0.0.1", made.upstream_port)
        assert await heard(dialler(1, is_tls=False, proxy=proxy)) == b"heard hello"


async def test_an_https_upstream_is_reached_through_a_tunnel() -> None:
    async with world(is_tls=True) as made:
        proxy = ProxyAddress("http", "127.0.0.1", made.proxy_port, "Basic eA==")
        assert await heard(dialler(made.upstream_port, is_tls=True, proxy=proxy)) == b"heard hello"
        authority = f"localhost:{made.upstream_port}"
        assert made.asked == [
            f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n"
            "Proxy-Authorization: Basic eA==\r\n\r\n".encode()
        ]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        pytest.param(b"HTTP/1.1 407 Pay\r\n\r\n", "refused the tunnel", id="refused"),
        pytest.param(b"nonsense\r\n\r\n", "refused the tunnel", id="nonsense"),
        pytest.param(b"HTTP/1.1 407", "closed", id="cut"),
        pytest.param(b"x" * 20_000, "too long", id="endless"),
    ],
)
async def test_a_tunnel_that_is_refused(answer: bytes, reason: str) -> None:
    async with world(is_tls=True) as made:
        made.answer = answer
        proxy = ProxyAddress("http", "127.0.0.1", made.proxy_port)
        with pytest.raises(OSError, match=reason):
            await heard(dialler(made.upstream_port, is_tls=True, proxy=proxy))


async def test_https_without_a_context_is_refused() -> None:
    with pytest.raises(OSError, match="no TLS context"):
        await Dialler(
            Limits(),
            scheme="https",
            host="::1",
            port=1,
            proxy=None,
            context=None,
        ).dial(Talker())

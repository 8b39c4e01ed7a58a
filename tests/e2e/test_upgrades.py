"""Upgrades through the proxy: real WebSockets, other protocols, ends of every kind."""

import asyncio
import base64
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import WSCloseCode, WSMsgType, WSServerHandshakeError

from pyrbacproxy.demo.pki import Authority, client_context, server_context
from tests.e2e.cluster import NAMESPACE, READER_ACCOUNT, STRANGER_ACCOUNT, Cluster
from tests.e2e.programs import DEADLINE_SECONDS, free_port
from tests.e2e.proxy import Proxies, Proxy
from tests.e2e.tunnels import (
    BYE,
    PING,
    Stream,
    WebSockets,
    asking,
    echo,
    switching,
    upgraded,
    websockets,
)

pytestmark = pytest.mark.e2e

BEARER_PROTOCOL = "base64url.bearer.authorization.k8s.io."
MIB = 1024 * 1024
EXEC_RULE = f"""
authorization:
  static:
    - user: {{name: "system:serviceaccount:{NAMESPACE}:{READER_ACCOUNT}"}}
      verb: create
      path: /exec
      resourceRequest: false
"""
OPEN = "--ignore-paths=/open"


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
async def upstream() -> AsyncIterator[WebSockets]:
    async with websockets() as server:
        yield server


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


# --- WebSockets -----------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_messages_of_every_kind_pass_both_ways(
    authority: Authority,
    cluster: Cluster,
    proxies: Proxies,
    session: aiohttp.ClientSession,
    scheme: str,
) -> None:
    is_tls = scheme == "https"
    context = server_context(authority.serving("upstream"), authority) if is_tls else None
    async with websockets(context) as upstream:
        trust = f"--upstream-ca-file={authority.certificate_file}"
        proxy = await proxies.start(upstream.url, *([trust] if is_tls else []))
        headers = bearer(await cluster.token(READER_ACCOUNT))
        async with (
            asyncio.timeout(DEADLINE_SECONDS),
            session.ws_connect(
                f"{proxy.url}/metrics",
                headers=headers,
                ssl=client_context(authority),
                autoping=False,
                max_msg_size=0,
            ) as connection,
        ):
            ping = await connection.receive()
            assert (ping.type, ping.data) == (WSMsgType.PING, PING)
            await connection.pong(PING)
            await connection.ping(b"and you?")
            pong = await connection.receive()
            assert (pong.type, pong.data) == (WSMsgType.PONG, b"and you?")
            await connection.send_str("grüße")
            assert await connection.receive_str() == "grüße"
            for size in (0, 1, 70_000, MIB):
                await connection.send_bytes(b"\0\r\n" * size)
                assert await connection.receive_bytes() == b"\0\r\n" * size
            await connection.close(code=WSCloseCode.GOING_AWAY)
            assert connection.close_code == WSCloseCode.OK
            assert await upstream.close_codes.get() == WSCloseCode.GOING_AWAY
        assert "Authorization" not in upstream.requests[0].headers


async def test_a_browser_says_its_token_as_a_subprotocol(
    authority: Authority,
    cluster: Cluster,
    proxies: Proxies,
    upstream: WebSockets,
    session: aiohttp.ClientSession,
) -> None:
    proxy = await proxies.start(upstream.url)
    token = await cluster.token(READER_ACCOUNT)
    encoded = base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")
    async with session.ws_connect(
        f"{proxy.url}/metrics",
        protocols=(BEARER_PROTOCOL + encoded, "chat"),
        ssl=client_context(authority),
    ) as connection:
        assert connection.protocol == "chat"
        await connection.send_str("hello")
        assert await connection.receive_str() == "hello"
    assert upstream.requests[0].headers.getall("Sec-WebSocket-Protocol") == ["chat"]
    assert cluster.calls() == {"tokenreviews": 1, "subjectaccessreviews": 1}


@pytest.mark.parametrize("account", ["", STRANGER_ACCOUNT], ids=["nobody", "a stranger"])
async def test_a_refused_upgrade_is_nothing_to_the_upstream(
    authority: Authority, cluster: Cluster, proxies: Proxies, upstream: WebSockets, account: str
) -> None:
    proxy = await proxies.start(upstream.url)
    headers = bearer(await cluster.token(account)) if account else {}
    tls = client_context(authority)
    async with aiohttp.ClientSession() as session:
        with pytest.raises(WSServerHandshakeError) as refused:
            await session.ws_connect(f"{proxy.url}/metrics", headers=headers, ssl=tls)
    assert refused.value.status == (403 if account else 401)
    assert upstream.requests == []


async def test_a_client_that_vanishes_is_gone_for_the_upstream(
    authority: Authority, proxies: Proxies, upstream: WebSockets
) -> None:
    proxy = await proxies.start(upstream.url, OPEN)
    lines = ("Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==")
    head, tls = asking("/open", "websocket", *lines), client_context(authority)
    async with upgraded(port_of(proxy), head, tls) as client:
        assert (await client.hear(2 + len(PING)))[2:] == PING
        client.reset()
        async with asyncio.timeout(DEADLINE_SECONDS):
            assert await upstream.close_codes.get() == WSCloseCode.ABNORMAL_CLOSURE


async def test_an_upstream_that_vanishes_is_gone_for_the_client(
    authority: Authority, proxies: Proxies
) -> None:
    async def vanish(stream: Stream) -> None:
        await stream.hear(5)
        stream.reset()

    async with switching("echo", vanish) as upstream:
        proxy = await proxies.start(upstream.url, OPEN)
        tls = client_context(authority)
        async with upgraded(port_of(proxy), asking("/open", "echo"), tls) as client:
            await client.say(b"hello")
            # TLS's own end is missing, which a reader may forgive; but an end it is.
            assert await client.rest() == b""


# --- other protocols ------------------------------------------------------------------


async def test_a_stream_as_exec_has_it(
    authority: Authority, cluster: Cluster, proxies: Proxies
) -> None:
    async with switching("spdy/3.1", echo, greeting=b"\x80\x03settings") as upstream:
        proxy = await proxies.start(upstream.url, config=EXEC_RULE)
        line = f"Authorization: Bearer {await cluster.token(READER_ACCOUNT)}"
        length = "Content-Length: 0"
        head = asking("/exec?command=sh", "SPDY/3.1", line, length, method="POST")
        tls = client_context(authority)
        async with upgraded(port_of(proxy), head, tls, early=b"\x80\x03syn") as client:
            assert client.head.startswith(b"HTTP/1.1 101 ")
            assert b"\r\nUpgrade: spdy/3.1\r\n" in client.head
            assert await client.hear(15) == b"\x80\x03settings\x80\x03syn"
            await client.say(bytes(range(256)) * 1000)
            assert await client.hear(256_000) == bytes(range(256)) * 1000
        assert upstream.heads[0].startswith(b"POST /exec?command=sh HTTP/1.1\r\n")
        assert b"\r\nUpgrade: SPDY/3.1\r\n" in upstream.heads[0]
        assert cluster.calls() == {"tokenreviews": 1}


async def test_h2c_is_never_asked_for(authority: Authority, proxies: Proxies) -> None:
    async with switching("h2c", echo) as upstream:
        proxy = await proxies.start(upstream.url, OPEN)
        tls = client_context(authority)
        async with upgraded(port_of(proxy), asking("/open", "h2c"), tls) as client:
            assert client.head.startswith(b"HTTP/1.1 502 ")
        assert b"upgrade" not in upstream.heads[0].lower()


# --- ends and pauses ------------------------------------------------------------------


def port_of(proxy: Proxy) -> int:
    return int(proxy.address.rpartition(":")[2])


async def plain(proxies: Proxies, upstream: str) -> tuple[Proxy, int]:
    """A proxy with a plain port, where a client can end its sending alone."""
    port = free_port()
    proxy = await proxies.start(upstream, OPEN, f"--insecure-listen-address=127.0.0.1:{port}")
    await proxy.program.listens(port)
    return proxy, port


async def test_a_client_may_end_its_sending_and_still_hear(proxies: Proxies) -> None:
    async with switching("echo", echo) as upstream:
        _, port = await plain(proxies, upstream.url)
        async with upgraded(port, asking("/open", "echo")) as client:
            await client.say(b"hello")
            assert await client.hear(5) == b"hello"
            client.end_sending()
            assert await client.rest() == BYE


async def test_an_upstream_may_end_its_sending_and_still_hear(proxies: Proxies) -> None:
    heard: asyncio.Queue[bytes] = asyncio.Queue()

    async def listen(stream: Stream) -> None:
        stream.end_sending()
        await heard.put(await stream.rest())

    async with switching("echo", listen, greeting=b"hello") as upstream:
        _, port = await plain(proxies, upstream.url)
        async with upgraded(port, asking("/open", "echo")) as client:
            assert await client.rest() == b"hello"
            await client.say(b"still here" * 50_000)
            client.end_sending()
            async with asyncio.timeout(DEADLINE_SECONDS):
                assert await heard.get() == b"still here" * 50_000


async def test_a_reset_is_a_reset_on_the_other_side(proxies: Proxies) -> None:
    outcome: asyncio.Queue[bytes | str] = asyncio.Queue()

    async def listen(stream: Stream) -> None:
        try:
            await outcome.put(await stream.rest())
        except ConnectionResetError:
            await outcome.put("reset")

    async with switching("echo", listen) as upstream:
        _, port = await plain(proxies, upstream.url)
        async with upgraded(port, asking("/open", "echo")) as client:
            client.reset()
            async with asyncio.timeout(DEADLINE_SECONDS):
                assert await outcome.get() == "reset"


@pytest.mark.parametrize("slow", ["client", "upstream"])
async def test_who_reads_slowly_is_waited_for_without_hoarding(proxies: Proxies, slow: str) -> None:
    size = 64 * MIB
    may_read = asyncio.Event()
    drunk: asyncio.Queue[int] = asyncio.Queue()
    sent = 0

    async def pour(stream: Stream) -> None:
        nonlocal sent
        while sent < size:
            await stream.say(b"x" * MIB)
            sent += MIB
        stream.end_sending()

    async def drink(stream: Stream) -> None:
        await may_read.wait()
        await drunk.put(len(await stream.rest()))

    async def serve(stream: Stream) -> None:
        await (pour(stream) if slow == "client" else drink(stream))

    async with switching("flood", serve) as upstream:
        proxy, port = await plain(proxies, upstream.url)
        async with upgraded(port, asking("/open", "flood")) as client:
            talking = asyncio.create_task(pour(client) if slow == "upstream" else drink(client))
            before = resident_bytes(proxy)
            seen = -1
            while seen != sent:
                # A sender that stands still: buffers are full everywhere.
                seen = sent
                await asyncio.sleep(0.5)
            assert sent < size
            assert resident_bytes(proxy) - before < 8 * MIB
            may_read.set()
            async with asyncio.timeout(DEADLINE_SECONDS):
                await talking
                assert await drunk.get() == size


def resident_bytes(proxy: Proxy) -> int:
    """What the proxy's process holds in memory."""
    lines = Path(f"/proc/{proxy.program.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) * 1024


# --- shutdown -------------------------------------------------------------------------


async def test_a_tunnel_outlives_the_signal_to_stop(proxies: Proxies) -> None:
    async with switching("echo", echo) as upstream:
        port = free_port()
        listen = f"--insecure-listen-address=127.0.0.1:{port}"
        proxy = await proxies.start(upstream.url, OPEN, listen, "--shutdown-grace-period=600s")
        await proxy.program.listens(port)
        async with upgraded(port, asking("/open", "echo")) as client:
            proxy.program.signal(signal.SIGTERM)
            await until_refused(port)
            await client.say(b"still here")
            assert await client.hear(10) == b"still here"
            client.end_sending()
            assert await client.rest() == BYE
            assert await proxy.program.ended() == 0


async def test_a_tunnel_is_cut_at_the_end_of_the_grace_period(proxies: Proxies) -> None:
    async with switching("echo", echo) as upstream:
        port = free_port()
        listen = f"--insecure-listen-address=127.0.0.1:{port}"
        proxy = await proxies.start(upstream.url, OPEN, listen, "--shutdown-grace-period=1s")
        await proxy.program.listens(port)
        async with upgraded(port, asking("/open", "echo")) as client:
            proxy.program.signal(signal.SIGTERM)
            assert await client.rest() == b""
            assert await proxy.program.ended() == 0


async def until_refused(port: int) -> None:
    """Wait until nobody listens."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                return
            writer.close()
            await asyncio.sleep(0.05)

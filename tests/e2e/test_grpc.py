"""gRPC through the proxy: grpcio's client and server, HTTP/2 on both sides of us."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import grpc
import pytest
from grpc import aio

from pyrbacproxy.demo.pki import Authority
from tests.e2e.cluster import NAMESPACE, READER_ACCOUNT, STRANGER_ACCOUNT, Cluster
from tests.e2e.echo import DETAILS, SERVICE, TRAILER, Echo, served
from tests.e2e.programs import DEADLINE_SECONDS
from tests.e2e.proxy import Proxies, Proxy

pytestmark = pytest.mark.e2e

LONG_STREAM = 10_000
FLAGS = ("--upstream-force-h2c=true", "--auth-header-fields-enabled=true")


@dataclass(frozen=True)
class World:
    """A service behind a proxy, and a client's channel to it."""

    echo: Echo
    proxy: Proxy
    channel: aio.Channel
    cluster: Cluster

    async def metadata(self, account: str = READER_ACCOUNT) -> aio.Metadata:
        """A caller's credentials."""
        return aio.Metadata(("authorization", f"Bearer {await self.cluster.token(account)}"))


@pytest.fixture
async def world(authority: Authority, cluster: Cluster, proxies: Proxies) -> AsyncIterator[World]:
    echo = Echo()
    async with served(echo) as upstream:
        proxy = await proxies.start(upstream, *FLAGS)
        credentials = grpc.ssl_channel_credentials(authority.certificate_file.read_bytes())
        async with aio.secure_channel(proxy.address, credentials) as channel:
            yield World(echo, proxy, channel, cluster)


def method(name: str) -> str:
    return f"/{SERVICE}/{name}"


# --- the four kinds of call -----------------------------------------------------------


async def test_a_unary_call_brings_the_caller_and_not_its_token(world: World) -> None:
    metadata = await world.metadata()
    metadata.add("trace-bin", b"\x00\x01")
    call = world.channel.unary_unary(method("Unary"))
    assert await call(b"hello", metadata=metadata) == b"hello"
    seen = world.echo.metadata
    assert seen["x-remote-user"] == f"system:serviceaccount:{NAMESPACE}:{READER_ACCOUNT}"
    assert seen["trace-bin"] == b"\x00\x01"
    assert "authorization" not in seen


async def test_messages_longer_than_every_window(world: World) -> None:
    """Three MiB are more than a stream's window on either side, and than a frame."""
    message = bytes(range(256)) * 12 * 1024
    call = world.channel.unary_unary(method("Unary"))
    assert await call(message, metadata=await world.metadata()) == message


async def test_a_client_streams(world: World) -> None:
    async def requests() -> AsyncIterator[bytes]:
        for size in range(1000):
            yield bytes(size)

    call = world.channel.stream_unary(method("Total"))
    answer = await call(requests(), metadata=await world.metadata())
    assert answer == f"1000 {sum(range(1000))}".encode()


async def test_a_server_streams_10_000_messages(world: World) -> None:
    call = world.channel.unary_stream(method("Count"))
    request = str(LONG_STREAM).encode()
    got = [int(one) async for one in call(request, metadata=await world.metadata())]
    assert got == list(range(LONG_STREAM))


async def test_both_stream_10_000_messages(world: World) -> None:
    async def requests() -> AsyncIterator[bytes]:
        for number in range(LONG_STREAM):
            yield str(number).encode()

    call = world.channel.stream_stream(method("Chat"))
    answers = call(requests(), metadata=await world.metadata())
    assert [int(one) async for one in answers] == list(range(LONG_STREAM))
    assert await answers.code() is grpc.StatusCode.OK


async def test_a_conversation_in_turns(world: World) -> None:
    """Each message waits for the answer to the one before: nothing may be held back."""
    call = world.channel.stream_stream(method("Chat"))(metadata=await world.metadata())
    async with asyncio.timeout(DEADLINE_SECONDS):
        for number in range(50):
            await call.write(str(number).encode())
            assert await call.read() == str(number).encode()
        await call.done_writing()
        assert await call.read() is aio.EOF
        assert await call.code() is grpc.StatusCode.OK


async def test_many_calls_at_once_on_one_channel(world: World) -> None:
    call, metadata = world.channel.unary_unary(method("Unary")), await world.metadata()
    requests = [str(number).encode() for number in range(500)]
    answers = await asyncio.gather(*(call(one, metadata=metadata) for one in requests))
    assert answers == requests
    assert world.cluster.calls() == {"tokenreviews": 1, "subjectaccessreviews": 1}


# --- how calls end --------------------------------------------------------------------


async def test_an_error_without_a_message_keeps_its_trailers(world: World) -> None:
    call = world.channel.unary_unary(method("Fail"))
    with pytest.raises(aio.AioRpcError) as caught:
        await call(b"", metadata=await world.metadata())
    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert caught.value.details() == DETAILS
    assert TRAILER in tuple(caught.value.trailing_metadata())


async def test_an_error_after_a_message_keeps_its_trailers(world: World) -> None:
    call = world.channel.unary_stream(method("BreakOff"))(b"one", metadata=await world.metadata())
    assert await call.read() == b"one"
    with pytest.raises(aio.AioRpcError) as caught:
        await call.read()
    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert caught.value.details() == DETAILS
    assert TRAILER in tuple(await call.trailing_metadata())


async def test_a_missing_method_is_told_by_the_service(world: World) -> None:
    call = world.channel.unary_unary(method("Missing"))
    with pytest.raises(aio.AioRpcError) as caught:
        await call(b"", metadata=await world.metadata())
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_a_deadline_ends_the_call_and_nothing_else(world: World) -> None:
    metadata = await world.metadata()
    with pytest.raises(aio.AioRpcError) as caught:
        await world.channel.unary_unary(method("Hang"))(b"", metadata=metadata, timeout=1)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    other = world.channel.unary_unary(method("Unary"))
    assert await other(b"still here", metadata=metadata) == b"still here"


async def test_a_cancelled_call_is_cancelled_in_the_service(world: World) -> None:
    call = world.channel.unary_unary(method("Hang"))(b"", metadata=await world.metadata())
    async with asyncio.timeout(DEADLINE_SECONDS):
        await world.echo.hanging.wait()
        assert call.cancel()
        await world.echo.cancelled.wait()
    other = world.channel.unary_unary(method("Unary"))
    assert await other(b"still here", metadata=await world.metadata()) == b"still here"


async def test_a_channel_that_is_closed_cancels_its_calls(world: World) -> None:
    call = world.channel.unary_unary(method("Hang"))(b"", metadata=await world.metadata())
    async with asyncio.timeout(DEADLINE_SECONDS):
        await world.echo.hanging.wait()
        await world.channel.close()
        await world.echo.cancelled.wait()
    assert call.done()


# --- who may not ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("account", "code"),
    [
        (STRANGER_ACCOUNT, grpc.StatusCode.PERMISSION_DENIED),
        ("", grpc.StatusCode.UNAUTHENTICATED),
    ],
    ids=["without a role", "without a token"],
)
async def test_a_refused_caller_is_told_so(
    world: World, account: str, code: grpc.StatusCode
) -> None:
    """It reads HTTP's 403 and 401 so, for our answers are none of gRPC's."""
    metadata = await world.metadata(account) if account else aio.Metadata()
    with pytest.raises(aio.AioRpcError) as caught:
        await world.channel.unary_unary(method("Unary"))(b"hello", metadata=metadata)
    assert caught.value.code() is code
    # A text behind the status was now and then taken for the end before it.
    for _ in range(20):
        with pytest.raises(aio.AioRpcError) as caught:
            async for _ in world.channel.unary_stream(method("Count"))(b"1", metadata=metadata):
                pass
        assert caught.value.code() is code
    assert world.echo.metadata == {}


async def test_a_service_that_is_away_is_unavailable(
    authority: Authority, cluster: Cluster, proxies: Proxies
) -> None:
    proxy = await proxies.start("http://127.0.0.1:1/", *FLAGS)
    credentials = grpc.ssl_channel_credentials(authority.certificate_file.read_bytes())
    metadata = aio.Metadata(("authorization", f"Bearer {await cluster.token(READER_ACCOUNT)}"))
    async with aio.secure_channel(proxy.address, credentials) as channel:
        with pytest.raises(aio.AioRpcError) as caught:
            await channel.unary_unary(method("Unary"))(b"", metadata=metadata)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE

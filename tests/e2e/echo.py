"""A gRPC service without generated code: messages are bytes, each kind of call has a method."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
from grpc import aio

SERVICE = "test.Echo"
TRAILER = ("cause-bin", b"\x00\xffwhy")
# Percent-encoded on the wire.
DETAILS = "not in this state: 100 % \N{SNOWMAN}"


class Echo:
    """The methods, and what they saw: the metadata of the last call, a call that was cancelled."""

    def __init__(self) -> None:
        self.metadata: dict[str, str | bytes] = {}
        self.hanging = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def unary(self, request: bytes, context: aio.ServicerContext) -> bytes:
        """The request."""
        self.metadata = {item.key: item.value for item in context.invocation_metadata()}
        return request

    async def total(self, requests: AsyncIterator[bytes], _: aio.ServicerContext) -> bytes:
        """Client-streaming: how many messages and how many bytes came."""
        sizes = [len(request) async for request in requests]
        return f"{len(sizes)} {sum(sizes)}".encode()

    async def count(self, request: bytes, _: aio.ServicerContext) -> AsyncIterator[bytes]:
        """Server-streaming: the numbers below the request."""
        for number in range(int(request)):
            yield str(number).encode()

    async def chat(
        self, requests: AsyncIterator[bytes], _: aio.ServicerContext
    ) -> AsyncIterator[bytes]:
        """Bidirectional: each request, when it comes."""
        async for request in requests:
            yield request

    async def fail(self, _: bytes, context: aio.ServicerContext) -> bytes:
        """An error without a message before it."""
        return await self._abort(context)

    async def break_off(self, request: bytes, context: aio.ServicerContext) -> AsyncIterator[bytes]:
        """A message, and then an error."""
        yield request
        await self._abort(context)

    async def hang(self, _: bytes, __: aio.ServicerContext) -> bytes:
        """No answer, until the call is cancelled."""
        self.hanging.set()
        try:
            return await asyncio.Event().wait() and b""
        finally:
            self.cancelled.set()

    async def _abort(self, context: aio.ServicerContext) -> bytes:
        code = grpc.StatusCode.FAILED_PRECONDITION
        return bytes(await context.abort(code, DETAILS, (TRAILER,)))


@asynccontextmanager
async def served(echo: Echo) -> AsyncIterator[str]:
    """Serve it without TLS on loopback; the URL of its root."""
    server = aio.server()
    handlers = {
        "Unary": grpc.unary_unary_rpc_method_handler(echo.unary),
        "Total": grpc.stream_unary_rpc_method_handler(echo.total),
        "Count": grpc.unary_stream_rpc_method_handler(echo.count),
        "Chat": grpc.stream_stream_rpc_method_handler(echo.chat),
        "Fail": grpc.unary_unary_rpc_method_handler(echo.fail),
        "BreakOff": grpc.unary_stream_rpc_method_handler(echo.break_off),
        "Hang": grpc.unary_unary_rpc_method_handler(echo.hang),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"http://127.0.0.1:{port}/"
    finally:
        await server.stop(None)

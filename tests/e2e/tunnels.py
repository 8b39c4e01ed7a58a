"""Both ends of a tunnel: upstreams that switch protocols, and a raw client that asks for it."""

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import WSMsgType, web

from tests.e2e.programs import DEADLINE_SECONDS

HEAD_END = b"\r\n\r\n"
PING = b"are you there?"
# What is said in a tunnel that ends properly.
BYE = b"bye"


# --- a WebSocket server ---------------------------------------------------------------


@dataclass
class WebSockets:
    """aiohttp's server: says what it hears, and notes how each connection ended."""

    url: str = ""
    requests: list[web.Request] = field(default_factory=list)
    close_codes: asyncio.Queue[int | None] = field(default_factory=asyncio.Queue)

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        self.requests.append(request)
        connection = web.WebSocketResponse(protocols=("chat",), max_msg_size=0)
        await connection.prepare(request)
        await connection.ping(PING)
        async for message in connection:
            if message.type is WSMsgType.TEXT:
                await connection.send_str(message.data)
            elif message.type is WSMsgType.BINARY:
                await connection.send_bytes(message.data)
        await self.close_codes.put(connection.close_code)
        return connection


@asynccontextmanager
async def websockets(tls: ssl.SSLContext | None = None) -> AsyncIterator[WebSockets]:
    """A WebSocket server on loopback, for every path."""
    server = WebSockets()
    app = web.Application()
    app.router.add_get("/{path:.*}", server.serve)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        port = runner.addresses[0][1]
        server.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}/"
        yield server
    finally:
        await runner.cleanup()


# --- other protocols ------------------------------------------------------------------


@dataclass
class Stream:
    """One end of a tunnel."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    # The head that this end has got.
    head: bytes = b""

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def hear(self, size: int) -> bytes:
        async with asyncio.timeout(DEADLINE_SECONDS):
            return await self.reader.readexactly(size)

    async def rest(self) -> bytes:
        """All until the other end sends no more. Raises ConnectionResetError if it is cut."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            return await self.reader.read()

    def end_sending(self) -> None:
        self.writer.write_eof()

    def reset(self) -> None:
        """Vanish."""
        handle = self.writer.get_extra_info("socket")
        handle.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()


@dataclass
class Switching:
    """An upstream that switches to `protocol` and then does as the test says."""

    protocol: str
    serve: Callable[[Stream], Awaitable[None]]
    # Sent in one go with the 101.
    greeting: bytes = b""
    url: str = ""
    heads: list[bytes] = field(default_factory=list)

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        stream = Stream(reader, writer)
        try:
            stream.head = await reader.readuntil(HEAD_END)
            self.heads.append(stream.head)
            lines = ["HTTP/1.1 101 Switching Protocols", "Connection: Upgrade"]
            head = "\r\n".join([*lines, f"Upgrade: {self.protocol}", "", ""])
            writer.write(head.encode() + self.greeting)
            await self.serve(stream)
        except asyncio.IncompleteReadError:
            # The connection that the proxy dials ahead may never be used.
            return
        finally:
            await stream.close()


@asynccontextmanager
async def switching(
    protocol: str, serve: Callable[[Stream], Awaitable[None]], greeting: bytes = b""
) -> AsyncIterator[Switching]:
    """An upstream on loopback."""
    upstream = Switching(protocol, serve, greeting)
    server = await asyncio.start_server(upstream.talk, "127.0.0.1", 0)
    upstream.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    try:
        yield upstream
    finally:
        server.close()


async def echo(stream: Stream) -> None:
    """Say what is heard, and a word more at the end."""
    while data := await stream.reader.read(65536):
        await stream.say(data)
    await stream.say(BYE)


@asynccontextmanager
async def upgraded(
    port: int,
    head: str,
    tls: ssl.SSLContext | None = None,
    *,
    early: bytes = b"",
) -> AsyncIterator[Stream]:
    """A client whose request `head` was answered by a head: read up to there."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
    stream = Stream(reader, writer)
    try:
        writer.write(head.encode() + early)
        async with asyncio.timeout(DEADLINE_SECONDS):
            stream.head = await reader.readuntil(HEAD_END)
        yield stream
    finally:
        await stream.close()


def asking(target: str, protocol: str, *lines: str, method: str = "GET") -> str:
    """The head of a request for another protocol."""
    usual = ("Host: proxy", "Connection: Upgrade", f"Upgrade: {protocol}")
    return "\r\n".join([f"{method} {target} HTTP/1.1", *usual, *lines, "", ""])

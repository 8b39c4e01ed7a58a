"""A server and an egress proxy on loopback, and somebody who says hello to them."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from typing import cast

import trustme

SECONDS = 10.0
CA = trustme.CA()
OTHER_CA = trustme.CA()
HELLO = b"heard hello"


class Talker(asyncio.Protocol):
    """Says hello when it is connected, and keeps the answer."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.transport: asyncio.Transport | None = None
        self.is_left = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are asyncio.Transport by their methods alone.
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(b"hello")

    def data_received(self, data: bytes) -> None:
        self.answer.set_result(data)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.is_left.set()


class World:
    """A server that says what it heard, and a proxy in front of it; each with or without TLS."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self.answer = b"HTTP/1.1 200 Connection established\r\n\r\n"
        self.is_left = asyncio.Event()
        self.tasks: set[asyncio.Task[None] | None] = set()
        self.server_port = 0
        self.proxy_port = 0

    async def server(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.tasks.add(asyncio.current_task())
        with contextlib.suppress(OSError):
            writer.write(b"heard " + await reader.read(100))
            await reader.read()
        writer.close()

    async def proxy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.tasks.add(asyncio.current_task())
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            self.asked.append(await reader.readuntil(b"\r\n\r\n"))
            # In two pieces, as it may come.
            writer.write(self.answer[:5])
            await asyncio.sleep(0)
            writer.write(self.answer[5:])
            if self.answer.startswith(b"HTTP/1.1 200"):
                inner, out = await asyncio.open_connection("127.0.0.1", self.server_port)
                await asyncio.gather(_copy(reader, out), _copy(inner, writer))
            elif not self.answer:
                await reader.read()
                self.is_left.set()
        writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while block := await reader.read(65536):
            writer.write(block)
    writer.close()


@contextlib.asynccontextmanager
async def world(
    *, is_tls: bool, proxy_context: ssl.SSLContext | None = None
) -> AsyncIterator[World]:
    made = World()
    server = await asyncio.start_server(
        made.server, "127.0.0.1", 0, ssl=serving(CA) if is_tls else None
    )
    proxy = await asyncio.start_server(made.proxy, "127.0.0.1", 0, ssl=proxy_context)
    made.server_port = server.sockets[0].getsockname()[1]
    made.proxy_port = proxy.sockets[0].getsockname()[1]
    async with server, proxy:
        yield made
    if tasks := {task for task in made.tasks if task is not None}:
        await asyncio.wait(tasks)


def serving(ca: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("localhost").configure_cert(context)
    return context


def trusting() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    CA.configure_trust(context)
    return context

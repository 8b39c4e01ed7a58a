"""A server on loopback that behaves as no HTTP library would."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}"


@asynccontextmanager
async def raw_server(serve: Serve) -> AsyncIterator[int]:
    """Yields its port; when it is over, whatever was served is over too."""
    tasks: list[asyncio.Task[None]] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.append(task)
        try:
            await serve(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        if tasks:
            await asyncio.wait(tasks)


async def request_on(reader: asyncio.StreamReader) -> bytes:
    """One request's head; its body is read and forgotten."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    await reader.readexactly(length)
    return head


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not is_so():  # noqa: ASYNC110 -- the parties tell by values, not by events
            await asyncio.sleep(0.001)

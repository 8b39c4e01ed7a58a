"""Against transports of tape, and once over loopback."""

import asyncio

import pytest

from pyrbacproxy.http1.head import RemoteProtocolError
from pyrbacproxy.kube.api_client import Connection, Reply, UnansweredError
from tests.kube.raw_server import OK, raw_server, request_on

REPLY = Reply(201, "", b"{}", keeps_connection=True)
REQUEST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"


class Tape(asyncio.Transport):
    """Notes what is done to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.end = ""
        self.unsent_bytes = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def close(self) -> None:
        self.end = "closed"

    def abort(self) -> None:
        self.end = "aborted"

    def get_write_buffer_size(self) -> int:
        return self.unsent_bytes


class World:
    """A connection on tape, and a call on it."""

    def __init__(self) -> None:
        self.tape = Tape()
        self.closed: list[Connection] = []
        self.connection = Connection(self.closed.append)
        self.connection.connection_made(self.tape)

    async def call(self) -> asyncio.Task[Reply]:
        before = len(self.tape.written)
        exchange = self.connection.exchange(REQUEST, max_body_bytes=100)
        task = asyncio.get_running_loop().create_task(exchange)
        await asyncio.sleep(0)
        assert self.tape.written[before:] == [REQUEST]
        return task

    async def called(self) -> None:
        """One call, answered."""
        task = await self.call()
        self.connection.data_received(OK)
        assert await task == REPLY


async def test_one_call_after_the_other() -> None:
    world = World()
    await world.called()
    await world.called()
    assert world.connection.is_open
    assert (world.tape.end, world.closed) == ("", [])


async def test_an_answer_in_pieces() -> None:
    world = World()
    task = await world.call()
    for byte in OK:
        world.connection.data_received(bytes([byte]))
    assert await task == REPLY


async def test_an_answer_that_ends_with_the_connection() -> None:
    world = World()
    task = await world.call()
    world.connection.data_received(b"HTTP/1.1 201 Created\r\n\r\n{}")
    world.connection.eof_received()
    assert (await task).body == b"{}"
    assert not world.connection.is_open


@pytest.mark.parametrize("unsent_bytes", [0, 1])
async def test_what_is_left_of_a_request_closes_the_connection(unsent_bytes: int) -> None:
    world = World()
    world.tape.unsent_bytes = unsent_bytes
    await world.called()
    assert world.connection.is_open == (not unsent_bytes)
    assert world.closed == [world.connection] * unsent_bytes


async def test_a_server_that_will_close_is_not_asked_again() -> None:
    world = World()
    task = await world.call()
    world.connection.data_received(OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    await task
    assert (world.tape.end, world.closed) == ("aborted", [world.connection])


@pytest.mark.parametrize("is_reused", [False, True])
@pytest.mark.parametrize("is_lost", [False, True])
async def test_an_end_without_an_answer(*, is_reused: bool, is_lost: bool) -> None:
    world = World()
    if is_reused:
        await world.called()
    task = await world.call()
    if is_lost:
        world.connection.connection_lost(None)
    else:
        world.connection.eof_received()
    with pytest.raises(UnansweredError) as raised:
        await task
    assert raised.value.is_reused == is_reused
    assert not world.connection.is_open
    assert world.connection in world.closed


async def test_a_connection_that_breaks_says_why() -> None:
    world = World()
    task = await world.call()
    world.connection.connection_lost(ConnectionResetError(104, "reset"))
    with pytest.raises(ConnectionResetError):
        await task


@pytest.mark.parametrize("cut", [b"H", OK[:-1]])
async def test_a_cut_answer_is_a_fault(cut: bytes) -> None:
    world = World()
    task = await world.call()
    world.connection.data_received(cut)
    world.connection.eof_received()
    with pytest.raises(RemoteProtocolError):
        await task
    assert world.tape.end == "aborted"


async def test_what_is_no_answer_is_a_fault_once() -> None:
    world = World()
    task = await world.call()
    world.connection.data_received(b"no http\r\n\r\n")
    world.connection.data_received(b"nor this\r\n\r\n")
    world.connection.connection_lost(None)
    with pytest.raises(RemoteProtocolError):
        await task
    assert not world.connection.is_open


async def test_bytes_behind_an_answer_close_the_connection() -> None:
    world = World()
    task = await world.call()
    world.connection.data_received(OK)
    world.connection.data_received(b"more")
    assert await task == REPLY
    assert not world.connection.is_open


async def test_who_gives_up_closes_the_connection() -> None:
    world = World()
    task = await world.call()
    task.cancel()
    world.connection.data_received(OK)  # too late
    await asyncio.wait([task])
    assert task.cancelled()
    assert not world.connection.is_open
    assert world.tape.end in ("aborted", "closed")


@pytest.mark.parametrize("what", ["data", "end", "loss", "close"])
async def test_an_idle_connection_ends(what: str) -> None:
    world = World()
    await world.called()
    match what:
        case "data":
            world.connection.data_received(b"nobody asked")
        case "end":
            world.connection.eof_received()
        case "loss":
            world.connection.connection_lost(None)
        case _:
            world.connection.close()
            world.connection.close()
    assert not world.connection.is_open
    assert world.closed == [world.connection]
    with pytest.raises(UnansweredError):
        await world.connection.exchange(REQUEST, max_body_bytes=100)


async def test_over_loopback() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_on(reader)
        writer.write(OK)
        await reader.read()

    async with raw_server(serve) as port:
        connection = Connection(lambda _: None)
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: connection, "127.0.0.1", port)
        assert await connection.exchange(REQUEST, max_body_bytes=100) == REPLY
        connection.close()

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from pyrbacproxy.dialing import Route, dial
from pyrbacproxy.kube import api_client as module
from pyrbacproxy.kube.api_client import Connection, Pool
from tests.kube.raw_server import OK, raw_server, request_on, until

REQUEST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"


class World:
    """A pool, and the ends of its connections at the server."""

    def __init__(self) -> None:
        self.writers: list[asyncio.StreamWriter] = []
        self.ended = 0
        self.route = Route("", 0)
        self.pool = Pool(self._dial)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        try:
            while True:
                await request_on(reader)
                writer.write(OK)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.ended += 1

    async def take(self) -> Connection:
        await self.pool.place()
        return await self.pool.take()

    async def ask(self) -> Connection:
        connection = await self.take()
        await connection.exchange(REQUEST, max_body_bytes=100)
        return connection

    async def _dial(self, protocol: asyncio.Protocol) -> None:
        await dial(self.route, protocol, context=None)


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    made = World()
    async with raw_server(made.serve) as port:
        made.route = Route("127.0.0.1", port)
        yield made
        made.pool.close()


async def test_a_connection_is_kept_and_the_last_used_comes_first() -> None:
    async with world() as made:
        first, second = await made.ask(), await made.ask()
        assert first is not second
        made.pool.give_back(first)
        made.pool.give_back(second)
        assert await made.take() is second
        assert await made.take() is first
        made.pool.give_back(first)
        made.pool.give_back(second)
        assert len(made.writers) == 2


async def test_a_closed_connection_is_not_kept() -> None:
    async with world() as made:
        connection = await made.ask()
        connection.close()
        made.pool.give_back(connection)
        again = await made.ask()
        assert again is not connection
        made.pool.give_back(again)


async def test_a_connection_that_the_server_closes_is_forgotten() -> None:
    async with world() as made:
        connection = await made.ask()
        made.pool.give_back(connection)
        made.writers[0].close()
        await until(lambda: not connection.is_open)
        again = await made.ask()
        assert again is not connection
        made.pool.give_back(again)


async def test_an_idle_connection_is_closed_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEEP_ALIVE_SECONDS", 0.01)
    async with world() as made:
        connection = await made.ask()
        made.pool.give_back(connection)
        await until(lambda: made.ended == 1)
        assert not connection.is_open


async def test_a_connection_in_use_is_not_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with world() as made:
        made.pool.give_back(await made.ask())
        connection = await made.take()
        monkeypatch.setattr(module, "KEEP_ALIVE_SECONDS", 0.01)
        other = await made.ask()
        made.pool.give_back(other)
        await until(lambda: made.ended == 1)
        assert connection.is_open
        made.pool.give_back(connection)


async def test_who_finds_no_place_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CONNECTIONS", 2)
    async with world() as made:
        first, second = await made.ask(), await made.ask()
        third = asyncio.get_running_loop().create_task(made.ask())
        await asyncio.sleep(0)
        made.pool.give_back(second)
        assert await third is second
        made.pool.give_back(first)
        made.pool.give_back(second)
        assert len(made.writers) == 2


async def test_a_failed_dial_takes_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CONNECTIONS", 1)
    async with world() as made:
        right, made.route = made.route, Route("127.0.0.1", 1)
        for _ in range(2):
            with pytest.raises(ConnectionRefusedError):
                await made.take()
        made.route = right
        made.pool.give_back(await made.ask())


async def test_closing_closes_what_is_kept() -> None:
    async with world() as made:
        for connection in [await made.ask(), await made.ask()]:
            made.pool.give_back(connection)
        made.pool.close()
        await until(lambda: made.ended == 2)

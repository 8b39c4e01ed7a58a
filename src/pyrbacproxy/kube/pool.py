"""The connections to one server under one credential: how many, and how long they are kept."""

import asyncio
from collections.abc import Awaitable, Callable

from pyrbacproxy.kube.connection import Connection

# Less than the idle time of most load balancers: a connection closed under our hands costs a retry.
KEEP_ALIVE_SECONDS = 30.0
MAX_CONNECTIONS = 128


class Pool:
    """At most 128 connections; each is one caller's between `take` and `give_back`, who first
    waits for a `place`.
    """

    def __init__(self, dial: Callable[[asyncio.Protocol], Awaitable[None]]) -> None:
        self._dial = dial
        self._places = asyncio.Semaphore(MAX_CONNECTIONS)
        # Used last, taken first: the least likely to be closed by the server meanwhile.
        self._idle: dict[Connection, asyncio.TimerHandle] = {}

    async def place(self) -> None:
        """Wait until one more connection may be in use: `take` it, with no other step between."""
        await self._places.acquire()

    async def take(self) -> Connection:
        """A kept connection, else a new one, for a place. Raises what dialling raises."""
        if self._idle:
            connection, timer = self._idle.popitem()
            timer.cancel()
            return connection
        connection = Connection(self._forget)
        try:
            await self._dial(connection)
        except BaseException:
            self._places.release()
            raise
        return connection

    def give_back(self, connection: Connection) -> None:
        """The caller's call is over; the connection is kept for another if it is still open."""
        self._places.release()
        if connection.is_open:
            loop = asyncio.get_running_loop()
            self._idle[connection] = loop.call_later(KEEP_ALIVE_SECONDS, connection.close)

    def close(self) -> None:
        """Close what is kept. No call may be under way, and none may begin."""
        for connection in list(self._idle):
            connection.close()

    def _forget(self, connection: Connection) -> None:
        timer = self._idle.pop(connection, None)
        if timer is not None:
            timer.cancel()

"""One look-up of a server's name at a time, whoever waits for it.

A look-up that hangs can't be called off: it holds one of the few threads for names until the
resolver gives up. One for each review would hold them all, and the upstream's name would never be
found (FR48).
"""

import asyncio
import socket
from functools import partial
from ipaddress import ip_address
from typing import Any


class Lookup:
    """Of a host, which may be an address; then there is nothing to look up."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._is_address = _is_address(host)
        self._asking: asyncio.Future[Any] | None = None

    async def works(self) -> None:
        """Wait until the name is found; raises OSError or UnicodeError when it isn't.

        What was found isn't kept: who dials now asks again, of a resolver that answers.
        """
        if self._is_address:
            return
        if self._asking is None:
            loop = asyncio.get_running_loop()
            self._asking = loop.run_in_executor(
                None, partial(socket.getaddrinfo, self._host, self._port, type=socket.SOCK_STREAM)
            )
            self._asking.add_done_callback(self._forget)
        await asyncio.shield(self._asking)

    def _forget(self, asking: asyncio.Future[Any]) -> None:
        self._asking = None
        if not asking.cancelled():
            asking.exception()  # or asyncio complains when nobody waits any more


def _is_address(host: str) -> bool:
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True

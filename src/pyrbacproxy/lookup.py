"""One look-up of a server's name at a time, whoever waits for it.

A look-up that hangs can't be called off: it holds one of the loop's few threads for names until the
resolver gives up. One for each review or request would hold them all, no other name would ever be
found (FR48), and a signal would have no effect meanwhile, for those threads are waited for.
"""

import asyncio
import contextlib
import socket
import threading
from functools import partial
from ipaddress import ip_address


class Lookup:
    """Of a host; for an address and `localhost`, which a file has, there is nothing to look up."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._is_known = host == "localhost" or _is_address(host)
        self._asking: asyncio.Future[None] | None = None

    async def works(self) -> None:
        """Wait until the name is found; raises OSError or UnicodeError when it isn't.

        What was found isn't kept: who dials now asks again, of a resolver that answers.
        """
        if self._is_known:
            return
        if self._asking is None:
            self._asking = _asking(self._host, self._port)
            self._asking.add_done_callback(self._forget)
        await asyncio.shield(self._asking)

    def _forget(self, asking: asyncio.Future[None]) -> None:
        self._asking = None
        if not asking.cancelled():
            asking.exception()  # or asyncio complains when nobody waits any more


def _asking(host: str, port: int) -> asyncio.Future[None]:
    """A look-up in a thread that nobody waits for at the end."""
    loop = asyncio.get_running_loop()
    # As bytes: text would load the tables of international names.
    name = host.encode() if host.isascii() else host
    answer: asyncio.Future[None] = loop.create_future()

    def ask() -> None:
        tell = partial(answer.set_result, None)
        try:
            socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
        except Exception as error:  # noqa: BLE001 -- whatever it is, who waits is to know
            tell = partial(answer.set_exception, error)
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(tell)

    threading.Thread(target=ask, name="look-up", daemon=True).start()
    return answer


def _is_address(host: str) -> bool:
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True

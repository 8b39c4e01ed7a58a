import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pyrbacproxy.dialing import Lookup


class Resolver:
    """Stands for the system's; answers when it is told to, and then what it is told."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.threads: list[threading.Thread] = []
        self.error: OSError | None = None
        self.begun = threading.Event()
        self.gate = threading.Event()

    def __call__(self, host: bytes, _port: int, **_kind: Any) -> Any:
        self.asked.append(host.decode())
        self.threads.append(threading.current_thread())
        self.begun.set()
        assert self.gate.wait(60)
        if self.error is not None:
            raise self.error
        return []


@pytest.fixture(name="resolver")
def _resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Resolver]:
    resolver = Resolver()
    monkeypatch.setattr(socket, "getaddrinfo", resolver)
    yield resolver
    resolver.gate.set()


async def waiting(lookup: Lookup, number: int) -> list[asyncio.Task[None]]:
    """So many who have begun to wait."""
    tasks = [asyncio.create_task(lookup.works()) for _ in range(number)]
    for _ in range(3):
        await asyncio.sleep(0)
    return tasks


async def test_fr48_a_look_up_that_hangs_is_the_only_one(resolver: Resolver) -> None:
    lookup = Lookup("api.test", 6443)
    for _ in range(3):
        for task in await waiting(lookup, 5):
            task.cancel()
    tasks = await waiting(lookup, 5)
    resolver.gate.set()
    await asyncio.gather(*tasks)
    assert resolver.asked == ["api.test"]
    await lookup.works()
    assert resolver.asked == ["api.test"] * 2  # nothing is kept


async def test_all_who_wait_hear_of_a_name_that_is_not_found(resolver: Resolver) -> None:
    lookup = Lookup("api.test", 6443)
    tasks = await waiting(lookup, 3)
    resolver.error = socket.gaierror(socket.EAI_NONAME, "not known")
    resolver.gate.set()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(error) for error in found] == [socket.gaierror] * 3


async def test_a_failure_that_nobody_waits_for_is_not_complained_of(
    resolver: Resolver, caplog: pytest.LogCaptureFixture
) -> None:
    lookup = Lookup("api.test", 6443)
    (task,) = await waiting(lookup, 1)
    asking = lookup._asking
    assert asking is not None
    task.cancel()
    resolver.error = OSError("no resolver")
    resolver.gate.set()
    await asyncio.wait([asking, task])
    del asking
    assert not caplog.records


def test_the_end_of_the_program_waits_for_no_look_up(resolver: Resolver) -> None:
    async def leave() -> None:
        for task in await waiting(Lookup("api.test", 6443), 1):
            task.cancel()

    asyncio.run(leave())
    assert resolver.begun.wait(60)
    (thread,) = resolver.threads
    assert thread.is_alive()
    assert thread.daemon
    resolver.gate.set()  # the loop that it would tell is closed
    thread.join()


@pytest.mark.parametrize("host", ["10.0.0.1", "::1", "fe80::1%eth0", "localhost"])
async def test_an_address_and_our_own_are_not_looked_up(resolver: Resolver, host: str) -> None:
    await Lookup(host, 443).works()
    assert resolver.asked == []

"""The gate in the program: the wait over a real port, and what `/readyz` is told of it."""

import asyncio
import logging
import os
import socket
from pathlib import Path

import pytest

from pyrbacproxy.config.settings import Address
from pyrbacproxy.opening import LateEndpoints, Opening
from pyrbacproxy.pages.health import Check
from pyrbacproxy.startup.gate import GateSettings
from pyrbacproxy.tls.server_context import TlsSettings

SECONDS = 20.0


class Wait:
    """One wait for a port that another listener of this process holds."""

    def __init__(self, settings: GateSettings) -> None:
        self.old = socket.create_server(("127.0.0.1", 0))
        self.port = self.old.getsockname()[1]
        self.prepared = asyncio.Event()
        self.stopped = asyncio.Event()
        self.opening = Opening(
            settings,
            Address("127.0.0.1", self.port, ""),
            TlsSettings(),
            load_pair=str,
            load_client_ca=str,
            prepare=self.prepared.set,
        )

    async def sockets(self) -> list[socket.socket]:
        async with asyncio.timeout(SECONDS):
            return await self.opening.sockets(self.stopped)

    async def check_with(self, text: str) -> Check:
        """The check, once its words hold the text."""
        async with asyncio.timeout(SECONDS):
            while text not in str(self.opening.check()):  # noqa: ASYNC110 - it is only looked at
                await asyncio.sleep(0.01)
        return self.opening.check()


async def test_the_port_is_taken_when_the_old_listener_closes() -> None:
    wait = Wait(GateSettings(waits_for_port=True))
    task = asyncio.create_task(wait.sockets())
    await wait.prepared.wait()
    check = await wait.check_with("(pid ")
    assert (check.name, check.is_ok, check.counts_for_readiness) == ("startup-gate", True, True)
    assert check.progress.startswith("waiting: port, ")
    assert check.detail.startswith(
        f"waiting for the port: cannot listen on 127.0.0.1:{wait.port}: Address already in use; "
        "held by "
    )
    assert f"(pid {os.getpid()})" in check.detail
    wait.old.close()
    (taken,) = await task
    assert taken.getsockname() == ("127.0.0.1", wait.port)
    assert taken.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT) == 0
    taken.close()
    assert wait.opening.check() == Check("startup-gate")


async def test_the_other_answer_while_waiting(tmp_path: Path) -> None:
    manifest = tmp_path / "old.yaml"
    manifest.touch()
    wait = Wait(GateSettings((str(manifest),), waits_for_port=True, is_ready_meanwhile=False))
    task = asyncio.create_task(wait.sockets())
    await asyncio.sleep(0)
    wait.old.close()
    check = await wait.check_with("waiting: manifest")
    assert not check.is_ok
    assert check.detail == f"waiting for {manifest}: it is still there"
    manifest.unlink()
    (taken,) = await task
    taken.close()
    assert wait.opening.check().is_ok


async def test_a_signal_ends_the_wait_with_nothing() -> None:
    wait = Wait(GateSettings(waits_for_port=True))
    task = asyncio.create_task(wait.sockets())
    await wait.prepared.wait()
    wait.stopped.set()
    assert await task == []
    wait.old.close()


async def test_a_wait_that_is_over_is_an_error() -> None:
    wait = Wait(GateSettings(waits_for_port=True, timeout_seconds=0.05))
    with pytest.raises(TimeoutError, match="startup-timeout"):
        await wait.sockets()
    wait.old.close()


# --- FR87: the endpoints port ---------------------------------------------------------


async def test_fr87_a_taken_endpoints_port_is_taken_when_it_is_free(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    taken: list[socket.socket] = []
    old = socket.create_server(("127.0.0.1", 0))
    port = old.getsockname()[1]
    late = LateEndpoints(Address("127.0.0.1", port, ""), taken.extend, lambda: False)
    task = asyncio.create_task(late.run())
    while not caplog.messages:  # noqa: ASYNC110 - nothing tells
        await asyncio.sleep(0.005)
    text = f"cannot listen on 127.0.0.1:{port}: Address already in use"
    assert caplog.messages == [f"Start-up gate: waiting for the endpoints port: {text}"]
    assert not taken
    old.close()
    async with asyncio.timeout(SECONDS):
        await task
    assert [one.getsockname() for one in taken] == [("127.0.0.1", port)]
    taken[0].close()


async def test_fr87_a_program_that_ends_takes_no_endpoints_port() -> None:
    late = LateEndpoints(Address("127.0.0.1", 0, ""), lambda _: pytest.fail("taken"), lambda: True)
    await late.run()

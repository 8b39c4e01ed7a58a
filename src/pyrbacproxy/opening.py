"""The start-up gate in this program: what it waits with, what `/readyz` says, and the wait."""

import asyncio
import socket
from collections.abc import Callable
from functools import partial

from pyrbacproxy.admin.health import Check
from pyrbacproxy.config.settings import Address
from pyrbacproxy.dataplane.listener import bind
from pyrbacproxy.node.sockets import holders_text
from pyrbacproxy.startup.gate import GateSettings, Reason
from pyrbacproxy.tls.contexts import TlsSettings

Sockets = list[socket.socket]
CHECK = "startup-gate"


class Opening:
    """The wait for the secure port at `address`.

    `load_pair` reads the serving pair and tells what is wrong with it, "" for nothing. `prepare`
    is called when nothing but the port is left, and each minute from then on.
    """

    def __init__(
        self,
        settings: GateSettings,
        address: Address,
        tls: TlsSettings,
        *,
        load_pair: Callable[[], str],
        prepare: Callable[[], None],
    ) -> None:
        self._is_ready_meanwhile = settings.is_ready_meanwhile
        self.address = address
        self._prepare_rest = prepare
        self._holders = ""
        self._search: asyncio.Task[float] | None = None
        # Imported by those who wait; for the others it would only cost memory.
        from pyrbacproxy.startup.watch import Watch  # noqa: PLC0415

        self._watch = Watch(
            settings,
            pair_files=(tls.certificate_file, tls.key_file),
            load_pair=load_pair,
            bind=partial(bind, address.host, address.port),
            prepare=self._prepare,
        )
        self.activity = self._watch.activity

    async def sockets(self, stopped: asyncio.Event) -> Sockets:
        """The port's sockets once the gate is open; none when `stopped` was set before.

        Raises OSError, of which TimeoutError is one.
        """
        opening = asyncio.create_task(self._watch.opened())
        stopping = asyncio.create_task(stopped.wait())
        await asyncio.wait((opening, stopping), return_when=asyncio.FIRST_COMPLETED)
        opening.cancel()
        stopping.cancel()
        await asyncio.wait((opening, stopping))
        return [] if opening.cancelled() else opening.result()

    def check(self) -> Check:
        """How the wait goes: in words that betray nothing, and in detail."""
        gate = self._watch.gate
        if gate.is_open:
            return Check(CHECK)
        is_port_left = any(obstacle.reason is Reason.PORT for obstacle in gate.obstacles)
        detail = "; ".join(filter(None, (gate.detail(), self._holders if is_port_left else "")))
        return Check(
            CHECK,
            is_ok=self._is_ready_meanwhile,
            detail=f"waiting for {detail}",
            progress=self._watch.summary(),
        )

    def _prepare(self) -> None:
        self._prepare_rest()
        # In a thread: a node has so many descriptors that the look at them takes longer than the
        # hand-over may.
        self._search = asyncio.create_task(self.activity.attempt(self._find_holders))

    async def _find_holders(self) -> float:
        self._holders = await asyncio.to_thread(holders_text, self.address.port)
        return 0.0

"""The start-up gate in this program: what it waits with, what `/readyz` says, and the wait."""

import asyncio
import logging
import socket
from collections.abc import Callable
from functools import partial

from pyrbacproxy.background import Activity
from pyrbacproxy.config.settings import Address
from pyrbacproxy.node.host import holders_text
from pyrbacproxy.pages.health import Check
from pyrbacproxy.proxy.listener import bind
from pyrbacproxy.startup.gate import GateSettings, Reason
from pyrbacproxy.tls.server_context import TlsSettings

_LOG = logging.getLogger(__name__)
_LATE_SECONDS = 0.1
_REMINDER_TRIES = 600  # a minute

Sockets = list[socket.socket]
CHECK = "startup-gate"


class Opening:
    """The wait for the secure port at `address`.

    `load_pair` reads the serving pair and tells what is wrong with it, "" for nothing;
    `load_client_ca` the client CA. `prepare` is called when nothing but the port is left, and each
    minute from then on.
    """

    def __init__(
        self,
        settings: GateSettings,
        address: Address,
        tls: TlsSettings,
        *,
        load_pair: Callable[[], str],
        load_client_ca: Callable[[], str],
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
            client_ca_file=tls.client_ca_file,
            load_client_ca=load_client_ca,
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
        """The state of the wait: a summary that names no files or processes, and the details."""
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


class LateEndpoints:
    """The wait for the endpoints port, which another process still holds.

    The secure port is not held up by it: an old copy of ours gives the endpoints port back last,
    once its requests are over. `taken` gets the sockets, unless `is_stopping`.
    """

    def __init__(
        self, address: Address, taken: Callable[[Sockets], None], is_stopping: Callable[[], bool]
    ) -> None:
        self.activity = Activity("endpoints port")
        self._address = address
        self._taken = taken
        self._is_stopping = is_stopping
        self._logged = ""
        self._tries = 0

    async def run(self) -> None:
        """Try until the port is bound."""
        await self.activity.repeat(self._try, 0.0)

    async def _try(self) -> float:
        if self._is_stopping():
            return 0.0
        try:
            sockets = bind(self._address.host, self._address.port)
        except OSError as error:
            self._log(str(error.strerror))
            return _LATE_SECONDS
        self._taken(sockets)
        return 0.0

    def _log(self, fault: str) -> None:
        """Log the wait at a change of its cause, and every minute."""
        self._tries += 1
        if fault != self._logged:
            self._logged = fault
            _LOG.info("Start-up gate: waiting for the endpoints port: %s", fault)
        elif self._tries % _REMINDER_TRIES == 0:
            _LOG.info("Start-up gate: still waiting for the endpoints port: %s", fault)

"""Runs what `assembly` makes: bind, wait at the start-up gate, serve, handle signals, drain.

Addresses are bound and files are read before anything else runs, so that a start that fails leaves
nothing behind; only what the gate waits for comes later.
"""

import asyncio
import contextlib
import gc
import logging
import os
import signal
from functools import partial

import uvloop

from pyrbacproxy.assembly import Assembly, Certificates, Sockets
from pyrbacproxy.config.settings import Address, Settings
from pyrbacproxy.dataplane.listener import Listener, bind
from pyrbacproxy.observe.logs import structured
from pyrbacproxy.tls.watched_files import TlsFileError

_LOG = logging.getLogger(__name__)
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def serve(settings: Settings) -> int:
    """Serves until a signal; returns the exit status: 0 after a signal, 1 when the start fails."""
    try:
        certificates = Certificates(settings)
        secure = None if settings.gate.has_waits else settings.secure
        sockets = _bound((secure, settings.insecure, settings.endpoints))
    except (OSError, TlsFileError) as error:
        return _failed(error)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_Program(settings, certificates).run(*sockets))


def _bound(addresses: tuple[Address | None, ...]) -> list[Sockets]:
    """The listening sockets of each address, none for None. All or, with an OSError, none."""
    with contextlib.ExitStack() as on_failure:
        bound = []
        for address in addresses:
            sockets = [] if address is None else bind(address.host, address.port)
            for listening in sockets:
                on_failure.callback(listening.close)
            bound.append(sockets)
        on_failure.pop_all()
    return bound


def _failed(error: Exception) -> int:
    _LOG.error("%s", structured("command failed", err=error))
    return 1


class _Program:
    """One run of the process."""

    def __init__(self, settings: Settings, certificates: Certificates) -> None:
        self._settings = settings
        self._certificates = certificates
        self._stopped = asyncio.Event()

    async def run(self, secure: Sockets, insecure: Sockets, endpoints: Sockets) -> int:
        """Serve, until a signal, what was bound and what the gate brings. The exit status."""
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._signalled)
        assembly = Assembly(self._settings, self._certificates, self._stopped.is_set)
        # What lives until the end is not looked at again by the collector.
        gc.collect()
        gc.freeze()
        listeners = [assembly.endpoints_listener(endpoints)]
        self._start(listeners[0], self._settings.endpoints, "securely", " for proxy endpoints")
        status = 0
        async with asyncio.TaskGroup() as tasks:
            reloading = tasks.create_task(self._certificates.reloader.run())
            try:
                if self._settings.gate.has_waits:
                    secure = await self._let_in(assembly)
                if not self._stopped.is_set():
                    listeners += self._forward(assembly, secure, insecure)
                    await self._until_stopped()
            except OSError as error:
                status = _failed(error)
            await self._drain(listeners)
            reloading.cancel()
        await assembly.close()
        return status

    async def _let_in(self, assembly: Assembly) -> Sockets:
        """The secure port's sockets once the gate opens; none when a signal came before.

        Raises OSError, of which TimeoutError is one.
        """
        # Imported by those who wait; for the others it would only cost memory.
        from pyrbacproxy.startup.watch import Watch  # noqa: PLC0415

        address, tls = self._settings.secure, self._settings.tls
        assert address is not None, "a gate without an address"  # noqa: S101 - config refuses it
        watch = Watch(
            self._settings.gate,
            pair_files=(tls.certificate_file, tls.key_file),
            load_pair=self._certificates.load_pair,
            bind=partial(bind, address.host, address.port),
            prepare=assembly.connector.warm,
        )
        opening = asyncio.create_task(watch.opened())
        stopped = asyncio.create_task(self._stopped.wait())
        await asyncio.wait((opening, stopped), return_when=asyncio.FIRST_COMPLETED)
        opening.cancel()
        stopped.cancel()
        await asyncio.wait((opening, stopped))
        return [] if opening.cancelled() else opening.result()

    def _forward(self, assembly: Assembly, secure: Sockets, insecure: Sockets) -> list[Listener]:
        """Begin with what the proxy is for."""
        listeners = [assembly.secure_listener(secure), assembly.insecure_listener(insecure)]
        self._start(listeners[0], self._settings.secure, "securely")
        self._start(listeners[1], self._settings.insecure, "insecurely")
        return listeners

    async def _until_stopped(self) -> None:
        """Serve until a signal, and on for the delay that was asked for."""
        await self._stopped.wait()
        await asyncio.sleep(self._settings.limits.shutdown_delay_seconds)

    async def _drain(self, listeners: list[Listener]) -> None:
        """The endpoints port last: until then it says that we are shutting down."""
        clock = asyncio.get_running_loop().time
        ends_at = clock() + self._settings.limits.shutdown_grace_seconds
        endpoints, *others = listeners
        async with asyncio.TaskGroup() as draining:
            for listener in others:
                draining.create_task(listener.drain(ends_at - clock()))
        await endpoints.drain(max(0.0, ends_at - clock()))

    def _start(self, listener: Listener, address: Address | None, how: str, why: str = "") -> None:
        listener.start()
        if address is not None:
            _LOG.info("Listening %s on %s%s", how, address.text, why)

    def _signalled(self) -> None:
        """The first drains; the second ends the process, as Kubernetes' own servers do (D12)."""
        if self._stopped.is_set():
            _LOG.warning("Second signal: exiting at once")
            os._exit(1)
        _LOG.info("Shutting down")
        self._stopped.set()

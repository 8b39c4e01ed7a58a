"""Runs what `assembly` makes: bind, wait at the start-up gate, serve, handle signals, drain.

Addresses are bound and files are read before anything else runs, so that a start that fails leaves
nothing behind; only what the gate waits for comes later.
"""

import asyncio
import contextlib
import errno
import gc
import logging
import resource
from functools import partial
from typing import TYPE_CHECKING

import uvloop

from pyrbacproxy.certificates import Certificates
from pyrbacproxy.config.settings import Address, Settings
from pyrbacproxy.observe.logs import structured
from pyrbacproxy.proxy.listener import Listener, bind
from pyrbacproxy.signals import Signals
from pyrbacproxy.tls.files import TlsFileError
from pyrbacproxy.wiring import Assembly, Sockets

if TYPE_CHECKING:
    from pyrbacproxy.observe.access_log import LineOutlet
    from pyrbacproxy.opening import LateEndpoints, Opening


_LOG = logging.getLogger(__name__)


def serve(settings: Settings, signals: Signals) -> int:
    """Serves until a signal; returns the exit status: 0 after a signal, 1 when the start fails."""
    _raise_descriptor_limit()
    secure = None if settings.gate.has_waits else settings.secure
    try:
        certificates = Certificates(settings)
        lines = _access_log(settings.access_log)
        awaited = settings.endpoints if settings.gate.has_waits else None
        sockets = _bound((secure, settings.insecure, settings.endpoints), awaited)
    except TlsFileError as error:
        return _failed(str(error))
    except _NotHadError as error:
        return _failed(*error.problems)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_Program(settings, signals, certificates, lines).run(*sockets))


class _NotHadError(Exception):
    """Addresses, or a file, that cannot be had; each of `problems` names its flag."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def _access_log(path: str) -> "LineOutlet | None":
    """Where its lines go; None for "". Raises _NotHadError."""
    if not path:
        return None
    # Imported by those who want one: to the others it would only be memory.
    from pyrbacproxy.observe.access_log import open_outlet  # noqa: PLC0415

    try:
        return open_outlet(path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise _NotHadError([f"--access-log {path}: cannot be opened: {reason}"]) from error


def _bound(addresses: tuple[Address | None, ...], awaited: Address | None) -> list[Sockets]:
    """The listening sockets of each address, none for None. All or, with _NotHadError, none.

    None, too, for one that is awaited and still taken.
    """
    problems: list[str] = []
    with contextlib.ExitStack() as on_failure:
        bound: list[Sockets] = []
        for address in addresses:
            sockets: Sockets = []
            if address is not None:
                try:
                    sockets = bind(address.host, address.port)
                except OSError as error:
                    if address is not awaited or error.errno != errno.EADDRINUSE:
                        problems.append(_not_had(address, error))
            for listening in sockets:
                on_failure.callback(listening.close)
            bound.append(sockets)
        if problems:
            raise _NotHadError(problems)
        on_failure.pop_all()
    return bound


def _not_had(address: Address, error: OSError) -> str:
    return f"{address.flags}: {error.strerror}"


def _raise_descriptor_limit() -> None:
    """The hard limit holds, as in Go's programs: a soft one of 1024 is there for `select` alone."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Refused where the hard limit is above what the kernel grants.
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _failed(*problems: str) -> int:
    for problem in problems:
        _LOG.error("%s", structured("command failed", err=problem))
    return 1


class _Program:
    """One run of the process."""

    def __init__(
        self,
        settings: Settings,
        signals: Signals,
        certificates: Certificates,
        lines: "LineOutlet | None",
    ) -> None:
        self._settings = settings
        self._signals = signals
        self._certificates = certificates
        self._lines = lines
        self._stopped = asyncio.Event()

    async def run(self, secure: Sockets, insecure: Sockets, endpoints: Sockets) -> int:
        """Serve, until a signal, what was bound and what the gate brings. The exit status."""
        loop = asyncio.get_running_loop()
        # Not the loop's own handlers: there would be a moment between them and those of the start.
        self._signals.serves(partial(loop.call_soon_threadsafe, self._stop), _exiting_at_once)
        self._signals.catch()
        assembly = Assembly(self._settings, self._certificates, self._stopped.is_set, self._lines)
        loop.set_exception_handler(assembly.loop_faults.handle)
        if opening := self._opening(assembly):
            assembly.startup_gate = opening.check
            assembly.background.append(opening.activity)
        # What lives until the end is not looked at again by the collector, which `__main__` has
        # turned off. The start leaves next to nothing to collect first.
        gc.freeze()
        gc.enable()
        # Connections leave little behind in cycles, so fewer collections cost less CPU; at 10,000
        # they cost 0.6 MiB more.
        gc.set_threshold(2_000)
        listeners = [assembly.endpoints_listener(endpoints)]
        late = None if endpoints else self._late_endpoints(assembly, listeners)
        if late is None:
            self._start_endpoints(listeners[0])
        assembly.warm()
        status = 0
        async with asyncio.TaskGroup() as tasks:
            parts = (self._certificates.reloader, assembly.issuer, late)
            background = [tasks.create_task(part.run()) for part in parts if part is not None]
            try:
                if opening is not None:
                    secure = await self._opened(opening)
                if not self._stopped.is_set():
                    listeners += self._forward(assembly, secure, insecure)
                    await self._until_stopped()
            except TimeoutError as error:
                status = _failed(str(error))
            except _NotHadError as error:
                status = _failed(*error.problems)
            await self._drain(listeners)
            for task in background:
                task.cancel()
        await assembly.close()
        return status

    def _opening(self, assembly: Assembly) -> "Opening | None":
        """What waits for the secure port, if anything does."""
        settings = self._settings
        if settings.secure is None or not settings.gate.has_waits:
            return None
        # Imported by those who wait: to the others it would only be memory.
        from pyrbacproxy.opening import Opening  # noqa: PLC0415

        return Opening(
            settings.gate,
            settings.secure,
            settings.tls,
            load_pair=self._certificates.load_pair,
            load_client_ca=self._certificates.load_client_ca,
            prepare=assembly.connector.warm,
        )

    def _late_endpoints(
        self, assembly: Assembly, listeners: list[Listener]
    ) -> "LateEndpoints | None":
        """What waits for the endpoints port if there is one, which then is still taken."""
        if self._settings.endpoints is None:
            return None
        # As above.
        from pyrbacproxy.opening import LateEndpoints  # noqa: PLC0415

        def taken(sockets: Sockets) -> None:
            listeners[0] = assembly.endpoints_listener(sockets)
            self._start_endpoints(listeners[0])

        late = LateEndpoints(self._settings.endpoints, taken, self._stopped.is_set)
        assembly.background.append(late.activity)
        return late

    def _start_endpoints(self, listener: Listener) -> None:
        self._start(listener, self._settings.endpoints, "securely", " for proxy endpoints")

    async def _opened(self, opening: "Opening") -> Sockets:
        """The secure port's sockets, late; none after a signal.

        Raises TimeoutError and _NotHadError.
        """
        try:
            return await opening.sockets(self._stopped)
        except TimeoutError:
            raise
        except OSError as error:
            raise _NotHadError([_not_had(opening.address, error)]) from error

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
            # The number, which the kernel chose for 0 and the services' file for a name.
            host = address.text.rpartition(":")[0]
            _LOG.info("Listening %s on %s:%d%s", how, host, listener.port, why)

    def _stop(self) -> None:
        _LOG.info("received interrupt, shutting down")
        self._stopped.set()


def _exiting_at_once() -> None:
    """As Kubernetes' own servers do (D12)."""
    _LOG.warning("Second signal: exiting at once")

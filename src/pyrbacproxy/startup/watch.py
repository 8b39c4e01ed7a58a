"""Gathers the facts for the gate (paths, serving pair, port) until it opens; hands over sockets."""

import asyncio
import errno
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyrbacproxy.startup.gate import Found, Gate, GateSettings
from pyrbacproxy.startup.inotify import FolderEvents

_LOG = logging.getLogger(__name__)
# One change of a file is several events; they are looked at together.
_SETTLE_SECONDS = 0.01
_PREPARE_SECONDS = 60.0

Sockets = list[socket.socket]


class Watch:
    """Waits at the gate.

    `pair_files` are the serving pair's, whose folders are watched; `load_pair` reads it and tells
    what is wrong with it, "" for nothing. `bind` takes the port or raises OSError. `prepare` is
    called, and now and then again, when nothing but the port is left.
    """

    def __init__(
        self,
        settings: GateSettings,
        *,
        pair_files: tuple[str, ...],
        load_pair: Callable[[], str],
        bind: Callable[[], Sockets],
        prepare: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.gate = Gate(settings, clock())
        self._settings = settings
        self._load_pair = load_pair
        self._bind = bind
        self._prepare = prepare
        self._prepared_at = -_PREPARE_SECONDS
        self._clock = clock
        paths = (*settings.absent_paths, *(pair_files if settings.waits_for_pair else ()))
        self._folders = tuple(dict.fromkeys(os.path.dirname(path) or "." for path in paths))  # noqa: PTH120 - text in, text out
        self._woken = asyncio.Event()
        self._settling: asyncio.TimerHandle | None = None

    async def opened(self) -> Sockets:
        """The bound sockets, once the gate is open.

        Raises OSError when the port cannot be had and is not waited for; TimeoutError, which is
        one too, when `--startup-timeout` is over.
        """
        with self._events() as events:
            while True:
                has_events = self.gate.may_bind or self._follow(events)
                sockets = self._look()
                for line in self.gate.take_lines():
                    _LOG.info("%s", line)
                if sockets is not None:
                    return sockets
                now = self._clock()
                if self.gate.has_given_up(now):
                    raise TimeoutError(
                        f"--startup-timeout={self._settings.timeout_seconds:g}s is over; "
                        f"still waiting for {self.gate.detail()}"
                    )
                await self._wait(self.gate.pause_seconds(now, has_events=has_events))

    def summary(self) -> str:
        """`waiting: manifest, 132s`; "" when the gate is open."""
        return self.gate.summary(self._clock())

    def _look(self) -> Sockets | None:
        """One round of facts; the sockets when it was the last."""
        found = tuple(filter(None, map(still_there, self._settings.absent_paths)))
        pair_fault = self._load_pair() if self._settings.waits_for_pair else ""
        now = self._clock()
        self.gate.see_files(found, pair_fault, now)
        if not self.gate.may_bind:
            return None
        try:
            sockets = self._bind()
        except OSError as error:
            if error.errno != errno.EADDRINUSE or not self._settings.waits_for_port:
                raise
            self.gate.see_port_taken(str(error.strerror), now)
            self._prepare_again(now)
            return None
        self.gate.open(now)
        return sockets

    def _prepare_again(self, now: float) -> None:
        if now - self._prepared_at >= _PREPARE_SECONDS:
            self._prepared_at = now
            self._prepare()

    @contextmanager
    def _events(self) -> Iterator[FolderEvents | None]:
        """The kernel's events, where it has some to give."""
        if not self._folders:
            yield None
            return
        try:
            events = FolderEvents()
        except OSError as error:
            _LOG.warning("Start-up gate: no inotify (%s): looking more often", error.strerror)
            yield None
            return
        loop = asyncio.get_running_loop()
        loop.add_reader(events.fileno(), self._changed, events)
        try:
            yield events
        finally:
            loop.remove_reader(events.fileno())
            events.close()
            if self._settling is not None:
                self._settling.cancel()

    def _follow(self, events: FolderEvents | None) -> bool:
        """Watch the folders that are there now; False when one is not watched."""
        if events is None:
            return False
        try:
            for folder in self._folders:
                events.watch(folder)
        except OSError:
            return False
        return True

    def _changed(self, events: FolderEvents) -> None:
        events.drain()
        if self._settling is None:
            loop = asyncio.get_running_loop()
            self._settling = loop.call_later(_SETTLE_SECONDS, self._settled)

    def _settled(self) -> None:
        self._settling = None
        self._woken.set()

    async def _wait(self, seconds: float) -> None:
        """Until then, or until the kernel said that something changed."""
        # A bare timer: a hundred times a second, `asyncio.timeout` would cost as much as the look.
        timer = asyncio.get_running_loop().call_later(seconds, self._woken.set)
        try:
            await self._woken.wait()
        finally:
            timer.cancel()
        self._woken.clear()


def still_there(path: str) -> Found | None:
    """None when nothing has this name. A link that leads nowhere is still a name.

    Anything but "no such file" leaves doubt, and doubt means that it is there.
    """
    try:
        os.lstat(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        return Found(path, (error.strerror if isinstance(error, OSError) else None) or str(error))
    return Found(path)

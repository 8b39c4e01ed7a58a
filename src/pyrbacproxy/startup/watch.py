"""Watches paths, the serving pair and the port for the start-up gate, by inotify(7) and polling."""

import asyncio
import contextlib
import ctypes
import errno
import logging
import os
import socket
import time
from collections.abc import Callable

from pyrbacproxy.background import Activity
from pyrbacproxy.startup.gate import Found, Gate, GateSettings

# --- inotify --------------------------------------------------------------------------
#
# The kernel's word that something changed in a folder (inotify(7)), as a file descriptor.
#
# Python has no inotify of its own. ctypes costs 0.3 MiB, and this module is imported only by a
# program that waits; cffi, which cryptography brings along, would parse C with a megabyte more.

# linux/inotify.h
_NONBLOCK_CLOEXEC = os.O_NONBLOCK | os.O_CLOEXEC
_MODIFY, _ATTRIB, _CLOSE_WRITE = 0x2, 0x4, 0x8
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x40, 0x80, 0x100, 0x200
_DELETE_SELF, _MOVE_SELF, _ONLYDIR = 0x400, 0x800, 0x01000000
_CHANGES = (
    _MODIFY
    | _ATTRIB
    | _CLOSE_WRITE
    | _MOVED_FROM
    | _MOVED_TO
    | _CREATE
    | _DELETE
    | _DELETE_SELF
    | _MOVE_SELF
)
_BUFFER_BYTES = 65_536


class FolderEvents:
    """Readable whenever something changed in a watched folder. Raises OSError at its making."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._checked(self._libc.inotify_init1(_NONBLOCK_CLOEXEC))

    def fileno(self) -> int:
        """The descriptor, for the loop."""
        return self._descriptor

    def watch(self, folder: str) -> None:
        """Watch a folder; once more is harmless, and needed when another took its place.

        Raises OSError.
        """
        mask = ctypes.c_uint32(_CHANGES | _ONLYDIR)
        self._checked(
            self._libc.inotify_add_watch(self._descriptor, os.fsencode(folder), mask), folder
        )

    def drain(self) -> None:
        """Forget what has been told: what changed is for the caller to see."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._descriptor, _BUFFER_BYTES):
                pass

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._descriptor)

    def _checked(self, result: int, *names: str) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), *names)
        return result


# --- watch ----------------------------------------------------------------------------
# Gathers the facts for the gate (paths, serving pair, port) until it opens; hands over sockets.

_LOG = logging.getLogger(__name__)
# One change of a file is several events; they are looked at together.
_SETTLE_SECONDS = 0.01
_PREPARE_SECONDS = 60.0

Sockets = list[socket.socket]


class Watch:
    """Waits at the gate.

    `pair_files` and `client_ca_file` are those whose folders are watched; `load_pair` reads the
    serving pair and tells what is wrong with it, "" for nothing, `load_client_ca` the client CA.
    `bind` takes the port or raises OSError. `prepare` is called, and now and then again, when
    nothing but the port is left.
    """

    def __init__(
        self,
        settings: GateSettings,
        *,
        pair_files: tuple[str, ...],
        load_pair: Callable[[], str],
        client_ca_file: str = "",
        load_client_ca: Callable[[], str] = str,
        bind: Callable[[], Sockets],
        prepare: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.gate = Gate(settings, clock())
        self.activity = Activity("start-up gate")
        self._settings = settings
        self._load_pair = load_pair
        self._load_client_ca = load_client_ca
        self._bind = bind
        self._prepare = prepare
        self._prepared_at = -_PREPARE_SECONDS
        self._clock = clock
        paths = (*settings.absent_paths, *(pair_files if settings.waits_for_pair else ()))
        paths = (*paths, *filter(None, (client_ca_file,)))
        self._folders = tuple(dict.fromkeys(os.path.dirname(path) or "." for path in paths))  # noqa: PTH120 - text in, text out
        self._events: FolderEvents | None = None
        self._has_events = False
        self._woken = asyncio.Event()
        self._settling: asyncio.TimerHandle | None = None

    async def opened(self) -> Sockets:
        """The bound sockets, once the gate is open.

        Raises OSError when the port cannot be had and is not waited for; TimeoutError, which is
        one too, when `--startup-timeout` is over.
        """
        try:
            while True:
                try:
                    sockets = self._look()
                    pause_seconds = 0.0 if sockets is not None else self._pause_seconds()
                except OSError:
                    raise
                except Exception as error:  # noqa: BLE001 - in doubt it stays closed
                    sockets, pause_seconds = None, self.activity.failed(error)
                else:
                    self.activity.worked()
                for line in self.gate.take_lines():
                    _LOG.info("%s", line)
                if sockets is not None:
                    return sockets
                self._give_up_in_time()
                if pause_seconds:
                    await self._wait(pause_seconds)
        finally:
            self._unfollow()

    def summary(self) -> str:
        """`waiting: manifest, 132s`; "" when the gate is open."""
        return self.gate.summary(self._clock())

    def _look(self) -> Sockets | None:
        """One round of facts; the sockets when it was the last."""
        found = tuple(filter(None, map(still_there, self._settings.absent_paths)))
        pair_fault = self._load_pair() if self._settings.waits_for_pair else ""
        now = self._clock()
        self.gate.see_files(found, pair_fault, self._load_client_ca(), now)
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

    def _give_up_in_time(self) -> None:
        if self.gate.has_given_up(self._clock()):
            raise TimeoutError(
                f"--startup-timeout={self._settings.timeout_seconds:g}s is over; "
                f"still waiting for {self.gate.detail()}"
            )

    def _pause_seconds(self) -> float:
        """How long nothing is looked at unless the kernel tells of a change; 0: look at once."""
        if not self._is_watching():
            return 0.0
        return self.gate.pause_seconds(self._clock(), has_events=self._has_events)

    def _is_watching(self) -> bool:
        """Have the kernel tell of changes; False when it has just begun to: then look again."""
        if self.gate.may_bind:
            # The paths are looked at before each try at the port. The kernel takes 20 ms to end
            # its watch: now, not between the port and the first answer.
            self._unfollow()
            return True
        is_new = self._events is None
        self._has_events = self._follow()
        return not (is_new and self._has_events)

    def _follow(self) -> bool:
        """Watch the folders that are there now; False when one is not watched."""
        try:
            if self._events is None:
                self._events = FolderEvents()
                asyncio.get_running_loop().add_reader(self._events.fileno(), self._changed)
            for folder in self._folders:
                self._events.watch(folder)
        except OSError as error:
            _LOG.log(20 - 8, "inotify: %s", error)
            return False
        return True

    def _unfollow(self) -> None:
        if self._settling is not None:
            self._settling.cancel()
            self._settling = None
        if self._events is not None:
            asyncio.get_running_loop().remove_reader(self._events.fileno())
            self._events.close()
            self._events = None

    def _changed(self) -> None:
        if self._events is not None:
            try:
                self._events.drain()
            except Exception as error:  # noqa: BLE001 - it would be called for ever; files are looked at anyway
                self.activity.failed(error, "inotify")
                self._unfollow()
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

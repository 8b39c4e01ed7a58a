"""Child processes of the end-to-end tests: started, watched through their output, ended."""

import asyncio
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

# Generous: a deadline that is reached means that something is broken, not that the machine is busy.
DEADLINE_SECONDS = 60.0
# What Prometheus' programs log once they have their port; the manner of the log changed over time.
LISTENING = r'msg="Listening on"[^\n]*address=(\S+)'
_STOP_SECONDS = 10.0
_POLL_SECONDS = 0.05


class Program:
    """One child process; what it writes goes to a file, which failures show."""

    def __init__(self, folder: Path, name: str, *argv: str) -> None:
        self.name = name
        self._log = folder / f"{name}.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )

    def output(self) -> str:
        """All that it has written so far."""
        return self._log.read_text(errors="replace")

    async def logged(self, pattern: str) -> str:
        """Wait for a line of output; returns the pattern's first group."""

        async def look() -> str | None:
            found = re.search(pattern, self.output())
            return found[1] if found else None

        return await self.until(look, f"{pattern!r} in its output")

    async def until(self, look: Callable[[], Awaitable[T | None]], what: str) -> T:
        """Wait until `look` finds something; fails when the program ends or time is up."""
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                while (found := await look()) is None:
                    assert self._process.poll() is None, f"{self.name} ended:\n{self.output()}"
                    await asyncio.sleep(_POLL_SECONDS)
                return found
        except TimeoutError as error:
            raise AssertionError(f"{self.name}: no {what}:\n{self.output()}") from error

    async def listens(self, port: int) -> None:
        """Wait until this port of 127.0.0.1 accepts connections."""

        async def look() -> bool | None:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                return None
            writer.close()
            return True

        await self.until(look, "listening port")

    @property
    def pid(self) -> int:
        """Its process number."""
        return self._process.pid

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    async def ended(self) -> int:
        """Wait for its end; returns its exit status."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while (status := self._process.poll()) is None:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(_POLL_SECONDS)
        return status

    def stop(self, within_seconds: float = _STOP_SECONDS) -> int:
        """End it, gently first; returns its exit status."""
        self._process.terminate()
        try:
            return self._process.wait(within_seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise AssertionError(f"{self.name} did not stop on SIGTERM") from None


class Programs:
    """The processes of one test, ended in reverse order."""

    def __init__(self, folder: Path, *, stop_seconds: float = _STOP_SECONDS) -> None:
        self.folder = folder
        self._stop_seconds = stop_seconds
        self._running: list[Program] = []

    def start(self, name: str, *argv: str) -> Program:
        """Start one; `name` is its file of output."""
        program = Program(self.folder, f"{name}-{len(self._running)}", *argv)
        self._running.append(program)
        return program

    def stop(self) -> None:
        """End all; the first that does not end fails the test, after all others were ended."""
        failures: list[AssertionError] = []
        while self._running:
            program = self._running.pop()
            # Shown by pytest when the test failed.
            sys.stdout.write(f"--- {program.name}\n{program.output()}\n")
            try:
                program.stop(self._stop_seconds)
            except AssertionError as failure:
                failures.append(failure)
        if failures:
            raise failures[0]


def debian(name: str) -> str:
    """The path of a program that Debian packages under its own name; fails when it is missing."""
    path = shutil.which(name)
    assert path, f"{name} is missing: `make setup` (as root) or `apt-get install {name}` brings it"
    return path


def free_port() -> int:
    """A port of 127.0.0.1 that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

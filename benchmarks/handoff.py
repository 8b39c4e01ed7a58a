"""`python -m benchmarks.handoff`: how long nobody answers when a port goes to another proxy.

An old TLS listener holds the port while a scraper asks 100 times a second, over a new connection
each time. It closes at a moment that the waiting proxy can't know. The gap is measured from there
to the end of the first answer of the proxy that follows: (a) ours, which waits by itself; (b) ours,
started by a shell loop with sleeps of one second.
"""

import argparse
import random
import select
import shlex
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks import world
from benchmarks.loads import Client
from benchmarks.process import Program
from benchmarks.world import World
from pyrbacproxy.demo.pki import client_context, server_context

_TICK_SECONDS = 0.01
_SIZE = 160
_TOO_LONG_SECONDS = 60.0
_SHELL_LOOP = """
while [ -e {manifest} ]; do sleep 1; done
while (exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null; do sleep 1; done
exec {proxy}
"""


@dataclass(frozen=True, slots=True)
class Gap:
    """One hand-over."""

    seconds: float
    failed_scrapes: int


class OldListener:
    """Answers scrapes over TLS in a thread, until it is told to close."""

    def __init__(self, around: World, port: int) -> None:
        self._context = server_context(around.serving, around.authority)
        self._listening = socket.create_server(("127.0.0.1", port), backlog=64)
        self._must_close = threading.Event()
        self._closed_at = 0.0
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> float:
        """Close the port; returns when that was."""
        self._must_close.set()
        self._thread.join()
        return self._closed_at

    def _serve(self) -> None:
        # Never blocked in accept: a listener in use by a system call outlives its close.
        while not self._must_close.is_set():
            if select.select([self._listening], [], [], 0.001)[0]:
                self._answer(self._listening.accept()[0])
        self._closed_at = time.monotonic()
        self._listening.close()

    def _answer(self, connection: socket.socket) -> None:
        with suppress(OSError), self._context.wrap_socket(connection, server_side=True) as client:
            if client.recv(65_536):
                head = f"HTTP/1.1 200 OK\r\nContent-Length: {_SIZE}\r\nConnection: close\r\n\r\n"
                client.sendall(head.encode() + b"x" * _SIZE)


class Scraper:
    """Asks at each tick, over a new connection, as Prometheus' first scrape of a target."""

    def __init__(self, around: World, port: int) -> None:
        self._context = client_context(around.authority, around.client)
        self._port = port

    def is_answered(self) -> bool:
        """One scrape."""
        try:
            client = Client(self._port, self._context)
        except OSError:
            return False
        try:
            client.get(_SIZE)
        except OSError:
            return False
        finally:
            client.close()
        return True

    def ticks(self, seconds: float) -> Iterator[bool]:
        """Scrapes for so long, a hundred a second."""
        end = time.monotonic() + seconds
        while (begun := time.monotonic()) < end:
            yield self.is_answered()
            time.sleep(max(0.0, begun + _TICK_SECONDS - time.monotonic()))

    def gap(self, closed_at: float) -> Gap:
        """Scrape until the next answer."""
        for failed, is_answered in enumerate(self.ticks(_TOO_LONG_SECONDS)):
            if is_answered:
                return Gap(time.monotonic() - closed_at, failed)
        raise SystemExit("nobody took the port over")


Command = Callable[[World, int, Path], list[str]]


def waiting(around: World, port: int, manifest: Path) -> list[str]:
    """Ours, waiting at its start-up gate."""
    flags = (f"--wait-for-absent={manifest}", "--wait-for-port", "--wait-for-serving-cert")
    return [*world.ours_with_certificates(around, port), *flags]


def shell_loop(around: World, port: int, manifest: Path) -> list[str]:
    """Ours, behind a loop of sleeps."""
    proxy = shlex.join(world.ours_with_certificates(around, port))
    text = _SHELL_LOOP.format(manifest=shlex.quote(str(manifest)), port=port, proxy=proxy)
    return ["bash", "-c", text]


def hand_over(around: World, command: Command, chance: random.Random) -> Gap:
    """One old listener, one that follows."""
    port = world.free_port()
    manifest = around.folder / f"manifest-{port}.yaml"
    manifest.touch()
    old, scraper = OldListener(around, port), Scraper(around, port)
    with _running(command(around, port, manifest), around.folder / f"new-{port}.log"):
        # Time enough to start, on a busy machine as well.
        _must_be_answered(scraper, 3.0)
        manifest.unlink()
        # As a kubelet that sees it and ends the pod.
        _must_be_answered(scraper, 2.0 + chance.random())
        return scraper.gap(old.close())


def _must_be_answered(scraper: Scraper, seconds: float) -> None:
    if not all(scraper.ticks(seconds)):
        raise SystemExit("a scrape failed before the old listener closed")


@contextmanager
def _running(command: list[str], output: Path) -> Iterator[Program]:
    program = Program(command, output)
    try:
        yield program
        program.assert_alive()
    finally:
        program.stop()


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.handoff", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="hand-overs of each (default 20)")
    options = parser.parse_args()
    chance = random.Random(1)  # noqa: S311 - the same moments in each run
    print("| who follows | gap ms, median | worst | failed scrapes, median | worst |")
    print("| --- | --- | --- | --- | --- |")
    with ExitStack() as cleanup:
        folder = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="handoff-")))
        around, upstream = world.build(folder)
        cleanup.callback(upstream.stop)
        for name, command in (("pyrbacproxy, waiting", waiting), ("shell loop", shell_loop)):
            gaps = [hand_over(around, command, chance) for _ in range(options.rounds)]
            print(f"| {name} | {' | '.join(_figures(gaps))} |", flush=True)
    return 0


def _figures(gaps: list[Gap]) -> Iterator[str]:
    milliseconds = [gap.seconds * 1000 for gap in gaps]
    failed = [gap.failed_scrapes for gap in gaps]
    yield from (f"{statistics.median(milliseconds):.0f}", f"{max(milliseconds):.0f}")
    yield from (f"{statistics.median(failed):.0f}", f"{max(failed)}")


if __name__ == "__main__":
    sys.exit(main())

"""This process: event-loop lag, and when it was started."""

import asyncio
import os
import time
from pathlib import Path

from pyrbacproxy.model import ExchangeRecord
from pyrbacproxy.observe.metrics import Histogram

# --- loop lag -------------------------------------------------------------------------
# How long the event loop lets wait what is due: measured on activity, at no idle wake-up.

_INTERVAL_SECONDS = 0.1


class LoopLag:
    """An observer of exchanges: at the end of one, at most every 0.1 s, it lets the loop call it.

    How late that call comes is what any other callback waits just now.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, lag: Histogram) -> None:
        self._loop = loop
        self._lag = lag
        self._next_at = 0.0

    def observe(self, record: ExchangeRecord) -> None:
        """Look at the loop, if it is time again."""
        if record.ended_at >= self._next_at:
            self._next_at = record.ended_at + _INTERVAL_SECONDS
            self._loop.call_soon(self._called, time.perf_counter())

    def _called(self, due_at: float) -> None:
        self._lag.add(time.perf_counter() - due_at)


# --- process start --------------------------------------------------------------------
# When this process was started, as the kernel knows it.

_IMPORTED_AT = time.time()
# Fields of /proc/<pid>/stat behind the name in brackets, which may hold blanks: field 3 is the
# first of them, the start is field 22 (proc_pid_stat(5)).
_START_FIELD = 22 - 3


def process_started_at(folder: str = "/proc") -> float:
    """Seconds since the epoch; without a readable /proc, when this module was imported."""
    try:
        fields = Path(folder, "self/stat").read_text().rpartition(")")[2].split()
        lines = Path(folder, "stat").read_text().splitlines()
        booted_at = next(int(line.split()[1]) for line in lines if line.startswith("btime "))
        return booted_at + int(fields[_START_FIELD]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, StopIteration):
        return _IMPORTED_AT

"""What can be seen of a process from outside, and waiting until something can be seen."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tests.field_reports.servers import PATIENCE_SECONDS

T = TypeVar("T")

_POLL_SECONDS = 0.05
_TICKS = os.sysconf("SC_CLK_TCK")


def until(look: Callable[[], T], what: str, seconds: float = PATIENCE_SECONDS) -> T:
    """Look again and again until there is something true; fails with `what` when time is up."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, f"after {seconds} s: no {what}"
        time.sleep(_POLL_SECONDS)
    return found


def memory_kib(pid: int) -> int:
    """Resident memory, from /proc."""
    return int(_status(pid)["VmRSS"].split()[0])


def catches(pid: int, signal_number: int) -> bool:
    """Whether the process has a handler of its own for this signal."""
    return bool(int(_status(pid)["SigCgt"], 16) >> (signal_number - 1) & 1)


def open_files(pid: int) -> int:
    """How many file descriptors are open."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def cpu_seconds(pid: int) -> float:
    """CPU time used so far, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)

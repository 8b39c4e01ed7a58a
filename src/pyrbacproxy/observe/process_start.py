"""When this process was started, as the kernel knows it."""

import os
import time
from pathlib import Path

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

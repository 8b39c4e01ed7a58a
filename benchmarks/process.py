"""A program under measurement: start, CPU seconds and memory with all its children, end."""

import os
import subprocess
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class Program:
    """A running program. Its output goes to a file that is shown when it fails."""

    def __init__(self, command: list[str], output: Path) -> None:
        self._output = output
        # With bytecode on disk, as in the image: compiling costs time and memory at each start.
        environment = {
            key: value
            for key, value in os.environ.items()
            if "_proxy" not in key.lower() and key != "PYTHONDONTWRITEBYTECODE"
        }
        with output.open("wb") as stream:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, env=environment
            )

    def assert_alive(self) -> None:
        """Raise SystemExit with the program's output when it has ended."""
        if self._process.poll() is not None:
            tail = self._output.read_text(errors="replace")[-2000:]
            raise SystemExit(f"{self._process.args!r} ended:\n{tail}")

    def cpu_seconds(self) -> float:
        """User and system time of the program and its children, those that ended included."""
        return sum(_cpu_seconds(pid) for pid in self._tree())

    def resident_mib(self) -> float:
        """Resident memory of the program and its children; pages they share count once each."""
        return sum(_resident_kib(pid) for pid in self._tree()) / 1024

    def stop(self) -> None:
        """End the program."""
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _tree(self) -> list[int]:
        pids = [self._process.pid]
        for pid in pids:
            children = Path(f"/proc/{pid}/task/{pid}/children")
            pids += (
                [int(child) for child in children.read_text().split()] if children.exists() else []
            )
        return pids


def _cpu_seconds(pid: int) -> float:
    # proc(5): fields 14 to 17 are utime, stime, cutime, cstime; field 2, a name, may hold blanks.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / _TICKS_PER_SECOND


def _resident_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))

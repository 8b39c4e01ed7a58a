"""A program under measurement: start, CPU seconds and memory with all its children, end."""

import os
import subprocess
import time
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
        return self._mib("status", "VmRSS:")

    def private_mib(self) -> float:
        """Memory that is no file's: the part of a limit that the kernel can't take back."""
        return self._mib("status", "RssAnon:")

    def proportional_mib(self) -> float:
        """Resident memory in which a page that n processes share counts as one nth."""
        return self._mib("smaps_rollup", "Pss:")

    def exit_status(self) -> int | None:
        """None while the program runs; negative after a signal."""
        return self._process.poll()

    def stop(self) -> None:
        """End the program."""
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _mib(self, file: str, field: str) -> float:
        return sum(_kib(pid, file, field) for pid in self._tree()) / 1024

    def _tree(self) -> list[int]:
        pids = [self._process.pid]
        for pid in pids:
            children = Path(f"/proc/{pid}/task/{pid}/children")
            pids += (
                [int(child) for child in children.read_text().split()] if children.exists() else []
            )
        return pids


def _cpu_seconds(pid: int) -> float:
    # The process's own clock, in ns; its number is made as by clock_getcpuclockid(3). For children
    # that ended there are only ticks: proc(5), fields 16 and 17. Field 2, a name, may hold blanks.
    own = time.clock_gettime(~pid << 3 | 2)
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return own + sum(map(int, fields[13:15])) / _TICKS_PER_SECOND


def _kib(pid: int, file: str, field: str) -> int:
    lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))

"""`python -m benchmarks.limits`: what a start costs, what stays in memory, and small limits.

Prints tables in Markdown. What they mean and how to read them: benchmarks/README.md.
"""

import argparse
import platform
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import NoReturn

from benchmarks import cgroup, loads, world
from benchmarks.cgroup import Group, Limits, NoGroupsError
from benchmarks.contender import OURS, Contender
from benchmarks.loads import Client
from benchmarks.process import Program
from benchmarks.report import row, table
from benchmarks.world import SIZES, World

STARTS = 7
# What kube-prometheus gives the proxy beside node-exporter, and five times the CPU.
LIMITS = (Limits(40, 20), Limits(40, 100))
_LONGEST_SECONDS = 60.0
_REFUSED_PAUSE_SECONDS = 0.01
_ATTEMPTS_AFTERWARDS = 5
_PAUSE_SECONDS = 0.5
_FAILURES: dict[type[OSError], str] = {TimeoutError: "timed out", ConnectionResetError: "reset"}


@dataclass
class Outcome:
    """What a client with a good credential met from the program's start on; seconds since then."""

    port_open: float | None = None
    first_success: float | None = None
    others: Counter[str] = field(default_factory=Counter)
    ending: str = "runs"


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.limits", description=__doc__)
    parser.add_argument("--peer", type=Path, help="a kube-rbac-proxy binary to measure as well")
    parser.add_argument("--seconds", type=int, default=3, help="length of one load (default 3)")
    options = parser.parse_args()
    if missing := [name for name in ("nginx", "wrk") if not shutil.which(name)]:
        raise SystemExit(f"missing: {', '.join(missing)}; `make setup` as root installs them")
    # The groups and programs go in the end, also when this is told to end.
    signal.signal(signal.SIGTERM, _ended)
    contenders = [
        Contender(f"{OURS}, certificate", world.ours_with_certificates, token=""),
        Contender(f"{OURS}, kubeconfig", world.ours_with_reviews),
        Contender(f"{OURS} -OO, certificate", stripped(world.ours_with_certificates), token=""),
        Contender(f"{OURS} -OO, kubeconfig", stripped(world.ours_with_reviews)),
    ]
    if options.peer:
        command = partial(world.peer, options.peer.resolve())
        contenders.append(Contender(f"{options.peer.name}, certificate", command, token=""))
        contenders.append(Contender(f"{options.peer.name}, kubeconfig", command))
    print(f"\n{OURS} by {sys.executable}, {platform.python_version()}")
    with ExitStack() as cleanup:
        folder = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="benchmark-")))
        around, upstream = world.build(folder)
        cleanup.callback(upstream.stop)
        start_and_memory(around, contenders, options.seconds)
        for limits in LIMITS:
            limited(around, contenders, limits)
    return 0


def stripped(command: Callable[..., list[str]]) -> Callable[[World, int], list[str]]:
    """That of ours, by a Python that drops docstrings and assertions."""
    return lambda around, port: command(around, port, "-OO")


def start_and_memory(around: World, contenders: Sequence[Contender], seconds: int) -> None:
    """CPU until the first answer; memory of fresh processes, idle and after all loads."""
    why_not = _why_no_groups()
    idle = ("private MiB idle", "PSS", "peak")
    after = ("private MiB after loads", "PSS", "peak")
    table("proxy", "CPU s to the first answer", "least", "most", *idle, *after)
    interpreter = [interpreter_cpu_seconds() for _ in range(STARTS + 1)][1:]
    row("Python alone", *_spread(interpreter), *[""] * 6)
    for contender in contenders:
        # The first writes bytecode and reads files that the others find in memory.
        seen = [first_answer_cpu_seconds(around, contender) for _ in range(STARTS + 1)][1:]
        with (
            nullcontext() if why_not else cgroup.group(Limits()) as group,
            contender.running(around, group) as (program, port),
        ):
            time.sleep(1)
            idle_memory = memory(program, group)
            load(around, contender, program, port, seconds)
            time.sleep(1)
            row(contender.name, *_spread(seen), *idle_memory, *memory(program, group))
    if why_not:
        print(f"\nNo peaks: {why_not}")


def first_answer_cpu_seconds(around: World, contender: Contender) -> float:
    """User and system time of one start, to the first answer."""
    with contender.running(around) as (program, _):
        return program.cpu_seconds()


def interpreter_cpu_seconds() -> float:
    """User and system time of a Python that runs nothing: how fast the machine is just now."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def memory(program: Program, group: Group | None) -> tuple[str, str, str]:
    """Private memory, PSS and the group's peak."""
    private, proportional = program.private_mib(), program.proportional_mib()
    return f"{private:.1f}", f"{proportional:.1f}", _mib(group.peak_mib() if group else None)


def load(around: World, contender: Contender, program: Program, port: int, seconds: int) -> None:
    """The loads of the relay table, one after the other."""
    context = contender.context(around)
    for size in SIZES.values():
        if contender.token:
            loads.wrk(program, port, size, seconds)
        else:
            loads.plain(port, context, size, seconds)
    loads.fresh(program, port, context, contender.token, seconds)


def limited(around: World, contenders: Sequence[Contender], limits: Limits) -> None:
    """Starts under limits: until when there is no answer, and which answers are no success."""
    text = f"{limits.memory_mib}Mi and {limits.milli_cpu}m"
    if why_not := _why_no_groups():
        print(f"\nNo table for {text}: {why_not}")
        return
    titles = ("port open, s", "first 200, s", "other answers", "peak MiB", "ending")
    table(f"under {text}", *titles)
    for contender in contenders:
        with (
            cgroup.group(limits) as group,
            contender.started(around, group) as (program, port),
        ):
            outcome = watch(around, contender, program, port)
            peak = group.peak_mib()
            if group.out_of_memory_kills():
                outcome.ending += ", processes killed for memory"
        others = ", ".join(f"{count} {what}" for what, count in sorted(outcome.others.items()))
        row(
            contender.name,
            _seconds(outcome.port_open),
            _seconds(outcome.first_success),
            others or "0",
            _mib(peak),
            outcome.ending,
        )


def watch(around: World, contender: Contender, program: Program, port: int) -> Outcome:
    """Ask over a new connection each, from now until some attempts after the first success."""
    outcome, begun, left = Outcome(), time.monotonic(), _ATTEMPTS_AFTERWARDS
    context = contender.context(around)
    while left and time.monotonic() < begun + _LONGEST_SECONDS:
        if (status := program.exit_status()) is not None:
            outcome.ending = f"ended with {status}"
            break
        asked = time.monotonic() - begun
        try:
            client = Client(port, context, contender.token)
            client.get(SIZES["160 B"])
            client.close()
        except ConnectionRefusedError:
            if outcome.port_open is None:
                time.sleep(_REFUSED_PAUSE_SECONDS)
                continue
            outcome.others["refused"] += 1
        except OSError as error:
            outcome.others[_named(error)] += 1
        else:
            if outcome.first_success is None:
                outcome.first_success = time.monotonic() - begun
            left -= 1
        if outcome.port_open is None:
            # The attempt that was let in began at most one pause after it.
            outcome.port_open = asked
        time.sleep(_PAUSE_SECONDS)
    return outcome


def _spread(figures: Sequence[float]) -> tuple[str, str, str]:
    return f"{statistics.median(figures):.3f}", f"{min(figures):.3f}", f"{max(figures):.3f}"


def _named(error: OSError) -> str:
    status = str(error).removeprefix("HTTP/1.1 ")[:3]
    return status if status.isdigit() else _FAILURES.get(type(error), "closed or broken")


def _mib(figure: float | None) -> str:
    return "-" if figure is None else f"{figure:.1f}"


def _seconds(figure: float | None) -> str:
    return "none" if figure is None else f"{figure:.1f}"


def _why_no_groups() -> str:
    """Why this process may not make groups; "" when it may."""
    try:
        with cgroup.group(LIMITS[0]):
            return ""
    except NoGroupsError as error:
        return f"no control group can be made ({error}); that takes root and writable cgroup files"


def _ended(_number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(1)


if __name__ == "__main__":
    sys.exit(main())

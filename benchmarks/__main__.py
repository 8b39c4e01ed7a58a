"""`make bench`: ours beside an nginx TLS proxy and, if named, a kube-rbac-proxy, all in one run.

Prints tables in Markdown. What they mean and how to read them: benchmarks/README.md.
"""

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from benchmarks import loads, world
from benchmarks.contender import OURS, Contender
from benchmarks.loads import Client, Load
from benchmarks.process import Program
from benchmarks.report import row, table
from benchmarks.world import SIZES, World

IDLE_CONNECTIONS = 400
STARTS = 5
ROUNDS = 3


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--peer", type=Path, help="a kube-rbac-proxy binary to measure as well")
    parser.add_argument("--seconds", type=int, default=5, help="length of one load (default 5)")
    options = parser.parse_args()
    if missing := [name for name in ("nginx", "wrk") if not shutil.which(name)]:
        raise SystemExit(f"missing: {', '.join(missing)}; `make setup` as root installs them")
    contenders = [
        Contender(OURS, world.ours_with_reviews),
        Contender("nginx", world.nginx),
    ]
    if options.peer:
        contenders.append(Contender(options.peer.name, partial(world.peer, options.peer.resolve())))
    by_certificate = Contender(f"{OURS}, certificate", world.ours_with_certificates, token="")
    with ExitStack() as cleanup:
        folder = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="benchmark-")))
        around, upstream = world.build(folder)
        cleanup.callback(upstream.stop)
        relay(around, contenders, options.seconds)
        memory(around, [by_certificate, *contenders], options.seconds)
        start_up(around, [by_certificate, *contenders])
    return 0


def relay(around: World, contenders: Sequence[Contender], seconds: int) -> None:
    """Requests per CPU second and latency: each load goes to the proxies in turn, three times."""
    by_name = {contender.name: contender for contender in contenders}
    table("load", "proxy", "requests per CPU s", "requests/s", "p50 ms", "p99 ms", "MiB after")
    with ExitStack() as cleanup:
        running = {
            contender.name: cleanup.enter_context(contender.running(around))
            for contender in contenders
        }

        def kept(name: str, size: int) -> Load:
            loads.wrk(*running[name], size, 1)
            return loads.wrk(*running[name], size, seconds)

        def fresh(name: str) -> Load:
            contender = by_name[name]
            return loads.fresh(*running[name], contender.context(around), contender.token, seconds)

        kinds: dict[str, Callable[[str], Load]] = {
            load: partial(kept, size=size) for load, size in SIZES.items()
        }
        for load, measure in {**kinds, "new TLS connection": fresh}.items():
            runs: dict[str, list[Load]] = {name: [] for name in running}
            for _ in range(ROUNDS):
                for name in running:
                    runs[name].append(measure(name))
            seen = {name: middle(runs[name]) for name in runs}
            for name, result in seen.items():
                figures = f"{result.per_cpu_second:.0f}", f"{result.requests / result.seconds:.0f}"
                delays = f"{result.p50_ms:.2f}", f"{result.p99_ms:.2f}"
                row(load, name, *figures, *delays, f"{running[name][0].resident_mib():.1f}")
            for name in list(seen)[1:]:
                row(load, f"{OURS} / {name}", *ratios(seen[OURS], seen[name]), "")


def middle(runs: list[Load]) -> Load:
    """The run whose requests per CPU second are the median."""
    return sorted(runs, key=lambda run: run.per_cpu_second)[len(runs) // 2]


def ratios(ours: Load, other: Load) -> Iterator[str]:
    """Ours divided by the other's, figure by figure."""
    yield f"{ours.per_cpu_second / other.per_cpu_second:.2f}"
    yield f"{ours.requests / ours.seconds / (other.requests / other.seconds):.2f}"
    yield f"{ours.p50_ms / other.p50_ms:.2f}" if other.p50_ms else "-"
    yield f"{ours.p99_ms / other.p99_ms:.2f}" if other.p99_ms else "-"


def memory(around: World, contenders: Sequence[Contender], seconds: int) -> None:
    """Resident memory of fresh processes: idle, after load, and with idle connections."""
    after = (f"MiB after {name}" for name in SIZES)
    table("proxy", "MiB idle", *after, "KiB per idle connection")
    for contender in contenders:
        with contender.running(around) as (program, port):
            idle = program.resident_mib()
            loaded = []
            for size in SIZES.values():
                if contender.token:
                    loads.wrk(program, port, size, seconds)
                else:
                    loads.plain(port, contender.context(around), size, seconds)
                # The load's connections are just being closed.
                time.sleep(0.5)
                loaded.append(f"{program.resident_mib():.1f}")
        with contender.running(around) as (program, port):
            each = idle_connection_kib(around, contender, program, port)
        row(contender.name, f"{idle:.1f}", *loaded, f"{each:.1f}")


def idle_connection_kib(around: World, contender: Contender, program: Program, port: int) -> float:
    """What one kept connection costs that has served one request."""
    context = contender.context(around)
    before = program.resident_mib()
    clients = [Client(port, context, contender.token) for _ in range(IDLE_CONNECTIONS)]
    for client in clients:
        client.get(SIZES["160 B"])
    after = program.resident_mib()
    for client in clients:
        client.close()
    return (after - before) * 1024 / IDLE_CONNECTIONS


def start_up(around: World, contenders: Sequence[Contender]) -> None:
    """Start of the process to its first answered request."""
    table("proxy", f"start to first answer, ms (median of {STARTS})")
    for contender in contenders:
        seen = []
        for _ in range(STARTS):
            begun = time.monotonic()
            with contender.running(around):
                seen.append((time.monotonic() - begun) * 1000)
        row(contender.name, f"{statistics.median(seen):.0f}")


if __name__ == "__main__":
    sys.exit(main())

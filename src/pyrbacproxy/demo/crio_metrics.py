"""What CRI-O serves under /metrics on an OpenShift node, as text exposition with constant numbers.

Names, types and labels are CRI-O's, with the prefix that they carry on such nodes; the go_* and
process_* series of a Go program stand beside them. Padding makes a body of any size that Prometheus
still reads.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from zlib import crc32

_PREFIX = "container_runtime_crio_"
# The operations that a quiet node has seen since its start; the others have no series yet.
_OPERATIONS = (
    "ContainerStats",
    "ContainerStatus",
    "CreateContainer",
    "ExecSync",
    "ImageStatus",
    "ListContainers",
    "ListImages",
    "ListPodSandbox",
    "PodSandboxStatus",
    "PullImage",
    "RemoveContainer",
    "RemovePodSandbox",
    "RunPodSandbox",
    "StartContainer",
    "Status",
    "StopPodSandbox",
    "Version",
)
_FAILED_OPERATIONS = ("ExecSync", "PullImage")
_QUANTILES = ("0.5", "0.9", "0.99")
_LAYER_SIZES = (
    1024,
    1048576,
    10485760,
    52428800,
    104857600,
    209715200,
    314572800,
    419430400,
    524288000,
    1073741824,
    10737418240,
)
_LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"
_STARTED = 1767225600


@dataclass(frozen=True, slots=True)
class _Family:
    """One metric: its samples are (suffix of the name, labels as text, value)."""

    name: str
    kind: str
    help: str
    samples: tuple[tuple[str, str, float], ...]

    def lines(self) -> Iterator[str]:
        yield f"# HELP {self.name} {self.help}\n"
        yield f"# TYPE {self.name} {self.kind}\n"
        for suffix, labels, value in self.samples:
            yield f"{self.name}{suffix}{labels and f'{{{labels}}}'} {value:.17g}\n"


def exposition(size_bytes: int | None = None) -> bytes:
    """The body of a scrape; with `size_bytes`, of exactly that size.

    Smaller than natural: as many whole lines as fit. Larger: further containers in the last family,
    as a node with many of them shows. The rest is a comment.
    """
    natural = "".join(line for family in _families() for line in family.lines()).encode()
    if size_bytes is None:
        return natural
    lines: list[bytes] = []
    room = size_bytes
    for line in _endless(natural.splitlines(keepends=True)):
        if len(line) > room:
            break
        lines.append(line)
        room -= len(line)
    if room:
        lines.append(b"#" * (room - 1) + b"\n")
    return b"".join(lines)


def _endless(lines: list[bytes]) -> Iterator[bytes]:
    yield from lines
    number = 0
    while True:
        yield _oom(f"k8s_app_pod-{number:07d}_default_0").encode()
        number += 1


def _oom(container: str) -> str:
    return f'{_PREFIX}containers_oom_count_total{{name="{container}"}} 1\n'


def _number(seed: str, below: int) -> int:
    """A number that looks measured and is the same in every run."""
    return crc32(seed.encode()) % below


def _families() -> Iterator[_Family]:
    yield from _program_families()
    yield from _image_families()
    yield from _operation_families()
    yield _Family(
        f"{_PREFIX}containers_dropped_events_total",
        "counter",
        "Amount of container events that could not be delivered",
        (("", "", 0),),
    )
    yield _Family(
        f"{_PREFIX}containers_oom_total",
        "counter",
        "Amount of containers killed because they ran out of memory (OOM)",
        (("", "", 2),),
    )
    yield _Family(
        f"{_PREFIX}processes_defunct",
        "gauge",
        "Total number of defunct processes in the node",
        (("", "", 0),),
    )
    # Last, because padding goes on here.
    yield _Family(
        f"{_PREFIX}containers_oom_count_total",
        "counter",
        "Containers killed because they ran out of memory (OOM), by name",
        (("", 'name="k8s_app_hungry_default_0"', 2),),
    )


def _operation_families() -> Iterator[_Family]:
    counts = {name: 1 + _number(name, 90_000) for name in _OPERATIONS}
    yield _Family(
        f"{_PREFIX}operations_total",
        "counter",
        "Cumulative number of CRI-O operations by operation type",
        tuple(("", f'operation="{name}"', count) for name, count in counts.items()),
    )
    yield _Family(
        f"{_PREFIX}operations_latency_seconds_total",
        "summary",
        "Latency in seconds of CRI-O operations, by operation type",
        tuple(_latencies(counts)),
    )
    yield _Family(
        f"{_PREFIX}operations_latency_seconds",
        "gauge",
        "Latency in seconds of individual CRI calls for CRI-O operations",
        tuple(("", f'operation="{name}"', _seconds(name)) for name in counts),
    )
    yield _Family(
        f"{_PREFIX}operations_errors_total",
        "counter",
        "Cumulative number of CRI-O operation errors by operation type",
        tuple(
            ("", f'operation="{name}"', 1 + _number(f"{name} failed", 40))
            for name in _FAILED_OPERATIONS
        ),
    )


def _latencies(counts: dict[str, int]) -> Iterable[tuple[str, str, float]]:
    for name, count in counts.items():
        operation = f'operation="{name}"'
        for rank, quantile in enumerate(_QUANTILES, start=1):
            yield "", f'{operation},quantile="{quantile}"', _seconds(name) * rank
        yield "_sum", operation, count * _seconds(name)
        yield "_count", operation, count


def _seconds(name: str) -> float:
    return (1 + _number(f"{name} took", 90_000)) / 1e6


def _image_families() -> Iterator[_Family]:
    pulled = tuple(
        ("", f'mediatype="{_LAYER}",size="{size}"', size * (1 + _number(f"pulled {size}", 7)))
        for size in _LAYER_SIZES[:6]
    )
    skipped = tuple(("", f'size="{size}"', size * 3) for size in _LAYER_SIZES[:6])
    buckets = tuple(
        ("_bucket", f'le="{bound}"', min(12 * rank, 97))
        for rank, bound in enumerate((*_LAYER_SIZES, "+Inf"), start=1)
    )
    layers = (*buckets, ("_sum", "", 1.61e9), ("_count", "", 97))
    for name, kind, text, samples in (
        ("pulls_bytes_total", "counter", "Bytes transferred by CRI-O image pulls", pulled),
        ("pulls_skipped_bytes_total", "counter", "Bytes skipped by CRI-O image pulls", skipped),
        ("pulls_success_total", "counter", "Successful image pulls", (("", "", 61),)),
        (
            "pulls_failure_total",
            "counter",
            "Failed image pulls by error",
            (("", 'error="NOT_FOUND"', 3),),
        ),
        ("pulls_layer_size", "histogram", "Sizes of the pulled layers in bytes", layers),
        ("layer_reuse_total", "counter", "Reused layers, by image", (("", "", 412),)),
    ):
        yield _Family(f"{_PREFIX}image_{name}", kind, text, samples)


def _program_families() -> Iterator[_Family]:
    for name, kind, text, value in (
        ("go_goroutines", "gauge", "Number of goroutines that currently exist.", 58),
        ("go_memstats_alloc_bytes", "gauge", "Bytes allocated and still in use.", 36_814_328),
        ("go_memstats_heap_objects", "gauge", "Number of currently allocated objects.", 241_007),
        ("go_memstats_sys_bytes", "gauge", "Bytes obtained from system.", 97_911_064),
        ("go_threads", "gauge", "Number of OS threads created.", 27),
        ("process_cpu_seconds_total", "counter", "CPU time spent in seconds.", 3_618.44),
        ("process_max_fds", "gauge", "Maximum number of open file descriptors.", 1_048_576),
        ("process_open_fds", "gauge", "Number of open file descriptors.", 63),
        ("process_resident_memory_bytes", "gauge", "Resident memory size in bytes.", 121_835_520),
        ("process_start_time_seconds", "gauge", "Start time since the epoch.", _STARTED + 0.43),
        ("process_virtual_memory_bytes", "gauge", "Virtual memory size in bytes.", 3_204_214_784),
    ):
        yield _Family(name, kind, text, (("", "", value),))
    yield _Family(
        "go_info",
        "gauge",
        "Information about the Go environment.",
        (("", 'version="go1.24.6"', 1),),
    )

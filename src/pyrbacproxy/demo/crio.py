"""A CRI-O-like upstream on loopback, in its own process."""

import argparse
import asyncio
import gzip
import re
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from email.utils import formatdate
from zlib import crc32

import uvloop

from pyrbacproxy.values import Frozen

# --- crio metrics ---------------------------------------------------------------------
#
# What CRI-O serves under /metrics on an OpenShift node, as text exposition with constant numbers.
#
# Names, types and labels are CRI-O's, with the prefix that they carry on such nodes; the go_* and
# process_* series of a Go program stand beside them. Padding makes a body of any size that
# Prometheus still reads.

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


class _Family(Frozen):
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


# --- crio -----------------------------------------------------------------------------
#
# A CRI-O-like upstream on loopback, run as its own process.
#
# `python -m pyrbacproxy.demo.crio --port 0 --size 100000` prints its address as its first line. It
# answers from prebuilt bytes, so that a load measures the proxy and not it: /metrics as Go's
# promhttp does, gzip when asked, and 404 for the rest. A request that brings a chunked body is
# answered and its connection closed.

_TYPE = b"text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
_HEAD_LIMIT_BYTES = 64 * 1024
_GZIP = re.compile(rb"\r\naccept-encoding:[^\r\n]*\bgzip\b", re.IGNORECASE)
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:", re.IGNORECASE)
_CLOSE = re.compile(rb"\r\nconnection:[^\r\n]*\bclose\b", re.IGNORECASE)


class Answers:
    """The finished answers. Their heads are made anew every second, for the Date."""

    def __init__(self, body: bytes, now: float) -> None:
        self.plain_body = body
        self.gzip_body = gzip.compress(body, compresslevel=6, mtime=0)
        self.missing_body = b"404 page not found\n"
        self.refresh(now)

    def refresh(self, now: float) -> None:
        """Set the Date of the heads to `now` (seconds since the epoch)."""
        date = formatdate(now, usegmt=True).encode()
        start = b"HTTP/1.1 200 OK\r\nContent-Type: " + _TYPE
        self.plain_head = _head(start, self.plain_body, date)
        self.gzip_head = _head(start + b"\r\nContent-Encoding: gzip", self.gzip_body, date)
        missing = (
            b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain; charset=utf-8"
            b"\r\nX-Content-Type-Options: nosniff"
        )
        self.missing_head = _head(missing, self.missing_body, date)

    def answer(self, method: bytes, path: bytes, *, takes_gzip: bool) -> tuple[bytes, bytes]:
        """Head and body, which is empty for HEAD."""
        if path != b"/metrics":
            head, body = self.missing_head, self.missing_body
        elif takes_gzip:
            head, body = self.gzip_head, self.gzip_body
        else:
            head, body = self.plain_head, self.plain_body
        return head, (b"" if method == b"HEAD" else body)


class CrioConnection(asyncio.Protocol):
    """One connection: cut heads off what came in, skip bodies, answer in order."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._body_left_bytes = 0

    # uvloop's transports are no subclasses of asyncio's, so nothing can narrow the declared type.
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See `asyncio.Protocol`."""
        self._transport = transport

    def pause_writing(self) -> None:
        """A client that does not read gets no further request read."""
        if self._transport:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """The client reads again."""
        if self._transport:
            self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        self._buffer = self._buffer + data if self._buffer else data
        while self._transport and not self._transport.is_closing():
            if self._body_left_bytes:
                skipped = min(self._body_left_bytes, len(self._buffer))
                self._buffer = self._buffer[skipped:]
                self._body_left_bytes -= skipped
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0 or self._body_left_bytes:
                if len(self._buffer) > _HEAD_LIMIT_BYTES:
                    self._transport.abort()
                return
            head, self._buffer = self._buffer[:end], self._buffer[end + 4 :]
            self._serve(self._transport, head)

    def _serve(self, transport: asyncio.Transport, head: bytes) -> None:
        words = head.partition(b"\r\n")[0].split(b" ")
        if len(words) != len(("method", "target", "version")):
            transport.abort()
            return
        path, takes_gzip = words[1].partition(b"?")[0], bool(_GZIP.search(head))
        answer_head, body = self._answers.answer(words[0], path, takes_gzip=takes_gzip)
        ends = words[2] != b"HTTP/1.1" or bool(_CLOSE.search(head) or _CHUNKED.search(head))
        if ends:
            answer_head = answer_head[:-2] + b"Connection: close\r\n\r\n"
        # One write for what fits a segment or two; a large body is not copied behind its head.
        if len(body) < _HEAD_LIMIT_BYTES:
            transport.write(answer_head + body)
        else:
            transport.write(answer_head)
            transport.write(body)
        if ends:
            transport.close()
            return
        length = _LENGTH.search(head)
        self._body_left_bytes = int(length[1]) if length else 0


async def serve(port: int, size_bytes: int | None) -> None:
    """Serve on 127.0.0.1 until SIGINT or SIGTERM; port 0 takes a free one.

    Raises OSError when the port is taken.
    """
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, ended.set)
    answers = Answers(exposition(size_bytes), time.time())
    server = await loop.create_server(
        lambda: CrioConnection(answers), "127.0.0.1", port, backlog=1024
    )
    sys.stdout.write(f"127.0.0.1:{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    _keep_fresh(loop, answers)
    await ended.wait()
    server.close()


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(
        prog="python -m pyrbacproxy.demo.crio",
        description="A CRI-O-like upstream on loopback, in its own process.",
    )
    parser.add_argument("--port", type=int, default=9537, help="0 takes a free one")
    parser.add_argument("--size", type=int, help="size of the body in bytes, before gzip")
    options = parser.parse_args()
    if options.size is not None and options.size < 0:
        parser.error("--size: a size can't be negative")
    uvloop.run(serve(options.port, options.size))


def _keep_fresh(loop: asyncio.AbstractEventLoop, answers: Answers) -> None:
    answers.refresh(time.time())
    loop.call_later(1, _keep_fresh, loop, answers)


def _head(start: bytes, body: bytes, date: bytes) -> bytes:
    return b"%b\r\nDate: %b\r\nContent-Length: %d\r\n\r\n" % (start, date, len(body))


if __name__ == "__main__":
    main()

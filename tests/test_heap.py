"""On the C library of this machine, where it is one that keeps memory."""

import platform
from pathlib import Path

import pytest

from pyrbacproxy.proxy import listener as heap

PIECES = 200
PIECE_BYTES = 65_536  # small enough for the heap: larger ones get a mapping each


def resident_kib() -> int:
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Rss:"))


def test_what_lies_between_objects_in_use_is_given_back() -> None:
    pieces = [bytes([number]) * PIECE_BYTES for number in range(PIECES)]
    kept = pieces[::8]
    pieces.clear()
    before = resident_kib()
    heap.trim()
    given_back = before - resident_kib()
    assert kept[1] == bytes([8]) * PIECE_BYTES
    if platform.libc_ver()[0] == "glibc":
        assert given_back > PIECES * PIECE_BYTES / 1024 / 2


def test_a_c_library_without_such_a_function_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert heap.c_function("no_such_function") is None
    monkeypatch.setattr(heap, "_malloc_trim", None)
    heap.trim()

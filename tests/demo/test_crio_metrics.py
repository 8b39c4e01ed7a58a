"""The exposition: sizes to the byte, and text that prometheus' own checker reads."""

import shutil
import subprocess

import pytest

from pyrbacproxy.demo.crio import exposition


def test_has_as_many_crio_series_as_a_node() -> None:
    lines = exposition().splitlines()
    assert sum(line.startswith(b"container_runtime_crio_") for line in lines) == 154
    assert any(line.startswith(b"go_goroutines ") for line in lines)
    assert any(line.startswith(b"process_resident_memory_bytes ") for line in lines)


def test_is_the_same_in_every_run() -> None:
    assert exposition() == exposition()


@pytest.mark.parametrize("size", [0, 1, 2, 160, 18_000, 100_000, 1_000_003])
def test_has_the_size_asked_for(size: int) -> None:
    body = exposition(size)
    assert len(body) == size
    assert not body or body.endswith(b"\n")


@pytest.mark.e2e
@pytest.mark.parametrize("size", [None, 160, 100_000])
def test_is_valid_exposition(size: int | None) -> None:
    promtool = shutil.which("promtool")
    assert promtool, "promtool is missing: it comes with Debian's package prometheus"
    found = subprocess.run(
        [promtool, "check", "metrics"], input=exposition(size), capture_output=True, check=False
    )
    # CRI-O itself has a summary whose name ends in _total; that complaint alone is deserved.
    complaints = [line for line in found.stderr.splitlines() if b"_total" not in line]
    assert complaints == []
    assert found.returncode in (0, 3)

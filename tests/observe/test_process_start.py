import os
import time
from pathlib import Path

import pytest

from pyrbacproxy.observe.process import process_started_at


def test_it_was_before_now_and_does_not_move() -> None:
    started_at = process_started_at()
    assert 0 < started_at <= time.time()
    assert process_started_at() == started_at


def test_the_kernel_counts_ticks_since_the_boot(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    before = " ".join(str(number) for number in range(4, 22))
    ticks = 5 * os.sysconf("SC_CLK_TCK")
    (tmp_path / "self/stat").write_text(f"1 (odd) name) S {before} {ticks} 23 24\n")
    (tmp_path / "stat").write_text("cpu 1 2\nbtime 1000\n")
    assert process_started_at(str(tmp_path)) == 1005


@pytest.mark.parametrize(
    ("own", "whole"),
    [("", "btime 1\n"), ("1 (x) S 1", "btime 1\n"), ("1 (x) " + "7 " * 30, "cpu 1\n"), (None, "")],
)
def test_without_the_kernels_word_it_is_our_import(
    own: str | None, whole: str, tmp_path: Path
) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "stat").write_text(whole)
    if own is not None:
        (tmp_path / "self/stat").write_text(own)
    assert time.time() - 3600 < process_started_at(str(tmp_path)) <= time.time()

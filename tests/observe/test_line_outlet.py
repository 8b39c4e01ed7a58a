"""Lines go out whole or are lost: rotation, full disks, pipes that nobody reads, odd files."""

import contextlib
import errno
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyrbacproxy.observe.access_log import MOST_WAITING_BYTES, LineOutlet, open_outlet


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Disk:
    """As `os.write`, with so much room."""

    def __init__(self, room: int) -> None:
        self.room = room

    def write(self, descriptor: int, data: bytes) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        part = data[: self.room]
        self.room -= len(part)
        return os.write(descriptor, part)


@pytest.fixture(name="path")
def fixture_path(tmp_path: Path) -> Path:
    return tmp_path / "access.log"


@pytest.fixture(name="pipe")
def fixture_pipe() -> Iterator[tuple[int, LineOutlet]]:
    reader, writer = os.pipe()
    outlet = LineOutlet(writer)
    yield reader, outlet
    outlet.close()


def opened(path: Path, *, clock: Clock | None = None, disk: Disk | None = None) -> LineOutlet:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    write = os.write if disk is None else disk.write
    return LineOutlet(descriptor, str(path), write=write, clock=clock or Clock())


# --- files ----------------------------------------------------------------------------


def test_a_file_is_made_for_its_group_to_read_and_appended_to(path: Path) -> None:
    before = os.umask(0o022)
    try:
        for text in (b"a\n", b"b\n"):
            outlet = open_outlet(str(path))
            assert outlet.write(text)
            outlet.close()
    finally:
        os.umask(before)
    assert path.read_bytes() == b"a\nb\n"
    assert path.stat().st_mode & 0o777 == 0o640
    assert outlet.name == str(path)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    os.mkfifo(tmp_path / "read")
    reader = os.open(tmp_path / "read", os.O_RDONLY | os.O_NONBLOCK)
    cases = {
        "/dev/null": "not a regular file",
        str(tmp_path): "Is a directory",
        str(tmp_path / "pipe"): "No such device",
        str(tmp_path / "read"): "not a regular file",
        str(tmp_path / "none" / "log"): "No such file",
    }
    for name, reason in cases.items():
        with pytest.raises(OSError, match=reason):
            open_outlet(name)
    os.close(reader)


@pytest.mark.parametrize("how", ["moved", "removed", "replaced"])
def test_a_rotated_file_is_opened_anew(path: Path, how: str) -> None:
    clock = Clock()
    outlet = opened(path, clock=clock)
    outlet.write(b"a\n")
    if how == "removed":
        path.unlink()
    else:
        path.rename(path.with_suffix(".1"))
    if how == "replaced":
        path.write_bytes(b"first\n")
    clock.now += 0.9
    outlet.write(b"b\n")
    clock.now += 0.1
    outlet.write(b"c\n")
    outlet.close()
    assert path.read_bytes() == (b"first\n" if how == "replaced" else b"") + b"c\n"
    if how != "removed":
        assert path.with_suffix(".1").read_bytes() == b"a\nb\n"


def test_a_file_that_was_truncated_in_place_goes_on_at_its_beginning(path: Path) -> None:
    outlet = opened(path)
    outlet.write(b"a\n")
    os.truncate(path, 0)
    outlet.write(b"b\n")
    outlet.close()
    assert path.read_bytes() == b"b\n"


def test_the_old_file_is_written_on_until_there_is_a_new_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder, clock = tmp_path / "logs", Clock()
    folder.mkdir()
    outlet = opened(folder / "log", clock=clock)
    moved = folder.rename(tmp_path / "moved")
    with caplog.at_level(logging.ERROR):
        for text in (b"a\n", b"b\n"):
            clock.now += 1.0
            assert outlet.write(text)
    assert len(caplog.records) == 1
    assert "No such file" in caplog.text
    folder.mkdir()
    clock.now += 1.0
    outlet.write(b"c\n")
    outlet.close()
    assert (moved / "log").read_bytes() == b"a\nb\n"
    assert (folder / "log").read_bytes() == b"c\n"


# --- full disks -----------------------------------------------------------------------


def test_a_line_that_was_begun_on_a_full_disk_is_ended_before_the_next(path: Path) -> None:
    disk = Disk(8)
    outlet = opened(path, disk=disk)
    for lost in (b"first\nsecond\nthird\n", b"fourth\n"):
        with pytest.raises(OSError, match="No space"):
            outlet.write(lost)
    disk.room = 100
    assert outlet.write(b"fifth\n")
    outlet.close()
    assert path.read_bytes() == b"first\nsecond\nfifth\n"


def test_lines_that_were_not_begun_leave_nothing(path: Path) -> None:
    disk = Disk(6)
    outlet = opened(path, disk=disk)
    with pytest.raises(OSError, match="No space"):
        outlet.write(b"first\nsecond\n")
    disk.room = 100
    outlet.write(b"third\n")
    outlet.close()
    assert path.read_bytes() == b"first\nthird\n"


def test_a_new_file_does_not_begin_within_a_line(path: Path) -> None:
    disk, clock = Disk(3), Clock()
    outlet = opened(path, disk=disk, clock=clock)
    with pytest.raises(OSError, match="No space"):
        outlet.write(b"first\n")
    path.unlink()
    disk.room, clock.now = 100, 1.0
    # What is left of the line was taken before the look: it belongs to the old file.
    outlet.write(b"second\n")
    outlet.close()
    assert path.read_bytes() == b"second\n"


def test_a_device_that_is_full_says_so() -> None:
    outlet = LineOutlet(os.open("/dev/full", os.O_WRONLY))
    with pytest.raises(OSError, match="No space"):
        outlet.write(b"a\n")
    outlet.close()


# --- stdout ---------------------------------------------------------------------------


def test_a_pipe_that_nobody_reads_is_not_waited_for(pipe: tuple[int, LineOutlet]) -> None:
    reader, outlet = pipe
    lines = b"x" * (MOST_WAITING_BYTES - 1) + b"\n"
    written = 0
    while outlet.write(lines):
        written += len(lines)
    assert written > 0
    assert os.read(reader, MOST_WAITING_BYTES) == lines
    assert outlet.write(lines)
    os.close(reader)


def test_a_pipe_s_end_is_an_error(pipe: tuple[int, LineOutlet]) -> None:
    reader, outlet = pipe
    os.close(reader)
    with pytest.raises(BrokenPipeError):
        outlet.write(b"a\n")


def test_stdout_is_shared_and_stays_as_it_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with (tmp_path / "out").open("w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        outlet = open_outlet("-")
        assert outlet.name == "stdout"
        outlet.write(b"a\n")
        outlet.close()
        assert os.get_blocking(stream.fileno())
    assert (tmp_path / "out").read_bytes() == b"a\n"


def test_a_terminal_that_nobody_reads_loses_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, terminal = os.openpty()
    with os.fdopen(terminal, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        outlet = open_outlet("-")
        with contextlib.suppress(BlockingIOError):
            while outlet.write(b"x" * 1000 + b"\n"):
                pass
        assert not outlet.write(b"late\n")
        assert os.get_blocking(terminal)
        outlet.close()
    os.close(reader)


def test_a_closed_stdout_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "__stdout__", None)
    with pytest.raises(OSError, match="stdout is closed"):
        open_outlet("-")

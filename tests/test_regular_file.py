import os
import socket
from pathlib import Path

import pytest

from pyrbacproxy.regular_file import append_regular, read_regular


def test_a_file_is_read_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    assert read_regular(tmp_path / "file") == b"content"
    assert read_regular(str(tmp_path / "link")) == b"content"


def test_nothing_else_is_read_nor_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(OSError, match="not a regular file"):
            read_regular(path)
    with pytest.raises(IsADirectoryError):
        read_regular(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "none")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        with pytest.raises(OSError, match="No such device"):
            read_regular(tmp_path / "socket")


def test_no_file_stays_open(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    os.mkfifo(tmp_path / "pipe")
    before = os.listdir("/proc/self/fd")  # noqa: PTH208 -- their names are all we want
    read_regular(tmp_path / "file")
    with pytest.raises(OSError, match="not a regular file"):
        read_regular(tmp_path / "pipe")
    assert len(os.listdir("/proc/self/fd")) == len(before)  # noqa: PTH208 -- likewise


def test_a_file_is_appended_to_and_made_if_need_be(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    for data in (b"a", b"b"):
        descriptor = append_regular(tmp_path / "link", 0o600)
        os.write(descriptor, data)
        os.close(descriptor)
    assert (tmp_path / "file").read_bytes() == b"ab"
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600


def test_nothing_else_is_appended_to(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="not a regular file"):
        append_regular("/dev/null", 0o600)
    with pytest.raises(IsADirectoryError):
        append_regular(tmp_path, 0o600)

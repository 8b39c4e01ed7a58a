"""A root that is mounted elsewhere: its links stay in it."""

import errno
import os
from pathlib import Path

import pytest

from pyrbacproxy.node.host import HostFiles


@pytest.fixture(name="files")
def fixture_files(tmp_path: Path) -> HostFiles:
    """A root beside which lies what no path may reach."""
    (tmp_path / "outside").write_text("outside")
    root = tmp_path / "root"
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "real").write_text("inside")
    (root / "a" / "to-absolute").symlink_to("/a/real")
    (root / "a" / "b" / "to-relative").symlink_to("../to-absolute")
    (root / "out").symlink_to("../../outside")
    (root / "folder").symlink_to("/a")
    (root / "nothing").symlink_to("/gone")
    (root / "self").symlink_to("self")
    os.mkfifo(root / "pipe")
    return HostFiles(root)


@pytest.mark.parametrize("path", ["/a/real", "/a/to-absolute", "/folder/b/to-relative"])
def test_links_are_followed_inside_the_root(files: HostFiles, path: str) -> None:
    assert files.read(path) == b"inside"


@pytest.mark.parametrize(
    ("path", "number"),
    [
        ("/out", errno.ENOENT),
        ("/../outside", errno.ENOENT),
        ("/nothing", errno.ENOENT),
        ("/self", errno.ELOOP),
        ("/a/real/below", errno.ENOTDIR),
        ("/a", errno.EINVAL),
        ("/pipe", errno.EINVAL),
    ],
)
def test_what_cannot_be_read_says_why(files: HostFiles, path: str, number: int) -> None:
    with pytest.raises(OSError, match=r"\[Errno|regular") as caught:
        files.read(path)
    assert caught.value.errno == number


def test_a_giant_is_not_read(files: HostFiles, tmp_path: Path) -> None:
    with (tmp_path / "root" / "giant").open("wb") as giant:
        giant.truncate(16 * 2**20 + 1)
    with pytest.raises(OSError, match="too large"):
        files.read("/giant")


def test_names_and_presence(files: HostFiles) -> None:
    assert files.names("/folder") == ["b", "real", "to-absolute"]
    seen = {path: (files.is_there(path), files.is_folder(path)) for path in ("/nothing", "/folder")}
    assert seen == {"/nothing": (True, False), "/folder": (True, True)}
    assert not files.is_there("/a/none")
    assert not files.is_folder("/a/none")
    with pytest.raises(NotADirectoryError):
        files.is_there("/a/real/below")

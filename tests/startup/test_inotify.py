"""Against the kernel of this machine."""

import select
from pathlib import Path

import pytest

from pyrbacproxy.startup.watch import FolderEvents

SECONDS = 10.0


def is_told(events: FolderEvents, seconds: float = SECONDS) -> bool:
    told = bool(select.select([events], [], [], seconds)[0])
    events.drain()
    return told


def test_each_way_a_file_changes_is_told(tmp_path: Path) -> None:
    events = FolderEvents()
    events.watch(str(tmp_path))
    assert not is_told(events, 0)
    manifest = tmp_path / "manifest.yaml"
    for change in (
        manifest.touch,
        lambda: manifest.write_text("a"),
        lambda: manifest.rename(tmp_path / "other"),
        lambda: (tmp_path / "other").rename(manifest),
        manifest.unlink,
        lambda: manifest.symlink_to("nowhere"),
    ):
        change()
        assert is_told(events)
        assert not is_told(events, 0)
    events.close()


def test_a_folder_that_took_anothers_place_can_be_watched(tmp_path: Path) -> None:
    folder = tmp_path / "manifests"
    folder.mkdir()
    events = FolderEvents()
    events.watch(str(folder))
    folder.rmdir()
    assert is_told(events)
    folder.mkdir()
    events.watch(str(folder))
    assert not is_told(events, 0)
    (folder / "manifest.yaml").touch()
    assert is_told(events)
    events.close()


def test_what_cannot_be_watched_is_an_error(tmp_path: Path) -> None:
    events = FolderEvents()
    with pytest.raises(FileNotFoundError, match="missing"):
        events.watch(str(tmp_path / "missing"))
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        events.watch(str(tmp_path / "file"))
    events.close()

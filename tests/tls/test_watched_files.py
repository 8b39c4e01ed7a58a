import contextlib
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from pyrbacproxy.tls.files import TlsFileError, WatchedFiles, read_file


class Watched:
    """Two files, of which "bad" content is refused; `used` is what came through."""

    def __init__(self, folder: Path) -> None:
        self.first, self.second = folder / "first", folder / "second"
        self.first.write_text("a")
        self.second.write_text("1")
        self.used: list[tuple[bytes, ...]] = []
        self.files = WatchedFiles("thing", (str(self.first), str(self.second)), self.use)

    def use(self, contents: tuple[bytes, ...]) -> None:
        if b"bad" in contents:
            raise TlsFileError(str(self.first), "is bad")
        self.used.append(contents)


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    made = Watched(tmp_path)
    made.files.load()
    return made


def rename(path: Path, text: str) -> None:
    new = path.with_suffix(".new")
    new.write_text(text)
    new.rename(path)


def recreate(path: Path, text: str) -> None:
    path.unlink()
    path.write_text(text)


def swap_symlink(path: Path, text: str) -> None:
    real = path.with_suffix(f".{text}")
    real.write_text(text)
    link = path.with_suffix(".link")
    link.symlink_to(real)
    link.rename(path)


@pytest.mark.parametrize(
    "replace",
    [Path.write_text, rename, recreate, swap_symlink],
    ids=["in place", "rename", "recreate", "symlink"],
)
def test_new_content_is_used_however_it_came(
    watched: Watched, replace: Callable[[Path, str], object]
) -> None:
    # FR24: a second name for the old file, and more than one change.
    watched.first.with_suffix(".kept").hardlink_to(watched.first)
    for text in ("b", "a", "c"):
        replace(watched.first, text)
        watched.files.check()
        watched.files.check()
    assert watched.used == [(b"a", b"1"), (b"b", b"1"), (b"a", b"1"), (b"c", b"1")]


def test_the_same_content_is_not_used_twice(watched: Watched) -> None:
    rename(watched.second, "1")
    watched.files.check()
    watched.files.load()
    assert watched.used == [(b"a", b"1")]


def test_bad_content_keeps_the_old_and_is_logged_once(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    watched.first.write_text("bad")
    for _ in range(3):
        watched.files.check()
    watched.first.unlink()
    for _ in range(3):
        watched.files.check()
    watched.first.write_text("a")
    watched.files.check()
    watched.first.write_text("b")
    watched.files.check()
    watched.files.check()
    assert watched.used == [(b"a", b"1"), (b"b", b"1")]
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.ERROR, f"Keeping the old thing: {watched.first}: is bad"),
        (
            logging.ERROR,
            f"Keeping the old thing: {watched.first}: cannot be read: No such file or directory",
        ),
        (logging.INFO, "The thing can be used again"),
        (logging.INFO, f"Reloaded the thing from {watched.first}, {watched.second}"),
    ]
    assert (watched.files.reloads, watched.files.failures) == (1, 6)


def test_at_the_start_a_fault_is_raised(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    watched.first.write_text("bad")
    with pytest.raises(TlsFileError, match="is bad"):
        watched.files.load()
    watched.second.unlink()
    with pytest.raises(TlsFileError, match=f"^{watched.second}: cannot be read: No such file"):
        watched.files.load()


@pytest.mark.parametrize("path", ["/", "/none", "nul\0"])
def test_what_cannot_be_read_is_named(path: str) -> None:
    with pytest.raises(TlsFileError, match="cannot be read: ") as failed:
        read_file(path)
    assert failed.value.path == path


# D38
def test_an_unforeseen_exception_keeps_the_old_and_is_raised(tmp_path: Path) -> None:
    path = tmp_path / "file"
    used: list[bytes] = []

    def use(contents: tuple[bytes, ...]) -> None:
        if contents[0] == b"odd":
            raise RuntimeError("unforeseen")
        used.append(contents[0])

    files = WatchedFiles("thing", (str(path),), use)
    for content in (b"a", b"odd", b"odd", b"b"):
        path.write_bytes(content)
        with pytest.raises(RuntimeError) if content == b"odd" else contextlib.nullcontext():
            files.check()
        assert files.fault == (f"{path}: unexpected RuntimeError" if content == b"odd" else "")
    assert (used, files.failures) == ([b"a", b"b"], 2)

"""A node's files below the folder where its root is mounted: links lead where they lead there.

The kubelet's link to its serving pair is absolute; followed from a pod, it would leave the mount.
"""

import errno
import os
import stat
from pathlib import Path, PurePosixPath

# As many as Linux follows.
_MOST_LINKS = 40
_MOST_BYTES = 16 * 2**20


class HostFiles:
    """Reads by the node's own absolute paths. Every method raises OSError."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, path: str) -> bytes:
        """A regular file's content, of 16 MiB at most: nothing else may make us wait."""
        place = self.place(path)
        found = place.stat()
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        if found.st_size > _MOST_BYTES:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        return place.read_bytes()

    def names(self, path: str) -> list[str]:
        """What a folder holds, sorted."""
        return sorted(entry.name for entry in self.place(path).iterdir())

    def is_there(self, path: str) -> bool:
        """Whether something has that name, be it a link to nothing: only ENOENT is absence."""
        name = PurePosixPath(path)
        try:
            (self.place(str(name.parent)) / name.name).lstat()
        except FileNotFoundError:
            return False
        return True

    def is_folder(self, path: str) -> bool:
        """Whether a folder has that name."""
        try:
            return stat.S_ISDIR(self.place(path).stat().st_mode)
        except FileNotFoundError:
            return False

    def place(self, path: str) -> Path:
        """Where the path leads, as seen from here."""
        here, left, links = PurePosixPath("/"), _steps(path), 0
        while left:
            step = left.pop()
            if step == "..":
                here = here.parent
                continue
            target = self._link(here / step)
            if target is None:
                here /= step
                continue
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            here = PurePosixPath("/") if target.startswith("/") else here
            left += _steps(target)
        return self._on_mount(here)

    def _link(self, path: PurePosixPath) -> str | None:
        try:
            return str(self._on_mount(path).readlink())
        except OSError:
            # No link, or nothing that can be looked at: whoever opens it learns which.
            return None

    def _on_mount(self, path: PurePosixPath) -> Path:
        return self._root / path.relative_to("/")


def _steps(path: str) -> list[str]:
    """The parts of a path, the first one last."""
    return [part for part in reversed(PurePosixPath(path).parts) if part != "/"]

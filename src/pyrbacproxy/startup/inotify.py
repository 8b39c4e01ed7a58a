"""The kernel's word that something changed in a folder (inotify(7)), as a file descriptor.

Python has no inotify of its own. ctypes costs 0.3 MiB, and this module is imported only by a
program that waits; cffi, which cryptography brings along, would parse C with a megabyte more.
"""

import contextlib
import ctypes
import os

# linux/inotify.h
_NONBLOCK_CLOEXEC = os.O_NONBLOCK | os.O_CLOEXEC
_MODIFY, _ATTRIB, _CLOSE_WRITE = 0x2, 0x4, 0x8
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x40, 0x80, 0x100, 0x200
_DELETE_SELF, _MOVE_SELF, _ONLYDIR = 0x400, 0x800, 0x01000000
_CHANGES = (
    _MODIFY
    | _ATTRIB
    | _CLOSE_WRITE
    | _MOVED_FROM
    | _MOVED_TO
    | _CREATE
    | _DELETE
    | _DELETE_SELF
    | _MOVE_SELF
)
_BUFFER_BYTES = 65_536


class FolderEvents:
    """Readable whenever something changed in a watched folder. Raises OSError at its making."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._checked(self._libc.inotify_init1(_NONBLOCK_CLOEXEC))

    def fileno(self) -> int:
        """The descriptor, for the loop."""
        return self._descriptor

    def watch(self, folder: str) -> None:
        """Watch a folder; once more is harmless, and needed when another took its place.

        Raises OSError.
        """
        mask = ctypes.c_uint32(_CHANGES | _ONLYDIR)
        self._checked(
            self._libc.inotify_add_watch(self._descriptor, os.fsencode(folder), mask), folder
        )

    def drain(self) -> None:
        """Forget what has been told: what changed is for the caller to see."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._descriptor, _BUFFER_BYTES):
                pass

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._descriptor)

    def _checked(self, result: int, *names: str) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), *names)
        return result

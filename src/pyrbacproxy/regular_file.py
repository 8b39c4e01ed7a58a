"""A regular file, to read or to append to; other files could block: a pipe has no end."""

import errno
import os
import stat
from pathlib import Path

# O_NONBLOCK: opening a pipe would wait for its other end.
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC


def read_regular(path: str | Path) -> bytes:
    """The content, links being followed. Raises OSError, also for what is no regular file, and
    ValueError for a NUL in the path.
    """
    with os.fdopen(_regular(os.open(path, os.O_RDONLY | _FLAGS)), "rb") as file:
        return file.read()


def append_regular(path: str | Path, mode: int) -> int:
    """A descriptor that appends, for the caller to close; a file that is not there is made with
    this mode. Links are followed. Raises as `read_regular`.
    """
    return _regular(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | _FLAGS, mode))


def _regular(descriptor: int) -> int:
    """The descriptor of a regular file; any other is closed, and OSError raised."""
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    raise OSError(errno.EINVAL, "not a regular file")

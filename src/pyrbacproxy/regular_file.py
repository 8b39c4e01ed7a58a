"""A regular file's content; nothing else may make us wait: a pipe has no end, nor has a device."""

import errno
import os
import stat
from pathlib import Path


def read_regular(path: str | Path) -> bytes:
    """The content, links being followed. Raises OSError, also for what is no regular file, and
    ValueError for a NUL in the path.
    """
    # O_NONBLOCK: whoever opens a pipe waits for the one who writes into it.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "not a regular file")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)

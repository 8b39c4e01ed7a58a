"""Where lines go without making us wait: stdout, or a file, opened anew once it was moved away."""

import logging
import os
import select
import sys
import time
from collections.abc import Callable

from pyrbacproxy.observe.logs import structured
from pyrbacproxy.observe.patient_stream import unwaiting
from pyrbacproxy.regular_file import append_regular

STDOUT = "-"
# Known to be taken whole and at once by a pipe that is ready at all (pipe(7), poll(2)).
MOST_BYTES = select.PIPE_BUF
_LOOK_SECONDS = 1.0
_MODE = 0o640
_LOG = logging.getLogger(__name__)


def open_outlet(path: str) -> "LineOutlet":
    """For `-` or a regular file's path. Raises OSError."""
    if path != STDOUT:
        return LineOutlet(append_regular(path, _MODE), path)
    if sys.__stdout__ is None:
        # Something else is in its place.
        raise OSError("stdout is closed")
    return LineOutlet(unwaiting(sys.stdout.fileno()))


class LineOutlet:
    """Writes to a descriptor, which it owns; to one of a file as long as that is found at `path`.

    A descriptor without a path stays as it is: whoever shares stdout with us would be surprised if
    it did not wait any more. `clock` tells monotonic seconds.
    """

    def __init__(
        self,
        descriptor: int,
        path: str = "",
        *,
        write: Callable[[int, bytes], int] = os.write,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = path or "stdout"
        self._path = path
        self._write = write
        self._clock = clock
        self._look_at = 0.0
        self._is_lost = False
        # Of a line that was begun when the disk was full.
        self._rest = b""
        self._use(descriptor)

    def write(self, lines: bytes) -> bool:
        """Write whole lines, together at most `MOST_BYTES`; False: not now, nothing was done.

        Raises OSError when they, or some of them, are lost.
        """
        if not self._ready.poll(0):
            return False
        self._look_for_file()
        left, self._rest = self._rest + lines, b""
        is_begun = left != lines
        try:
            while left:
                written = self._write(self._descriptor, left)
                is_begun = not left[:written].endswith(b"\n")
                left = left[written:]
        except OSError:
            if is_begun:
                line, end, _ = left.partition(b"\n")
                self._rest = line + end
            raise
        return True

    def close(self) -> None:
        """Close the descriptor; nothing may be written any more."""
        os.close(self._descriptor)

    def _use(self, descriptor: int) -> None:
        self._descriptor = descriptor
        # Not `selectors`: no system call for one look but poll itself.
        self._ready = select.poll()
        self._ready.register(descriptor, select.POLLOUT)

    def _look_for_file(self) -> None:
        """Open the file anew if somebody rotated it: at most once a second, for a look costs."""
        now = self._clock()
        if not self._path or now < self._look_at:
            return
        self._look_at = now + _LOOK_SECONDS
        if self._is_in_place():
            return
        try:
            descriptor = append_regular(self._path, _MODE)
        except OSError as error:
            self._tell_once(error)
            return
        self._is_lost = False
        self._rest = b""
        os.close(self._descriptor)
        self._use(descriptor)

    def _is_in_place(self) -> bool:
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(self._descriptor))  # noqa: PTH116 - beside fstat
        except OSError:
            return False

    def _tell_once(self, error: OSError) -> None:
        """Until it is found again the file that was moved away gets the lines."""
        if not self._is_lost:
            self._is_lost = True
            message = "Access log cannot be opened again; the old file is written on"
            _LOG.error("%s", structured(message, file=self.name, err=str(error.strerror)))

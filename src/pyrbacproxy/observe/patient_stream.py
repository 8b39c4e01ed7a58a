"""stderr for log lines: what nobody reads is not waited for, but for a moment.

A pipe's reader may be late, or hang: whoever writes to it then would stop with it, and all that is
served.
"""

import contextlib
import os
import select
import time
from collections.abc import Callable

# So long a late reader is waited for, at most once in so long.
PATIENCE_SECONDS = 0.1
REST_SECONDS = 1.0


def unwaiting(descriptor: int) -> int:
    """A descriptor of our own for the same thing. A terminal's does not wait, for poll(2) tells of
    one that it takes something, not how much. Raises OSError.
    """
    if os.isatty(descriptor):
        # Where it is not ours to open, it waits: a terminal with a stopped reader is left.
        with contextlib.suppress(OSError):
            flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            return os.open(f"/proc/self/fd/{descriptor}", flags)
    return os.dup(descriptor)


class PatientStream:
    """Writes texts to a descriptor, which it does not own and leaves as it is.

    `poll` waits up to so many seconds and tells whether it takes `select.PIPE_BUF` bytes at once
    (pipe(7), poll(2)); `clock` tells monotonic seconds.
    """

    def __init__(
        self,
        descriptor: int,
        *,
        poll: Callable[[float], bool] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._descriptor = descriptor
        self._poll = poll or _poll_of(descriptor)
        self._clock = clock
        self._patient_at = clock()
        # What of a text did not go out yet.
        self._rest = memoryview(b"")

    def is_ready(self) -> bool:
        """Whether the next text can begin to go out. Raises OSError, as `write` does."""
        self._write_rest()
        return not self._rest and self._takes()

    def write(self, text: str) -> None:
        """Write it, or keep for later what can't be written now: for whoever asked `is_ready`."""
        data = text.encode("utf-8", "backslashreplace")
        self._rest = memoryview(self._rest.tobytes() + data)
        self._write_rest()

    def flush(self) -> None:
        """Let out what waits, as far as it is taken: at the end nobody writes any more."""
        self._write_rest()

    def _write_rest(self) -> None:
        rest, self._rest = self._rest, memoryview(b"")
        # What is raised else ends the text: there is nobody.
        with contextlib.suppress(BlockingIOError):
            while rest and self._takes():
                rest = rest[os.write(self._descriptor, rest[: select.PIPE_BUF]) :]
        self._rest = rest

    def _takes(self) -> bool:
        if self._poll(0.0):
            return True
        now = self._clock()
        if now < self._patient_at:
            return False
        self._patient_at = now + REST_SECONDS
        return self._poll(PATIENCE_SECONDS)


def _poll_of(descriptor: int) -> Callable[[float], bool]:
    ready = select.poll()
    ready.register(descriptor, select.POLLOUT)
    return lambda seconds: bool(ready.poll(seconds * 1000))

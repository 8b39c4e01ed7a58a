"""How long an HTTP/2 connection as a whole is waited for, and what for.

A time begins once for each thing that is waited for, so that neither bytes of a head nor pings can
stretch it (FR58).
"""

import asyncio
from collections.abc import Callable
from enum import Enum, auto

from pyrbacproxy.dataplane.deadline import Deadline
from pyrbacproxy.dataplane.limits import Limits


class Waits(Enum):
    """What the connection is waited for with."""

    PREFACE = auto()  # and the first settings
    FIRST = auto()  # we are stopping, and nothing was asked for yet
    BLOCK = auto()  # the rest of a head
    IDLE = auto()
    NOTHING = auto()  # streams have their own times


class Patience:
    """Calls `due` when the time for what is waited for is over. `waits` tells what that is."""

    __slots__ = ("_after", "_deadline", "_seconds", "waits")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, limits: Limits, due: Callable[[], None]
    ) -> None:
        self._seconds = {
            Waits.PREFACE: limits.read_header_seconds,
            Waits.FIRST: limits.first_request_seconds,
            Waits.BLOCK: limits.read_header_seconds,
            Waits.IDLE: limits.idle_seconds,
        }
        self._deadline = Deadline(loop, due)
        self.waits = Waits.NOTHING
        self._after = 0

    def wait(self, waits: Waits, *, after: int = 0) -> None:
        """Wait for this from now on, unless it is waited for since this last stream already."""
        if waits is self.waits and after == self._after:
            return
        self.waits, self._after = waits, after
        if waits is Waits.NOTHING:
            self._deadline.clear()
        else:
            self._deadline.set(self._seconds[waits])

    def cancel(self) -> None:
        """Give the loop's timer back; for the end of the connection."""
        self._deadline.cancel()

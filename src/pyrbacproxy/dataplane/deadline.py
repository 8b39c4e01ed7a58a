"""Timers that cost an assignment: a deadline that moves with each request, a watch over a writer.

A loop timer for every request would cost more than parsing it. Here one timer per connection stays
armed; when it fires too early, because the deadline moved on, it is armed again for the rest.
"""

import asyncio
from collections.abc import Callable
from math import inf

from pyrbacproxy.background import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS


class Deadline:
    """Calls `due` once, when the time last set has come; `set` and `clear` are cheap."""

    __slots__ = ("_armed_for", "_due", "_handle", "_loop", "_pause_seconds", "_when")

    def __init__(self, loop: asyncio.AbstractEventLoop, due: Callable[[], None]) -> None:
        self._loop = loop
        self._due = due
        self._when = inf
        self._armed_for = inf
        self._handle: asyncio.TimerHandle | None = None
        self._pause_seconds = FIRST_PAUSE_SECONDS

    def set(self, seconds: float) -> None:
        """Be due in so many seconds, whatever was set before."""
        self._when = when = self._loop.time() + seconds
        if when < self._armed_for:
            self._arm(when)

    def clear(self) -> None:
        """Not be due at all, for now."""
        self._when = inf

    def cancel(self) -> None:
        """Give the loop's timer back; for the end of the connection."""
        self._when = inf
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
            self._armed_for = inf

    def _arm(self, when: float) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._armed_for = when
        self._handle = self._loop.call_at(when, self._fire)

    def _fire(self) -> None:
        self._handle = None
        self._armed_for = inf
        if self._when == inf:
            return
        # The loop's clock is coarse (uvloop: milliseconds), so a timer may fire a little early.
        if self._when - self._loop.time() > 0.001:  # noqa: PLR2004 - said in the line above
            self._arm(self._when)
            return
        self._when = inf
        try:
            self._due()
        except Exception as error:  # noqa: BLE001 - what was due would never be done
            self._loop.call_exception_handler({"message": "a deadline", "exception": error})
            self.set(self._pause_seconds)
            self._pause_seconds = min(2 * self._pause_seconds, LONGEST_PAUSE_SECONDS)
        else:
            self._pause_seconds = FIRST_PAUSE_SECONDS


class StallWatch:
    """Calls `stalled` when a write buffer has not shrunk for `seconds`; who reads slowly is spared.

    Looks every quarter of the time, so a stall is noticed after 1 to 1.25 times `seconds`.
    """

    __slots__ = ("_deadline", "_least_bytes", "_pending_bytes", "_seconds", "_stalled", "_still")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        seconds: float,
        *,
        pending_bytes: Callable[[], int],
        stalled: Callable[[], None],
    ) -> None:
        self._seconds = seconds
        self._pending_bytes = pending_bytes
        self._stalled = stalled
        self._least_bytes = 0
        self._still = 0
        self._deadline = Deadline(loop, self._look)

    def start(self) -> None:
        """The buffer is over its mark, or the connection closes once it is empty (it may be)."""
        self._least_bytes = self._pending_bytes()
        self._still = 0
        if self._least_bytes:
            self._deadline.set(self._seconds / 4)

    def stop(self) -> None:
        """The buffer is low again."""
        self._deadline.clear()

    def cancel(self) -> None:
        """The connection is over."""
        self._deadline.cancel()

    def _look(self) -> None:
        pending = self._pending_bytes()
        if pending < self._least_bytes:
            self._still = 0
        else:
            self._still += 1
        self._least_bytes = pending
        if self._still > 3:  # noqa: PLR2004 - four quarters
            self._stalled()
        else:
            self._deadline.set(self._seconds / 4)

"""The client-side rate limit of calls to one API group, fair between peers (D14)."""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Generic, TypeVar

# --- fair bucket ----------------------------------------------------------------------
#
# A token bucket and those who wait for it: books only, told the time.
#
# Peers take turns, so that one peer with a thousand bad tokens delays another's good one by a
# single turn; and whoever `is_preferred` (a token that was good lately, D14) goes before all
# others.

W = TypeVar("W")


class FairBucket(Generic[W]):
    """`per_second` calls in the long run, `burst` at once. W stands for one who waits."""

    def __init__(self, *, per_second: float, burst: int, now: float) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._left = float(burst)
        self._filled_at = now
        self._lanes: tuple[OrderedDict[str, deque[W]], OrderedDict[str, deque[W]]] = (
            OrderedDict(),
            OrderedDict(),
        )

    def take(self, now: float) -> bool:
        """Whether a call may go at once: there is room, and no other call waits for it."""
        self._fill(now)
        if self._left < 1.0 or any(self._lanes):
            return False
        self._left -= 1.0
        return True

    def join(self, waiter: W, asker: str, *, is_preferred: bool) -> None:
        """Wait in the asker's line."""
        self._lanes[not is_preferred].setdefault(asker, deque()).append(waiter)

    def leave(self, waiter: W, asker: str, *, is_preferred: bool) -> None:
        """Wait no longer; nothing happens to one whose turn has come already."""
        lane = self._lanes[not is_preferred]
        line = lane.get(asker)
        if line is None or waiter not in line:
            return
        line.remove(waiter)
        if not line:
            del lane[asker]

    def turns(self, now: float) -> list[W]:
        """Those who may go now, in order."""
        self._fill(now)
        going = []
        while self._left >= 1.0 and any(self._lanes):
            going.append(self._next())
            self._left -= 1.0
        return going

    def seconds_to_turn(self, now: float) -> float | None:
        """How long until the next waiting call may go, in seconds; None when none waits."""
        if not any(self._lanes):
            return None
        self._fill(now)
        return max(0.0, (1.0 - self._left) / self._per_second)

    def _next(self) -> W:
        lane = self._lanes[0] or self._lanes[1]
        asker, line = lane.popitem(last=False)
        waiter = line.popleft()
        if line:
            lane[asker] = line  # to the end of the round
        return waiter

    def _fill(self, now: float) -> None:
        self._left = min(self._burst, self._left + (now - self._filled_at) * self._per_second)
        self._filled_at = now


# --- turns ----------------------------------------------------------------------------
#
# Our own rate towards one API group: who may call now, and who waits how long for it.
#
# The books are `kube.rate`'s; here is the clock and the waiting. Nobody waits longer than a
# second: a scrape that the rate holds up for longer has failed anyway (FR47).

WAIT_SECONDS = 1.0


class Turns:
    """A rate of `per_second` with `burst`."""

    def __init__(
        self, *, per_second: float, burst: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._bucket: FairBucket[asyncio.Future[None]] = FairBucket(
            per_second=per_second, burst=burst, now=clock()
        )
        self._timer: asyncio.TimerHandle | None = None

    async def turn(self, asker: str, *, is_preferred: bool) -> bool:
        """Wait for a turn; False if there was none within a second."""
        if self._bucket.take(self._clock()):
            return True
        turn = asyncio.get_running_loop().create_future()
        self._bucket.join(turn, asker, is_preferred=is_preferred)
        self._set_timer()
        try:
            await asyncio.wait([turn], timeout=WAIT_SECONDS)
        finally:
            self._bucket.leave(turn, asker, is_preferred=is_preferred)
        return turn.done()

    def _set_timer(self) -> None:
        seconds = self._bucket.seconds_to_turn(self._clock())
        if self._timer is None and seconds is not None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._give_turns)

    def _give_turns(self) -> None:
        self._timer = None
        for turn in self._bucket.turns(self._clock()):
            turn.set_result(None)
        self._set_timer()

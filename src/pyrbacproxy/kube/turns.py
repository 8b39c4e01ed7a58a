"""Our own rate towards one API group: who may call now, and who waits how long for it.

The books are `kube.fair_bucket`'s; here is the clock and the waiting. Nobody waits longer than a
second: a scrape that the rate holds up for longer has failed anyway (FR47).
"""

import asyncio
import time
from collections.abc import Callable

from pyrbacproxy.kube.fair_bucket import FairBucket

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

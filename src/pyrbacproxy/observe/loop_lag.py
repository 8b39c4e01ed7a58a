"""How long the event loop lets wait what is due: measured on activity, at no idle wake-up."""

import asyncio
import time

from pyrbacproxy.observe.metrics import Histogram
from pyrbacproxy.record import ExchangeRecord

_INTERVAL_SECONDS = 0.1


class LoopLag:
    """An observer of exchanges: at the end of one, at most every 0.1 s, it lets the loop call it.

    How late that call comes is what any other callback waits just now.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, lag: Histogram) -> None:
        self._loop = loop
        self._lag = lag
        self._next_at = 0.0

    def observe(self, record: ExchangeRecord) -> None:
        """Look at the loop, if it is time again."""
        if record.ended_at >= self._next_at:
            self._next_at = record.ended_at + _INTERVAL_SECONDS
            self._loop.call_soon(self._called, time.perf_counter())

    def _called(self, due_at: float) -> None:
        self._lag.add(time.perf_counter() - due_at)

"""The loop is looked at when there are requests, and not too often."""

import asyncio

from pyrbacproxy.model import ExchangeRecord
from pyrbacproxy.observe.metrics import LAG_BOUNDS, Histogram
from pyrbacproxy.observe.process import LoopLag


def ended(instant: float) -> ExchangeRecord:
    return ExchangeRecord("192.0.2.1", "GET", "/", ended_at=instant)


async def test_it_looks_at_most_every_tenth_of_a_second() -> None:
    lag = Histogram(LAG_BOUNDS)
    observe = LoopLag(asyncio.get_running_loop(), lag).observe
    for instant in (1.0, 1.05, 1.0999, 1.11, 1.2, 1.22):
        observe(ended(instant))
    assert sum(lag.counts) == 0
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert sum(lag.counts) == 3
    assert lag.total > 0

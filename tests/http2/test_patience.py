import pytest

from pyrbacproxy.http2.server import Patience, Waits
from pyrbacproxy.proxy.exchange import Limits
from tests.fakes import ManualLoop

LIMITS = Limits(read_header_seconds=30, idle_seconds=90, first_request_seconds=5)


class Watched:
    def __init__(self) -> None:
        self.loop = ManualLoop()
        self.dues = 0
        self.patience = Patience(self.loop.as_loop(), LIMITS, self._due)

    def _due(self) -> None:
        self.dues += 1


@pytest.mark.parametrize(
    ("waits", "seconds"),
    [
        (Waits.PREFACE, 30),
        (Waits.FIRST, 5),
        (Waits.BLOCK, 30),
        (Waits.IDLE, 90),
    ],
)
def test_each_has_its_time_that_begins_once(waits: Waits, seconds: float) -> None:
    watched = Watched()
    watched.patience.wait(waits)
    watched.loop.advance(seconds - 0.5)
    watched.patience.wait(waits)
    assert watched.dues == 0
    watched.loop.advance(1)
    assert watched.dues == 1


def test_nothing_is_waited_for_without_end_and_all_begins_anew() -> None:
    watched = Watched()
    for waits in (Waits.IDLE, Waits.NOTHING):
        watched.patience.wait(waits)
    watched.loop.advance(1000)
    assert watched.dues == 0
    watched.patience.wait(Waits.IDLE)
    watched.loop.advance(89)
    watched.patience.cancel()
    watched.loop.advance(1000)
    assert watched.dues == 0

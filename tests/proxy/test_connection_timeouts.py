"""What is waited for and how it ends, without a single exchange; time goes on by hand."""

import pytest

from pyrbacproxy.proxy.client_http1 import ConnectionTimeouts, RequestQueue
from pyrbacproxy.proxy.exchange import Limits
from tests.fakes import ManualLoop
from tests.proxy.dialogue import SideTape
from tests.proxy.test_http1_connection import GET

LIMITS = Limits(read_header_seconds=32, idle_seconds=90, first_request_seconds=5)


class Talk:
    """A connection whose times are noted, but not acted upon."""

    def __init__(self) -> None:
        self.loop = ManualLoop()
        self.transport = SideTape()
        self.queue = RequestQueue(max_head_bytes=65_536)
        self.due: list[float] = []
        self.begun_at = self.loop.time()
        self.timeouts = ConnectionTimeouts(
            self.transport,
            self.queue,
            LIMITS,
            loop=self.loop.as_loop(),
            due=lambda: self.due.append(self.loop.time() - self.begun_at),
        )

    def due_after(self) -> list[float]:
        self.loop.advance(1000)
        return self.due


def test_a_new_connection_is_idle() -> None:
    assert Talk().due_after() == [90]


def test_an_exchange_has_its_own_times() -> None:
    talk = Talk()
    talk.timeouts.begin()
    talk.loop.advance(200)
    talk.timeouts.wake_after(7)
    assert talk.due_after() == [207]


def test_a_head_has_one_time_however_it_comes() -> None:
    talk = Talk()
    for byte in GET[:20]:
        talk.queue.feed(bytes([byte]))
        talk.timeouts.wait()
        talk.loop.advance(1)
    assert talk.due_after() == [32]


def test_each_head_has_its_own_time() -> None:
    talk = Talk()
    talk.queue.feed(GET[:5])
    talk.timeouts.wait()
    talk.loop.advance(20)
    talk.queue.feed(GET[5:])
    talk.timeouts.begin()
    talk.queue.feed(GET[:5])
    talk.timeouts.wait()
    assert talk.due_after() == [52]


@pytest.mark.parametrize("has_served", [False, True])
def test_a_shutdown_waits_for_the_first_request_alone(*, has_served: bool) -> None:
    talk = Talk()
    if has_served:
        talk.timeouts.begin()
    talk.timeouts.is_draining = True
    talk.timeouts.wait()
    assert talk.timeouts.is_last
    assert talk.timeouts.is_open is not has_served
    assert talk.transport.done == (["close"] if has_served else [])
    assert talk.due_after() == ([] if has_served else [5])


def test_a_client_that_ended_its_sending_is_served_what_it_sent() -> None:
    talk = Talk()
    talk.queue.feed(GET)
    talk.timeouts.has_ended = True
    assert not talk.timeouts.is_last
    talk.queue.clear()
    talk.timeouts.wait()
    assert talk.timeouts.is_last
    assert talk.transport.done == ["close"]


def test_a_last_word_leaves_time_to_be_read() -> None:
    talk = Talk()
    talk.queue.feed(GET)
    talk.timeouts.linger()
    assert not talk.timeouts.is_open
    assert not talk.queue
    assert talk.due_after() == []
    assert talk.transport.done == ["linger"]


def test_a_cut_one_takes_no_more() -> None:
    talk = Talk()
    talk.timeouts.close_truncated()
    assert not talk.timeouts.is_open
    assert talk.transport.done == ["close_truncated"]


def test_one_that_is_let_go_of_has_no_time_left() -> None:
    talk = Talk()
    talk.timeouts.stop()
    assert not talk.timeouts.is_open
    assert talk.transport.done == []
    assert talk.loop.timers == []

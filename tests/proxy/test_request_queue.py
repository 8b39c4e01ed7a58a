import pytest

from pyrbacproxy.http1.head import RemoteProtocolError
from pyrbacproxy.http1.parser import END, RequestReceived
from pyrbacproxy.proxy.client_http1 import RequestQueue

GET = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"
SWITCH = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n"


def queue() -> RequestQueue:
    return RequestQueue(max_head_bytes=1000)


def test_events_come_in_order() -> None:
    waiting = queue()
    assert waiting.is_idle
    assert waiting.feed(GET + GET[:5])
    assert waiting.has_begun_head
    assert not waiting.is_idle
    assert isinstance(waiting.take(), RequestReceived)
    assert waiting.take() is END
    assert len(waiting) == 0
    with pytest.raises(IndexError):
        waiting.take()


@pytest.mark.parametrize("before", [b"", GET], ids=["alone", "behind a request"])
def test_a_fault_comes_last_and_once(before: bytes) -> None:
    waiting = queue()
    waiting.feed(before + b"nonsense\r\n\r\n" + GET)
    waiting.feed(GET)
    events = [waiting.take() for _ in range(len(waiting))]
    assert isinstance(events.pop(), RemoteProtocolError)
    assert len(events) == (2 if before else 0)


def test_sixteen_wait_and_the_rest_is_held() -> None:
    waiting = queue()
    waiting.feed(GET * 20)
    assert len(waiting) == 32
    assert not waiting.feed(GET), "this only waits behind the others"
    waiting.refill()
    assert len(waiting) == 32
    waiting.clear()
    waiting.refill()
    assert len(waiting) == 10
    waiting.clear()
    assert waiting.is_idle


def test_what_follows_a_request_for_a_tunnel_is_held() -> None:
    waiting = queue()
    assert waiting.feed(SWITCH + GET)
    assert len(waiting) == 2
    assert not waiting.is_idle
    waiting.clear()
    waiting.refill()
    assert len(waiting) == 2


def test_a_tunnel_takes_what_is_held() -> None:
    waiting = queue()
    waiting.feed(SWITCH + b"ear")
    waiting.clear()
    assert not waiting.feed(b"ly")
    assert waiting.take_rest() == b"early"
    assert not waiting.has_more


def test_what_the_parser_holds_back_counts_as_waiting() -> None:
    queue = RequestQueue(max_head_bytes=4096)
    queue.feed(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n" * 17)
    while queue:
        queue.take()
    assert queue.has_more
    queue.refill()
    queue.take()
    queue.take()
    assert not queue.has_more

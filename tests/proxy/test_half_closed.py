from pyrbacproxy.proxy.client_http1 import HalfClosed
from pyrbacproxy.proxy.exchange import Ending, Limits
from tests.proxy.dialogue import OK, Dialogue

LIMITS = Limits(half_closed_seconds=0.5, half_closed_rest_seconds=1.0)


def test_before_the_answer_a_client_that_still_reads_discards_a_100_and_gets_its_answer() -> None:
    talk = Dialogue()
    talk.forward()
    watch = HalfClosed(talk.exchange, talk.client, talk.client, LIMITS)
    assert talk.client.wakes == [0.5]
    watch.woken()
    assert talk.client.take() == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert talk.client.wakes == [0.5] * 2
    talk.respond(OK, b"ok")
    assert talk.client.take() == OK + b"ok"


def test_an_http_1_0_client_is_never_sent_a_100_and_waited_for_a_while() -> None:
    talk = Dialogue(minor=0)
    talk.forward()
    watch = HalfClosed(talk.exchange, talk.client, talk.client, LIMITS)
    watch.woken()
    assert talk.client.wakes == [0.5, 30.0]
    watch.woken()
    assert talk.client.take() == b""
    assert talk.upstream.done == ["close"]
    assert talk.client.done[-1] is Ending.TRUNCATE


def test_a_client_is_probed_again_at_growing_distances_unless_its_buffer_is_full() -> None:
    talk = Dialogue()
    talk.forward()
    watch = HalfClosed(talk.exchange, talk.client, talk.client, LIMITS)
    for is_full in (False, True, False):
        talk.client.is_write_paused = is_full
        watch.woken()
    assert talk.client.take() == b"HTTP/1.1 100 Continue\r\n\r\n" * 2
    assert talk.client.wakes == [0.5, 0.5, 1.0, 2.0]


def test_while_the_answer_comes_nothing_is_concluded() -> None:
    talk = Dialogue()
    talk.forward()
    talk.respond(OK, b"o", ends=False)
    watch = HalfClosed(talk.exchange, talk.client, talk.client, LIMITS)
    for _ in range(2):
        talk.exchange.response_side.body(b"k")
        watch.woken()
    talk.client.is_write_paused = True
    watch.woken()
    assert talk.client.wakes == [1.0] * 4


def test_when_the_answer_rests_the_client_is_taken_for_gone() -> None:
    talk = Dialogue()
    talk.forward()
    talk.respond(OK, b"o", ends=False)
    watch = HalfClosed(talk.exchange, talk.client, talk.client, LIMITS)
    watch.woken()
    assert talk.upstream.done == ["close"]
    assert talk.client.done[-1] is Ending.TRUNCATE

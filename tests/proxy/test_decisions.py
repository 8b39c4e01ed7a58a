import logging
from math import inf

import pytest

from pyrbacproxy.http1.parser import RequestParser, RequestReceived
from pyrbacproxy.model import Peer
from pyrbacproxy.proxy.decisions import Decisions
from pyrbacproxy.proxy.exchange import DecisionMemory, Ending, Exchange
from tests.proxy.dialogue import (
    ALLOWED,
    OK,
    ClientTape,
    RunnerTape,
    UpstreamTape,
    World,
    forwarding_handler,
    received,
)

PEER = Peer("192.0.2.1")


def head(path: str = "/x", *lines: str, method: str = "GET") -> RequestReceived:
    text = "\r\n".join([f"{method} {path} HTTP/1.1", "Host: h", *lines, "", ""])
    event = RequestParser(max_head_bytes=65536).feed(text.encode())[0]
    assert isinstance(event, RequestReceived)
    return event


class Talk:
    """One connection's decisions between tapes."""

    def __init__(self, usable_until: float = inf) -> None:
        self.now = 5.0
        self.world = World(runner=RunnerTape(usable_until), clock=lambda: self.now)
        self.world.connector.ready = [UpstreamTape() for _ in range(9)]
        self.upstreams = list(self.world.connector.ready)
        self.client = ClientTape()
        self.decisions = Decisions(self.world.services, self.client)

    def ask(self, request: RequestReceived, peer: Peer = PEER) -> Exchange:
        exchange, question = self.decisions.open(request, peer)
        self.decisions.ask(exchange, question)
        return exchange

    def knows(self, request: RequestReceived, peer: Peer = PEER) -> bool:
        return self.decisions.recall(request.raw, peer) is not None


def test_the_same_head_is_forwarded_without_another_look() -> None:
    talk = Talk()
    talk.ask(head())
    known = talk.decisions.recall(head().raw, PEER)
    assert known is not None
    exchange = talk.decisions.reopen(known)
    exchange.forward(known.decided, known.upstream_head)
    assert talk.upstreams[1].take() == talk.upstreams[0].take()
    exchange.response(received(OK))
    exchange.response_ended()
    assert talk.client.done == [Ending.KEEP_ALIVE]
    assert exchange.record.decided is ALLOWED
    assert (exchange.record.method, exchange.record.path) == ("GET", "/x")


def test_what_a_connection_asked_last_is_found_without_a_look_into_the_memory() -> None:
    talk = Talk(usable_until=60.0)
    talk.ask(head())
    known = talk.decisions.recall(head().raw, PEER)
    talk.world.services.memory = DecisionMemory()
    assert talk.decisions.recall(head().raw, PEER) is known is not None
    for change in ("bytes", "peer", "time", "handler"):
        decisions = talk.decisions
        talk.now = 60.0 if change == "time" else 5.0
        asked = head("/x", "X: 1") if change == "bytes" else head()
        peer = Peer(PEER.address) if change == "peer" else PEER
        talk.world.services.handler = (
            (lambda request: forwarding_handler(request))  # noqa: PLW0108 - another object
            if change == "handler"
            else forwarding_handler
        )
        decisions._known, decisions._known_bytes, decisions._known_peer = known, head().raw, PEER
        assert decisions.recall(asked.raw, peer) is None, change


def test_another_connection_knows_it_too() -> None:
    talk = Talk()
    talk.ask(head())
    other = Decisions(talk.world.services, ClientTape())
    assert other.recall(head().raw, Peer(PEER.address)) is not None


@pytest.mark.parametrize(
    "request_head",
    [
        pytest.param(head("/deny"), id="a refusal"),
        pytest.param(head("/break"), id="a fault of ours"),
        pytest.param(head("/bad"), id="a head that cannot be written"),
        pytest.param(head("/x", "Content-Length: 1", method="POST"), id="a body"),
        pytest.param(head("/x", "X: " + "x" * 8192), id="a long head"),
    ],
)
def test_what_is_never_remembered(
    request_head: RequestReceived, caplog: pytest.LogCaptureFixture
) -> None:
    talk = Talk()
    with caplog.at_level(logging.CRITICAL):
        talk.ask(request_head)
    assert not talk.knows(request_head)


def test_a_reload_ends_what_is_remembered() -> None:
    talk = Talk()
    talk.ask(head())
    talk.world.services.handler = lambda request: forwarding_handler(request)  # noqa: PLW0108 - another object
    assert not talk.knows(head())


def test_an_answer_that_may_not_be_used_again_is_not() -> None:
    talk = Talk(usable_until=0.0)
    talk.ask(head())
    # Nor does it take the place of one that may.
    assert talk.world.services.memory._kept == {}
    assert not talk.knows(head())


def test_a_decision_may_come_later() -> None:
    talk = Talk()
    exchange = talk.ask(head("/ask"))
    assert talk.upstreams[0].take() == b""
    talk.world.runner.waiting.pop()()
    assert talk.upstreams[0].take().startswith(b"GET /ask ")
    assert exchange.cancel is not None
    assert exchange.record.waited_for == ("TokenReview",)


def test_a_client_that_goes_cancels() -> None:
    talk = Talk()
    talk.ask(head("/ask")).client_lost()
    assert talk.world.runner.cancelled == 1


@pytest.mark.parametrize("path", ["/break", "/bad"])
def test_a_fault_of_ours_is_a_500_that_is_logged_once(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    talk = Talk()
    talk.ask(head(path))
    assert talk.client.take().startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
    assert talk.client.done == [Ending.CLOSE]
    assert len(caplog.records) == 1

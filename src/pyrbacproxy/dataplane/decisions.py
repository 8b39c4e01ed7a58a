"""Puts the requests of one connection to the handler, and remembers the last decision to forward.

A head that is byte for byte the last one, from the same peer and for the same handler, means the
same as long as the answers that decided it may be used: then parser, handler and writer are
skipped. A refusal is never remembered, nor a request with a body.
"""

import logging
from dataclasses import dataclass
from functools import partial

from pyrbacproxy.dataplane.exchange import Exchange
from pyrbacproxy.dataplane.services import Services
from pyrbacproxy.dataplane.sinks import ClientSink
from pyrbacproxy.handler import Forward, Handler, Request, Respond, Verdict
from pyrbacproxy.http1.errors import LocalProtocolError
from pyrbacproxy.http1.parser import RequestReceived
from pyrbacproxy.http1.response import text
from pyrbacproxy.peer import Peer
from pyrbacproxy.record import Decided, ExchangeRecord, Outcome
from pyrbacproxy.reviews import Reviewed

_LOG = logging.getLogger(__name__)
# A longer head is no usual one, and remembering it would cost every connection.
_MAX_REMEMBERED_BYTES = 8192


@dataclass(frozen=True, slots=True)
class _Question:
    """A request and what else its decision hangs on."""

    received: RequestReceived
    peer: Peer
    handler: Handler


@dataclass(frozen=True, slots=True)
class _Remembered:
    """A decision to forward, and what came of it."""

    question: _Question
    usable_until: float
    decided: Decided
    upstream_head: bytes
    keeps_alive: bool


class Decisions:
    """Opens exchanges for `client` and has them decided. One per connection."""

    __slots__ = ("_client", "_remembered", "_services")

    def __init__(self, services: Services, client: ClientSink) -> None:
        self._services = services
        self._client = client
        self._remembered: _Remembered | None = None

    def recall(self, data: bytes, peer: Peer) -> Exchange | None:
        """An exchange for `forward`, if these bytes are the request that is known."""
        known = self._remembered
        if known is None or data != known.question.received.raw:
            return None
        question, services = known.question, self._services
        if (
            question.handler is not services.handler
            or question.peer is not peer
            or services.clock() >= known.usable_until
        ):
            self._remembered = None
            return None
        return self._exchange(question, keeps_alive=known.keeps_alive)

    def forward(self, exchange: Exchange) -> None:
        """Forward what `recall` opened."""
        known = self._remembered
        if known is not None:
            exchange.forward(known.decided, known.upstream_head)

    def open(self, received: RequestReceived, peer: Peer) -> tuple[Exchange, _Question]:
        """An exchange for a request just received, and the question to `ask`."""
        question = _Question(received, peer, self._services.handler)
        return self._exchange(question, keeps_alive=received.head.is_persistent), question

    def ask(self, exchange: Exchange, question: _Question) -> None:
        """Have the exchange decided, now or later."""
        services, received = self._services, question.received
        request = Request(
            received.head, received.target, question.peer, received_at=services.wall_clock()
        )
        steps = _guarded(question.handler, request)
        done = partial(self._decided, exchange, question)
        exchange.cancel = services.runner.run(steps, question.peer.address, done)

    def _exchange(self, question: _Question, *, keeps_alive: bool) -> Exchange:
        received, services = question.received, self._services
        record = ExchangeRecord(
            question.peer.address,
            received.head.method.decode("ascii"),
            received.target.path,
            started_at=services.clock(),
        )
        return Exchange(
            services,
            self._client,
            record,
            head=received.head,
            framing=received.framing,
            keeps_alive=keeps_alive,
        )

    def _decided(
        self,
        exchange: Exchange,
        question: _Question,
        verdict: Verdict,
        usable_until: float,
        waited_for: tuple[str, ...],
    ) -> None:
        exchange.record.waited_for = waited_for
        try:
            exchange.decided(verdict)
        except LocalProtocolError:
            _LOG.exception("the handler gave a head that cannot be written")
            exchange.decided(_our_fault())
            return
        received = question.received
        is_usual = len(received.raw) <= _MAX_REMEMBERED_BYTES and not received.framing.has_body
        if isinstance(verdict, Forward) and is_usual:
            self._remembered = _Remembered(
                question,
                usable_until,
                verdict.decided,
                exchange.upstream_head,
                keeps_alive=received.head.is_persistent,
            )


def _guarded(handler: Handler, request: Request) -> Reviewed[Verdict]:
    """The handler's steps; what it raises is our bug and the client's 500."""
    try:
        return (yield from handler(request))
    except Exception:  # noqa: BLE001 - the rim: reported once, answered, the connection closed
        _LOG.exception("the handler failed")
        return _our_fault()


def _our_fault() -> Respond:
    response = text(500, "Internal Server Error\n", must_close=True)
    return Respond(response, Decided(Outcome.ERROR))

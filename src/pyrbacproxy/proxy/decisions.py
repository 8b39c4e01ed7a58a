"""Asks the handler for a decision on each request of a connection, or reuses a remembered one."""

import logging
from collections.abc import Callable
from functools import partial

from pyrbacproxy.handler import Forward, Handler, Request, Respond, Verdict
from pyrbacproxy.http1.head import LocalProtocolError, text
from pyrbacproxy.http1.parser import RequestReceived
from pyrbacproxy.model import Decided, ExchangeRecord, Outcome, Peer, Reviewed
from pyrbacproxy.proxy.exchange import ClientSink, Exchange, Question, Remembered, Services
from pyrbacproxy.tls.client_chain import ClientChains

# --- decisions ------------------------------------------------------------------------
#
# Puts the requests of one connection to the handler, and uses what it decided about them before.
#
# A head that is byte for byte one decided on (`decision_memory`), from the same peer and for the
# same handler, means the same as long as the answers that decided it may be used: then parser,
# handler and writer are skipped. A refusal is never remembered, nor a request with a body.

_LOG = logging.getLogger(__name__)


class Decisions:
    """Opens exchanges for `client` and has them decided. One per connection."""

    __slots__ = ("_client", "_known", "_known_bytes", "_known_peer", "_services")

    def __init__(self, services: Services, client: ClientSink) -> None:
        self._services = services
        self._client = client
        # What `recall` found last: a connection mostly asks the same again, and comparing costs a
        # fifth of looking up. Nothing of it outlives the connection.
        self._known: Remembered | None = None
        self._known_bytes = b""
        self._known_peer: Peer | None = None

    def recall(self, data: bytes, peer: Peer) -> Remembered | None:
        """What was decided about these bytes, if they are a request that is known."""
        services, known = self._services, self._known
        now = services.clock()
        if (
            known is not None
            and data == self._known_bytes
            and peer is self._known_peer
            and known.question.handler is services.handler
            and now < known.usable_until
        ):
            return known
        known = self._known = services.memory.recall(data, peer, services.handler, now)
        self._known_bytes = b"" if known is None else data
        self._known_peer = peer
        return known

    def reopen(self, known: Remembered) -> Exchange:
        """An exchange for what `recall` found."""
        return self._exchange(known.question, keeps_alive=known.keeps_alive)

    def open(self, received: RequestReceived, peer: Peer) -> tuple[Exchange, Question]:
        """An exchange for a request just received, and the question to `ask`."""
        question = Question(received, peer, self._services.handler)
        return self._exchange(question, keeps_alive=received.head.is_persistent), question

    def ask(self, exchange: Exchange, question: Question) -> None:
        """Have the exchange decided, now or later."""
        services, received = self._services, question.received
        request = Request(
            received.head, received.target, question.peer, received_at=services.wall_clock()
        )
        steps = _guarded(question.handler, request)
        done = partial(self._decided, exchange, question)
        exchange.cancel = services.runner.run(steps, question.peer.address, done)

    def _exchange(self, question: Question, *, keeps_alive: bool) -> Exchange:
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
        question: Question,
        verdict: Verdict,
        usable_until: float,
        waited_for: tuple[str, ...],
    ) -> None:
        exchange.record.waited_for = waited_for
        try:
            exchange.decided(verdict)
        except Exception as error:  # noqa: BLE001 - the client would wait for ever
            is_head = isinstance(error, LocalProtocolError)
            what = (
                "the handler gave a head that cannot be written" if is_head else "an answer broke"
            )
            _LOG.exception(what)
            exchange.decided(_our_fault())
            return
        if isinstance(verdict, Forward) and usable_until > 0.0:
            self._services.memory.keep(
                Remembered(
                    question,
                    usable_until,
                    verdict.decided,
                    exchange.upstream_head,
                    keeps_alive=question.received.head.is_persistent,
                )
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


# --- peer source ----------------------------------------------------------------------
#
# The peer of one connection, judged again when the client CA pool or the time asks for it.
#
# Asked for each request, so that a changed pool and an expiry bite on live connections. Nothing
# changed means the same object, by which remembered requests know their peer again.


class PeerSource:
    """Call it for the current `Peer`. `chain` is what the client presented, DER, leaf first."""

    __slots__ = ("_address", "_chain", "_chains", "_generation", "_peer", "_wall_clock")

    def __init__(
        self,
        chains: ClientChains,
        *,
        address: str,
        chain: tuple[bytes, ...],
        wall_clock: Callable[[], float],
    ) -> None:
        self._chains = chains
        self._address = address
        self._chain = chain
        self._wall_clock = wall_clock
        self._generation = chains.generation
        self._peer = chains.judge(address, chain, wall_clock())

    def __call__(self) -> Peer:
        """The peer as of now."""
        peer = self._peer
        if not self._chain:
            return peer
        now = self._wall_clock()
        certificate = peer.certificate
        if (
            certificate is not None
            and self._generation == self._chains.generation
            and certificate.not_before <= now <= certificate.not_after
        ):
            return peer
        # A refusal may end with time too (not yet valid): asked anew, the chains remember.
        self._generation = self._chains.generation
        judged = self._chains.judge(self._address, self._chain, now)
        if judged != peer:
            self._peer = peer = judged
        return peer

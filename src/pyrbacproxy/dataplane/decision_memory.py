"""Decisions to forward, kept for heads that come again byte for byte, on whichever connection.

Bounded, and shared by all connections of a listener: a client that opens a new connection for each
request is recognised as well, and an idle connection holds nothing of its own.
"""

from dataclasses import dataclass

from pyrbacproxy.handler import Handler
from pyrbacproxy.http1.parser import RequestReceived
from pyrbacproxy.peer import Peer
from pyrbacproxy.record import Decided

# A longer head is no usual one.
_MAX_HEAD_BYTES = 8192
_MAX_KEPT = 256


@dataclass(frozen=True, slots=True)
class Question:
    """A request and what else its decision hangs on."""

    received: RequestReceived
    peer: Peer
    handler: Handler


@dataclass(frozen=True, slots=True)
class Remembered:
    """A decision to forward, and what came of it. `usable_until` is an instant of the loop."""

    question: Question
    usable_until: float
    decided: Decided
    upstream_head: bytes
    keeps_alive: bool


class DecisionMemory:
    """At most 256 decisions, the oldest forgotten first. A request with a body is never kept."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        # The address stands in the upstream's head.
        self._kept: dict[tuple[bytes, str], Remembered] = {}

    def recall(self, raw: bytes, peer: Peer, handler: Handler, now: float) -> Remembered | None:
        """What was decided about these bytes from the same peer, if it may still be used."""
        key = (raw, peer.address)
        known = self._kept.get(key)
        if known is None:
            return None
        question = known.question
        if (
            question.handler is not handler
            or (question.peer is not peer and question.peer != peer)
            or now >= known.usable_until
        ):
            del self._kept[key]
            return None
        return known

    def keep(self, decision: Remembered) -> None:
        """Remember it, if it is a usual one."""
        question = decision.question
        received = question.received
        if len(received.raw) > _MAX_HEAD_BYTES or received.framing.has_body:
            return
        if len(self._kept) >= _MAX_KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[received.raw, question.peer.address] = decision

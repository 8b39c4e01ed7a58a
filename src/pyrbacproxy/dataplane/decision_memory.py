"""Decisions to forward, kept for heads that come again byte for byte, on whichever connection.

Bounded, and shared by all connections of a listener: a client that opens a new connection for each
request is recognised as well, and an idle connection holds nothing of its own. What is kept
outlives the connection, so it holds no credential: the head is known by a hash under a key of this
process, and a decision whose upstream head carries a credential is not kept.
"""

import hashlib
import secrets
from dataclasses import dataclass, replace

from pyrbacproxy.handler import Handler
from pyrbacproxy.http1.head import Headers, RequestHead
from pyrbacproxy.http1.parser import RequestReceived
from pyrbacproxy.peer import Peer
from pyrbacproxy.record import Decided

# A longer head is no usual one.
_MAX_HEAD_BYTES = 8192
_MAX_KEPT = 256
_CREDENTIAL_LINES = (b"\r\nauthorization:", b"\r\ncookie:")


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
    """At most 256 decisions, the oldest forgotten first. Never one with a body or an upgrade."""

    __slots__ = ("_hash_key", "_kept")

    def __init__(self) -> None:
        self._hash_key = secrets.token_bytes(32)
        # The address stands in the upstream's head.
        self._kept: dict[tuple[bytes, str], Remembered] = {}

    def recall(self, raw: bytes, peer: Peer, handler: Handler, now: float) -> Remembered | None:
        """What was decided about these bytes from the same peer, if it may still be used."""
        if not self._kept or len(raw) > _MAX_HEAD_BYTES:
            return None
        key = (self._hashed(raw), peer.address)
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
        raw = received.raw
        if len(raw) > _MAX_HEAD_BYTES or received.framing.has_body or received.may_switch:
            return
        lowered = decision.upstream_head.lower()
        if any(line in lowered for line in _CREDENTIAL_LINES):
            return
        if len(self._kept) >= _MAX_KEPT:
            del self._kept[next(iter(self._kept))]
        key = (self._hashed(raw), question.peer.address)
        bare = replace(question, received=_without_credentials(received))
        self._kept[key] = replace(decision, question=bare)

    def _hashed(self, raw: bytes) -> bytes:
        return hashlib.blake2b(raw, key=self._hash_key, digest_size=32).digest()


def _without_credentials(received: RequestReceived) -> RequestReceived:
    """What an exchange without a request body needs of it: neither header lines nor query."""
    head = RequestHead(received.head.method, b"", Headers(), minor=received.head.minor)
    return replace(received, head=head, target=replace(received.target, raw_query=None), raw=b"")

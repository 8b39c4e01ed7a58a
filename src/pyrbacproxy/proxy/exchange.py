"""One request and its response: a state machine between the client's and the upstream's side."""

import hashlib
import secrets
from collections.abc import Callable, Iterable
from enum import Enum, IntEnum, auto
from http import HTTPStatus
from typing import Protocol, TypeAlias

from pyrbacproxy.handler import Handler, Respond, Runner, Verdict
from pyrbacproxy.http1.forwarding import is_agreed_upgrade
from pyrbacproxy.http1.framing import Framing, Kind
from pyrbacproxy.http1.head import Headers, RequestHead, Response, ResponseHead, text
from pyrbacproxy.http1.parser import RequestReceived, ResponseReceived
from pyrbacproxy.model import Decided, ExchangeRecord, Failure, Note, Outcome, Peer
from pyrbacproxy.proxy.heads import (
    NO_LINES,
    Heads,
    UpstreamHead,
    announced_trailers,
    relayed_trailers,
    same_trailers,
)
from pyrbacproxy.values import Frozen, Mutable, field, replace

# --- limits ---------------------------------------------------------------------------
# `Limits`: every timeout (seconds) and size (bytes) of the data plane.


class Limits(Frozen):
    """What a connection may cost.

    What is a flag has its default in `config.flags`; its value here is for tests.
    """

    handshake_seconds: float = 10.0
    read_header_seconds: float = 32.0
    idle_seconds: float = 90.0
    write_stall_seconds: float = 60.0
    shutdown_grace_seconds: float = 30.0
    shutdown_delay_seconds: float = 0.0
    max_header_bytes: int = 1_048_576
    max_connections: int = 10_000
    # Not flags: the original's transport (reference 6.2), and bounds that no flag sets.
    connect_seconds: float = 30.0
    upstream_handshake_seconds: float = 10.0
    upstream_idle_seconds: float = 90.0
    max_idle_upstreams: int = 100
    write_high_water_bytes: int = 262_144
    # An upstream that sends no 100 (Continue) gets the body after this (reference 6.2).
    continue_seconds: float = 1.0
    # A client that ended its sending may be gone altogether: when `half_closed` looks.
    half_closed_seconds: float = 0.5
    half_closed_rest_seconds: float = 0.8
    # HTTP/1.0 has nothing to look with: the time that the upstream has for its response head.
    half_closed_blind_seconds: float = 30.0
    # A refused body is read to its end if no more than this is to come, as by Go's server;
    # otherwise the connection closes.
    max_drained_bytes: int = 262_144
    # And if it comes within this time.
    drain_seconds: float = 5.0
    # A connection that has asked for nothing yet when we stop has this long to do so, as with Go's
    # server: its request may be on the way already.
    first_request_seconds: float = 5.0
    # How long we swallow what a client still sends after our last word: closing at once would
    # reset the answer away.
    linger_seconds: float = 1.0
    # And how much of it: a link that is fast brings a gigabyte in a second, each byte of it to be
    # read for nothing. A peer that sent so much since our last bytes had the time to read them.
    max_lingered_bytes: int = 1_048_576


# --- flow control ---------------------------------------------------------------------
#
# Who is paused by whom: the reasons why one side is not being read. Books only.
#
# Reading pauses with the first reason and goes on with the last, so that two parties that hold the
# same side cannot release each other's hold.


class PauseReason(Enum):
    """Why a side is not read."""

    BODY_WAITS = auto()  # body bytes are here, but no upstream to give them to yet
    UPSTREAM_FULL = auto()  # the upstream's write buffer is over its mark
    QUEUE = auto()  # pipelined requests wait for their turn


class ReadPause:
    """The `reasons` that hold one side."""

    __slots__ = ("reasons",)

    def __init__(self) -> None:
        self.reasons: frozenset[PauseReason] = frozenset()

    def hold(self, reason: PauseReason) -> bool:
        """Add a reason; true when it is the first, so that reading must pause now."""
        is_first = not self.reasons
        self.reasons |= {reason}
        return is_first

    def release(self, *reasons: PauseReason) -> bool:
        """Remove reasons; true when none is left but one was, so that reading may go on now."""
        if not self.reasons:
            return False
        self.reasons = self.reasons.difference(reasons)
        return not self.reasons


# --- response state -------------------------------------------------------------------
# Where a response is, and which step may follow; for every way of writing one to a client.


class ResponseState(IntEnum):
    """Where the response is."""

    DECIDING = auto()
    CONNECTING = auto()
    AWAITING = auto()  # the upstream has the head
    RELAYING = auto()  # the client has a response head
    DONE = auto()


# An IntEnum, because its members are hashed in C: four steps a response.
_STEPS = {
    ResponseState.DECIDING: (ResponseState.CONNECTING, ResponseState.DONE),
    ResponseState.CONNECTING: (ResponseState.AWAITING, ResponseState.DONE),
    ResponseState.AWAITING: (
        ResponseState.RELAYING,
        ResponseState.DONE,
        ResponseState.CONNECTING,  # once more, on a fresh connection
    ),
    ResponseState.RELAYING: (ResponseState.DONE,),
    ResponseState.DONE: (),
}


class ResponseProgress:
    """The `state` of one response."""

    __slots__ = ("state",)

    def __init__(self) -> None:
        self.state = ResponseState.DECIDING

    def step(self, state: ResponseState) -> None:
        """Move on. Raises RuntimeError for a step that the table lacks: a bug of ours."""
        if state not in _STEPS[self.state]:
            raise RuntimeError(f"{self.state} cannot become {state}")
        self.state = state


# --- sinks ----------------------------------------------------------------------------
# The seams of an exchange: what it needs of the client's and of the upstream's side.

# A view spares the copy of a long piece's beginning or end.
Piece: TypeAlias = bytes | memoryview


class Ending(Enum):
    """What becomes of the client's connection when the exchange is over."""

    KEEP_ALIVE = auto()
    CLOSE = auto()
    TRUNCATE = auto()  # flush, then end it so that the client sees a truncated response


class ByteSink(Protocol):
    """The client's connection, as the writer of the response needs it."""

    def write(self, *pieces: Piece) -> None:
        """Send bytes, all in one go."""
        ...


class Use(Enum):
    """What a client's connection is used for just now (D52)."""

    NEW = auto()  # no request of it was taken yet
    IDLE = auto()  # kept for another request, of which nothing has come
    BUSY = auto()


class ConnectionHandler(Protocol):
    """Who serves a connection, its TLS taken off."""

    @property
    def use(self) -> Use:
        """What the connection is used for."""
        ...

    def announce_close(self) -> None:
        """A connection that is not busy is about to be closed: say so if the protocol can."""
        ...

    def awaiting(self) -> Iterable[ExchangeRecord]:
        """The exchanges that have a request at the upstream and no answer yet."""
        ...

    def data_received(self, data: bytes) -> None:
        """Some plaintext."""
        ...

    def eof_received(self) -> bool:
        """The peer sends no more; true keeps the other direction open. Called once."""
        ...

    def connection_lost(self, failure: Failure | None = None) -> None:
        """Closed, by whomever; `failure`: by us, for this reason."""
        ...

    def pause_writing(self) -> None:
        """The write buffer is over its mark."""
        ...

    def resume_writing(self) -> None:
        """The write buffer is low again."""
        ...

    def drain(self) -> None:
        """Finish what is running, then close."""
        ...


class TunnelSide(Protocol):
    """A connection without HTTP on it: one side of a tunnel."""

    def serve(self, user: ConnectionHandler) -> None:
        """Tell `user` what comes from now on."""
        ...

    def write(self, *pieces: Piece) -> None:
        """Send; on a lost connection bytes vanish."""
        ...

    def pause_reading(self) -> None:
        """Read no more."""
        ...

    def resume_reading(self) -> None:
        """Read on."""
        ...

    def end_sending(self) -> bool:
        """Flush and say that no more comes; false where only a close could say so."""
        ...

    def close(self) -> None:
        """Flush and close."""
        ...

    def linger(self) -> None:
        """End the sending, discard what still comes for a while, then close."""
        ...

    def close_truncated(self) -> None:
        """Close so that the end is seen to be missing."""
        ...


class Released(Frozen):
    """A connection that HTTP has let go of, and what must be known of it.

    `waiting` is what it sent, unread; `has_ended`: it sends no more. A write buffer that is
    over its mark (`is_write_paused`) will say when it is low again.
    """

    side: TunnelSide
    waiting: bytes = b""
    has_ended: bool = False
    is_write_paused: bool = False


class ClientSink(Protocol):
    """The client's side, as the exchange needs it."""

    @property
    def is_write_paused(self) -> bool:
        """Whether the write buffer is over its mark."""
        ...

    @property
    def must_close(self) -> bool:
        """Whether the connection ends with this exchange.

        We are shutting down, or the client ended its sending.
        """
        ...

    def response_side(self, record: ExchangeRecord, request: RequestHead) -> "ClientResponse":
        """What writes the response, as this client's version of HTTP has it."""
        ...

    def pause_reading(self, reason: PauseReason) -> None:
        """Stop handing over body bytes."""
        ...

    def resume_reading(self, *reasons: PauseReason) -> None:
        """Go on, if no other reason holds it."""
        ...

    def wake_after(self, seconds: float) -> None:
        """Call `Exchange.woken` after so many seconds, unless the exchange is over by then.

        Replaces an earlier wish.
        """
        ...

    def release(self) -> Released:
        """Let go of the connection: the exchange became a tunnel."""
        ...

    def finished(self, ending: Ending) -> None:
        """The exchange is over and calls nothing any more."""
        ...


class UpstreamSink(Protocol):
    """What carries one request upstream, and its answer back; the exchange's alone until then.

    A connection of HTTP/1.1, or a stream of HTTP/2.
    """

    @property
    def is_reused(self) -> bool:
        """Whether it may have gone stale: it served before, and nothing of an answer has come."""
        ...

    @property
    def was_refused(self) -> bool:
        """Whether it is lost and the upstream did nothing with the request (RFC 9113 §8.7)."""
        ...

    def begin(self, user: "UpstreamUser", method: bytes, head: bytes, framing: Framing) -> None:
        """Send a request head, as HTTP/1.1 writes it; the answer goes to `user`."""
        ...

    def body(self, data: bytes) -> None:
        """Send some of the body, without framing; not empty."""
        ...

    def end(self, trailers: Headers | None) -> None:
        """The body is complete; not told where `framing` says that there is none."""
        ...

    def pause_reading(self) -> None:
        """Stop reading the answer."""
        ...

    def resume_reading(self) -> None:
        """Go on reading it."""
        ...

    def release(self) -> Released:
        """Let go of the connection: its answer was a 101."""
        ...

    def close(self) -> None:
        """Abort it; no more events follow."""
        ...


class ResponseSink(Protocol):
    """Takes the body of a response."""

    def body(self, data: Piece) -> None:
        """Some of it, without framing; not empty."""
        ...

    def trailers(self, trailers: Headers) -> None:
        """What follows a chunked body."""
        ...

    def flush(self) -> None:
        """That was all for now: what was gathered may go to the client."""
        ...


class ClientResponse(ResponseSink, Protocol):
    """Writes one response to the client; counts its body and notes its status in the record.

    `state` moves by `response_state`'s table: `step` to CONNECTING and AWAITING by the exchange,
    to RELAYING and DONE by what is written.
    """

    state: ResponseState

    def step(self, state: ResponseState) -> None:
        """Move on. Raises RuntimeError for a step that the table lacks."""
        ...

    def whole(self, response: Response, *, closes: bool) -> None:
        """An answer of our own instead of the upstream's; `closes`: the connection ends then.

        Raises LocalProtocolError.
        """
        ...

    def go_ahead(self) -> None:
        """A 100 (Continue), at most once, and only before the answer."""
        ...

    def interim(self, head: ResponseHead) -> None:
        """Pass a 1xx on, if the client knows such."""
        ...

    def head(self, received: ResponseReceived, *, closes: bool) -> bool:
        """Begin the final response; true if only the connection's end can end its body."""
        ...

    def ended(self) -> None:
        """The response is complete."""
        ...


class UpstreamUser(Protocol):
    """What an upstream connection and the connector tell; the exchange is the one implementation.

    `response_ended` and `upstream_lost` are the last word: the connection is out of the exchange's
    hands by then.
    """

    upstream_head: UpstreamHead
    """The head whose bytes `UpstreamSink.begin` gets; not every upstream can take an upgrade."""

    @property
    def is_request_ended(self) -> bool:
        """Whether the upstream has the whole request, so that it may serve another one."""
        ...

    @property
    def response_side(self) -> ResponseSink:
        """Who takes the response's body, between `response` and the last word."""
        ...

    @property
    def wants_upstream(self) -> bool:
        """Whether a connection is still waited for."""
        ...

    def upstream_ready(self, upstream: UpstreamSink) -> None:
        """Here is the connection that was asked for."""
        ...

    def upstream_failed(self, failure: Failure, cause: str = "") -> None:
        """There is none; both go into the record."""
        ...

    def interim(self, head: ResponseHead) -> None:
        """A 1xx other than 101."""
        ...

    def response(self, received: ResponseReceived) -> None:
        """The final response's head."""
        ...

    def response_ended(self) -> None:
        """The response is complete."""
        ...

    def upstream_lost(self, failure: Failure, cause: str = "") -> None:
        """The connection ended or spoke nonsense before the response was complete."""
        ...

    def upstream_paused(self) -> None:
        """Its write buffer is over its mark."""
        ...

    def upstream_resumed(self) -> None:
        """Its write buffer is low again."""
        ...


class Connector(Protocol):
    """Finds an upstream connection."""

    def connect(self, user: UpstreamUser, *, is_fresh: bool) -> None:
        """Call `upstream_ready` or `upstream_failed`, now or later; `is_fresh`: no idle one."""
        ...

    def cancel(self, user: UpstreamUser) -> None:
        """It waits no more: it gets no event, and no dial goes on for it alone."""
        ...


# --- decision memory ------------------------------------------------------------------
#
# Decisions to forward, kept for heads that come again byte for byte, on whichever connection.
#
# Bounded, and shared by all connections of a listener: a client that opens a new connection for
# each request is recognised as well, and an idle connection holds nothing of its own. What is kept
# outlives the connection, so it holds no credential: the head is known by a hash under a key of
# this process, and a decision whose upstream head carries a credential is not kept.

# A longer head is no usual one.
_MAX_HEAD_BYTES = 8192
_MAX_KEPT = 256


class Question(Frozen):
    """A request and what else its decision hangs on."""

    received: RequestReceived
    peer: Peer
    handler: Handler


class Remembered(Frozen):
    """A decision to forward, and what came of it. `usable_until` is an instant of the loop."""

    question: Question
    usable_until: float
    decided: Decided
    upstream_head: UpstreamHead
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
        if decision.upstream_head.carries_credential:
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


# --- services -------------------------------------------------------------------------
# `Services`: what all exchanges of a listener share.


class Services(Mutable):
    """Made once per listener by the composition root.

    Everything but `handler` stays as it is. A reload assigns a new `handler`; another object there,
    even an equal one, also ends all that `memory` holds of earlier decisions. So keep one and the
    same object otherwise: a bound method such as `access.handle` is a new one each time it
    is looked up.

    `heads` writes for the destination that `connector` connects to.
    `observe` gets each exchange's record once. `clock` tells monotonic seconds (on
    the event loop's scale, whose own clock moves in steps of a millisecond), `wall_clock` seconds
    since the epoch, `date` is an `HttpDate`. `clean_trailers` takes identity names and Bearer lines
    out of request trailers (D35).
    """

    handler: Handler
    runner: Runner
    connector: Connector
    heads: Heads
    observe: Callable[[ExchangeRecord], None]
    limits: Limits
    clock: Callable[[], float]
    wall_clock: Callable[[], float]
    date: Callable[[], bytes]
    clean_trailers: Callable[[Headers], Headers] = same_trailers
    memory: DecisionMemory = field(default_factory=DecisionMemory)


# --- malformed ------------------------------------------------------------------------
# What is no request, for it breaks the protocol: our answer to it, and its record.


def refusal(status: int) -> Response:
    """Our answer to a client that broke the protocol: the status in words; the connection ends."""
    return text(status, f"{status} {HTTPStatus(status).phrase}", must_close=True)


def malformed(
    peer_address: str, status: int, instant: float, why: object = "malformed request"
) -> ExchangeRecord:
    """The record of a request that never became an exchange; `instant` is monotonic seconds.

    `status` is 0 for what gets no answer. `why` is for the log, in our own words.
    """
    return ExchangeRecord(
        peer_address,
        "",
        "",
        decided=Decided(Outcome.REFUSED, notes=(Note(0, f"Refused: {why}"),)),
        status=status,
        started_at=instant,
        ended_at=instant,
        failure=Failure.MALFORMED_REQUEST,
    )


# --- tunnel ---------------------------------------------------------------------------
#
# Bytes both ways behind a 101, until either side ends; what passes is not looked at.
#
# What one side sends goes to the other at once, and a side that takes no more pauses the reading of
# the other, so that little waits here (reference 6.4).
#
# When a side ends its sending, the other is told so if that can be said without a close, and bytes
# still pass in the other direction. If it can't, when both have ended, or when one is lost, the
# tunnel is over, and the exchange that it came from with it. A side whose partner was lost in the
# middle is cut, so that it can't take what it got for all.
#
# No time limit of HTTP applies. A shutdown leaves a tunnel alone until its grace period ends.


class TunnelEnd:
    """What comes from `side` goes to `other`; a `ConnectionHandler`.

    `lost` says in the record that this side was lost.
    """

    __slots__ = ("_tunnel", "carried_bytes", "has_ended", "lost", "other", "side")

    def __init__(
        self, tunnel: "Tunnel", side: TunnelSide, other: TunnelSide, lost: Failure
    ) -> None:
        self._tunnel = tunnel
        self.side = side
        self.other = other
        self.lost = lost
        self.has_ended = False
        self.carried_bytes = 0

    def begin(self, released: Released) -> None:
        """Take over what HTTP left behind."""
        if released.is_write_paused:
            self.pause_writing()
        if released.waiting:
            self.data_received(released.waiting)
        if released.has_ended:
            self.eof_received()

    @property
    def use(self) -> Use:
        """A tunnel is never idle: what its protocol waits for is not known."""
        return Use.BUSY

    def announce_close(self) -> None:
        """What the protocol's word for it would be is not known."""

    def awaiting(self) -> Iterable[ExchangeRecord]:
        """The upstream has answered, by its 101."""
        return ()

    def data_received(self, data: bytes) -> None:
        """Some bytes."""
        if not self._tunnel.is_over:
            self.carried_bytes += len(data)
            self.other.write(data)

    def eof_received(self) -> bool:
        """This side sends no more; false: nor does it get any more."""
        self.has_ended = True
        return self._tunnel.goes_on_without(self)

    def connection_lost(self, failure: Failure | None = None) -> None:
        """Closed, by whomever; `failure`: by us, for this reason."""
        self._tunnel.lose(self, failure or self.lost)

    def pause_writing(self) -> None:
        """This side's write buffer is over its mark."""
        self.other.pause_reading()

    def resume_writing(self) -> None:
        """This side's write buffer is low again."""
        self.other.resume_reading()

    def drain(self) -> None:
        """A tunnel's sides can't be asked to come to an end."""


class Tunnel:
    """Both ends. `record` is completed and observed, once, when it is over."""

    __slots__ = ("_client", "_record", "_services", "_upstream", "is_over")

    def __init__(
        self, services: Services, record: ExchangeRecord, client: TunnelSide, upstream: TunnelSide
    ) -> None:
        self._services = services
        self._record = record
        self._client = TunnelEnd(self, client, upstream, Failure.CLIENT_GONE)
        self._upstream = TunnelEnd(self, upstream, client, Failure.CONNECTION_LOST)
        self.is_over = False

    def begin(self, client: Released, upstream: Released) -> None:
        """Bytes pass from now on; those that came too early for it go first."""
        client.side.serve(self._client)
        upstream.side.serve(self._upstream)
        self._upstream.begin(upstream)
        self._client.begin(client)

    def goes_on_without(self, ended: TunnelEnd) -> bool:
        """This end sends no more: whether bytes still pass the other way."""
        if self.is_over:
            return False
        if not (self._client.has_ended and self._upstream.has_ended) and ended.other.end_sending():
            return True
        self._end(None)
        ended.side.close()
        ended.other.close()
        return False

    def lose(self, lost: TunnelEnd, failure: Failure | None) -> None:
        """This end is gone: so is the other, once it has what is its own."""
        if self.is_over:
            return
        self._end(None if lost.has_ended else failure)
        if lost.has_ended:
            # It may still be sending, and must not lose what it was sent by a reset.
            lost.other.linger()
        else:
            lost.other.close_truncated()

    def _end(self, failure: Failure | None) -> None:
        self.is_over = True
        record = self._record
        record.failure = failure
        record.received_bytes += self._client.carried_bytes
        record.sent_bytes += self._upstream.carried_bytes
        record.ended_at = self._services.clock()
        self._services.observe(record)


def begin_tunnel(
    services: Services, record: ExchangeRecord, client: Released, upstream: Released
) -> None:
    """Connect two connections that HTTP has let go of."""
    Tunnel(services, record, client.side, upstream.side).begin(client, upstream)


# --- request side ---------------------------------------------------------------------
#
# The request's half of an exchange: its body on the way from the client to the upstream.
#
# Body bytes that come before there is an upstream, or while it takes no more, wait, and the client
# is not read meanwhile; those that come after the answer is given go nowhere (FR15).

# Asking twice changes nothing (RFC 9110 §9.2.1).
_SAFE = frozenset((b"GET", b"HEAD", b"OPTIONS", b"TRACE"))


class RequestState(IntEnum):
    """Where the request's body is."""

    RECEIVING = auto()
    DISCARDING = auto()  # answered already: what still comes goes nowhere
    ENDED = auto()


# Each request looks these up; on Python 3.11 that costs more than all that is done with them.
_RECEIVING = RequestState.RECEIVING
_ENDED = RequestState.ENDED
_BODY_STEPS = {
    RequestState.RECEIVING: (RequestState.ENDED, RequestState.DISCARDING),
    RequestState.DISCARDING: (RequestState.ENDED,),
    RequestState.ENDED: (),
}


class RequestSide:
    """Passes a request's body on; counts it in `record`. Without a body it has ended at once.

    `upstream` is who has the head and takes the body; None before, and when the answer is complete.
    `is_last_try`: whatever becomes of it there, it is not sent again.
    """

    __slots__ = (
        "_client",
        "_is_end_waiting",
        "_is_held",
        "_record",
        "_seen_bytes",
        "_services",
        "_trailers",
        "_waiting",
        "framing",
        "head",
        "is_last_try",
        "state",
        "upstream",
    )

    def __init__(
        self,
        services: Services,
        client: ClientSink,
        record: ExchangeRecord,
        *,
        head: RequestHead,
        framing: Framing,
    ) -> None:
        self._services = services
        self._client = client
        self._record = record
        self.head = head
        self.framing = framing
        # Where no body is announced, the head is all.
        self.state = _RECEIVING if framing.has_body else _ENDED
        self.upstream: UpstreamSink | None = None
        self.is_last_try = False
        # One buffer: HTTP/2 sends a whole window though it is not read, and whoever kept its pieces
        # as objects would pay hundreds of bytes for each of one byte.
        self._waiting = bytearray()
        self._is_end_waiting = False
        self._is_held = False
        self._seen_bytes = -1
        self._trailers: Headers | None = None

    @property
    def is_ended(self) -> bool:
        """Whether all of it was received."""
        return self.state is _ENDED

    @property
    def is_passed_on(self) -> bool:
        """Whether all of it was received, and nothing of it waits here."""
        return self.state is _ENDED and not self._waiting

    @property
    def can_be_drained(self) -> bool:
        """Whether the rest is short enough to be read, so that another request can follow it."""
        if self.state is _ENDED:
            return True
        left = self.framing.length - self._record.received_bytes
        is_short = left <= self._services.limits.max_drained_bytes
        return self.framing.kind is Kind.LENGTH and is_short

    def can_be_repeated(self, lost: UpstreamSink) -> bool:
        """Whether it may be sent again: that was stale (RFC 9112 §9.3.1), or refused it."""
        if self.framing.has_body or self.is_last_try:
            return False
        return lost.was_refused or (lost.is_reused and self.head.method in _SAFE)

    @property
    def expects_continue(self) -> bool:
        """Whether the client holds its body back until it is told to go ahead (RFC 9110 §10.1.1).

        HTTP/1.0 knows no such thing, and a client that has begun waits no more.
        """
        return (
            self.state is _RECEIVING
            and self.head.minor > 0
            and not self._record.received_bytes
            and b"expect" in self.head.headers
        )

    def has_asked_for(self, switch: ResponseHead) -> bool:
        """Whether it is all there, and asks for what this 101 begins.

        The bytes behind the 101's request would else be its body.
        """
        return self.is_passed_on and is_agreed_upgrade(self.head, switch)

    def upstream_head(self, head: RequestHead) -> UpstreamHead:
        """The head towards the upstream; `head` is finished but for framing.

        Raises LocalProtocolError.
        """
        announced = NO_LINES
        if self.framing.kind is Kind.CHUNKED:
            announced = announced_trailers(self.head.headers, self._services.clean_trailers)
        return self._services.heads.request(head, self.framing, announced=announced)

    def attach(self, upstream: UpstreamSink) -> None:
        """Here is who takes the body: what waited goes first."""
        self.upstream = upstream
        if self._waiting or self._is_end_waiting:
            self._pass_on(upstream)
            self._client.resume_reading(PauseReason.BODY_WAITS)
        if self.state is _RECEIVING:
            self._client.wake_after(self._services.limits.idle_seconds)

    def is_stalled(self) -> bool:
        """Whether nothing came since the last look, though it could; else asks for another look."""
        if self.state is not _RECEIVING:
            return False
        seen, self._seen_bytes = self._seen_bytes, self._record.received_bytes
        if self._is_held:
            self._seen_bytes = -1
        elif seen == self._seen_bytes:
            return True
        self._client.wake_after(self._services.limits.idle_seconds)
        return False

    def hold(self) -> None:
        """The upstream takes no more for now."""
        self._is_held = True
        self._client.pause_reading(PauseReason.UPSTREAM_FULL)

    def release(self) -> None:
        """The upstream takes more."""
        self._is_held = False
        if self.upstream is not None:
            self._pass_on(self.upstream)
        if not self._is_held:
            self._client.resume_reading(PauseReason.UPSTREAM_FULL)

    def detach(self) -> UpstreamSink | None:
        """The upstream takes no more; who it was, if there was one."""
        upstream, self.upstream = self.upstream, None
        return upstream

    def discard(self) -> None:
        """The answer is given: the rest goes nowhere, and has little time to come (FR58)."""
        if self.state is _RECEIVING:
            self._step(RequestState.DISCARDING)
            self._waiting.clear()
            self._is_end_waiting = False
            self._client.resume_reading(PauseReason.BODY_WAITS, PauseReason.UPSTREAM_FULL)
            self._client.wake_after(self._services.limits.drain_seconds)

    def body(self, data: bytes) -> None:
        """Body bytes, without framing."""
        self._record.received_bytes += len(data)
        upstream = self.upstream
        if self.state is not _RECEIVING:
            return
        if upstream is not None and not self._is_held:
            upstream.body(data)
            return
        self._waiting += data
        if upstream is None:
            self._client.pause_reading(PauseReason.BODY_WAITS)

    def trailers(self, trailers: Headers) -> None:
        """What follows a chunked body, relayed but never merged into the head (D35)."""
        self._trailers = relayed_trailers(trailers, self._services.clean_trailers)

    def ended(self) -> None:
        """The body is complete."""
        if self.state is _RECEIVING:
            self._is_end_waiting = True
            if self.upstream is None:
                self._client.pause_reading(PauseReason.BODY_WAITS)
            elif not self._waiting:
                self._pass_on(self.upstream)
        self._step(RequestState.ENDED)

    def _pass_on(self, upstream: UpstreamSink) -> None:
        """What waited."""
        if self._waiting:
            waiting, self._waiting = bytes(self._waiting), bytearray()
            upstream.body(waiting)
        if self._is_end_waiting:
            self._is_end_waiting = False
            upstream.end(self._trailers)

    def _step(self, state: RequestState) -> None:
        if state not in _BODY_STEPS[self.state]:
            raise RuntimeError(f"{self.state} cannot become {state}")
        self.state = state


# --- exchange -------------------------------------------------------------------------
#
# One request and its response: the state machine, on two small sinks.
#
# Events come in as method calls, actions go out as calls of the sinks; it never waits and knows no
# socket. Two halves move on their own, each by its table (`request_side`, `response_side`). The
# exchange is over when the response is, and the request too unless the connection closes.
#
# - The upstream sees nothing before the verdict.
# - After the first byte of a response head went to the client there is no second response: what
#   breaks then ends in an abort that the client can see (RFC 9112 §8).
# - A final answer is relayed at once, body received or not; an unread body is drained if it is
#   short, else the connection closes: body text is never taken for the next request (FR15).

_SWITCHING_PROTOCOLS = 101
# As in `request_side`: each request needs them, and looking a member up is slow.

_CONNECTING = ResponseState.CONNECTING
_AWAITING = ResponseState.AWAITING
_DONE = ResponseState.DONE
_KEEP_ALIVE = Ending.KEEP_ALIVE
_BAD_GATEWAY = Response(502)
_GATEWAY_TIMEOUT = Response(504)
_NO_HEAD = UpstreamHead(b"")


class Exchange:
    """One request and its response. `record` is filled on the way and observed at the end.

    `keeps_alive`: the client is willing to send another request. `cancel` ends the running decision
    and is set by who started it; `upstream_head` is what was sent upstream, for those who remember
    decisions. Bodies and trailers go straight to the two sides.
    """

    __slots__ = (
        "_client",
        "_ending",
        "_keeps_alive",
        "_services",
        "cancel",
        "record",
        "request_side",
        "response_side",
        "upstream_head",
    )

    def __init__(
        self,
        services: Services,
        client: ClientSink,
        record: ExchangeRecord,
        *,
        head: RequestHead,
        framing: Framing,
        keeps_alive: bool,
    ) -> None:
        self.record = record
        self.cancel: Callable[[], None] | None = None
        self.upstream_head = _NO_HEAD
        self._services = services
        self._client = client
        self._keeps_alive = keeps_alive
        self.request_side = RequestSide(services, client, record, head=head, framing=framing)
        self.response_side = client.response_side(record, head)
        self._ending = _KEEP_ALIVE

    # The verdict

    def decided(self, verdict: Verdict) -> None:
        """Answer, or forward.

        Raises LocalProtocolError for a head that cannot be written; nothing was done then.
        """
        if isinstance(verdict, Respond):
            self._note(verdict.decided)
            self.respond(verdict.response)
            return
        self.forward(verdict.decided, self.request_side.upstream_head(verdict.head))

    def forward(self, decided: Decided, upstream_head: UpstreamHead) -> None:
        """Send this head upstream, without another look at it."""
        self._note(decided)
        self.upstream_head = upstream_head
        self.response_side.step(_CONNECTING)
        self._services.connector.connect(self, is_fresh=False)

    def respond(self, response: Response) -> None:
        """Give an answer of our own instead of an upstream's; the upstream is dropped."""
        self._drop_upstream()
        if response.must_close or not self._may_keep_alive():
            self._ending = Ending.CLOSE
        self.response_side.whole(response, closes=self._ending is Ending.CLOSE)
        self.request_side.discard()
        self._finish_if_over()

    # The client's events

    @property
    def is_request_ended(self) -> bool:
        """Whether all of the request was received, and passed on."""
        return self.request_side.is_passed_on

    def request_ended(self) -> None:
        """The client's body is complete."""
        self.request_side.ended()
        self._finish_if_over()

    def request_malformed(self, status: int) -> None:
        """The client's body cannot be read on: 400 if nothing was answered yet (D30)."""
        self._fail(Failure.MALFORMED_BODY)
        if self.response_side.state is _DONE:
            self._finish(Ending.CLOSE)
        elif self.response_side.state is ResponseState.RELAYING:
            self._truncate()
        else:
            self._cancel_decision()
            self.respond(refusal(status))

    def request_truncated(self) -> None:
        """The client ended its sending within the body; it may still read (RFC 9112 §8).

        An answer that is on its way goes on, else it is 400 as for a body that cannot be read.
        """
        if self.response_side.state is not ResponseState.RELAYING:
            self.request_malformed(HTTPStatus.BAD_REQUEST)
            return
        self._fail(Failure.MALFORMED_BODY)
        self._ending = Ending.CLOSE
        self.request_side.discard()

    def client_paused(self) -> None:
        """The client's write buffer is over its mark: read no more from the upstream."""
        if (upstream := self.request_side.upstream) is not None:
            upstream.pause_reading()

    def client_resumed(self) -> None:
        """The client's write buffer is low again."""
        if (upstream := self.request_side.upstream) is not None:
            upstream.resume_reading()

    def client_lost(self, failure: Failure | None = None) -> None:
        """The client's connection is lost: so is the upstream's, at once (FR51).

        `failure`: we ended it, for this reason.
        """
        self._fail(failure or Failure.CLIENT_GONE)
        self._cancel_decision()
        self._truncate()

    def woken(self) -> None:
        """The time asked for by `wake_after` has come."""
        if self.response_side.state is _DONE:
            self._finish(Ending.CLOSE)
        elif self.response_side.state is _AWAITING:
            if self.request_side.expects_continue:
                self.response_side.go_ahead()
            if self.request_side.is_stalled():
                self._fail(Failure.CLIENT_STALLED)
                self.respond(refusal(HTTPStatus.REQUEST_TIMEOUT))

    # The upstream's events

    @property
    def is_awaiting(self) -> bool:
        """Whether the upstream has the request's head and has not answered."""
        return self.response_side.state is _AWAITING

    @property
    def wants_upstream(self) -> bool:
        """Whether a connection is still waited for."""
        return self.response_side.state is _CONNECTING

    def upstream_ready(self, upstream: UpstreamSink) -> None:
        """Send the head, and the body bytes that waited."""
        self.response_side.step(_AWAITING)
        request = self.request_side
        upstream.begin(self, request.head.method, self.upstream_head.raw, request.framing)
        request.attach(upstream)
        if request.expects_continue:
            self._client.wake_after(self._services.limits.continue_seconds)

    def upstream_failed(self, failure: Failure, cause: str = "") -> None:
        """No connection: 504 if it took too long, else 502."""
        self._fail(failure, cause)
        self.respond(_GATEWAY_TIMEOUT if failure is Failure.CONNECT_TIMEOUT else _BAD_GATEWAY)

    def upstream_lost(self, failure: Failure, cause: str = "") -> None:
        """The connection ended too early.

        Ask again where that is safe, else 502; after the head it is an abort.
        """
        request = self.request_side
        upstream = request.detach()
        is_awaiting = self.response_side.state is _AWAITING
        if is_awaiting and upstream is not None and request.can_be_repeated(upstream):
            request.is_last_try = True
            self.response_side.step(_CONNECTING)
            self._services.connector.connect(self, is_fresh=True)
            return
        self._fail(failure, cause)
        if is_awaiting:
            self.respond(_BAD_GATEWAY)
        else:
            self._truncate()

    def upstream_paused(self) -> None:
        """The upstream takes no more: read no more of the client's body."""
        self.request_side.hold()

    def upstream_resumed(self) -> None:
        """The upstream takes more."""
        self.request_side.release()

    def interim(self, head: ResponseHead) -> None:
        """Pass a 1xx on."""
        # Who has answered so far is no stale connection.
        self.request_side.is_last_try = True
        self.response_side.interim(head)

    def response(self, received: ResponseReceived) -> None:
        """Begin to relay the final response."""
        self.record.upstream_answered_at = self._services.clock()
        if received.head.status == _SWITCHING_PROTOCOLS:
            self._switch(received)
            return
        closes = not self._may_keep_alive()
        if self.response_side.head(received, closes=closes) or closes:
            self._ending = Ending.CLOSE

    def response_ended(self) -> None:
        """The upstream's response is complete, and its connection out of our hands."""
        self.request_side.detach()
        self.response_side.ended()
        self.request_side.discard()
        self._finish_if_over()

    def _switch(self, received: ResponseReceived) -> None:
        """Become a tunnel, if it is the one that was asked for and the whole request went up."""
        upstream = self.request_side.upstream
        if upstream is None or not self.request_side.has_asked_for(received.head):
            self.upstream_failed(Failure.UNWANTED_SWITCH)
            return
        self.response_side.head(received, closes=False)
        self.response_side.ended()
        self.request_side.detach()
        begin_tunnel(self._services, self.record, self._client.release(), upstream.release())

    # What several of them need

    def _fail(self, failure: Failure, cause: str = "") -> None:
        self.record.failure = failure
        self.record.cause = cause

    def _note(self, decided: Decided) -> None:
        self.record.decided = decided
        self.record.decided_at = self._services.clock()

    def _may_keep_alive(self) -> bool:
        """Whether the client's connection can serve on after this response."""
        if not self._keeps_alive or self._client.must_close:
            return False
        request = self.request_side
        return request.can_be_drained and not request.expects_continue

    def _cancel_decision(self) -> None:
        if self.response_side.state is ResponseState.DECIDING and self.cancel is not None:
            self.cancel()

    def _drop_upstream(self) -> None:
        upstream = self.request_side.detach()
        if upstream is not None:
            upstream.close()
        elif self.wants_upstream:
            self._services.connector.cancel(self)

    def _finish_if_over(self) -> None:
        if self.response_side.state is _DONE and (
            self.request_side.state is _ENDED or self._ending is not _KEEP_ALIVE
        ):
            self._finish(self._ending)

    def _truncate(self) -> None:
        """End it so that the response can't be taken for complete."""
        self._drop_upstream()
        self.response_side.flush()
        if self.response_side.state is not _DONE:
            self.response_side.step(_DONE)
        self._finish(Ending.TRUNCATE)

    def _finish(self, ending: Ending) -> None:
        self.record.ended_at = self._services.clock()
        self._services.observe(self.record)
        self._client.finished(ending)

"""The request's half of an exchange: its body on the way from the client to the upstream.

Body bytes that come before there is an upstream, or while it takes no more, wait, and the client is
not read meanwhile; those that come after the answer is given go nowhere (FR15).
"""

from enum import IntEnum, auto

from pyrbacproxy.dataplane.flow_control import Reason
from pyrbacproxy.dataplane.heads import NO_LINES, announced_trailers, relayed_trailers
from pyrbacproxy.dataplane.services import Services
from pyrbacproxy.dataplane.sinks import ClientSink, UpstreamSink
from pyrbacproxy.http1.forwarding import is_agreed_upgrade
from pyrbacproxy.http1.framing import Framing, Kind
from pyrbacproxy.http1.head import Headers, RequestHead, ResponseHead
from pyrbacproxy.record import ExchangeRecord

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
_STEPS = {
    RequestState.RECEIVING: (RequestState.ENDED, RequestState.DISCARDING),
    RequestState.DISCARDING: (RequestState.ENDED,),
    RequestState.ENDED: (),
}


class RequestSide:
    """Passes a request's body on; counts it in `record`. Without a body it has ended at once.

    `upstream` is who has the head and takes the body; None before, and when the answer is complete.
    `is_last_try`: whatever becomes of it there, nobody is asked again.
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

    def upstream_head(self, head: RequestHead) -> bytes:
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
            self._client.resume_reading(Reason.BODY_WAITS)
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
        self._client.pause_reading(Reason.UPSTREAM_FULL)

    def release(self) -> None:
        """The upstream takes more."""
        self._is_held = False
        if self.upstream is not None:
            self._pass_on(self.upstream)
        if not self._is_held:
            self._client.resume_reading(Reason.UPSTREAM_FULL)

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
            self._client.resume_reading(Reason.BODY_WAITS, Reason.UPSTREAM_FULL)
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
            self._client.pause_reading(Reason.BODY_WAITS)

    def trailers(self, trailers: Headers) -> None:
        """What follows a chunked body, relayed but never merged into the head (D35)."""
        self._trailers = relayed_trailers(trailers, self._services.clean_trailers)

    def ended(self) -> None:
        """The body is complete."""
        if self.state is _RECEIVING:
            self._is_end_waiting = True
            if self.upstream is None:
                self._client.pause_reading(Reason.BODY_WAITS)
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
        if state not in _STEPS[self.state]:
            raise RuntimeError(f"{self.state} cannot become {state}")
        self.state = state

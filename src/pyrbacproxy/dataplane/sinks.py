"""The seams of an exchange: what it needs of the client's and of the upstream's side."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol, TypeAlias

from pyrbacproxy.dataplane.flow_control import Reason
from pyrbacproxy.dataplane.response_state import ResponseState
from pyrbacproxy.http1.framing import Framing
from pyrbacproxy.http1.head import Headers, RequestHead, ResponseHead
from pyrbacproxy.http1.parser import ResponseReceived
from pyrbacproxy.http1.response import Response
from pyrbacproxy.record import ExchangeRecord, Failure

# A view spares the copy of a long piece's beginning or end.
Piece: TypeAlias = bytes | memoryview


class Ending(Enum):
    """What becomes of the client's connection when the exchange is over."""

    KEEP_ALIVE = auto()
    CLOSE = auto()
    ABORT = auto()  # flush, then end it so that the client sees a truncated response


class ByteSink(Protocol):
    """The client's connection, as whoever frames the response needs it."""

    def write(self, *pieces: Piece) -> None:
        """Send bytes, all in one go."""
        ...


class Use(Enum):
    """What a client's connection is used for just now (D52)."""

    NEW = auto()  # no request of it was taken yet
    IDLE = auto()  # kept for another request, of which nothing has come
    BUSY = auto()


class Inner(Protocol):
    """Who serves a connection, its TLS taken off."""

    @property
    def use(self) -> Use:
        """What the connection is used for."""
        ...

    def say_goodbye(self) -> None:
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


class Side(Protocol):
    """A connection without HTTP on it: one side of a tunnel."""

    def serve(self, user: Inner) -> None:
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

    def cut(self) -> None:
        """Close so that the end is seen to be missing."""
        ...


@dataclass(frozen=True, slots=True)
class Released:
    """A connection that HTTP has let go of, and what must be known of it.

    `waiting` is what it sent and nobody read; `has_ended`: it sends no more. A write buffer that is
    over its mark (`is_write_paused`) will say when it is low again.
    """

    side: Side
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

    def pause_reading(self, reason: Reason) -> None:
        """Stop handing over body bytes."""
        ...

    def resume_reading(self, *reasons: Reason) -> None:
        """Go on, if nobody else holds it."""
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
        """Send a request head, as HTTP/1.1 writes it; the answer is told to `user`."""
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
        """Drop it at once; nothing is told any more."""
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

    upstream_head: bytes
    """What `UpstreamSink.begin` will be given: it may ask for what not every upstream has."""

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

    def withdraw(self, user: UpstreamUser) -> None:
        """It waits no more: nothing is told, and nobody dials for it alone."""
        ...

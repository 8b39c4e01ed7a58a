"""Both ends of an exchange as tapes, so that tests read as dialogues: event in, actions out."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import TypeVar

from pyrbacproxy.handler import Forward, Request, Respond, Verdict
from pyrbacproxy.http1.framing import NO_BODY, Framing, Kind
from pyrbacproxy.http1.head import Headers, RequestHead, text
from pyrbacproxy.http1.parser import ResponseParser, ResponseReceived
from pyrbacproxy.model import (
    BearerToken,
    Decided,
    ExchangeRecord,
    Failure,
    Outcome,
    Reviewed,
    ReviewFailed,
    TokenReview,
)
from pyrbacproxy.proxy.client_http1 import Http1Response
from pyrbacproxy.proxy.exchange import (
    ConnectionHandler,
    Ending,
    Exchange,
    Limits,
    PauseReason,
    Piece,
    Released,
    Services,
    UpstreamUser,
    Use,
)
from pyrbacproxy.proxy.heads import Destination, Heads

T = TypeVar("T")
DATE = b"Thu, 01 Jan 1970 00:00:00 GMT"
ALLOWED = Decided(Outcome.ALLOWED, "alice", "token", "static")
UNAUTHORIZED = Respond(text(401, "Unauthorized\n"), Decided(Outcome.UNAUTHENTICATED))
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"
UPGRADE = ((b"Connection", b"upgrade"), (b"Upgrade", b"Echo"))
STREAM = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def length(size: int) -> Framing:
    return Framing(Kind.LENGTH, size)


def received(raw: bytes, method: bytes = b"GET") -> ResponseReceived:
    """The event that a response head makes."""
    event = ResponseParser(request_method=method, max_head_bytes=65536).feed(raw)[0]
    assert isinstance(event, ResponseReceived)
    return event


class SideTape:
    """A `TunnelSide`: what it was sent, and all else in order; `can_end`: may be half closed."""

    def __init__(self, *, can_end: bool = True) -> None:
        self.sent = b""
        self.done: list[str] = []
        self.user: ConnectionHandler | None = None
        self.can_end = can_end

    def serve(self, user: ConnectionHandler) -> None:
        self.user = user

    def write(self, *pieces: Piece) -> None:
        self.sent += b"".join(pieces)

    def pause_reading(self) -> None:
        self.done.append("pause")

    def resume_reading(self) -> None:
        self.done.append("resume")

    def end_sending(self) -> bool:
        self.done.append("end")
        return self.can_end

    def close(self) -> None:
        self.done.append("close")

    def linger(self) -> None:
        self.done.append("linger")

    def close_truncated(self) -> None:
        self.done.append("close_truncated")


class ConnectionHandlerTape:
    """A `ConnectionHandler` that notes what it is told."""

    def __init__(self, *, stays_open: bool = False) -> None:
        self.heard = b""
        self.told: list[str] = []
        self.stays_open = stays_open
        self.use = Use.IDLE

    def announce_close(self) -> None:
        self.told.append("goodbye")

    def awaiting(self) -> list[ExchangeRecord]:
        return []

    def data_received(self, data: bytes) -> None:
        self.heard += data

    def eof_received(self) -> bool:
        self.told.append("end")
        return self.stays_open

    def connection_lost(self, failure: Failure | None = None) -> None:
        self.told.append(f"lost {failure or ''}".strip())

    def pause_writing(self) -> None:
        self.told.append("pause")

    def resume_writing(self) -> None:
        self.told.append("resume")

    def drain(self) -> None:
        self.told.append("drain")


class ClientTape:
    """A `ClientSink`: what the client was sent, and all else in order."""

    def __init__(self) -> None:
        self.sent = b""
        self.done: list[object] = []
        self.wakes: list[float] = []
        self.is_write_paused = False
        self.must_close = False
        self.side = SideTape()
        self.released = Released(self.side)
        self.services: Services | None = None

    def response_side(self, record: ExchangeRecord, request: RequestHead) -> Http1Response:
        return Http1Response(self.services or World().services, self, record, request)

    def write(self, *pieces: Piece) -> None:
        self.sent += b"".join(pieces)

    def pause_reading(self, reason: PauseReason) -> None:
        self.done.append(("pause", reason))

    def resume_reading(self, *reasons: PauseReason) -> None:
        self.done.append(("resume", *reasons))

    def wake_after(self, seconds: float) -> None:
        self.wakes.append(seconds)

    def release(self) -> Released:
        self.done.append("release")
        return self.released

    def finished(self, ending: Ending) -> None:
        self.done.append(ending)

    def take(self) -> bytes:
        """What was sent since the last look, our Date line left out."""
        sent, self.sent = self.sent, b""
        return sent.replace(b"Date: " + DATE + b"\r\n", b"")


class UpstreamTape:
    """An `UpstreamSink`: what the upstream was sent, its body without framing."""

    def __init__(self, *, is_reused: bool = False) -> None:
        self.is_reused = is_reused
        self.was_refused = False
        self.sent = b""
        self.done: list[str] = []
        self.method = b""
        self.trailers: Headers | None = None
        self.side = SideTape()
        self.released = Released(self.side)

    def begin(self, user: UpstreamUser, method: bytes, head: bytes, framing: Framing) -> None:
        del user, framing
        self.method = method
        self.sent += head

    def body(self, data: bytes) -> None:
        self.sent += data

    def end(self, trailers: Headers | None) -> None:
        self.done.append("end")
        self.trailers = trailers

    def pause_reading(self) -> None:
        self.done.append("pause")

    def resume_reading(self) -> None:
        self.done.append("resume")

    def release(self) -> Released:
        self.done.append("release")
        return self.released

    def close(self) -> None:
        self.done.append("close")

    def take(self) -> bytes:
        sent, self.sent = self.sent, b""
        return sent


class ConnectorTape:
    """A `Connector` that hands over `ready` at once, or leaves whoever asks waiting."""

    def __init__(self, *ready: UpstreamTape) -> None:
        self.ready = list(ready)
        self.asked: list[bool] = []
        self.cancelled: list[UpstreamUser] = []

    def connect(self, user: UpstreamUser, *, is_fresh: bool) -> None:
        self.asked.append(is_fresh)
        if self.ready:
            user.upstream_ready(self.ready.pop(0))

    def cancel(self, user: UpstreamUser) -> None:
        self.cancelled.append(user)


class RunnerTape:
    """A `Runner` without an API server: a review waits in `waiting` until it is answered."""

    def __init__(self, usable_until: float = inf) -> None:
        self.usable_until = usable_until
        self.waiting: list[Callable[[], None]] = []
        self.cancelled = 0

    def run(
        self, steps: Reviewed[T], asker: str, done: Callable[[T, float, tuple[str, ...]], None]
    ) -> Callable[[], None]:
        del asker
        try:
            next(steps)
        except StopIteration as stop:
            done(stop.value, self.usable_until, ())
        else:
            self.waiting.append(lambda: self._answer(steps, done))
        return self._cancel

    def _answer(
        self, steps: Reviewed[T], done: Callable[[T, float, tuple[str, ...]], None]
    ) -> None:
        try:
            steps.send(ReviewFailed("a fake"))
        except StopIteration as stop:
            done(stop.value, 0.0, ("TokenReview",))

    def _cancel(self) -> None:
        self.cancelled += 1


def forwarding_handler(request: Request) -> Reviewed[Verdict]:
    """Forwards everything but: /deny is 401, /ask asks first, /break raises, /bad can't be sent."""
    yield from ()
    path = request.target.path
    if path == "/deny":
        return UNAUTHORIZED
    if path == "/ask":
        yield TokenReview(BearerToken("made up"))
    if path == "/break":
        raise ZeroDivisionError
    lines = [(b"Host", b"h"), *([(b"X", b"a\nb")] if path == "/bad" else [])]
    return Forward(RequestHead(request.head.method, request.head.target, Headers(lines)), ALLOWED)


@dataclass
class World:
    """Services made of tapes."""

    upstream: UpstreamTape = field(default_factory=UpstreamTape)
    connector: ConnectorTape = field(init=False)
    runner: RunnerTape = field(default_factory=RunnerTape)
    records: list[ExchangeRecord] = field(default_factory=list)
    limits: Limits = field(default_factory=Limits)
    clock: Callable[[], float] = lambda: 5.0

    def __post_init__(self) -> None:
        self.connector = ConnectorTape(self.upstream)
        self.services = Services(
            handler=forwarding_handler,
            runner=self.runner,
            connector=self.connector,
            heads=Heads(Destination(b"up:80")),
            observe=self.records.append,
            limits=self.limits,
            clock=self.clock,
            wall_clock=lambda: 1000.0,
            date=lambda: DATE,
            clean_trailers=lambda trailers: trailers.without((b"x-remote-user",)),
        )


@dataclass
class Dialogue:
    """One exchange between two tapes."""

    method: bytes = b"GET"
    framing: Framing = NO_BODY
    minor: int = 1
    lines: tuple[tuple[bytes, bytes], ...] = ()
    keeps_alive: bool = True
    world: World = field(default_factory=World)
    client: ClientTape = field(default_factory=ClientTape)

    def __post_init__(self) -> None:
        head = RequestHead(self.method, b"/x", Headers(self.lines), self.minor)
        self.record = ExchangeRecord("127.0.0.1", self.method.decode(), "/x")
        self.client.services = self.world.services
        self.exchange = Exchange(
            self.world.services,
            self.client,
            self.record,
            head=head,
            framing=self.framing,
            keeps_alive=self.keeps_alive,
        )

    @property
    def upstream(self) -> UpstreamTape:
        return self.world.upstream

    def forward(self) -> None:
        """Decide to forward."""
        head = RequestHead(self.method, b"/x", Headers([(b"Host", b"h")]))
        self.exchange.decided(Forward(head, ALLOWED))

    def respond(self, raw: bytes, *pieces: bytes, ends: bool = True) -> None:
        """Play the upstream's answer."""
        self.exchange.response(received(raw, self.method))
        for piece in pieces:
            self.exchange.response_side.body(piece)
        if ends:
            self.exchange.response_ended()
        else:
            self.exchange.response_side.flush()

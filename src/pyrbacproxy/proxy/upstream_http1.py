"""One HTTP/1.1 connection to the upstream, before and after a 101 response."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Protocol

from pyrbacproxy import dialing
from pyrbacproxy.egress import ProxyAddress
from pyrbacproxy.http1 import writer
from pyrbacproxy.http1.framing import NO_BODY, Framing, Kind
from pyrbacproxy.http1.head import Headers, RemoteProtocolError
from pyrbacproxy.http1.parser import (
    END,
    InterimReceived,
    KnownResponses,
    ResponseEvent,
    ResponseParser,
    ResponseReceived,
)
from pyrbacproxy.model import Failure
from pyrbacproxy.proxy.exchange import ConnectionHandler, Limits, Released, UpstreamUser
from pyrbacproxy.proxy.transport import Connection, Deadline, probe_when_quiet, reset_on_close

# --- dial -----------------------------------------------------------------------------
# Dials the upstream, within the limits and with the TLS context of the moment.


class Dialler:
    """Dials one address, or the unix socket at `socket_path`.

    `context` gives the TLS context of the moment.
    """

    def __init__(
        self,
        limits: Limits,
        *,
        is_tls: bool,
        host: str,
        port: int,
        proxy: ProxyAddress | None,
        context: Callable[[], ssl.SSLContext] | None,
        socket_path: str = "",
    ) -> None:
        self._limits = limits
        self._is_tls = is_tls
        self._socket_path = socket_path
        self._route = dialing.Route(host, port, proxy)
        self._lookup = dialing.lookup_of(self._route)
        self._context = context

    @property
    def address(self) -> str:
        """What is dialled, for the log."""
        host = f"[{self._route.host}]" if ":" in self._route.host else self._route.host
        return self._socket_path or f"{host}:{self._route.port}"

    async def dial(self, protocol: asyncio.Protocol) -> None:
        """Connect `protocol`. Raises DialError."""
        try:
            async with asyncio.timeout(self._limits.connect_seconds):
                await self._dial(protocol)
        except TimeoutError:
            raise self.too_late() from None
        except (OSError, UnicodeError) as error:
            words = dialing.in_words(error, "the upstream")
            raise self.failed(_failure(error), words) from error

    def failed(self, failure: Failure, words: str) -> "DialError":
        """The error that says so of this address, and of the proxy on the way."""
        proxy = self._route.proxy
        through = f" through the egress proxy {proxy.host}:{proxy.port}" if proxy else ""
        return DialError(failure, f"{self.address}{through}: {words}")

    def too_late(self) -> "DialError":
        """The error of a dial that took too long."""
        seconds = self._limits.connect_seconds
        return self.failed(Failure.CONNECT_TIMEOUT, f"no connection within {seconds:g} s")

    async def _dial(self, protocol: asyncio.Protocol) -> None:
        if self._socket_path:
            loop = asyncio.get_running_loop()
            await loop.create_unix_connection(lambda: protocol, self._socket_path)
            return
        context = self._context() if self._is_tls and self._context is not None else None
        if self._is_tls and context is None:
            raise OSError("no TLS context for an https upstream")
        await self._lookup.works()
        await dialing.dial(
            self._route,
            protocol,
            context=context,
            handshake_seconds=self._limits.upstream_handshake_seconds,
        )


class DialError(OSError):
    """There is no connection to the upstream; `cause` is its address and what happened."""

    def __init__(self, failure: Failure, cause: str) -> None:
        super().__init__(cause)
        self.failure = failure
        self.cause = cause


def loss(exc: Exception | None) -> tuple[Failure, str]:
    """Why a connection that was made is lost, and the cause where that says more.

    With TLS 1.3 a server that wants another client certificate says so after the handshake.
    """
    if isinstance(exc, ssl.SSLError):
        return Failure.TLS_FAILED, dialing.in_words(exc, "the upstream")
    return (Failure.CLOSED_EARLY if exc is None else Failure.CONNECTION_LOST), ""


_FAILURES = (
    (ssl.SSLCertVerificationError, Failure.NOT_TRUSTED),
    (ssl.SSLError, Failure.TLS_FAILED),
    ((socket.gaierror, UnicodeError), Failure.NAME_NOT_FOUND),
    (dialing.TunnelRefusedError, Failure.TUNNEL_REFUSED),
    (ConnectionRefusedError, Failure.REFUSED),
)


def _failure(error: OSError | UnicodeError) -> Failure:
    for kinds, failure in _FAILURES:
        if isinstance(error, kinds):
            return failure
    return Failure.NO_CONNECTION


# --- switched upstream ----------------------------------------------------------------
# An upstream connection behind its 101: the `asyncio.Protocol` without HTTP on it.


class SwitchedUpstream(Connection):
    """The upstream's side of a tunnel; a `TunnelSide`. `transport` is None if it is
    lost already.

    `is_write_paused`: the transport's buffer is over its mark.
    """

    __slots__ = ("_is_write_paused", "_user")

    def __init__(
        self,
        transport: asyncio.Transport | None,
        limits: Limits,
        loop: asyncio.AbstractEventLoop,
        *,
        is_write_paused: bool = False,
    ) -> None:
        super().__init__(limits, loop, transport)
        self._is_write_paused = is_write_paused
        self._user: ConnectionHandler | None = None

    # TunnelSide

    def serve(self, user: ConnectionHandler) -> None:
        """Tell `user` what comes from now on."""
        self._user = user
        if self._transport is None:
            user.connection_lost()
            return
        self._transport.set_protocol(self)
        probe_when_quiet(self._transport)
        if self._is_write_paused:
            self._stall.start()

    def end_sending(self) -> bool:
        """Flush and say that no more comes; TLS in asyncio can't say it without a close."""
        if self._transport is None or not self._transport.can_write_eof():
            return False
        self._transport.write_eof()
        return True

    def close(self) -> None:
        """Flush and close."""
        if self._transport is not None:
            self._stall.start()
            self._transport.close()

    def linger(self) -> None:
        """Close: the client that the upstream's bytes were for is gone."""
        self.close()

    def close_truncated(self) -> None:
        """Close at once, by a reset."""
        if self._transport is not None:
            reset_on_close(self._transport)
            self.abort()

    # asyncio.Protocol

    def data_received(self, data: bytes) -> None:
        """Some bytes."""
        if self._user is not None:
            self._user.data_received(data)

    def eof_received(self) -> bool:
        """The upstream sends no more; whether it stays open for what still goes to it."""
        if self._user is None or self._transport is None:
            return False
        return self._user.eof_received() and self._transport.can_write_eof()

    def connection_lost(self, exc: Exception | None) -> None:
        """Closed, by whomever."""
        super().connection_lost(exc)
        self._tell_loss(None)

    def pause_writing(self) -> None:
        """The write buffer is over its mark."""
        super().pause_writing()
        if self._user is not None:
            self._user.pause_writing()

    def resume_writing(self) -> None:
        """The write buffer is low again."""
        super().resume_writing()
        if self._user is not None:
            self._user.resume_writing()

    def _stalled(self) -> None:
        self._tell_loss(Failure.WRITE_STALL)
        self.abort()

    def _tell_loss(self, failure: Failure | None) -> None:
        user, self._user = self._user, None
        if user is not None:
            user.connection_lost(failure)


# --- upstream connection --------------------------------------------------------------
# The `asyncio.Protocol` towards the upstream: one HTTP/1.1 connection.


class Keeper(Protocol):
    """Whose connections they are; `proxy.connector.Connector` is the one implementation."""

    limits: Limits
    loop: asyncio.AbstractEventLoop
    known_responses: KnownResponses

    def is_persistent(self, received: ResponseReceived) -> bool:
        """Whether the upstream keeps its connection."""
        ...

    def take_back(self, connection: "UpstreamConnection") -> None:
        """It is free for the next exchange."""
        ...

    def forget(self, connection: "UpstreamConnection") -> None:
        """It is closing."""
        ...


class UpstreamConnection(Connection):
    """One connection: an `UpstreamSink` while an exchange has it, else idle or closed."""

    __slots__ = (
        "_framing",
        "_idle",
        "_is_persistent",
        "_is_read_paused",
        "_is_write_paused",
        "_keeper",
        "_method",
        "_parser",
        "_user",
        "is_reused",
    )

    def __init__(self, keeper: Keeper) -> None:
        super().__init__(keeper.limits, keeper.loop)
        self._keeper = keeper
        self._user: UpstreamUser | None = None
        # Made when a response needs one.
        self._parser: ResponseParser | None = None
        self._is_persistent = False
        self._is_read_paused = False
        self._is_write_paused = False
        self._method = b""
        # The request's.
        self._framing = NO_BODY
        self.is_reused = False
        self._idle = Deadline(keeper.loop, self.close)

    # asyncio.Protocol

    def data_received(self, data: bytes) -> None:
        """Some of a response."""
        user = self._user
        if user is None:
            # Unasked bytes would be the next exchange's answer.
            self.close()
            return
        if self._parser is None:
            if self._takes_whole(user, data):
                return
            self._parser = self._new_parser()
            # An upstream that answers, however badly, is not stale: it isn't asked twice for that.
            self.is_reused = False
        try:
            events = self._parser.feed(data)
        except RemoteProtocolError:
            self._lose(Failure.BROKE_HTTP)
            return
        parser = self._parser
        self._tell(user, events)
        if self._user is user and parser.fault is not None:
            self._lose(Failure.BROKE_HTTP)

    def eof_received(self) -> None:
        """The upstream ended its sending: the transport closes, as nothing can follow."""
        user = self._user
        if user is None:
            # The usual end of an idle one: no exchange may get it any more.
            self.close()
            return
        parser = self._parser or self._new_parser()
        try:
            events = parser.feed_eof()
        except RemoteProtocolError:
            self._lose(Failure.CLOSED_EARLY)
            return
        self._tell(user, events)

    def connection_lost(self, exc: Exception | None) -> None:
        """Closed, by whomever."""
        super().connection_lost(exc)
        self._idle.cancel()
        self._keeper.forget(self)
        if self._user is not None:
            self._lose(*loss(exc))

    def pause_writing(self) -> None:
        """The write buffer is over its mark."""
        self._is_write_paused = True
        super().pause_writing()
        if self._user is not None:
            self._user.upstream_paused()

    def resume_writing(self) -> None:
        """The write buffer is low again."""
        self._is_write_paused = False
        super().resume_writing()
        if self._user is not None:
            self._user.upstream_resumed()

    # UpstreamSink

    @property
    def was_refused(self) -> bool:
        """HTTP/1.1 has no word for it."""
        return False

    @property
    def is_open(self) -> bool:
        """Whether it may be used."""
        return self._transport is not None and not self._transport.is_closing()

    def begin(self, user: UpstreamUser, method: bytes, head: bytes, framing: Framing) -> None:
        """Send a request head; the answer goes to `user`."""
        self._idle.clear()
        self._user = user
        self._method = method
        self._framing = framing
        if self._transport is not None:
            self._transport.write(head)

    def body(self, data: bytes) -> None:
        """Send body bytes; on a lost connection they vanish, and the loss is reported."""
        if self._transport is not None:
            is_chunked = self._framing.kind is Kind.CHUNKED
            self._transport.write(writer.chunk(data) if is_chunked else data)

    def end(self, trailers: Headers | None) -> None:
        """The body is complete."""
        if self._transport is not None and self._framing.kind is Kind.CHUNKED:
            self._transport.write(writer.last_chunk(trailers))

    def pause_reading(self) -> None:
        """Stop reading the answer."""
        self._is_read_paused = True
        super().pause_reading()

    def resume_reading(self) -> None:
        """Go on reading it."""
        self._is_read_paused = False
        super().resume_reading()

    def release(self) -> Released:
        """Let go of the connection, which is no HTTP any more, for a tunnel."""
        keeper, parser, transport = self._keeper, self._parser, self._transport
        self._user = self._transport = self._parser = None
        self._idle.cancel()
        self._stall.cancel()
        keeper.forget(self)
        is_paused = self._is_write_paused
        side = SwitchedUpstream(transport, keeper.limits, keeper.loop, is_write_paused=is_paused)
        waiting = b"" if parser is None else parser.leftover
        return Released(side, waiting, is_write_paused=is_paused)

    def close(self) -> None:
        """Abort the connection; no more events follow."""
        self._user = None
        self._parser = None
        self._keeper.forget(self)
        self.abort()

    def rest(self, seconds: float) -> None:
        """Be idle for at most so long."""
        self._idle.set(seconds)

    # The answer

    def _takes_whole(self, user: UpstreamUser, data: bytes) -> bool:
        """The usual answer, a known head and all of its body in one read, needs no parser."""
        end = data.find(b"\r\n\r\n") + 4
        received = self._keeper.known_responses.get(data[:end])
        if (
            received is None
            or self._method == b"HEAD"
            or received.framing.kind is not Kind.LENGTH
            or len(data) != end + received.framing.length
        ):
            return False
        self._respond(user, received)
        if self._user is user:
            if received.framing.length:
                user.response_side.body(memoryview(data)[end:])
            self._end(user)
        return True

    def _respond(self, user: UpstreamUser, received: ResponseReceived) -> None:
        # A body that lasts until the close leaves nothing to keep.
        is_bounded = received.framing.kind is not Kind.UNTIL_CLOSE
        self._is_persistent = is_bounded and self._keeper.is_persistent(received)
        user.response(received)

    def _tell(self, user: UpstreamUser, events: list[ResponseEvent]) -> None:
        """Hand events on until the exchange drops us."""
        response = user.response_side
        for event in events:
            if isinstance(event, bytes):
                response.body(event)
            elif event is END:
                self._end(user)
            elif isinstance(event, ResponseReceived):
                self._respond(user, event)
            elif isinstance(event, InterimReceived):
                user.interim(event.head)
            else:
                response.trailers(event.headers)
            if self._user is not user:
                return
        response.flush()

    def _end(self, user: UpstreamUser) -> None:
        """The response is complete: keep the connection if nothing speaks against it."""
        parser, self._parser, self._user = self._parser, None, None
        is_clean = (parser is None or not parser.leftover) and user.is_request_ended
        if is_clean and self._is_persistent and self.is_open:
            self.is_reused = True
            if self._is_read_paused:  # by an exchange that is over: the next one must be read
                self.resume_reading()
            self._keeper.take_back(self)
        else:
            self.close()
        user.response_ended()

    def _lose(self, failure: Failure, cause: str = "") -> None:
        user = self._user
        self.close()
        if user is not None:
            user.upstream_lost(failure, cause)

    def _new_parser(self) -> ResponseParser:
        return ResponseParser(
            request_method=self._method,
            max_head_bytes=self._limits.max_header_bytes,
            known=self._keeper.known_responses,
        )

    def _stalled(self) -> None:
        self._lose(Failure.WRITE_STALL)

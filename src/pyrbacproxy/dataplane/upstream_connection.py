"""The `asyncio.Protocol` towards the upstream: one HTTP/1.1 connection."""

import asyncio
from typing import Protocol

from pyrbacproxy.dataplane.connection import Connection
from pyrbacproxy.dataplane.deadline import Deadline
from pyrbacproxy.dataplane.dial import loss
from pyrbacproxy.dataplane.limits import Limits
from pyrbacproxy.dataplane.sinks import Released, UpstreamUser
from pyrbacproxy.dataplane.switched_upstream import SwitchedUpstream
from pyrbacproxy.http1 import writer
from pyrbacproxy.http1.errors import RemoteProtocolError
from pyrbacproxy.http1.framing import NO_BODY, Framing, Kind
from pyrbacproxy.http1.head import Headers
from pyrbacproxy.http1.parser import (
    END,
    InterimReceived,
    KnownResponses,
    ResponseEvent,
    ResponseParser,
    ResponseReceived,
)
from pyrbacproxy.record import Failure


class Keeper(Protocol):
    """Whose connections they are; `dataplane.upstream.Connector` is the one implementation."""

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
            # Bytes that nobody asked for would be the next exchange's answer.
            self.close()
            return
        if self._parser is None:
            if self._takes_whole(user, data):
                return
            self._parser = self._new_parser()
            # Who answers, however badly, is not stale: nobody may ask it twice for that.
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
            # The usual end of an idle one: nobody may be given it any more.
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
        """Send a request head; the answer is told to `user`."""
        self._idle.clear()
        self._user = user
        self._method = method
        self._framing = framing
        if self._transport is not None:
            self._transport.write(head)

    def body(self, data: bytes) -> None:
        """Send body bytes; on a lost connection they vanish, and the loss is told."""
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
        """Drop the connection at once; nothing is told any more."""
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
            if self._is_read_paused:  # by who is gone: whoever is next must be heard
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

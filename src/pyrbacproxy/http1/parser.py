"""Bytes → events, for requests and responses: `feed(bytes)` tells what became known and never acts.

Theory. The end of a head is found with `bytes.find`; its bytes alone go to `head_bytes`, which
asks llhttp and then itself. What a head means depends on its bytes alone, so one that is byte for
byte the same as a remembered one means the same: that is all that is remembered, and why it opens
no hole. Bodies of known length are counted and handed through, chunked ones go through llhttp
(`body`).

Faults. Events before a fault are delivered first: `feed` returns them and puts the fault into
`fault`; without events it raises. From then on it raises for ever: nothing behind a malformed
message is served.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Generic, Literal, TypeAlias, TypeVar

from pyrbacproxy.http1.body import Body, UntilCloseBody, body_of
from pyrbacproxy.http1.errors import RemoteProtocolError
from pyrbacproxy.http1.framing import Framing
from pyrbacproxy.http1.head import Headers, RequestHead, ResponseHead
from pyrbacproxy.http1.head_bytes import read_request, read_response
from pyrbacproxy.http1.target import Target

_HEAD_END = b"\r\n\r\n"
# The queue of a connection holds as many (architecture section 5, step 14).
_MOST_REQUESTS_AT_ONCE = 16
# Remembered responses are one dictionary for all connections of a connector: few, small, and
# forgotten all at once.
_MOST_KNOWN = 64
_LONGEST_KNOWN_BYTES = 4_096


@dataclass(frozen=True, slots=True)
class RequestReceived:
    """A whole request head, checked.

    `raw` is its exact bytes, for whoever remembers what followed from it. `may_switch`: it asks for
    a tunnel.
    """

    head: RequestHead
    target: Target
    framing: Framing
    raw: bytes = field(repr=False)  # may hold a token
    may_switch: bool = False


@dataclass(frozen=True, slots=True)
class InterimReceived:
    """A 1xx response other than 101; the final one is still to come."""

    head: ResponseHead


@dataclass(frozen=True, slots=True)
class ResponseReceived:
    """A final response head, or a 101; `raw` is its exact bytes."""

    head: ResponseHead
    framing: Framing
    raw: bytes


@dataclass(frozen=True, slots=True)
class Trailers:
    """The fields behind a chunked body, as sent: never to be merged into the head's."""

    headers: Headers


class End(Enum):
    """The end of a message."""

    END = "end"


END: Final = End.END
RequestEvent: TypeAlias = RequestReceived | bytes | Trailers | Literal[End.END]
ResponseEvent: TypeAlias = InterimReceived | ResponseReceived | bytes | Trailers | Literal[End.END]
KnownResponses: TypeAlias = dict[bytes, ResponseReceived]
_Event = TypeVar("_Event", RequestEvent, ResponseEvent)


class _Parser(Generic[_Event]):
    """The rule about faults, for both directions."""

    __slots__ = ("fault",)

    def __init__(self) -> None:
        self.fault: RemoteProtocolError | None = None

    def feed(self, data: bytes) -> list[_Event]:
        """What these bytes make known. Raises RemoteProtocolError, see the text on faults."""
        if self.fault is not None:
            raise self.fault
        events: list[_Event] = []
        try:
            self._take(data, events)
        except RemoteProtocolError as fault:
            self.fault = fault
            if not events:
                raise
        return events

    def _take(self, data: bytes, events: list[_Event]) -> None:
        """For each direction to say: what these bytes make known, up to a fault that is raised."""


class RequestParser(_Parser[RequestEvent]):
    """The requests of one connection.

    `is_held`: what follows waits unparsed, because the request before it asks for a tunnel (an
    upgrade or CONNECT: it may not be HTTP), or because 16 requests came at once. Then `resume` goes
    on with it, or `take_held` gives it to the tunnel. What is fed meanwhile waits too, without
    bound, so the caller stops reading.
    """

    __slots__ = (
        "_body",
        "_count",
        "_has_skipped_blank",
        "_held",
        "_known",
        "_limit",
        "_may_switch",
        "_partial",
        "is_held",
    )

    def __init__(self, *, max_head_bytes: int) -> None:
        super().__init__()
        self._limit = max_head_bytes
        self._partial = bytearray()
        self._held = bytearray()
        self._known: RequestReceived | None = None
        self._body: Body | None = None
        self._count = 0
        self._may_switch = False
        self._has_skipped_blank = False
        self.is_held = False

    @property
    def is_idle(self) -> bool:
        """At a message's boundary with nothing begun and nothing held."""
        return self._body is None and not self._partial and not self.is_held

    @property
    def has_begun_head(self) -> bool:
        """Whether some bytes of a head are here, but not all."""
        return bool(self._partial)

    def resume(self) -> list[RequestEvent]:
        """Go on with what is held. Raises as `feed` does."""
        return self.feed(self.take_held())

    def take_held(self) -> bytes:
        """Take out what is held; from here on nothing is."""
        held = bytes(self._held)
        self._held.clear()
        self.is_held = False
        return held

    def _take(self, data: bytes, events: list[RequestEvent]) -> None:
        self._count = position = 0
        while position < len(data):
            if self._body is not None:
                position = _take_body(self._body, data, position, events)
                if self._body.is_complete:
                    self._end(events)
            elif self.is_held or self._count == _MOST_REQUESTS_AT_ONCE:
                self.is_held = True
                self._held += data[position:]
                return
            else:
                position = self._take_head(data, position, events)

    def _take_head(self, data: bytes, start: int, events: list[RequestEvent]) -> int:
        if data[start] in b"\r\n" and not self._has_skipped_blank:
            # RFC 9112 §2.2: an empty line before a request line is an old client's, of no meaning.
            after = _after_blank(self._partial, data, start)
            if after > start:
                self._has_skipped_blank = True
                return after
        raw, position = _take_head(self._partial, data, start, self._limit)
        if raw is not None:
            self._begin(raw, events)
        return position

    def _begin(self, raw: bytes, events: list[RequestEvent]) -> None:
        received = self._known
        if received is None or received.raw != raw:
            received = _request_received(raw)
            self._known = received if len(raw) <= _LONGEST_KNOWN_BYTES else None
        events.append(received)
        self._count += 1
        self._has_skipped_blank = False
        self._may_switch = received.may_switch
        if received.framing.has_body:
            self._body = body_of(received.framing)
        else:
            self._end(events)

    def _end(self, events: list[RequestEvent]) -> None:
        self._body = None
        self.is_held = self._may_switch
        events.append(END)


class ResponseParser(_Parser[ResponseEvent]):
    """One response, with the interim ones before it. Bytes behind its end go to `leftover`.

    `known` remembers byte-identical heads; all parsers may share it, for what a head means depends
    on its bytes and on whether it answers HEAD, and answers to HEAD are neither looked up nor
    remembered.
    """

    __slots__ = (
        "_body",
        "_is_done",
        "_known",
        "_limit",
        "_method",
        "_partial",
        "leftover",
    )

    def __init__(
        self, *, request_method: bytes, max_head_bytes: int, known: KnownResponses | None = None
    ) -> None:
        super().__init__()
        self._method = request_method
        self._limit = max_head_bytes
        self._known = known if request_method != b"HEAD" else None
        self._partial = bytearray()
        self._body: Body | None = None
        self._is_done = False
        self.leftover = b""

    def feed_eof(self) -> list[ResponseEvent]:
        """The upstream has closed: the end of a body that lasts until then.

        Raises RemoteProtocolError if the response was cut, or `feed` has a fault left.
        """
        if self.fault is not None:
            raise self.fault
        if self._is_done:
            return []
        if not isinstance(self._body, UntilCloseBody):
            raise RemoteProtocolError("the response was cut")
        self._is_done = True
        return [END]

    def _take(self, data: bytes, events: list[ResponseEvent]) -> None:
        position = 0
        while position < len(data):
            if self._is_done:
                self.leftover += data[position:]
                return
            if self._body is not None:
                position = _take_body(self._body, data, position, events)
                if self._body.is_complete:
                    self._end(events)
            else:
                raw, position = _take_head(self._partial, data, position, self._limit)
                if raw is not None:
                    self._begin(raw, events)

    def _begin(self, raw: bytes, events: list[ResponseEvent]) -> None:
        received = self._known.get(raw) if self._known is not None else None
        if received is None:
            head, framing = read_response(raw, self._method)
            if framing is None:
                events.append(InterimReceived(head))
                return
            received = ResponseReceived(head, framing, raw)
            self._remember(received)
        events.append(received)
        if received.framing.has_body:
            self._body = body_of(received.framing)
        else:
            self._end(events)

    def _remember(self, received: ResponseReceived) -> None:
        known = self._known
        if known is None or len(received.raw) > _LONGEST_KNOWN_BYTES:
            return
        if len(known) >= _MOST_KNOWN:
            known.clear()
        known[received.raw] = received

    def _end(self, events: list[ResponseEvent]) -> None:
        self._is_done = True
        events.append(END)


def _take_head(partial: bytearray, data: bytes, start: int, limit: int) -> tuple[bytes | None, int]:
    """A head from `partial` and `data`, and where it ends; None while it is incomplete."""
    if not partial:
        end = data.find(_HEAD_END, start)
        if end >= 0:
            if end + 4 - start > limit:
                raise _too_large()
            # The slice over the whole of a bytes object is that object: no copy.
            return data[start : end + 4], end + 4
    begun = len(partial)
    partial += data[start:] if start else data
    end = partial.find(_HEAD_END, max(0, begun - 3))
    if end + 4 > limit or (end < 0 and len(partial) >= limit):
        raise _too_large()
    if end >= 0:
        raw = bytes(partial[: end + 4])
        partial.clear()
        return raw, start + end + 4 - begun
    # The blank line will never come if lines end in bare line feeds (decisions D31): tell at once,
    # not by a timeout.
    if partial.count(b"\n", begun) != partial.count(b"\r\n", max(0, begun - 1)):
        raise RemoteProtocolError("a line ends without carriage return")
    return None, len(data)


def _too_large() -> RemoteProtocolError:
    return RemoteProtocolError("the head is too large", status=431)


def _after_blank(partial: bytearray, data: bytes, start: int) -> int:
    """Where `data` goes on behind an empty line (begun in `partial`?); `start` without one."""
    if not partial:
        return start + 2 if data.startswith(b"\r\n", start) else start
    if partial == b"\r" and data.startswith(b"\n", start):
        partial.clear()
        return start + 1
    return start


def _take_body(body: Body, data: bytes, start: int, events: list[_Event]) -> int:
    piece, position = body.feed(data, start)
    if piece:
        events.append(piece)
    if body.fault is not None:
        raise body.fault
    if body.is_complete and body.trailers:
        events.append(Trailers(body.trailers))
    return position


def _request_received(raw: bytes) -> RequestReceived:
    head, target, framing, may_switch = read_request(raw)
    return RequestReceived(head, target, framing, raw, may_switch)

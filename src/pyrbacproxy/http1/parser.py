"""Parses HTTP/1.1 requests and responses: `feed(bytes)` returns events and never does I/O."""

import re
from enum import Enum
from typing import Final, Generic, Literal, Protocol, TypeAlias, TypeVar

import httptools

from pyrbacproxy.http1.forwarding import announced_upgrade, upgrade_of
from pyrbacproxy.http1.framing import Framing, Kind, request_framing, response_framing
from pyrbacproxy.http1.head import (
    Headers,
    RemoteProtocolError,
    RequestHead,
    ResponseHead,
    check_host,
)
from pyrbacproxy.http1.target import Target, parse_target
from pyrbacproxy.values import Frozen, field

# --- llhttp ---------------------------------------------------------------------------
#
# llhttp through httptools: the bytes of a head → header lines; the bytes of a chunked body → data
# and trailers.
#
# llhttp sees the head alone, so that nothing it believes about the body matters, and a chunked body
# behind a head of our own, so that nothing the peer's head said matters there. No leniency is set.
# Callbacks only note what they are told: llhttp may report a head as complete and fail in the same
# call, so nothing is believed before the call has returned.

_HEAD_END = b"\r\n\r\n"
# Behind "Connection: close" llhttp refuses to read on as if another message began.
_CHUNKED_HEAD = b"POST / HTTP/1.1\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
# What chunk sizes, extensions and trailers may take beyond their share, as in Go's net/http
# (CVE-2023-39326).
_MOST_OVERHEAD_BYTES = 16_384
_OVERHEAD_SHARE = 8


class _Lines:
    """Notes header lines."""

    __slots__ = ("is_complete", "pairs")

    def __init__(self) -> None:
        self.pairs: list[tuple[bytes, bytes]] = []
        self.is_complete = False

    def on_header(self, name: bytes, value: bytes) -> None:
        # llhttp leaves the blanks behind a value on it (RFC 9110 §5.5 takes them off).
        self.pairs.append((name, value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        self.is_complete = True


def request_head_lines(raw: bytes) -> Headers:
    """The header lines of one whole request head. Raises RemoteProtocolError, 400 or 501."""
    lines = _Lines()
    return _parsed(httptools.HttpRequestParser(lines), lines, raw)


def response_lines(raw: bytes) -> Headers:
    """The header lines of one whole response head. Raises RemoteProtocolError."""
    lines = _Lines()
    return _parsed(httptools.HttpResponseParser(lines), lines, raw)


def _parsed(
    parser: "httptools.HttpRequestParser | httptools.HttpResponseParser", lines: _Lines, raw: bytes
) -> Headers:
    try:
        parser.feed_data(raw)
    except httptools.HttpParserUpgrade:
        pass  # llhttp would give the connection away; what follows is ours to frame anyway
    except httptools.HttpParserError as error:
        # Behind the last header line llhttp has one complaint left: a transfer coding that it
        # cannot frame.
        status = 501 if lines.is_complete else 400
        raise RemoteProtocolError(str(error), status=status) from error
    if not lines.is_complete:
        raise RemoteProtocolError("the head does not end where it should")
    return Headers(lines.pairs)


class _Chunks:
    """Notes data, trailer fields and the end."""

    __slots__ = ("fields", "is_complete", "pieces")

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.fields: list[tuple[bytes, bytes]] = []
        self.is_complete = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self.fields.append((name, value.rstrip(b" \t")))

    def on_body(self, data: bytes) -> None:
        self.pieces.append(data)

    def on_message_complete(self) -> None:
        self.is_complete = True


class ChunkedBody:
    """One chunked body on its way in. What is no data may not outgrow the data by much."""

    __slots__ = ("_chunks", "_parser", "_spare_bytes", "_tail", "fault")

    def __init__(self) -> None:
        # A part of its own, because a parser that notes on the object that holds it would be a
        # reference circle.
        self._chunks = _Chunks()
        self._spare_bytes = _MOST_OVERHEAD_BYTES
        self._tail = b""
        self.fault: RemoteProtocolError | None = None
        self._parser = httptools.HttpRequestParser(self._chunks)
        self._parser.feed_data(_CHUNKED_HEAD)
        self._chunks.fields.clear()

    @property
    def is_complete(self) -> bool:
        """Whether the body and its trailers have ended."""
        return self._chunks.is_complete

    @property
    def trailers(self) -> Headers:
        """The trailer fields; to be read when the body is complete."""
        return Headers(self._chunks.fields)

    def feed(self, data: bytes, start: int) -> tuple[bytes, int]:
        """Take bytes of `data` from `start`: the body data among them, and where in `data` reading
        ended.

        What is malformed becomes `fault`; the data before it is given back first.
        """
        chunks = self._chunks
        position = start
        try:
            while position < len(data) and not chunks.is_complete:
                # llhttp would read on into the next message and not say where: stop wherever this
                # one may end.
                stop = self._possible_end(data, position)
                self._parser.feed_data(data[position:stop])
                position = stop
        except httptools.HttpParserError as error:
            self.fault = RemoteProtocolError(str(error))
        body = b"".join(chunks.pieces)
        chunks.pieces.clear()
        self._count(position - start, len(body))
        return body, position

    def _possible_end(self, data: bytes, position: int) -> int:
        """Where the next blank line ends: the only place a chunked body can end (RFC 9112 §7.1)."""
        tail = self._tail
        seam = (tail + data[position : position + 3]).find(_HEAD_END)
        found = data.find(_HEAD_END, position)
        if seam >= 0:
            stop = position + seam + len(_HEAD_END) - len(tail)
        elif found >= 0:
            stop = found + len(_HEAD_END)
        else:
            stop = len(data)
        self._tail = (tail + data[max(position, stop - 3) : stop])[-3:]
        return stop

    def _count(self, taken_bytes: int, body_bytes: int) -> None:
        spare = self._spare_bytes + _OVERHEAD_SHARE * body_bytes - (taken_bytes - body_bytes)
        if spare < 0:
            self.fault = RemoteProtocolError("a chunked body with little data in it")
        self._spare_bytes = min(spare, _MOST_OVERHEAD_BYTES)


# --- head bytes -----------------------------------------------------------------------
#
# The bytes of one head → what they say, checked: what llhttp lets pass is refused here.
#
# A head means the same wherever it comes: nothing but its bytes (and for a response the method that
# it answers) is looked at.

# Those of llhttp but PRI, and but those that it knows for RTSP alone (decisions D31).
METHODS: Final = frozenset(
    b"DELETE GET HEAD POST PUT CONNECT OPTIONS TRACE COPY LOCK MKCOL MOVE PROPFIND PROPPATCH"
    b" SEARCH UNLOCK BIND REBIND UNBIND ACL REPORT MKACTIVITY CHECKOUT MERGE M-SEARCH NOTIFY"
    b" SUBSCRIBE UNSUBSCRIBE PATCH PURGE MKCALENDAR LINK UNLINK SOURCE QUERY".split()
)
_REQUEST_LINE = re.compile(rb"([A-Z-]+) ([^ \r\n]+) HTTP/1\.([01])\r\n")
_ODD_REQUEST_LINE = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+) [^ \r\n]+ HTTP/(\d)\.\d\r\n")
_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-9]\d\d)(?: ([\t\x20-\x7e\x80-\xff]*))?\r\n")
# Go's limit since 2025 (reference 15.1).
_MOST_HEADER_LINES = 500
# No server in between takes a longer one, and taking a path apart costs time and memory that
# nobody has earned yet. Query and headers have the head's limit alone (FR22): they are not taken
# apart before it is known who asks.
_LONGEST_PATH_BYTES = 65_536
# The lists that are split before it is known who asks; each member costs an object.
_LISTS = (
    b"connection",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"expect",
    b"sec-websocket-protocol",
)
_MOST_MEMBERS = 1000
_SWITCHING_PROTOCOLS = 101
_FIRST_FINAL = 200


def read_request(raw: bytes) -> tuple[RequestHead, Target, Framing, bool]:
    """A request's head, target and framing, and whether it asks for a tunnel (an upgrade, CONNECT).

    Raises RemoteProtocolError with the status to answer: 400, 417, 431, 501 or 505.
    """
    line = _REQUEST_LINE.match(raw)
    if line is None or line[1] not in METHODS:
        raise _bad_request_line(raw)
    if raw.count(b"\n") > _MOST_HEADER_LINES + 2:
        raise RemoteProtocolError("too many header lines", status=431)
    method, raw_target, minor = line.groups()
    if len(raw_target.partition(b"?")[0]) > _LONGEST_PATH_BYTES:
        raise RemoteProtocolError("the path is too long", status=431)
    head = RequestHead(method, raw_target, request_head_lines(raw), int(minor))
    check_host(head)
    _check_lists(head.headers)
    target = parse_target(method, raw_target)
    framing = request_framing(head)
    _check_expectation(head.headers)
    may_switch = method == b"CONNECT" or _asks_for_tunnel(head, framing)
    return head, target, framing, may_switch


def read_response(raw: bytes, request_method: bytes) -> tuple[ResponseHead, Framing | None]:
    """A response's head, and how its body is framed; None for an interim response.

    Raises RemoteProtocolError.
    """
    line = _STATUS_LINE.match(raw)
    if line is None:
        raise RemoteProtocolError("a malformed status line")
    minor, status, reason = line.groups()
    head = ResponseHead(int(status), reason or b"", response_lines(raw), int(minor))
    if head.status < _FIRST_FINAL and head.status != _SWITCHING_PROTOCOLS:
        return head, None
    return head, response_framing(head, request_method)


def _bad_request_line(raw: bytes) -> RemoteProtocolError:
    line = _ODD_REQUEST_LINE.match(raw)
    if line is None or (line[2] == b"1" and line[1] in METHODS):
        return RemoteProtocolError("a malformed request line")
    if line[2] != b"1":
        return RemoteProtocolError("an HTTP version other than 1", status=505)
    return RemoteProtocolError("an unknown method", status=501)


def _check_lists(headers: Headers) -> None:
    for name in _LISTS:
        if name in headers:
            commas = sum(value.count(b",") for value in headers.get_all(name))
            if commas >= _MOST_MEMBERS:
                raise RemoteProtocolError("a list with too many members")


def _check_expectation(headers: Headers) -> None:
    if b"expect" in headers and any(
        token != b"100-continue" for token in headers.tokens(b"expect")
    ):
        raise RemoteProtocolError("an unknown expectation", status=417)


def _asks_for_tunnel(head: RequestHead, framing: Framing) -> bool:
    if announced_upgrade(head.headers) is None:
        return False
    if upgrade_of(head) is not None:
        return True
    # An upstream that honours the upgrade would read the body as something else (D8).
    if framing.has_body:
        raise RemoteProtocolError("a body behind an upgrade that is not made")
    return False


# --- body -----------------------------------------------------------------------------
#
# The body of one message on its way in: counted, chunked, or lasting until the connection closes.
#
# All three are fed bytes and give back the data among them; whole reads are handed through without
# a copy.

_NO_FIELDS = Headers()


class Body(Protocol):
    """What the parsers know of a body."""

    @property
    def is_complete(self) -> bool:
        """Whether its end was seen."""
        ...

    @property
    def fault(self) -> RemoteProtocolError | None:
        """Why it can't be read on, if it can't."""
        ...

    @property
    def trailers(self) -> Headers:
        """The fields behind it; to be read when it is complete."""
        ...

    def feed(self, data: bytes, start: int) -> tuple[bytes, int]:
        """Read `data` from `start`: the body data in it, and where in `data` reading ended."""
        ...


class CountedBody:
    """A body of known length."""

    __slots__ = ("_left_bytes",)

    fault = None
    trailers = _NO_FIELDS

    def __init__(self, length: int) -> None:
        self._left_bytes = length

    @property
    def is_complete(self) -> bool:
        """Whether its end was seen."""
        return self._left_bytes == 0

    def feed(self, data: bytes, start: int) -> tuple[bytes, int]:
        """As `Body.feed`."""
        stop = min(len(data), start + self._left_bytes)
        self._left_bytes -= stop - start
        # A slice over the whole of a bytes object is that object.
        return data[start:stop], stop


class UntilCloseBody:
    """A body that ends with its connection, by which the caller knows that it is complete."""

    __slots__ = ()

    is_complete = False
    fault = None
    trailers = _NO_FIELDS

    def feed(self, data: bytes, start: int) -> tuple[bytes, int]:
        """As `Body.feed`."""
        return data[start:], len(data)


def body_of(framing: Framing) -> Body:
    """The reader for a body so framed, where there is one."""
    if framing.kind is Kind.CHUNKED:
        return ChunkedBody()
    if framing.kind is Kind.LENGTH:
        return CountedBody(framing.length)
    return UntilCloseBody()


# --- parser ---------------------------------------------------------------------------
#
# Bytes → events, for requests and responses: `feed(bytes)` tells what became known and never acts.
#
# Theory. The end of a head is found with `bytes.find`; its bytes alone go to `head_bytes`, which
# asks llhttp and then itself. What a head means depends on its bytes alone, so one that is byte for
# byte the same as a remembered one means the same: that is all that is remembered, and why it opens
# no hole. Bodies of known length are counted and handed through, chunked ones go through llhttp
# (`body`).
#
# Faults. Events before a fault are delivered first: `feed` returns them and puts the fault into
# `fault`; without events it raises. From then on it raises for ever: nothing behind a malformed
# message is served.


# The queue of a connection holds as many (architecture section 5, step 14).
_MOST_REQUESTS_AT_ONCE = 16
# Remembered responses are one dictionary for all connections of a connector: few, small, and
# forgotten all at once.
_MOST_KNOWN = 64
_LONGEST_KNOWN_BYTES = 4_096


class RequestReceived(Frozen):
    """A whole request head, checked.

    `raw` is its exact bytes, for remembering what followed from it. `may_switch`: it asks for
    a tunnel.
    """

    head: RequestHead
    target: Target
    framing: Framing
    raw: bytes = field(repr=False)  # may hold a token
    may_switch: bool = False


class InterimReceived(Frozen):
    """A 1xx response other than 101; the final one is still to come."""

    head: ResponseHead


class ResponseReceived(Frozen):
    """A final response head, or a 101; `raw` is its exact bytes."""

    head: ResponseHead
    framing: Framing
    raw: bytes


class Trailers(Frozen):
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

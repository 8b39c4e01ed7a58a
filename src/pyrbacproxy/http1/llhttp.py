"""llhttp through httptools: the bytes of a head → header lines; the bytes of a chunked body → data
and trailers.

llhttp sees the head alone, so that nothing it believes about the body matters, and a chunked body
behind a head of our own, so that nothing the peer's head said matters there. No leniency is set.
Callbacks only note what they are told: llhttp may report a head as complete and fail in the same
call, so nothing is believed before the call has returned.
"""

import httptools

from pyrbacproxy.http1.errors import RemoteProtocolError
from pyrbacproxy.http1.head import Headers

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


def request_lines(raw: bytes) -> Headers:
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

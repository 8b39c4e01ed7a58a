"""Heads, chunks and last chunk → bytes.

The last door before the wire: a value that could end a line or a head early never leaves
(LocalProtocolError).
"""

from http import HTTPStatus

from pyrbacproxy.http1.head import Headers, LocalProtocolError, RequestHead, ResponseHead

_STATUS_LINES = {
    (status.value, minor): b"HTTP/1.%d %d %s" % (minor, status.value, status.phrase.encode("ascii"))
    for status in HTTPStatus
    for minor in (0, 1)
}
GO_AHEAD = b"HTTP/1.1 100 Continue\r\n\r\n"


def request_head(head: RequestHead) -> bytes:
    """The request line and header lines, blank line included. Raises LocalProtocolError."""
    if not head.method or not head.target or b" " in head.method + head.target:
        raise LocalProtocolError("a request line that would be read as another one")
    return _head(b"%s %s HTTP/1.%d" % (head.method, head.target, head.minor), head.headers)


def own_request(
    method: bytes, target: bytes, authority: bytes, *lines: tuple[bytes, bytes]
) -> bytes:
    """The head of a request that we make ourselves, for plain JSON. Raises LocalProtocolError."""
    own = (
        (b"Host", authority),
        (b"Accept", b"application/json"),
        (b"Accept-Encoding", b"identity"),
        (b"User-Agent", b"pyrbacproxy"),
    )
    return request_head(RequestHead(method, target, Headers((*own, *lines))))


def response_head(head: ResponseHead) -> bytes:
    """The status line and header lines, blank line included. Raises LocalProtocolError."""
    return _head(b"HTTP/1.%d %d %s" % (head.minor, head.status, head.reason), head.headers)


def chunk(data: bytes) -> bytes:
    """One chunk (RFC 9112 §7.1). Empty data gives nothing: an empty chunk would end the body."""
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""


def last_chunk(trailers: Headers | None = None) -> bytes:
    """The end of a chunked body, with its trailer fields. Raises LocalProtocolError."""
    return _head(b"0", trailers) if trailers else b"0\r\n\r\n"


def own_response_head(status: int, lines: list[tuple[bytes, bytes]], *, minor: int) -> bytes:
    """A response head in our own words: the status line has the standard phrase.

    Raises LocalProtocolError.
    """
    return _head(_STATUS_LINES[status, minor], lines)


def _head(start_line: bytes, lines: Headers | list[tuple[bytes, bytes]]) -> bytes:
    written = b"\r\n".join([start_line, *map(b": ".join, lines), b"", b""])
    # Counting the line ends over the whole is several times cheaper than looking into each value.
    expected = len(lines) + 2
    if written.count(b"\n") != expected or written.count(b"\r") != expected or b"\0" in written:
        raise LocalProtocolError("CR, LF or NUL inside a line")
    return written

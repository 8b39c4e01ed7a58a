"""How a body's end is known: no body, a length, chunks, or the end of the connection; smuggling is
refused.

A request whose end two readers could see at different bytes carries a second request that only one
of them sees (RFC 9112 §11.2). So there is one rule: exactly one way to find the end, spelled in
exactly one manner, or a refusal. The bytes that go on are framed anew from the `Framing`, never by
copying the header lines that were received.
"""

from enum import Enum

from pyrbacproxy.http1.head import Headers, RemoteProtocolError, RequestHead, ResponseHead
from pyrbacproxy.values import Frozen

# 18 digits stay below 2**63, the limit of the original's counter, and far above any body.
_MOST_LENGTH_DIGITS = 18
_FIRST_FINAL = 200
_NO_CONTENT = 204
_NOT_MODIFIED = 304
_CHUNKED_LINE = (b"Transfer-Encoding", b"chunked")


class Kind(Enum):
    """The ways a body can end (RFC 9112 §6.3)."""

    NONE = "none"
    LENGTH = "length"
    CHUNKED = "chunked"
    UNTIL_CLOSE = "until close"


class Framing(Frozen):
    """A body's kind of end, and its length in bytes where the kind is LENGTH."""

    kind: Kind
    length: int = 0

    @property
    def has_body(self) -> bool:
        """Whether body bytes are to come, as far as the head can tell."""
        return self.kind is not Kind.NONE and (self.kind is not Kind.LENGTH or self.length > 0)


NO_BODY = Framing(Kind.NONE)
CHUNKED = Framing(Kind.CHUNKED)
UNTIL_CLOSE = Framing(Kind.UNTIL_CLOSE)


def request_framing(head: RequestHead) -> Framing:
    """How the body of this request ends (RFC 9112 §6.3).

    Raises RemoteProtocolError: 400 for a length beside a transfer coding, for a coding in HTTP/1.0
    (decisions D28), for lengths that are doubled, signed, listed or beyond 18 digits (D31); 501 for
    any coding but exactly `chunked`.
    """
    return _stated(head.headers, head.minor) or NO_BODY


def response_framing(head: ResponseHead, request_method: bytes) -> Framing:
    """How the body of this response ends, given the method it answers (RFC 9112 §6.3).

    A response without body by its nature keeps whatever length it states, uncounted (RFC
    9110 §8.6). Raises RemoteProtocolError in the same cases as for a request.
    """
    if request_method == b"HEAD" or _is_bodyless(head.status):
        return NO_BODY
    return _stated(head.headers, head.minor) or UNTIL_CLOSE


def request_lines(framing: Framing, method: bytes) -> tuple[tuple[bytes, bytes], ...]:
    """The header lines that frame this request towards the upstream.

    A method that usually has a body says so when there is none (RFC 9110 §8.6), as the original
    does (reference 15.7).
    """
    if framing.kind is Kind.CHUNKED:
        return (_CHUNKED_LINE,)
    if framing.kind is Kind.LENGTH or method in (b"POST", b"PUT", b"PATCH"):
        return ((b"Content-Length", b"%d" % framing.length),)
    return ()


def response_lines(
    framing: Framing, head: ResponseHead, *, can_chunk: bool
) -> tuple[tuple[bytes, bytes], ...]:
    """The header lines that frame this response towards the client; `head` as the upstream sent it.

    `can_chunk` is false for an HTTP/1.0 client: without a length its connection must be closed
    behind the body. An answer to HEAD and a 304 keep the length that the upstream stated; 1xx and
    204 have none (RFC 9110 §8.6).
    """
    if framing.kind is Kind.LENGTH:
        return ((b"Content-Length", b"%d" % framing.length),)
    if framing.kind is not Kind.NONE:
        return (_CHUNKED_LINE,) if can_chunk else ()
    stated = head.headers.get_all(b"content-length")
    if head.status >= _FIRST_FINAL and head.status != _NO_CONTENT and len(stated) == 1:
        return ((b"Content-Length", stated[0]),)
    return ()


def _stated(headers: Headers, minor: int) -> Framing | None:
    """What the header lines say about the body, if they say anything."""
    if b"transfer-encoding" in headers:
        _refuse_doubtful_coding(headers, minor)
        return CHUNKED
    if b"content-length" in headers:
        return _length(headers)
    return None


def _is_bodyless(status: int) -> bool:
    return status < _FIRST_FINAL or status in (_NO_CONTENT, _NOT_MODIFIED)


def _refuse_doubtful_coding(headers: Headers, minor: int) -> None:
    if b"content-length" in headers:
        raise RemoteProtocolError("both a transfer coding and a length")
    if minor == 0:
        raise RemoteProtocolError("a transfer coding in HTTP/1.0")
    values = headers.get_all(b"transfer-encoding")
    if len(values) != 1 or values[0].lower() != b"chunked":
        raise RemoteProtocolError("a transfer coding other than chunked", status=501)


def _length(headers: Headers) -> Framing:
    values = headers.get_all(b"content-length")
    if len(values) != 1 or not values[0].isdigit() or len(values[0]) > _MOST_LENGTH_DIGITS:
        raise RemoteProtocolError("a doubtful Content-Length")
    return Framing(Kind.LENGTH, int(values[0]))

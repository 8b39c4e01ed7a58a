"""Response heads → HTTP/2 fields, for an upstream's answer and for our own."""

from pyrbacproxy.dataplane.heads import announced_trailers, same_trailers
from pyrbacproxy.http1 import forwarding, framing
from pyrbacproxy.http1.errors import LocalProtocolError
from pyrbacproxy.http1.framing import Kind
from pyrbacproxy.http1.head import Headers, ResponseHead
from pyrbacproxy.http1.parser import ResponseReceived
from pyrbacproxy.http1.response import Response
from pyrbacproxy.http2.head_block import Fields

_FIRST_FINAL = 200
_BODYLESS = (204, 304)


def relayed_fields(received: ResponseReceived, date: bytes) -> Fields:
    """The final head of an upstream; `date` is used where it sent none. Framing is HTTP/2's own.

    Raises LocalProtocolError.
    """
    head, body = received.head, received.framing
    lines = [*forwarding.response_headers(head.headers)]
    lines += framing.response_lines(body, head, can_chunk=False)
    if body.kind is Kind.CHUNKED:
        lines += announced_trailers(head.headers, same_trailers)
    if b"date" not in head.headers:
        lines.append((b"date", date))
    return _fields(head.status, lines)


def interim_fields(head: ResponseHead) -> Fields:
    """A 1xx. Raises LocalProtocolError."""
    return _fields(head.status, [*forwarding.response_headers(head.headers)])


def own_fields(response: Response, date: bytes) -> Fields:
    """An answer of our own. Raises LocalProtocolError."""
    lines = [*response.headers, (b"date", date)]
    if response.status >= _FIRST_FINAL and response.status not in _BODYLESS:
        lines.append((b"content-length", b"%d" % len(response.body)))
    return _fields(response.status, lines)


def trailer_fields(trailers: Headers) -> Fields:
    """What follows a body. Raises LocalProtocolError."""
    return _checked([(name.lower(), value) for name, value in trailers])


def _fields(status: int, lines: Fields) -> Fields:
    lowered = [(name.lower(), value) for name, value in lines]
    return _checked([(b":status", b"%d" % status), *lowered])


def _checked(fields: Fields) -> Fields:
    """The last door: whoever writes these as lines again must get as many lines."""
    written = b"".join(map(b"".join, fields))
    if b"\r" in written or b"\n" in written or b"\0" in written:
        raise LocalProtocolError("CR, LF or NUL inside a field")
    return fields

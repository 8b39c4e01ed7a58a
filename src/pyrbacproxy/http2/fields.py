"""Maps HTTP/2 header fields to request heads and response heads to fields (RFC 9113 §8)."""

import re
from typing import Final

from pyrbacproxy.http1.framing import Kind
from pyrbacproxy.http1.head import (
    Headers,
    LocalProtocolError,
    RemoteProtocolError,
    Response,
    ResponseHead,
    text,
)
from pyrbacproxy.http1.parser import RequestReceived, ResponseReceived, read_request
from pyrbacproxy.http2.codec import Fields
from pyrbacproxy.http2.limits import MalformedStreamError
from pyrbacproxy.proxy import heads

# --- request head ---------------------------------------------------------------------
#
# HTTP/2 fields → the request head that they stand for, written as HTTP/1.1 and read as such.
#
# So nothing is judged here that `http1.parser` judges already: Host, target, framing, methods
# and limits mean the same in both versions, and a decision that is remembered for one serves the
# other. What is checked here is what the line format would hide (a line break in a value would
# become two lines) and what HTTP/2 adds (RFC 9113 §8).

_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+")
# RFC 9113 §8.2.1; other control characters are refused as in HTTP/1.1.
_BAD_VALUE = re.compile(rb"[\r\n\0]|\A[ \t]|[ \t]\Z")
# Of a head, `http1.parser` judges the rest; trailers are not judged after us.
_CONTROL = re.compile(rb"[\0-\x08\x0a-\x1f\x7f]")
_PSEUDO: Final = frozenset((b":method", b":scheme", b":authority", b":path"))
_SCHEMES = (b"http", b"https")
# RFC 9113 §8.2.2, spelled as the original names them.
_CONNECTION = {
    b"connection": "Connection",
    b"proxy-connection": "Proxy-Connection",
    b"transfer-encoding": "Transfer-Encoding",
    b"upgrade": "Upgrade",
    b"keep-alive": "Keep-Alive",
}
_COOKIE = b"cookie"


def misplaced_field(fields: Fields) -> Response | None:
    """The 400 for a field that speaks of a connection (reference 15.12); None if there is none."""
    for name, value in fields:
        if name in _CONNECTION:
            return text(400, f'request header "{_CONNECTION[name]}" is not valid in HTTP/2\n')
        if name == b"te" and value != b"trailers":
            return text(400, 'request header "TE" may only be "trailers" in HTTP/2\n')
    return None


def written_head(fields: Fields, *, is_whole: bool) -> bytes:
    """The head as HTTP/1.1 would have it; `is_whole`: no body follows.

    Raises MalformedStreamError, or RemoteProtocolError(400) for what HTTP/1.1 answers too.
    """
    pseudo, lines = _split(fields)
    host = pseudo.get(b":authority")
    start, host = (
        _connect(pseudo, host) if pseudo[b":method"] == b"CONNECT" else _line(pseudo, host)
    )
    hosts = [value for name, value in lines if name == b"host"]
    if host is not None:
        if any(value.lower() != host.lower() for value in hosts):
            raise RemoteProtocolError("Host and :authority differ")
        lines = [(b"host", host), *(line for line in lines if line[0] != b"host")]
    if not is_whole and all(name != b"content-length" for name, _ in lines):
        lines.append((b"transfer-encoding", b"chunked"))
    return b"\r\n".join([start + b" HTTP/1.1", *map(b": ".join, lines), b"", b""])


def read_head(raw: bytes, *, max_bytes: int) -> RequestReceived:
    """What a written head says. Raises RemoteProtocolError with the status to answer."""
    if len(raw) > max_bytes:
        raise RemoteProtocolError("the head is too large", status=431)
    return RequestReceived(*read_request(raw)[:3], raw)


def checked_trailers(fields: Fields | None) -> Headers:
    """The fields behind a body. Raises MalformedStreamError, also for None: they were too large."""
    if fields is None:
        raise MalformedStreamError("trailers that are too large")
    for name, value in fields:
        _check(name, value)
        if name in _CONNECTION or _CONTROL.search(value):
            raise MalformedStreamError("a trailer that HTTP/1.1 would refuse")
    return Headers(fields)


def _split(fields: Fields) -> tuple[dict[bytes, bytes], Fields]:
    """The pseudo-header fields, which come first, and the others, cookies joined."""
    pseudo: dict[bytes, bytes] = {}
    lines: Fields = []
    cookies: list[bytes] = []
    for name, value in fields:
        if name.startswith(b":"):
            if lines or name not in _PSEUDO or name in pseudo or _BAD_VALUE.search(value):
                raise MalformedStreamError("a pseudo-header that is unknown, repeated or late")
            pseudo[name] = value
            continue
        _check(name, value)
        if name == _COOKIE:
            cookies.append(value)
        if name != _COOKIE or len(cookies) == 1:
            lines.append((name, value))
    if len(cookies) > 1:
        # RFC 9113 §8.2.3.
        joined = b"; ".join(cookies)
        lines = [(name, joined if name == _COOKIE else value) for name, value in lines]
    if b":method" not in pseudo:
        raise MalformedStreamError("no :method")
    return pseudo, lines


def _check(name: bytes, value: bytes) -> None:
    if not _NAME.fullmatch(name) or _BAD_VALUE.search(value):
        raise MalformedStreamError("a field that cannot be one")


def _line(pseudo: dict[bytes, bytes], host: bytes | None) -> tuple[bytes, bytes | None]:
    path = pseudo.get(b":path", b"")
    if not path or pseudo.get(b":scheme") not in _SCHEMES:
        raise MalformedStreamError("no :path or no :scheme")
    # Any other form would name a second host.
    if not path.startswith(b"/") and path != b"*":
        raise RemoteProtocolError("not a valid :path")
    return pseudo[b":method"] + b" " + path, host


def _connect(pseudo: dict[bytes, bytes], host: bytes | None) -> tuple[bytes, bytes | None]:
    """RFC 9113 §8.5: the authority is the target."""
    if not host or b":path" in pseudo or b":scheme" in pseudo:
        raise MalformedStreamError("a CONNECT with :path or :scheme, or without :authority")
    return b"CONNECT " + host, host


# --- response head --------------------------------------------------------------------
# Response heads → HTTP/2 fields, for an upstream's answer and for our own.


def relayed_fields(received: ResponseReceived, date: bytes) -> Fields:
    """The final head of an upstream; `date` is used where it sent none. Framing is HTTP/2's own.

    Raises LocalProtocolError.
    """
    is_chunked = received.framing.kind is Kind.CHUNKED
    lines = heads.relayed_lines(received, date=date, can_chunk=False, announces_trailers=is_chunked)
    return _fields(received.head.status, lines)


def interim_fields(head: ResponseHead) -> Fields:
    """A 1xx. Raises LocalProtocolError."""
    return _fields(head.status, [*heads.interim_lines(head)])


def own_fields(response: Response, date: bytes) -> Fields:
    """An answer of our own. Raises LocalProtocolError."""
    return _fields(response.status, heads.own_lines(response, date))


def trailer_fields(trailers: Headers) -> Fields:
    """What follows a body. Raises LocalProtocolError."""
    return _checked([(name.lower(), value) for name, value in trailers])


def _fields(status: int, lines: Fields) -> Fields:
    lowered = [(name.lower(), value) for name, value in lines]
    return _checked([(b":status", b"%d" % status), *lowered])


def _checked(fields: Fields) -> Fields:
    """The last check: written as lines again, these must be as many lines."""
    written = b"".join(map(b"".join, fields))
    if b"\r" in written or b"\n" in written or b"\0" in written:
        raise LocalProtocolError("CR, LF or NUL inside a field")
    return fields

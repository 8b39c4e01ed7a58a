"""Heads over HTTP/2 towards the upstream: our request's bytes → fields, its fields → a response.

A response is written down as HTTP/1.1 would have it and read by the same reader, so that nothing
passes here that would not pass there. What frames its body is set by us: the bytes alone tell.
"""

import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import TypeAlias

from pyrbacproxy.http1.head import Headers, RemoteProtocolError
from pyrbacproxy.http1.parser import InterimReceived, ResponseReceived, read_response

Field: TypeAlias = tuple[bytes, bytes]

# RFC 9113 §8.2.2: they speak of one connection of HTTP/1.1, and one of them frames a body.
_OF_CONNECTION = frozenset(
    (b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade")
)
_STATUS = re.compile(rb"[1-9]\d\d")
# RFC 9113 §8.2.1; a colon would make it a pseudo-header.
_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+")
_VALUE = re.compile(rb"[^\r\n\0]*")
# Of a head, `http1.parser` judges the rest; trailers are not judged after us.
_CONTROL = re.compile(rb"[\0-\x08\x0a-\x1f\x7f]")
_SWITCHING_PROTOCOLS = b"101"
_BODYLESS = (b"204", b"304")
_PHRASES = {b"%d" % status.value: status.phrase.encode() for status in HTTPStatus}


def request_fields(head: bytes, scheme: bytes) -> list[Field]:
    """A request head, as we write it for HTTP/1.1, as the fields of HTTP/2 (RFC 9113 §8.3.1)."""
    start, *lines = head.split(b"\r\n")[:-2]
    method, target, _ = start.split(b" ")
    authority = b""
    fields: list[Field] = []
    for line in lines:
        name, _, value = line.partition(b": ")
        lowered = name.lower()
        if lowered == b"host":
            authority = value
        elif lowered not in _OF_CONNECTION:
            fields.append((lowered, value))
    return [
        (b":method", method),
        (b":scheme", scheme),
        (b":authority", authority),
        (b":path", target),
        *fields,
    ]


def request_list_bytes(head: bytes) -> int:
    """No more than this is a request head to a peer that counts fields (RFC 9113 §6.5.2)."""
    # 32 for each field, of which a line holds four; the first line becomes three, Host grows.
    return len(head) + 28 * head.count(b"\r\n") + 92


def list_bytes(fields: Iterable[Field]) -> int:
    """So much are fields to a peer that counts them (RFC 9113 §6.5.2)."""
    return sum(len(name) + len(value) + 32 for name, value in fields)


def response(
    fields: Iterable[Field], method: bytes, *, is_ended: bool
) -> ResponseReceived | InterimReceived:
    """What these fields say in answer to `method`; `is_ended`: no body follows.

    Raises RemoteProtocolError for what RFC 9113 §8 calls malformed: pseudo-headers beside `:status`
    or behind others, fields of a connection, names in capitals, 101.
    """
    (first, status), *rest = fields or ((b"", b""),)
    if first != b":status" or not _STATUS.fullmatch(status) or status == _SWITCHING_PROTOCOLS:
        raise RemoteProtocolError("a malformed status")
    lines = [b"HTTP/1.1 %s %s" % (status, _PHRASES.get(status, b"")), *_lines(rest)]
    lines += _framing(status, rest, method, is_ended=is_ended)
    raw = b"\r\n".join((*lines, b"", b""))
    head, framing = read_response(raw, method)
    return InterimReceived(head) if framing is None else ResponseReceived(head, framing, raw)


def trailers(fields: Iterable[Field]) -> Headers:
    """The fields behind a body. Raises RemoteProtocolError for what can't be any."""
    for line in _lines(fields):
        if _CONTROL.search(line):
            raise RemoteProtocolError("a control character in a trailer")
    return Headers(fields)


def _lines(fields: Iterable[Field]) -> Iterable[bytes]:
    for name, value in fields:
        if not _NAME.fullmatch(name) or name in _OF_CONNECTION or not _VALUE.fullmatch(value):
            raise RemoteProtocolError("a malformed field")
        yield name + b": " + value


def _framing(
    status: bytes, fields: Iterable[Field], method: bytes, *, is_ended: bool
) -> tuple[bytes, ...]:
    """The line that says how the body ends, where the fields don't; HTTP/2 needs none."""
    has_none = status.startswith(b"1") or status in _BODYLESS or method == b"HEAD"
    if has_none or any(name == b"content-length" for name, _ in fields):
        return ()
    return (b"content-length: 0",) if is_ended else (b"transfer-encoding: chunked",)

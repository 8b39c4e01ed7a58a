"""The bytes of one head → what they say, checked: what llhttp lets pass is refused here.

A head means the same wherever it comes: nothing but its bytes (and for a response the method that
it answers) is looked at.
"""

import re
from typing import Final

from pyrbacproxy.http1 import llhttp
from pyrbacproxy.http1.errors import RemoteProtocolError
from pyrbacproxy.http1.forwarding import announced_upgrade, upgrade_of
from pyrbacproxy.http1.framing import Framing, request_framing, response_framing
from pyrbacproxy.http1.head import Headers, RequestHead, ResponseHead, check_host
from pyrbacproxy.http1.target import Target, parse_target

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
    head = RequestHead(method, raw_target, llhttp.request_lines(raw), int(minor))
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
    head = ResponseHead(int(status), reason or b"", llhttp.response_lines(raw), int(minor))
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
    # Whoever honours the upgrade would read the body as something else (decisions D8).
    if framing.has_body:
        raise RemoteProtocolError("a body behind an upgrade that is not made")
    return False

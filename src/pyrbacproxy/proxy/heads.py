"""Heads as they leave us: a request's towards the upstream, a response's towards the client.

Framing is written anew on each side (RFC 9112 §6): the headers that come in here have neither
Content-Length nor Transfer-Encoding, or lose them here, so that no length or coding is ever copied
through.

The header lines of every response to a client are made here, whatever its version of HTTP:
`relayed_lines` for an upstream's answer, `interim_lines` for its 1xx, `own_lines` for an answer of
our own. `http2.fields` makes HTTP/2 fields of them; the functions below make bytes of HTTP/1.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeAlias

from pyrbacproxy.http1 import forwarding, framing, writer
from pyrbacproxy.http1.head import Headers, RequestHead, Response, ResponseHead
from pyrbacproxy.http1.parser import ResponseReceived
from pyrbacproxy.values import Frozen

Lines: TypeAlias = list[tuple[bytes, bytes]]

# nginx and others change Date each second; more heads are not worth keeping, nor are long ones.
_MAX_KNOWN = 32
_MAX_KNOWN_BYTES = 4096
NO_LINES = Headers()
_SWITCHING_PROTOCOLS = 101
_FIRST_FINAL = 200
_BODYLESS = (204, 304)
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


class Destination(Frozen):
    """What of the upstream's address stands in a request head (reference 4.1.3).

    `authority` is its host:port, used when the client named no host. `absolute_prefix`
    (`http://host:port`) and `proxy_authorization` are set when a plain HTTP proxy stands between
    us and the upstream.
    """

    authority: bytes
    base_path: bytes = b""
    raw_query: bytes = b""
    absolute_prefix: bytes = b""
    proxy_authorization: bytes = b""

    def target(self, target: bytes) -> bytes:
        """An origin-form target joined to the base path with one slash, the queries with `&`."""
        path, mark, query = target.partition(b"?")
        if self.base_path.endswith(b"/") and path.startswith(b"/"):
            path = path[1:]
        if self.raw_query:
            mark, query = b"?", b"&".join(filter(None, (self.raw_query, query)))
        return self.absolute_prefix + self.base_path + path + mark + query


class UpstreamHead(Frozen):
    """A request head towards the upstream, finished: `raw` is how HTTP/1.1 writes it.

    `asks_for_upgrade`: a 101 is wanted, which HTTP/2 doesn't have. `carries_credential`: it passes
    an Authorization or Cookie of the client on.
    """

    raw: bytes
    asks_for_upgrade: bool = False
    carries_credential: bool = False


class RelayedHead(Frozen):
    """A response head as an HTTP/1 client gets it.

    `is_chunked`: the body is sent in chunks of our own. `must_close`: only the connection's end can
    end the body. `added_date` is the Date that we added, b"" when we added none.
    """

    raw: bytes
    is_chunked: bool
    must_close: bool
    added_date: bytes


class Heads:
    """Writes HTTP/1 heads for one destination, and remembers responses that upstreams repeat."""

    __slots__ = ("_destination", "_known")

    def __init__(self, destination: Destination) -> None:
        self._destination = destination
        self._known: dict[tuple[bytes, bool, int, bool], RelayedHead] = {}

    def request(
        self, head: RequestHead, body: framing.Framing, *, announced: Headers = NO_LINES
    ) -> UpstreamHead:
        """The head towards the upstream; `head` is finished but for framing.

        Raises LocalProtocolError.
        """
        destination = self._destination
        lines = list(head.headers.pairs)
        if not head.headers.get(b"host"):
            # Reference 15.5.
            kept = head.headers.without((b"host",)).pairs
            lines = [(b"Host", destination.authority), *kept]
        lines += framing.request_lines(body, head.method)
        lines += announced.pairs
        if destination.proxy_authorization:
            lines.append((b"Proxy-Authorization", destination.proxy_authorization))
        target = destination.target(head.target)
        headers = Headers(lines)
        return UpstreamHead(
            writer.request_head(RequestHead(head.method, target, headers, minor=1)),
            asks_for_upgrade=b"upgrade" in headers,
            carries_credential=b"authorization" in headers or b"cookie" in headers,
        )

    def response(
        self, received: ResponseReceived, *, minor: int, closes: bool, date: bytes
    ) -> RelayedHead:
        """The head towards a client of that minor version; `closes`: its connection ends then.

        Raises LocalProtocolError.
        """
        # The same bytes mean a body or none: that depends on the method.
        is_bodyless = received.framing.kind is framing.Kind.NONE
        key = (received.raw, is_bodyless, minor, closes)
        known = self._known.get(key)
        if known is not None and known.added_date in (b"", date):
            return known
        made = _relayed(received, minor=minor, closes=closes, date=date)
        if len(received.raw) <= _MAX_KNOWN_BYTES:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known[key] = made
        return made


def _relayed(received: ResponseReceived, *, minor: int, closes: bool, date: bytes) -> RelayedHead:
    head = received.head
    is_streamed = received.framing.kind in (framing.Kind.CHUNKED, framing.Kind.UNTIL_CLOSE)
    is_chunked = is_streamed and minor > 0
    must_close = is_streamed and not is_chunked
    lines = relayed_lines(received, date=date, can_chunk=minor > 0, announces_trailers=is_chunked)
    # An HTTP/1.0 client expects the end anyway, and must be told when it is spared.
    if minor == 0 and not (closes or must_close):
        lines.append((b"Connection", b"keep-alive"))
    elif minor > 0 and closes:
        lines.append((b"Connection", b"close"))
    raw = writer.response_head(ResponseHead(head.status, head.reason, Headers(lines), minor=minor))
    return RelayedHead(raw, is_chunked, must_close, _added_date(head, date))


def interim(head: ResponseHead) -> bytes:
    """An upstream's 1xx towards an HTTP/1.1 client. Raises LocalProtocolError."""
    return writer.response_head(ResponseHead(head.status, head.reason, interim_lines(head)))


def own_response(
    response: Response, *, date: bytes, is_head: bool, closes: bool, minor: int = 1
) -> bytes:
    """An answer of our own towards an HTTP/1 client, with its body; `date` is an IMF-fixdate.

    The answer to HEAD has the length but not the body. An HTTP/1.0 client that is kept is told so.
    Raises LocalProtocolError.
    """
    lines = own_lines(response, date)
    if closes:
        lines.append((b"Connection", b"close"))
    elif minor == 0:
        lines.append((b"Connection", b"keep-alive"))
    head = writer.own_response_head(response.status, lines, minor=minor)
    return head if is_head or never_has_body(response.status) else head + response.body


# --- the header lines of a response, for every version of HTTP ------------------------


def relayed_lines(
    received: ResponseReceived, *, date: bytes, can_chunk: bool, announces_trailers: bool
) -> Lines:
    """The lines of an upstream's final response.

    `date` is added where the upstream sent none. `can_chunk`: this version of HTTP has chunks.
    `announces_trailers`: trailers can follow the body.
    """
    head = received.head
    # The protocol that begins behind a 101 stands in it, and nothing of ours.
    is_switch = head.status == _SWITCHING_PROTOCOLS
    lines = list(forwarding.response_headers(head.headers, keeps_upgrade=is_switch).pairs)
    lines += framing.response_lines(received.framing, head, can_chunk=can_chunk)
    if announces_trailers:
        lines += announced_trailers(head.headers, same_trailers).pairs
    if added_date := _added_date(head, date):
        lines.append((b"Date", added_date))
    return lines


def _added_date(head: ResponseHead, date: bytes) -> bytes:
    """`date` if it is to be added, else b""."""
    return b"" if head.status == _SWITCHING_PROTOCOLS or b"date" in head.headers else date


def interim_lines(head: ResponseHead) -> Headers:
    """The lines of an upstream's 1xx other than 101."""
    return forwarding.response_headers(head.headers)


def own_lines(response: Response, date: bytes) -> Lines:
    """The lines of an answer of our own, Date and Content-Length included."""
    lines = [*response.headers, (b"Date", date)]
    if not never_has_body(response.status):
        lines.append((b"Content-Length", b"%d" % len(response.body)))
    return lines


def never_has_body(status: int) -> bool:
    """Whether a response with this status never has a body (RFC 9110 §6.4.1)."""
    return status < _FIRST_FINAL or status in _BODYLESS


# --- trailers and their announcement --------------------------------------------------


def same_trailers(trailers: Headers) -> Headers:
    """A `clean` that removes nothing: of a response only `forwarding.trailers` removes lines."""
    return trailers


def relayed_trailers(trailers: Headers, clean: Callable[[Headers], Headers]) -> Headers:
    """The trailers that go on, never merged into the headers."""
    return clean(forwarding.trailers(trailers))


def announced_trailers(headers: Headers, clean: Callable[[Headers], Headers]) -> Headers:
    """The `Trailer` header with those names that may go on; empty if none was announced."""
    names = Headers((name.title(), b"") for name in headers.tokens(b"trailer"))
    kept = relayed_trailers(names, clean)
    return Headers([(b"Trailer", b", ".join(name for name, _ in kept))] if kept.pairs else ())


# --- Date -----------------------------------------------------------------------------


def http_date(second: int) -> bytes:
    """An IMF-fixdate (RFC 9110 §5.6.7) of seconds since the epoch.

    `email.utils` has the same, and 0.3 MiB beside it.
    """
    at = datetime.fromtimestamp(second, UTC)
    text = (
        f"{_DAYS[at.weekday()]}, {at.day:02} {_MONTHS[at.month - 1]} {at.year:04} "
        f"{at.hour:02}:{at.minute:02}:{at.second:02} GMT"
    )
    return text.encode()


class HttpDate:
    """The Date header's value, made once a second (RFC 9110 §5.6.7).

    `wall_clock` gives seconds since the epoch.
    """

    __slots__ = ("_second", "_text", "_wall_clock")

    def __init__(self, wall_clock: Callable[[], float]) -> None:
        self._wall_clock = wall_clock
        self._second = -1
        self._text = b""

    def __call__(self) -> bytes:
        """The date of now."""
        second = int(self._wall_clock())
        if second != self._second:
            self._second = second
            self._text = http_date(second)
        return self._text

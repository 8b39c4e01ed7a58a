"""Start lines, header lines and short responses as values, and the protocol errors."""

import re
from collections.abc import Container, Iterable, Iterator

from pyrbacproxy.values import Frozen

# --- errors ---------------------------------------------------------------------------
# Protocol errors: `LocalProtocolError` is our bug, `RemoteProtocolError(status)` is theirs.


class ProtocolError(Exception):
    """A message breaks HTTP/1.1."""


class LocalProtocolError(ProtocolError):
    """We were about to break it: a bug of ours."""


class RemoteProtocolError(ProtocolError):
    """The other side broke it.

    `status` is the answer that fits when the other side is a client: 400, 417, 431, 501 or 505.
    """

    def __init__(self, message: str, *, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


# --- head -----------------------------------------------------------------------------
#
# `Headers`, `RequestHead`, `ResponseHead`: start line and header lines as values; Host and version
# rules.
#
# Names and values are bytes as sent; look-ups take the lower-case name. Nothing here changes the
# order of lines, joins or splits them, except where a method says so.

# Go's httpguts.ValidHostHeader: unreserved, sub-delims, ":" "%" and brackets, in any order.
_HOST = re.compile(rb"[A-Za-z0-9!$%&'()*+,\-.:;=\[\]_~]*")


class Headers:
    """Header lines in the order they were sent. Immutable; every change makes a new one."""

    __slots__ = ("_lowered", "pairs")

    def __init__(self, pairs: Iterable[tuple[bytes, bytes]] = ()) -> None:
        self.pairs: tuple[tuple[bytes, bytes], ...] = tuple(pairs)
        self._lowered = tuple(name.lower() for name, _ in self.pairs)

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        return iter(self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Headers) and self.pairs == other.pairs

    def __hash__(self) -> int:
        return hash(self.pairs)

    def __contains__(self, name: bytes) -> bool:
        return name in self._lowered

    def __repr__(self) -> str:
        # Values may be credentials, so only names are shown.
        return f"Headers({', '.join(name.decode('latin-1') for name, _ in self.pairs)})"

    def lowered_items(self) -> Iterator[tuple[bytes, tuple[bytes, bytes]]]:
        """Each line with its lower-case name in front."""
        return zip(self._lowered, self.pairs, strict=True)

    def get(self, name: bytes) -> bytes | None:
        """The value of the first line of that name (lower case), or None."""
        if name not in self._lowered:
            return None
        return self.pairs[self._lowered.index(name)][1]

    def get_all(self, name: bytes) -> list[bytes]:
        """The values of all lines of that name (lower case), in order."""
        if name not in self._lowered:
            return []
        return [value for lowered, (_, value) in self.lowered_items() if lowered == name]

    def tokens(self, name: bytes) -> list[bytes]:
        """All comma-separated members of all its lines, trimmed and lower-cased, no empty ones."""
        members = b",".join(self.get_all(name)).split(b",")
        return [token for member in members if (token := member.strip(b" \t").lower())]

    def without(self, names: Container[bytes]) -> "Headers":
        """A copy without the lines whose lower-case name is in `names`."""
        kept = [pair for lowered, pair in self.lowered_items() if lowered not in names]
        return self if len(kept) == len(self.pairs) else Headers(kept)

    def with_added(self, *pairs: tuple[bytes, bytes]) -> "Headers":
        """A copy with lines added at the end."""
        return Headers((*self.pairs, *pairs))


class RequestHead(Frozen):
    """A request line and its headers. `minor` is the version's last digit: HTTP/1.0 or HTTP/1.1."""

    method: bytes
    target: bytes
    headers: Headers
    minor: int = 1

    @property
    def is_persistent(self) -> bool:
        """Whether the client lets the connection live on after this exchange (RFC 9112 §9.3)."""
        return _is_persistent(self.headers, self.minor)


class ResponseHead(Frozen):
    """A status line and its headers."""

    status: int
    reason: bytes
    headers: Headers
    minor: int = 1

    @property
    def is_persistent(self) -> bool:
        """Whether the upstream lets the connection live on after this exchange (RFC 9112 §9.3)."""
        return _is_persistent(self.headers, self.minor)


def folded(name: bytes) -> bytes:
    """The one spelling that all spellings of a header name share: CGI and WSGI read `_` as `-`."""
    return name.lower().replace(b"_", b"-")


def is_valid_host(host: bytes) -> bool:
    """Whether all characters can be in a Host, as the original checks it; empty is valid."""
    return _HOST.fullmatch(host) is not None


def check_host(head: RequestHead) -> None:
    """Refuse a request whose Host lines leave a doubt about its host (RFC 9112 §3.2).

    Raises RemoteProtocolError(400): two lines, a malformed value, or none in HTTP/1.1. An empty
    value passes.
    """
    hosts = head.headers.get_all(b"host")
    if len(hosts) > 1:
        raise RemoteProtocolError("more than one Host")
    if not hosts and head.minor == 1:
        raise RemoteProtocolError("no Host in an HTTP/1.1 request")
    if hosts and not is_valid_host(hosts[0]):
        raise RemoteProtocolError("a malformed Host")


def _is_persistent(headers: Headers, minor: int) -> bool:
    options = headers.tokens(b"connection")
    if b"close" in options:
        return False
    return minor == 1 or b"keep-alive" in options


# --- response -------------------------------------------------------------------------
# `Response`: a complete short answer of our own.

_TEXT = ((b"Content-Type", b"text/plain; charset=utf-8"), (b"X-Content-Type-Options", b"nosniff"))
_NONE = Headers()


class Response(Frozen):
    """Status, headers and the whole body; the writer adds Date, Content-Length and Connection."""

    status: int
    headers: Headers = _NONE
    body: bytes = b""
    must_close: bool = False


def text(
    status: int, body: str, *headers: tuple[bytes, bytes], must_close: bool = False
) -> Response:
    """A plain-text answer with the headers that all texts of the original carry (reference 3.8).

    What no encoding has, such as bytes of a path on a command line, is shown as `?`.
    """
    lines = Headers((*_TEXT, *headers))
    return Response(status, lines, body.encode(errors="replace"), must_close=must_close)

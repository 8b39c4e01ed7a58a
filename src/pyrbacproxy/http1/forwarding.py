"""Hop-by-hop out, `X-Forwarded-For` and Host in: the header lines as the next hop gets them, both
directions.

What frames a body (Content-Length, Transfer-Encoding) is taken out here and set anew from the
`Framing` (`framing.request_lines`, `framing.response_lines`): framing is never relayed.
"""

import re
from functools import lru_cache

from pyrbacproxy.http1.head import Headers, RequestHead, ResponseHead

_HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"proxy-connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        # Not hop-by-hop by itself, but it speaks of an upgrade that is never made (decisions D8).
        b"http2-settings",
        # Set anew from the framing.
        b"content-length",
    }
)
# CGI and WSGI read "_" as "-": to them these would frame the body a second time.
_OTHER_FRAMING = frozenset({b"content_length", b"transfer_encoding"})
_NOT_COPIED = _OTHER_FRAMING | {b"host", b"x-forwarded-for"}
# RFC 9110 §6.5.1: fields that say how a message is framed, routed or authenticated have no place
# behind its body.
_NOT_IN_TRAILERS = _HOP_BY_HOP | _NOT_COPIED | {b"expect", b"content-encoding"}
# A cache of names must not be a cache of what an attacker sends: longer names are spelled anew each
# time.
_LONGEST_KNOWN_NAME = 64
# What begins there is HTTP once more, below TLS or not, and of its requests none would be checked:
# h2c (RFC 7540 §3.2) wherever it stands, and what goes by those names (RFC 2817 §3, RFC 9110 §7.8).
# A character that is neither a token's nor a version's separates too: not every upstream reads
# lists at their commas alone.
_HTTP_AGAIN = re.compile(
    rb"h2c|(?:^|[^!#$%&'*+.^_`|~0-9a-z/-])(?:h2[^,]*|(?:http|tls)(?![!#$%&'*+.^_`|~0-9a-z-]))",
    re.IGNORECASE,
)
_ZONE = re.compile(rb"\A(\[[^%\]]*)%[^\]]*")
_PRINTABLE = re.compile(rb"[\x20-\x7e]*")


def request_headers(
    headers: Headers, *, peer_address: str, authority: bytes = b"", keeps_upgrade: bool = False
) -> Headers:
    """The lines of a request as the upstream gets them (reference 4.1, 15.5 and 15.6), names
    spelled as Go spells them.

    Host comes first: `authority` (of an absolute-form target) if there is one, else the client's;
    none when that is empty, for the upstream's own name then takes its place. A zone, which means
    something on the client's machine alone (RFC 6874 §1), goes no further. `keeps_upgrade` puts the
    upgrade asked for back.
    """
    dropped = _dropped(headers)
    lines: list[tuple[bytes, bytes]] = []
    host = authority or headers.get(b"host")
    if host:
        lines.append((b"Host", _ZONE.sub(rb"\1", host)))
    for lowered, (name, value) in headers.lowered_items():
        if lowered in dropped or lowered in _NOT_COPIED or (lowered == b"user-agent" and not value):
            continue
        lines.append((canonical(name), value))
    if b"trailers" in headers.tokens(b"te"):
        lines.append((b"Te", b"trailers"))
    if keeps_upgrade:
        lines += _upgrade_lines(headers)
    hops = [value for value in headers.get_all(b"x-forwarded-for") if value]
    lines.append((b"X-Forwarded-For", b", ".join((*hops, peer_address.encode("ascii")))))
    return Headers(lines)


def response_headers(headers: Headers, *, keeps_upgrade: bool = False) -> Headers:
    """A response's lines as the client gets them (reference 4.4); `keeps_upgrade` for a 101."""
    kept = headers.without(_dropped(headers))
    return kept.with_added(*_upgrade_lines(headers)) if keeps_upgrade else kept


def trailers(fields: Headers) -> Headers:
    """The trailer fields that may go on: none that frames, routes or is hop-by-hop."""
    return fields.without(_NOT_IN_TRAILERS)


def announced_upgrade(headers: Headers) -> bytes | None:
    """What `Connection: upgrade` and `Upgrade` announce, whatever it is; None without both."""
    if b"upgrade" not in headers or b"upgrade" not in headers.tokens(b"connection"):
        return None
    return b", ".join(headers.get_all(b"upgrade"))


def has_unprintable_upgrade(headers: Headers) -> bool:
    """Whether an upgrade is announced to what no protocol is called (reference 4.1.5)."""
    announced = announced_upgrade(headers)
    return announced is not None and not _PRINTABLE.fullmatch(announced)


def upgrade_of(head: RequestHead) -> bytes | None:
    """The protocol to ask the upstream for, or None.

    Never h2c or another HTTP, wherever in the list it stands: further requests would pass unchecked
    (decisions D8). Nor for HTTP/1.0 (RFC 9110 §7.8), nor one that is not printable.
    """
    announced = announced_upgrade(head.headers)
    if not announced or head.minor == 0 or _HTTP_AGAIN.search(announced):
        return None
    return announced if _PRINTABLE.fullmatch(announced) else None


def is_agreed_upgrade(request: RequestHead, response: ResponseHead) -> bool:
    """Whether this 101 names the protocol that this request asked for, in any case of letters.

    One of a list of several is not enough (reference 6.4).
    """
    wanted, got = upgrade_of(request), announced_upgrade(response.headers)
    return wanted is not None and got is not None and wanted.lower() == got.lower()


def canonical(name: bytes) -> bytes:
    """The name as Go spells it: `x-foo` is `X-Foo` (reference 4.1.11)."""
    return _known_canonical(name) if len(name) <= _LONGEST_KNOWN_NAME else _canonical(name)


def _dropped(headers: Headers) -> frozenset[bytes]:
    # Every Connection line counts (CVE-2021-33197); most messages have none.
    options = headers.tokens(b"connection")
    return _HOP_BY_HOP.union(options) if options else _HOP_BY_HOP


def _canonical(name: bytes) -> bytes:
    return b"-".join([part.capitalize() for part in name.split(b"-")])


_known_canonical = lru_cache(maxsize=1024)(_canonical)


def _upgrade_lines(headers: Headers) -> tuple[tuple[bytes, bytes], ...]:
    protocols = b", ".join(headers.get_all(b"upgrade"))
    return ((b"Connection", b"Upgrade"), (b"Upgrade", protocols)) if protocols else ()

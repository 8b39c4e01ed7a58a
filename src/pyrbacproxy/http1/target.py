"""The request-target → form, raw path, decoded path, query; says which paths are ambiguous.

Decisions use the path decoded exactly once, the upstream gets the escapes as they were sent
(decisions D9): this module owns both views, and the question whether they could be read as two
different paths.
"""

import re
from enum import Enum
from urllib.parse import unquote_to_bytes

from pyrbacproxy.http1.head import RemoteProtocolError
from pyrbacproxy.values import Frozen

# RFC 3986 §3.2 without user information: a name without escapes or an address in brackets, and a
# numeric port: what no Host could be must not become one (FR06).
_AUTHORITY = re.compile(
    rb"(?:\[[0-9A-Fa-f:.]+(?:%25[A-Za-z0-9._~-]+)?\]|[A-Za-z0-9._~!$&'()*+,;=-]+)(?::[0-9]*)?"
)
_VISIBLE_ASCII = re.compile(rb"[\x21-\x7e]+")
_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_ABSOLUTE = re.compile(rb"https?://([^/?#]+)([^?]*)(?:\?(.*))?", re.IGNORECASE)
_ENCODED_SLASH = re.compile(rb"%2[Ff]")
# A raw "\" is forwarded as %5C, so it is one.
_ENCODED_SEPARATOR = re.compile(rb"\\|%(?:2[Ff]|5[Cc]|00)")
# What the original leaves alone when it writes a path: RFC 3986 unreserved, sub-delims, ":" "@" "/"
# "%" and brackets.
_TO_ESCAPE = re.compile(rb"[^A-Za-z0-9\-._~!$&'()*+,;=:@/%\[\]]")
_ESCAPED = [
    b"%%%02X" % byte if _TO_ESCAPE.match(bytes([byte])) else bytes([byte]) for byte in range(256)
]
_MOST_PAIRS = 1000


class Form(Enum):
    """The four forms of RFC 9112 §3.2."""

    ORIGIN = "origin"
    ABSOLUTE = "absolute"
    AUTHORITY = "authority"
    ASTERISK = "asterisk"


class Target(Frozen):
    """A request-target taken apart.

    `raw_path` is the path as sent ("" becomes "/" for absolute-form); `path` is its single
    percent-decoding as UTF-8 with surrogateescape, so that any bytes survive; `raw_query` is what
    follows "?", None without one; `authority` is set in absolute and authority form only.
    """

    form: Form
    raw_path: bytes
    path: str
    raw_query: bytes | None = None
    authority: bytes = b""


class Query(Frozen):
    """A query as Go reads it. Doubtful: the upstream might read other pairs than these."""

    pairs: tuple[tuple[str, str], ...]
    is_doubtful: bool


def parse_target(method: bytes, target: bytes) -> Target:
    """Take a request-target apart (RFC 9112 §3.2). A "#" is a path character, as for the original.

    Raises RemoteProtocolError(400): bytes that are no visible ASCII (decisions D31), a bad escape
    in the path, a form that the method does not go with. `*` is let through for any method; whoever
    handles it refuses (decisions D27).
    """
    if not _VISIBLE_ASCII.fullmatch(target):
        raise RemoteProtocolError("bytes outside visible ASCII in the request-target")
    if target.startswith(b"/"):
        raw_path, mark, raw_query = target.partition(b"?")
        path = _checked_path(raw_path)
        return Target(Form.ORIGIN, raw_path, path, raw_query if mark else None)
    if target == b"*":
        return Target(Form.ASTERISK, b"*", "*")
    if method == b"CONNECT":
        return Target(Form.AUTHORITY, b"", "", authority=_checked_authority(target))
    absolute = _ABSOLUTE.fullmatch(target)
    if absolute is None:
        raise RemoteProtocolError("the request-target has no known form")
    authority, raw_path, query = absolute.groups()
    # "http://host#x" has an empty path in every reading, but which is meant is in doubt.
    if not raw_path.startswith(b"/") and raw_path:
        raise RemoteProtocolError("the request-target has no known form")
    raw_path = raw_path or b"/"
    path = _checked_path(raw_path)
    return Target(Form.ABSOLUTE, raw_path, path, query, _checked_authority(authority))


def cleaned(raw_path: bytes) -> bytes:
    """The path without empty, "." and ".." segments, escapes untouched, a trailing slash kept.

    It starts with exactly one "/" (reference 3.0.3: Go's `cleanPath`; decisions D17).
    """
    if raw_path.startswith(b"/") and b"//" not in raw_path and b"/." not in raw_path:
        return raw_path  # no such segment: most paths
    kept: list[bytes] = []
    for segment in raw_path.split(b"/"):
        if segment == b"..":
            del kept[-1:]
        elif segment not in (b"", b"."):
            kept.append(segment)
    path = b"/" + b"/".join(kept)
    return path + b"/" if raw_path.endswith(b"/") and kept else path


def is_ambiguous(target: Target) -> bool:
    r"""Whether the upstream may read another path here than the one that is decided on (D9).

    True if the decoded path, with "\" read as "/" and each segment cut at ";", holds a ".", ".." or
    empty segment or a NUL that the raw path lacks. These two readings include the plain one: they
    only add such segments.
    """
    raw_path = target.raw_path
    if b"%" not in raw_path and b"\\" not in raw_path and b";" not in raw_path:
        return False
    if "\0" in target.path:
        return True
    read = {segment.split(";")[0] for segment in _segments(target.path.replace("\\", "/"))}
    sent = set(_segments(raw_path.decode("latin-1")))
    return not {"", ".", ".."}.isdisjoint(read - sent)


def has_encoded_separator(raw_path: bytes) -> bool:
    r"""Whether the path is forwarded with %2F, %5C ("\" too) or %00: then it opens no door (D9)."""
    return _ENCODED_SEPARATOR.search(raw_path) is not None


def path_without_decoding_slash(target: Target) -> str:
    """The path decoded but for each %2F: what an allow path must match as well (decisions D9)."""
    raw_path = target.raw_path
    slashes = _ENCODED_SLASH.findall(raw_path)
    if not slashes:
        return target.path
    between = [unquote_to_bytes(piece) for piece in _ENCODED_SLASH.split(raw_path)]
    joined = between[0] + b"".join(
        slash + piece for slash, piece in zip(slashes, between[1:], strict=True)
    )
    return joined.decode("utf-8", "surrogateescape")


def escaped_path(raw_path: bytes) -> bytes:
    """The path as it is forwarded: what RFC 3986 does not allow in a path is percent-encoded, the
    rest is as sent.

    (decisions "The forwarded target", reference 15.4)
    """
    if not _TO_ESCAPE.search(raw_path):
        return raw_path
    return b"".join([_ESCAPED[byte] for byte in raw_path])


def parse_query(raw_query: bytes | None) -> Query:
    """The pairs of a query as Go's `url.ParseQuery` gives them; text is UTF-8 with surrogateescape.

    Pairs with ";" or a bad escape are dropped and make the query doubtful, and so do more than
    1,000 pairs (decisions D7) or "&"; what follows those is not looked at, however long it is.
    """
    pieces = (raw_query or b"").split(b"&", _MOST_PAIRS + 1)
    is_long = len(pieces) > _MOST_PAIRS + 1
    fields = [field for field in pieces[: _MOST_PAIRS + 1] if field]
    pairs: list[tuple[str, str]] = []
    for field in fields[:_MOST_PAIRS]:
        if b";" in field or _BAD_ESCAPE.search(field):
            continue
        name, _, value = field.partition(b"=")
        pairs.append((_query_text(name), _query_text(value)))
    return Query(tuple(pairs), is_doubtful=is_long or len(pairs) != len(fields))


def _checked_path(raw_path: bytes) -> str:
    if b"%" not in raw_path:
        return raw_path.decode("ascii")
    if _BAD_ESCAPE.search(raw_path):
        raise RemoteProtocolError("a bad percent escape in the path")
    return unquote_to_bytes(raw_path).decode("utf-8", "surrogateescape")


def _checked_authority(authority: bytes) -> bytes:
    # User information ("user@host") fails here too: RFC 9110 §4.2.4 calls it an error.
    if not _AUTHORITY.fullmatch(authority):
        raise RemoteProtocolError("a malformed authority in the request-target")
    return authority


def _segments(path: str) -> list[str]:
    segments = path.split("/")[1:]
    # A trailing slash ends the path; it does not begin an empty segment.
    return segments[:-1] if segments and segments[-1] == "" else segments


def _query_text(escaped: bytes) -> str:
    return unquote_to_bytes(escaped.replace(b"+", b" ")).decode("utf-8", "surrogateescape")

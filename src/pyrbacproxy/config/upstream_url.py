"""The upstream's URL as Go's `url.Parse` reads it → `UpstreamSettings` without files and proxy."""

import re
from ipaddress import IPv6Address
from urllib.parse import quote, unquote

from pyrbacproxy.dataplane.upstream import UpstreamSettings

_PORTS = {"http": 80, "https": 443}
_LARGEST_PORT = 65_535
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):(.*)", re.IGNORECASE | re.DOTALL)
_AUTHORITY = re.compile(r"//([^/]*)(.*)", re.DOTALL)
# A host, or an address in brackets, and a port where the scheme is missing; no user or password.
_NO_SCHEME = re.compile(r"([\w.-]+|\[[0-9a-f:.%]+\]):[0-9]+(/[^@]*)?", re.IGNORECASE | re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
# RFC 3986 section 3.2.1; the first @ of several is one that nobody escaped.
_USER = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})*")
_BAD_ESCAPE = re.compile(r"%(?![0-9a-f]{2})", re.IGNORECASE)
# What may stand in a name; Go lets no more pass, and percent escapes nobody means.
_HOST = re.compile(r"[^\x00-\x20\x7f#/?@\\^`{|}%\"<>\[\]]*")
# RFC 3986's path characters; quote() itself keeps letters, digits and -._~ .
_PATH = "%/:@!$&'()*+,;="
# unix(7): what fits into `sun_path` with the byte that ends it.
_MAX_SOCKET_PATH_BYTES = 107


def parse(text: str) -> UpstreamSettings:
    """Where requests go; raises ValueError, which quotes nothing, for it could be a password.

    What Go parses although nothing can be sent there (no scheme, no host, another scheme) has the
    scheme "": every forwarded request answers 502 (reference 1.2).
    """
    if _CONTROL.search(text):
        raise ValueError("a control character in the URL")
    before_query, _, query = text.partition("#")[0].partition("?")
    if _NO_SCHEME.fullmatch(before_query):
        # To Go "localhost:9100" is a scheme and an opaque rest, so that every request is a 502.
        end = "" if "/" in before_query else "/"
        raise ValueError(f"the scheme is missing; did you mean http://{before_query}{end}?")
    scheme, rest = _scheme(before_query)
    if scheme == "unix":
        return _unix_socket(rest, has_more="?" in text or "#" in text)
    found = _AUTHORITY.fullmatch(rest)
    authority, path = (found[1], found[2]) if found else ("", rest)
    if scheme and not found and not path.startswith("/"):
        return UpstreamSettings()  # "http:host" is a scheme and an opaque rest to Go
    if not scheme and not found and ":" in path.partition("/")[0]:
        raise ValueError("the first path segment must not hold a colon; is http:// missing?")
    host, port = _host_and_port(authority)
    if " " in query:
        raise ValueError("a blank in the query")
    if _BAD_ESCAPE.search(path):
        raise ValueError("a bad percent escape in the path")
    if not host and port is not None and scheme == "http":
        host = "localhost"  # ":8080" is this machine to Go, too
    if scheme not in _PORTS or not host:
        return UpstreamSettings()
    return UpstreamSettings(
        scheme=scheme,
        host=host,
        port=_PORTS[scheme] if port is None else port,
        base_path=quote(path, safe=_PATH).encode(),
        raw_query=query.encode(errors="surrogateescape"),
    )


def _unix_socket(rest: str, *, has_more: bool) -> UpstreamSettings:
    """`unix:///run/x.sock` (N10): all of the path is the socket's, none is for the requests."""
    if has_more:
        raise ValueError("a unix socket has no query and no fragment; write ? and # as %3F and %23")
    path = rest.removeprefix("//")
    if not path.startswith("/") or path.endswith("/"):
        raise ValueError("a unix socket must be an absolute path, as in unix:///run/x.sock")
    if _BAD_ESCAPE.search(path) or "%00" in path:
        raise ValueError("a bad percent escape in the path")
    socket_path = unquote(path, errors="surrogateescape")
    if len(socket_path.encode(errors="surrogateescape")) > _MAX_SOCKET_PATH_BYTES:
        raise ValueError(f"a unix socket's path is at most {_MAX_SOCKET_PATH_BYTES} bytes long")
    return UpstreamSettings("http", socket_path=socket_path)


def _scheme(text: str) -> tuple[str, str]:
    found = _SCHEME.fullmatch(text)
    if found:
        return found[1].lower(), found[2]
    if text.startswith(":"):
        raise ValueError("missing protocol scheme")
    return "", text


def _host_and_port(authority: str) -> tuple[str, int | None]:
    """Host without brackets, and the port if any; user and password are dropped, as in Go."""
    user, _, host = authority.rpartition("@")
    if not _USER.fullmatch(user):
        raise ValueError("user and password hold what must be escaped")
    if host.startswith("["):
        address, bracket, rest = host[1:].partition("]")
        if not bracket:
            raise ValueError("missing ']' in host")
        if rest and not rest.startswith(":"):
            raise ValueError("invalid port after host")
        return _ipv6(address.replace("%25", "%", 1)), _port(rest[1:])
    name, colon, port = host.rpartition(":")
    if not colon:
        return _checked_host(host), None
    return _checked_host(name), _port(port)


def _checked_host(host: str) -> str:
    if not _HOST.fullmatch(host):
        raise ValueError("invalid character in host name")
    return host


def _ipv6(text: str) -> str:
    try:
        IPv6Address(text)
    except ValueError:
        raise ValueError("no IPv6 address between the brackets") from None
    return text


def _port(text: str) -> int | None:
    if not text:
        return None
    if not re.fullmatch(r"0*[0-9]{1,5}", text, re.ASCII) or not 0 < int(text) <= _LARGEST_PORT:
        raise ValueError("invalid port after host")
    return int(text)

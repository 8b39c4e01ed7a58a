"""Which HTTP proxy an outgoing connection takes: `HTTP(S)_PROXY` and `NO_PROXY` as Go reads them.

The rules are those of Go's golang.org/x/net/http/httpproxy, which the reference inherits (D34):
lower-case names are looked at after upper-case ones, a value without a scheme means http,
`NO_PROXY` holds names, addresses, CIDRs and `*`, and what is on this machine (localhost, loopback
addresses) is never reached through a proxy.
"""

import base64
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TypeAlias
from urllib.parse import SplitResult, unquote, urlsplit

from pyrbacproxy.values import Frozen, field

Address: TypeAlias = IPv4Address | IPv6Address

# The kinds of proxy that the API client and the upstream connector can speak to, with their usual
# ports.
DEFAULT_PORTS = {"http": 80, "https": 443}


class ProxyAddress(Frozen):
    """A proxy to go through. `authorization` is the `Proxy-Authorization` value, "" without one."""

    scheme: str
    host: str
    port: int
    authorization: str = field(default="", repr=False)


class EgressProxies(Frozen):
    """The environment's settings, read once at start."""

    http: ProxyAddress | None = None
    https: ProxyAddress | None = None
    no_proxy: tuple[str, ...] = ()


def from_environment(environ: Mapping[str, str]) -> EgressProxies:
    """The proxies that the environment names; raises ValueError that names the variable alone."""
    no_proxy = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    return EgressProxies(
        http=_named(environ, "HTTP_PROXY"),
        https=_named(environ, "HTTPS_PROXY"),
        no_proxy=tuple(entry for part in no_proxy.split(",") if (entry := part.strip().lower())),
    )


def proxy_for(proxies: EgressProxies, scheme: str, host: str, port: int) -> ProxyAddress | None:
    """The proxy for a connection to `host` (IPv6 without brackets), None to connect directly."""
    proxy = proxies.https if scheme == "https" else proxies.http
    if proxy is None:
        return None
    host = host.strip().lower()
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return None
    if any(_is_exempt(entry, host, address, str(port)) for entry in proxies.no_proxy):
        return None
    return proxy


def proxy_at(text: str) -> ProxyAddress:
    """The proxy that a URL names; ValueError says what is wrong without quoting it, because it may
    hold a password.
    """
    if "://" not in text:
        raise ValueError("not a URL with a scheme")
    # urlsplit takes line ends and tabs out, and what is left would be another proxy.
    if not text.isprintable() or " " in text:
        raise ValueError("not the address of a proxy")
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        raise ValueError("not the address of a proxy") from None
    if url.scheme not in DEFAULT_PORTS:
        raise ValueError(f"not supported: a proxy of scheme {url.scheme}")
    if not url.hostname:
        raise ValueError("the proxy's address has no host")
    return ProxyAddress(
        scheme=url.scheme,
        host=url.hostname,
        port=port or DEFAULT_PORTS[url.scheme],
        authorization=_authorization(url),
    )


def _named(environ: Mapping[str, str], variable: str) -> ProxyAddress | None:
    for name in (variable, variable.lower()):
        if text := environ.get(name):
            try:
                # A value without a scheme means http; what a port is like is no scheme.
                return proxy_at(text if "://" in text else f"http://{text}")
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
    return None


def _authorization(url: SplitResult) -> str:
    if url.username is None:
        return ""
    pair = f"{unquote(url.username)}:{unquote(url.password or '')}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


def _is_exempt(entry: str, host: str, address: Address | None, port: str) -> bool:
    """Whether one entry of NO_PROXY matches; what Go cannot read matches nothing."""
    if entry == "*":
        return True
    if "/" in entry:
        return address is not None and _is_in_network(entry, address)
    name, entry_port = _split_port(entry)
    if not name or entry_port not in ("", port):
        return False
    if (exempt := _address(name)) is not None:
        return exempt == address
    # "example.org" means itself and everything below, ".example.org" and "*.example.org" only what
    # is below.
    name = name[1:] if name.startswith("*.") else name
    return host.endswith(name) if name.startswith(".") else f".{host}".endswith(f".{name}")


def _is_in_network(entry: str, address: Address) -> bool:
    if not entry.rpartition("/")[
        2
    ].isdecimal():  # ip_network would also read a netmask, Go does not
        return False
    try:
        return address in ip_network(entry, strict=False)
    except ValueError:
        return False


def _split_port(entry: str) -> tuple[str, str]:
    """`host:port`, `[IPv6]:port`, `host` or a bare IPv6 address → host, port ("" without one)."""
    if entry.startswith("["):
        host, bracket, rest = entry[1:].partition("]")
        return (host, rest[1:]) if bracket and rest.startswith(":") else ("", "")
    if entry.count(":") == 1:
        host, _, port = entry.partition(":")
        return host, port
    return entry, ""


def _address(text: str) -> Address | None:
    """An IP address; an IPv4 address in IPv6 clothes is the IPv4 address."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address

"""`host:port` as Go's `net.Listen` reads it → `Address`."""

import re
import socket

from pyrbacproxy.config.settings import Address
from pyrbacproxy.config.values import quoted

_LARGEST_PORT = 65_535


def parse(text: str) -> Address:
    """The address to bind; raises ValueError.

    The host may be empty, a name, or an IPv6 address in brackets; the port a number or the name of
    a TCP service, empty for any free port (reference 6.1).
    """
    host, port = _split(text)
    return Address(host, _port(port), text)


def parse_host(text: str) -> str:
    """A host without port, brackets removed; raises ValueError."""
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
        if ":" not in text:
            raise ValueError(f"address {quoted(text)}: brackets are for IPv6 addresses")
    elif text.count(":") == 1:
        raise ValueError(f"address {quoted(text)}: must be a host without port")
    if any(character in text for character in "[]/@"):
        raise ValueError(f"address {quoted(text)}: not a host")
    return text


def _split(text: str) -> tuple[str, str]:
    head, colon, port = text.rpartition(":")
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket:
            raise ValueError(f"address {quoted(text)}: missing ']' in address")
        if not rest.startswith(":"):
            raise ValueError(f"address {quoted(text)}: missing port in address")
        port = rest[1:]
    else:
        if not colon:
            raise ValueError(f"address {quoted(text)}: missing port in address")
        host = head
        if ":" in host:
            raise ValueError(f"address {quoted(text)}: too many colons in address")
    if any(character in host + port for character in "[]") or ":" in port:
        raise ValueError(f"address {quoted(text)}: unexpected bracket or colon")
    return host, port


def _port(text: str) -> int:
    if not text:
        return 0
    if re.fullmatch(r"\+?0*[0-9]{1,5}", text, re.ASCII) and int(text) <= _LARGEST_PORT:
        return int(text)
    if re.fullmatch(r"[+-]?[0-9]+", text, re.ASCII):
        raise ValueError(f"invalid port {quoted(text)}")
    try:
        return socket.getservbyname(text.lower(), "tcp")
    except (OSError, ValueError):
        raise ValueError(f"unknown port {quoted(text)}") from None

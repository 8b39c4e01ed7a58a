import pytest

from pyrbacproxy.config.complete import parse_address, parse_host
from pyrbacproxy.config.settings import Address


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        (":9637", "", 9637),
        ("127.0.0.1:8443", "127.0.0.1", 8443),
        ("[::1]:8443", "::1", 8443),
        ("[::]:8443", "::", 8443),
        ("[fe80::1%eth0]:1", "fe80::1%eth0", 1),
        ("localhost:https", "localhost", 443),
        ("localhost:HTTPS", "localhost", 443),
        ("localhost:+000443", "localhost", 443),
        ("localhost:0", "localhost", 0),
        ("localhost:", "localhost", 0),
        ("localhost:65535", "localhost", 65535),
    ],
)
def test_host_and_port(text: str, host: str, port: int) -> None:
    assert parse_address(text) == Address(host, port, text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("localhost", "missing port in address"),
        ("[::1]", "missing port in address"),
        ("[::1", "missing ']' in address"),
        ("::1:8443", "too many colons in address"),
        ("[a]:1:2", "unexpected"),
        ("a]:1", "unexpected"),
        ("a[b:1", "unexpected"),
        ("a:65536", 'invalid port "65536"'),
        ("a:+065536", 'invalid port "\\+065536"'),
        ("a:nosuch-service", 'unknown port "nosuch-service"'),
        ("a:-1", 'invalid port "-1"'),
        ("a:\x00", "unknown port"),
    ],
)
def test_bad_addresses(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_address(text)


@pytest.mark.parametrize(
    ("text", "host"),
    [("", ""), ("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("[::1]", "::1"), ("name", "name")],
)
def test_a_host_alone(text: str, host: str) -> None:
    assert parse_host(text) == host


@pytest.mark.parametrize("text", ["127.0.0.1:80", "[name]", "[::1]:80", "a/b", "a]"])
def test_what_is_no_host_alone(text: str) -> None:
    with pytest.raises(ValueError, match="address"):
        parse_host(text)

"""Against Go's `url.Parse`, as far as an upstream's URL goes."""

import re

import pytest

from pyrbacproxy.config.complete import parse_upstream_url
from pyrbacproxy.proxy.connector import UpstreamSettings


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://127.0.0.1:9537", UpstreamSettings("http", "127.0.0.1", 9537)),
        ("http://h", UpstreamSettings("http", "h", 80)),
        ("https://h", UpstreamSettings("https", "h", 443)),
        ("HTTPS://h:", UpstreamSettings("https", "h", 443)),
        ("http://[::1]:80/", UpstreamSettings("http", "::1", 80, b"/")),
        ("http://[fe80::1%25eth0]", UpstreamSettings("http", "fe80::1%eth0", 80)),
        ("http://h/a%2Fb/c", UpstreamSettings("http", "h", 80, b"/a%2Fb/c")),
        ("http://h/a|\u00e9", UpstreamSettings("http", "h", 80, b"/a%7C%C3%A9")),
        ("http://h/a?b=c&d#e", UpstreamSettings("http", "h", 80, b"/a", b"b=c&d")),
        ("http://h?b", UpstreamSettings("http", "h", 80, b"", b"b")),
        ("http://me:secret@h:1", UpstreamSettings("http", "h", 1)),
        ("http://me:a%20b@c@h:1", UpstreamSettings("http", "h", 1)),
        ("http://h/a b", UpstreamSettings("http", "h", 80, b"/a%20b")),
        ("http://h:00080", UpstreamSettings("http", "h", 80)),
        ("http://:8080/a", UpstreamSettings("http", "localhost", 8080, b"/a")),
    ],
)
def test_the_parts_of_a_url(text: str, expected: UpstreamSettings) -> None:
    assert parse_upstream_url(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/path",
        "host/path",
        "//host",
        "localhost:",
        "me:8080@h",
        "http:",
        "http://",
        "http:///x",
        "http://:",
        "https://:8443",
        "ftp://h",
        "http:h",
        "?a:b",
        "#a",
    ],
)
def test_what_go_parses_but_cannot_be_reached_has_no_scheme(text: str) -> None:
    assert parse_upstream_url(text).scheme == ""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("127.0.0.1:9537/a:b@c", "first path segment must not hold a colon"),
        ("http://[::1", r"missing '\]' in host"),
        ("http://[", r"missing '\]' in host"),
        ("http://[::1]8080", "invalid port"),
        ("http://[name]", "no IPv6 address"),
        ("http://h:x", "invalid port"),
        ("http://h:0", "invalid port"),
        ("http://h:65536", "invalid port"),
        ("http://h:123456", "invalid port"),
        ("http://a b", "invalid character in host name"),
        ("http://h\n", "control character"),
        ("http://h/?a b", "a blank in the query"),
        ("http://a b@h", "must be escaped"),
        ("http://a%zz@h", "must be escaped"),
        ("http://a<b", "invalid character in host name"),
        ("http://a%zz", "invalid character in host name"),
        ("http://h/%zz", "bad percent escape"),
        (":x", "missing protocol scheme"),
    ],
)
def test_what_go_does_not_parse(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_upstream_url(text)


@pytest.mark.parametrize(
    "text",
    [
        "http://me:secret@h:x",
        "http://me:secret/x@h",
        "http://secret<w/x@h",
        "http://[secret]/x@h",
        "http://[::1]secret/x@h",
        "http://me:secret",
    ],
)
def test_a_message_never_shows_the_password(text: str) -> None:
    with pytest.raises(ValueError, match=r"invalid|IPv6") as caught:
        parse_upstream_url(text)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("unix:///run/x.sock", "/run/x.sock"),
        ("unix:/run/x.sock", "/run/x.sock"),
        ("UNIX:///run/a%20b%3F%23%FF", "/run/a b?#\udcff"),
        ("unix:///" + "x" * 106, "/" + "x" * 106),
    ],
)
def test_dec_n10_a_unix_socket(text: str, path: str) -> None:
    assert parse_upstream_url(text) == UpstreamSettings("http", socket_path=path)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("unix:", "absolute path"),
        ("unix://", "absolute path"),
        ("unix:///", "absolute path"),
        ("unix:///run/", "absolute path"),
        ("unix:run/x.sock", "absolute path"),
        ("unix://h/x.sock", "absolute path"),
        ("unix:@abstract", "absolute path"),
        ("unix:///x.sock?a", "no query"),
        ("unix:///x.sock#a", "no query"),
        ("unix:///x%2", "bad percent escape"),
        ("unix:///x%00", "bad percent escape"),
        ("unix:///" + "x" * 107, "107 bytes"),
        ("unix:///" + "%C3%A9" * 54, "107 bytes"),
    ],
)
def test_dec_n10_what_is_no_unix_socket(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_upstream_url(text)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("localhost:9100", "http://localhost:9100/"),
        ("127.0.0.1:9100", "http://127.0.0.1:9100/"),
        ("[::1]:9100", "http://[::1]:9100/"),
        ("my_host.svc:9100/metrics?a=b#c", "http://my_host.svc:9100/metrics"),
        ("unix:9100", "http://unix:9100/"),
    ],
)
def test_fr97_a_host_and_port_without_a_scheme_get_the_url_that_was_meant(
    text: str, hint: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(f"did you mean {hint}?")):
        parse_upstream_url(text)

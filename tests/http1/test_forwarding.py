import pytest

from pyrbacproxy.http1.forwarding import (
    announced_upgrade,
    canonical,
    has_unprintable_upgrade,
    is_agreed_upgrade,
    request_headers,
    response_headers,
    trailers,
    upgrade_of,
)
from pyrbacproxy.http1.head import Headers, RequestHead, ResponseHead

Lines = list[tuple[bytes, bytes]]
FOR = (b"X-Forwarded-For", b"192.0.2.1")


def forwarded(lines: Lines, authority: bytes = b"", *, keeps_upgrade: bool = False) -> Lines:
    headers = request_headers(
        Headers(lines), peer_address="192.0.2.1", authority=authority, keeps_upgrade=keeps_upgrade
    )
    return list(headers)


@pytest.mark.parametrize(
    "name",
    [
        b"Connection",
        b"PROXY-CONNECTION",
        b"keep-alive",
        b"Proxy-Authenticate",
        b"Proxy-Authorization",
        b"TE",
        b"Trailer",
        b"Transfer-Encoding",
        b"Upgrade",
        b"HTTP2-Settings",
        b"Content-Length",
    ],
)
def test_hop_by_hop_and_framing_stay_behind(name: bytes) -> None:
    assert forwarded([(name, b"x"), (b"Accept", b"*/*")]) == [(b"Accept", b"*/*"), FOR]
    assert list(response_headers(Headers([(name, b"x"), (b"x-kept", b"1")]))) == [(b"x-kept", b"1")]
    assert list(trailers(Headers([(name, b"x"), (b"X-Sum", b"1")]))) == [(b"X-Sum", b"1")]


@pytest.mark.parametrize("name", [b"Content_Length", b"TRANSFER_ENCODING"])
def test_no_other_spelling_frames_a_request(name: bytes) -> None:
    assert forwarded([(name, b"3"), (b"X_Kept", b"1")]) == [(b"X_kept", b"1"), FOR]
    assert list(trailers(Headers([(name, b"3"), (b"X-Sum", b"1")]))) == [(b"X-Sum", b"1")]


def test_every_connection_line_counts() -> None:
    lines: Lines = [
        (b"Connection", b""),
        (b"X-Hop", b"1"),
        (b"connection", b"close, x-hop"),
        (b"X-Other", b"2"),
        (b"CONNECTION", b"X-Other"),
        (b"X-End", b"3"),
    ]
    assert forwarded(lines) == [(b"X-End", b"3"), FOR]
    assert list(response_headers(Headers(lines))) == [(b"X-End", b"3")]


def test_connection_cannot_take_away_what_the_proxy_says() -> None:
    lines = [(b"Connection", b"host, x-forwarded-for"), (b"Host", b"h"), FOR]
    assert forwarded(lines) == [
        (b"Host", b"h"),
        (b"X-Forwarded-For", b"192.0.2.1, 192.0.2.1"),
    ]


@pytest.mark.parametrize(
    ("lines", "authority", "host"),
    [
        pytest.param([(b"Host", b"Some.Host:99")], b"", [b"Some.Host:99"], id="the client's"),
        pytest.param([(b"host", b"h")], b"other.test", [b"other.test"], id="the target's wins"),
        pytest.param([], b"other.test", [b"other.test"], id="the target's alone"),
        pytest.param([(b"Host", b"")], b"", [], id="empty"),
        pytest.param([(b"Host", b"[fe80::1%25eth0]:80")], b"", [b"[fe80::1]:80"], id="a zone"),
        pytest.param([], b"[fe80::1%25eth0]", [b"[fe80::1]"], id="a zone in the target"),
        pytest.param([(b"Host", b"[::1]:80")], b"", [b"[::1]:80"], id="an address"),
        pytest.param([(b"Host", b"a%25b[c%25d]")], b"", [b"a%25b[c%25d]"], id="no address"),
        pytest.param([], b"", [], id="none"),
    ],
)
def test_host_comes_first_and_once(lines: Lines, authority: bytes, host: list[bytes]) -> None:
    sent = forwarded([(b"Accept", b"*/*"), *lines], authority)
    assert sent == [*((b"Host", value) for value in host), (b"Accept", b"*/*"), FOR]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], b"192.0.2.1"),
        ([b""], b"192.0.2.1"),
        ([b"10.0.0.1"], b"10.0.0.1, 192.0.2.1"),
        ([b"10.0.0.1, 10.0.0.2", b"10.0.0.3"], b"10.0.0.1, 10.0.0.2, 10.0.0.3, 192.0.2.1"),
    ],
)
def test_the_peer_is_added_to_forwarded_for(values: list[bytes], expected: bytes) -> None:
    lines = [(b"x-forwarded-for", value) for value in values]
    assert forwarded(lines) == [(b"X-Forwarded-For", expected)]


def test_other_forwarding_headers_pass_and_none_is_added() -> None:
    lines = [
        (b"X-Forwarded-Host", b"a.test"),
        (b"X-Forwarded-Proto", b"ftp"),
        (b"Forwarded", b"for=192.0.2.9"),
        (b"X-Real-Ip", b"192.0.2.8"),
        (b"Via", b"1.0 before"),
    ]
    assert forwarded(lines) == [*lines, FOR]


@pytest.mark.parametrize("value", [b"trailers", b"gzip, Trailers", b"trailers;q=1, trailers"])
def test_te_trailers_is_kept_alone(value: bytes) -> None:
    assert forwarded([(b"TE", value)]) == [(b"Te", b"trailers"), FOR]


def test_a_user_agent_passes_unless_empty() -> None:
    assert forwarded([(b"User-Agent", b"x")]) == [(b"User-Agent", b"x"), FOR]
    assert forwarded([(b"User-Agent", b""), (b"X-Empty", b"")]) == [(b"X-Empty", b""), FOR]


def test_repeated_lines_stay_apart_and_in_order() -> None:
    lines = [(b"x-many", b"one"), (b"cookie", b"a"), (b"X-MANY", b"two"), (b"Cookie", b"b")]
    assert forwarded(lines) == [
        (b"X-Many", b"one"),
        (b"Cookie", b"a"),
        (b"X-Many", b"two"),
        (b"Cookie", b"b"),
        FOR,
    ]


def test_an_upgrade_is_put_back_only_when_kept() -> None:
    lines = [
        (b"Connection", b"keep-alive, UPGRADE, X-Hop"),
        (b"Upgrade", b"echo"),
        (b"X-Hop", b"1"),
        (b"upgrade", b"foo/2"),
    ]
    kept = [(b"Connection", b"Upgrade"), (b"Upgrade", b"echo, foo/2")]
    assert forwarded(lines) == [FOR]
    assert forwarded(lines, keeps_upgrade=True) == [*kept, FOR]
    assert list(response_headers(Headers(lines))) == []
    assert list(response_headers(Headers(lines), keeps_upgrade=True)) == kept


def test_a_101_without_protocol_gets_no_upgrade_lines() -> None:
    headers = Headers([(b"Connection", b"Upgrade"), (b"X-A", b"1")])
    assert list(response_headers(headers, keeps_upgrade=True)) == [(b"X-A", b"1")]


def test_response_lines_keep_their_spelling() -> None:
    lines = [(b"x-lower", b"1"), (b"Set-Cookie", b"a=1"), (b"Set-Cookie", b"b=2")]
    assert list(response_headers(Headers(lines))) == lines


@pytest.mark.parametrize("name", [b"Host", b"Expect", b"Content-Encoding", b"X-Forwarded-For"])
def test_trailers_that_route_or_describe_are_dropped(name: bytes) -> None:
    assert list(trailers(Headers([(name, b"x"), (b"Grpc-Status", b"0")]))) == [
        (b"Grpc-Status", b"0")
    ]


@pytest.mark.parametrize(
    ("lines", "minor", "announced", "asked"),
    [
        pytest.param([], 1, None, None, id="nothing"),
        pytest.param([(b"Upgrade", b"echo")], 1, None, None, id="not in Connection"),
        pytest.param([(b"Connection", b"upgrade")], 1, None, None, id="no protocol"),
        pytest.param(
            [(b"Connection", b"Upgrade"), (b"Upgrade", b"")], 1, b"", None, id="empty protocol"
        ),
        pytest.param(
            [(b"Connection", b"Upgrade"), (b"Upgrade", b"echo")], 1, b"echo", b"echo", id="asked"
        ),
        pytest.param(
            [(b"Connection", b"Upgrade"), (b"Upgrade", b"echo")], 0, b"echo", None, id="HTTP/1.0"
        ),
        pytest.param(
            [(b"Connection", b"Upgrade"), (b"Upgrade", b"h2c")], 1, b"h2c", None, id="h2c"
        ),
        pytest.param(
            [(b"Connection", b"Upgrade"), (b"Upgrade", b"websocket, H2C")],
            1,
            b"websocket, H2C",
            None,
            id="h2c in a list",
        ),
        pytest.param(
            [(b"Connection", b"Upgrade"), (b"Upgrade", b"echo"), (b"Upgrade", b"h2c")],
            1,
            b"echo, h2c",
            None,
            id="h2c in another line",
        ),
        pytest.param(
            [(b"Connection", b"Upgrade"), (b"Upgrade", b"\xe9cho")],
            1,
            b"\xe9cho",
            None,
            id="unprintable",
        ),
    ],
)
def test_upgrades(lines: Lines, minor: int, announced: bytes | None, asked: bytes | None) -> None:
    head = RequestHead(b"GET", b"/", Headers(lines), minor)
    assert announced_upgrade(head.headers) == announced
    assert upgrade_of(head) == asked


@pytest.mark.parametrize(
    "protocol",
    [
        *(b"TLS/1.0", b"tls", b"TLS/1.2, HTTP/1.1", b"echo,HTTP/1.1", b"HTTP/2.0", b"h2", b"H2-14"),
        *(b"echo , h2 , other", b"xh2cx", b" h2c", b"echo HTTP/2.0", b"echo;tls", b'"TLS/1.0"'),
    ],
)
def test_no_upgrade_begins_http_again(protocol: bytes) -> None:
    lines = [(b"Connection", b"upgrade"), (b"Upgrade", protocol)]
    assert upgrade_of(RequestHead(b"GET", b"/", Headers(lines))) is None


@pytest.mark.parametrize("protocol", [b"SPDY/3.1", b"tcp", b"httpx", b"x-tls/1", b"x/h2"])
def test_other_upgrades_may_be_made(protocol: bytes) -> None:
    lines = [(b"Connection", b"upgrade"), (b"Upgrade", protocol)]
    assert upgrade_of(RequestHead(b"GET", b"/", Headers(lines))) == protocol


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [(b"SPDY/3.1", False), (b"a ~", False), (b"\xe9cho", True), (b"a\tb", True), (b"", False)],
)
def test_unprintable_upgrades(protocol: bytes, *, expected: bool) -> None:
    assert has_unprintable_upgrade(Headers([(b"Upgrade", protocol)])) is False
    lines = [(b"Connection", b"upgrade"), (b"Upgrade", protocol)]
    assert has_unprintable_upgrade(Headers(lines)) is expected


@pytest.mark.parametrize(
    ("asked", "named", "expected"),
    [
        pytest.param([b"echo"], [b"echo"], True, id="the same"),
        pytest.param([b"WebSocket"], [b"websocket"], True, id="in other letters"),
        pytest.param([b"echo"], [b"other"], False, id="another one"),
        pytest.param([b"echo"], [], False, id="none"),
        pytest.param([b"echo"], [b""], False, id="an empty one"),
        pytest.param([b"echo"], [b"echo", b"other"], False, id="more than was asked for"),
        pytest.param([b"echo, other"], [b"echo"], False, id="one of two"),
        pytest.param([], [b"echo"], False, id="nothing was asked for"),
        pytest.param([b"h2c"], [b"h2c"], False, id="h2c"),
        pytest.param([b"echo, h2c"], [b"echo, h2c"], False, id="h2c in the list"),
    ],
)
def test_what_a_switch_must_name(asked: list[bytes], named: list[bytes], *, expected: bool) -> None:
    connection = (b"Connection", b"Upgrade")
    wanted = [(b"Upgrade", protocol) for protocol in asked]
    given = [(b"upgrade", protocol) for protocol in named]
    request = RequestHead(b"GET", b"/", Headers([connection, *wanted]))
    assert is_agreed_upgrade(request, ResponseHead(101, b"", Headers([connection, *given]))) is (
        expected
    )
    assert not is_agreed_upgrade(request, ResponseHead(101, b"", Headers(given)))


@pytest.mark.parametrize(
    ("name", "spelled"),
    [
        (b"x-foo", b"X-Foo"),
        (b"ACCEPT", b"Accept"),
        (b"eTAG", b"Etag"),
        (b"x--y-", b"X--Y-"),
        (b"x_y", b"X_y"),
        (b"x-" + b"aB" * 40, b"X-" + b"Ab" + b"ab" * 39),
    ],
)
def test_names_are_spelled_as_go_spells_them(name: bytes, spelled: bytes) -> None:
    assert canonical(name) == spelled

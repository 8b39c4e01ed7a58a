from email.utils import formatdate

import pytest

from pyrbacproxy.http1.framing import CHUNKED, NO_BODY, Framing
from pyrbacproxy.http1.head import Headers, LocalProtocolError, RequestHead, Response, text
from pyrbacproxy.http2.fields import own_fields
from pyrbacproxy.proxy.heads import (
    Destination,
    Heads,
    HttpDate,
    announced_trailers,
    http_date,
    own_response,
    relayed_trailers,
    same_trailers,
)
from tests.proxy.dialogue import DATE, OK, STREAM, length, received

UP = b"up:80"
HOST = (b"Host", b"h")


@pytest.mark.parametrize(
    ("destination", "target", "joined"),
    [
        pytest.param(Destination(UP), b"/a?b", b"/a?b", id="as it is"),
        pytest.param(Destination(UP), b"/a?", b"/a?", id="empty query"),
        pytest.param(Destination(UP, b"/base"), b"/a", b"/base/a", id="base"),
        pytest.param(Destination(UP, b"/base/"), b"/a%2Fb/", b"/base/a%2Fb/", id="one slash"),
        pytest.param(Destination(UP, b"", b"f=1"), b"/a?x=1", b"/a?f=1&x=1", id="both queries"),
        pytest.param(Destination(UP, b"", b"f=1"), b"/a", b"/a?f=1", id="own query"),
        pytest.param(
            Destination(UP, absolute_prefix=b"http://up:80"), b"/a", b"http://up:80/a", id="proxy"
        ),
    ],
)
def test_targets_are_joined(destination: Destination, target: bytes, joined: bytes) -> None:
    assert destination.target(target) == joined


@pytest.mark.parametrize(
    ("method", "lines", "body", "written"),
    [
        pytest.param(b"GET", [HOST], NO_BODY, b"Host: h\r\n", id="no body"),
        pytest.param(b"GET", [], NO_BODY, b"Host: up:80\r\n", id="no host"),
        pytest.param(b"GET", [(b"Host", b"")], NO_BODY, b"Host: up:80\r\n", id="empty host"),
        pytest.param(
            b"POST", [HOST], NO_BODY, b"Host: h\r\nContent-Length: 0\r\n", id="bodyless POST"
        ),
        pytest.param(
            b"GET", [HOST], length(3), b"Host: h\r\nContent-Length: 3\r\n", id="GET with a body"
        ),
        pytest.param(
            b"PUT", [HOST], CHUNKED, b"Host: h\r\nTransfer-Encoding: chunked\r\n", id="chunks"
        ),
    ],
)
def test_request_heads(
    method: bytes, lines: list[tuple[bytes, bytes]], body: Framing, written: bytes
) -> None:
    head = RequestHead(method, b"/", Headers(lines), minor=0)
    assert (
        Heads(Destination(UP)).request(head, body).raw
        == method + b" / HTTP/1.1\r\n" + written + b"\r\n"
    )


def test_a_proxy_is_paid_and_trailers_are_announced() -> None:
    heads = Heads(Destination(UP, proxy_authorization=b"Basic eA=="))
    head = heads.request(
        RequestHead(b"GET", b"/", Headers([HOST])), CHUNKED, announced=Headers([(b"Trailer", b"A")])
    )
    assert head.raw.endswith(b"chunked\r\nTrailer: A\r\nProxy-Authorization: Basic eA==\r\n\r\n")


@pytest.mark.parametrize(
    ("lines", "asks_for_upgrade", "carries_credential"),
    [
        pytest.param([], False, False, id="neither"),
        pytest.param(
            [(b"Connection", b"Upgrade"), (b"Upgrade", b"websocket")], True, False, id="upgrade"
        ),
        pytest.param([(b"authorization", b"Basic eA==")], False, True, id="authorization"),
        pytest.param([(b"Cookie", b"a=b")], False, True, id="cookie"),
        pytest.param([(b"X-Cookie", b"a=b"), (b"X-Upgrade", b"c")], False, False, id="others"),
    ],
)
def test_a_finished_head_knows_what_it_asks_for_and_carries(
    lines: list[tuple[bytes, bytes]], *, asks_for_upgrade: bool, carries_credential: bool
) -> None:
    heads = Heads(Destination(UP, proxy_authorization=b"Basic eA=="))
    head = heads.request(RequestHead(b"GET", b"/", Headers([HOST, *lines])), NO_BODY)
    assert head.asks_for_upgrade == asks_for_upgrade
    assert head.carries_credential == carries_credential, "ours for the egress proxy is none"


def test_trailers_that_would_change_the_message_are_dropped() -> None:
    sent = Headers([(b"X-Sum", b"1"), (b"Transfer-Encoding", b"x"), (b"Host", b"y")])
    assert relayed_trailers(sent, same_trailers).pairs == ((b"X-Sum", b"1"),)
    named = Headers([(b"Trailer", b"x-sum, host"), (b"trailer", b"x-b")])
    assert announced_trailers(named, same_trailers).pairs == ((b"Trailer", b"X-Sum, X-B"),)
    assert not announced_trailers(Headers([(b"Trailer", b"host")]), same_trailers).pairs


@pytest.mark.parametrize(
    ("raw", "method", "minor", "closes", "lines"),
    [
        pytest.param(OK, b"GET", 1, False, [b"Content-Length: 2"], id="length"),
        pytest.param(OK, b"GET", 1, True, [b"Content-Length: 2", b"Connection: close"], id="close"),
        pytest.param(
            OK, b"GET", 0, False, [b"Content-Length: 2", b"Connection: keep-alive"], id="old, kept"
        ),
        pytest.param(OK, b"GET", 0, True, [b"Content-Length: 2"], id="old"),
        pytest.param(STREAM, b"GET", 1, False, [b"Transfer-Encoding: chunked"], id="chunked"),
        pytest.param(STREAM, b"GET", 0, False, [], id="chunked for an old client"),
        pytest.param(OK, b"HEAD", 1, False, [b"Content-Length: 2"], id="HEAD keeps the length"),
        pytest.param(STREAM, b"HEAD", 1, False, [], id="HEAD without a length"),
        pytest.param(
            b"HTTP/1.0 200 OK\r\n\r\n", b"GET", 1, False, [b"Transfer-Encoding: chunked"], id="end"
        ),
        pytest.param(
            b"HTTP/1.1 204 No Content\r\nContent-Length: 4\r\n\r\n", b"GET", 1, False, [], id="204"
        ),
    ],
)
def test_response_heads(
    raw: bytes, method: bytes, minor: int, *, closes: bool, lines: list[bytes]
) -> None:
    made = Heads(Destination(UP)).response(
        received(raw, method), minor=minor, closes=closes, date=DATE
    )
    start, *sent = made.raw.removesuffix(b"\r\n\r\n").split(b"\r\n")
    assert start.startswith(b"HTTP/1.%d " % minor)
    assert set(sent) == {*lines, b"Date: " + DATE}
    assert made.is_chunked == (b"Transfer-Encoding: chunked" in lines)
    assert made.must_close == (minor == 0 and raw is STREAM)


def test_announced_response_trailers_are_announced_again() -> None:
    raw = b"HTTP/1.1 200 OK\r\nTrailer: x-sum\r\nTransfer-Encoding: chunked\r\n\r\n"
    made = Heads(Destination(UP)).response(received(raw), minor=1, closes=False, date=DATE)
    assert b"Trailer: X-Sum\r\n" in made.raw


def test_the_upstreams_date_is_kept() -> None:
    raw = b"HTTP/1.1 200 OK\r\nDate: yesterday\r\nContent-Length: 0\r\n\r\n"
    made = Heads(Destination(UP)).response(received(raw), minor=1, closes=False, date=DATE)
    assert made.raw.count(b"Date:") == 1


def test_what_is_remembered_hangs_on_all_that_it_was_made_of() -> None:
    heads = Heads(Destination(UP))

    def made(raw: bytes = OK, *, method: bytes = b"GET", date: bytes = DATE, minor: int = 1) -> int:
        answer = received(raw, method)
        return id(heads.response(answer, minor=minor, closes=False, date=date))

    first = made()
    assert made() == first
    assert made(method=b"HEAD") != first
    assert made(minor=0) != first
    assert made(date=b"later") != first


def test_few_heads_and_short_ones_are_remembered() -> None:
    heads = Heads(Destination(UP))
    long = b"HTTP/1.1 200 OK\r\nX: %s\r\nContent-Length: 0\r\n\r\n" % (b"x" * 4096)
    for _ in range(2):
        heads.response(received(long), minor=1, closes=False, date=DATE)
    assert not heads._known
    for number in range(33):
        raw = b"HTTP/1.1 200 OK\r\nX: %d\r\nContent-Length: 0\r\n\r\n" % number
        heads.response(received(raw), minor=1, closes=False, date=DATE)
    assert len(heads._known) == 1


def test_a_date_is_made_once_a_second() -> None:
    now = [0.0]
    date = HttpDate(lambda: now[0])
    assert date() == b"Thu, 01 Jan 1970 00:00:00 GMT"
    first = date()
    now[0] = 0.9
    assert date() is first
    now[0] = 1.0
    assert date() == b"Thu, 01 Jan 1970 00:00:01 GMT"


@pytest.mark.parametrize(
    "second",
    [0, 951_782_399, 951_782_400, 1_234_567_890, 1_798_761_599, 4_102_444_800, 253_402_300_799],
)
def test_a_date_is_what_the_standard_library_writes(second: int) -> None:
    for day in range(0, 366, 5):
        at = min(second + 86_400 * day, 253_402_300_799)
        assert http_date(at) == formatdate(at, usegmt=True).encode()


def test_a_switch_names_its_protocol_and_nothing_of_ours() -> None:
    lines = b"connection: upgrade\r\nUPGRADE: echo\r\nContent-Length: 0\r\nA: b"
    raw = b"HTTP/1.1 101 X\r\n" + lines + b"\r\n\r\n"
    relayed = Heads(Destination(UP)).response(received(raw), minor=1, closes=False, date=DATE)
    assert relayed.raw == (
        b"HTTP/1.1 101 X\r\nA: b\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"
    )
    assert not relayed.is_chunked
    assert not relayed.must_close


# --- answers of our own ---------------------------------------------------------------


def test_a_whole_response() -> None:
    written = own_response(text(401, "Unauthorized\n"), date=DATE, is_head=False, closes=False)
    assert written == (
        b"HTTP/1.1 401 Unauthorized\r\nContent-Type: text/plain; charset=utf-8\r\n"
        b"X-Content-Type-Options: nosniff\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n"
        b"Content-Length: 13\r\n\r\nUnauthorized\n"
    )


def test_the_answer_to_head_has_the_length_but_not_the_body() -> None:
    written = own_response(Response(200, body=b"abc"), date=DATE, is_head=True, closes=False)
    assert written.endswith(b"\r\nContent-Length: 3\r\n\r\n")


@pytest.mark.parametrize("status", [101, 204, 304])
def test_a_status_without_body_has_no_length_either(status: int) -> None:
    written = own_response(Response(status, body=b"abc"), date=DATE, is_head=False, closes=False)
    assert b"Content-Length" not in written
    assert written.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("closes", "minor", "line"),
    [
        (True, 1, b"Connection: close\r\n"),
        (True, 0, b"Connection: close\r\n"),
        (False, 0, b"Connection: keep-alive\r\n"),
    ],
)
def test_what_becomes_of_the_connection_is_said_where_it_is_not_understood(
    *, closes: bool, minor: int, line: bytes
) -> None:
    written = own_response(Response(400), date=DATE, is_head=False, closes=closes, minor=minor)
    assert written.startswith(b"HTTP/1.%d 400 Bad Request\r\n" % minor)
    assert line in written


@pytest.mark.parametrize("bad", [b"\r", b"\n", b"\0"])
def test_an_answer_of_our_own_lets_no_line_end_through(bad: bytes) -> None:
    response = Response(200, Headers([(b"A", b"x" + bad)]))
    with pytest.raises(LocalProtocolError):
        own_response(response, date=DATE, is_head=False, closes=False)


def test_both_versions_have_the_same_lines_of_an_answer_of_our_own() -> None:
    response = text(403, "Forbidden\n", (b"X-A", b"1"))
    written = own_response(response, date=DATE, is_head=True, closes=False)
    lines = [tuple(line.split(b": ", 1)) for line in written.split(b"\r\n")[1:-2]]
    fields = own_fields(response, DATE)
    assert fields[0] == (b":status", b"403")
    assert fields[1:] == [(name.lower(), value) for name, value in lines]

"""Invariant: any bytes are refused with a status of ours or make one unambiguous head."""

import httptools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrbacproxy.http1 import writer
from pyrbacproxy.http1.framing import CHUNKED, NO_BODY, UNTIL_CLOSE, Framing, Kind
from pyrbacproxy.http1.head import Headers, RemoteProtocolError, RequestHead, ResponseHead
from pyrbacproxy.http1.parser import METHODS, read_request, read_response
from pyrbacproxy.http1.target import Form

HEAD = b"GET / HTTP/1.1\r\nHost: h\r\n%s\r\n\r\n"


@pytest.mark.parametrize(
    ("head", "status"),
    [
        pytest.param(b"this is not HTTP\r\n\r\n", 400, id="garbage"),
        pytest.param(b"\r\n\r\n\r\n", 400, id="nothing but line ends"),
        pytest.param(b"\n\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", 400, id="bare LF before"),
        pytest.param(b"GET / HTTP/3.0\r\nHost: h\r\n\r\n", 505, id="HTTP/3.0"),
        pytest.param(b"GET / HTTP/2.0\r\nHost: h\r\n\r\n", 505, id="HTTP/2.0"),
        pytest.param(b"GET / HTTP/0.9\r\nHost: h\r\n\r\n", 505, id="HTTP/0.9"),
        pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, id="HTTP/2 preface"),
        pytest.param(b"GET / HTTP/1.2\r\nHost: h\r\n\r\n", 400, id="HTTP/1.2"),
        pytest.param(b"GET / HTTP/x.y\r\nHost: h\r\n\r\n", 400, id="HTTP/x.y"),
        pytest.param(b"GET / HTTP/1.10\r\nHost: h\r\n\r\n", 400, id="HTTP/1.10"),
        pytest.param(b"GET / http/1.1\r\nHost: h\r\n\r\n", 400, id="http/1.1"),
        pytest.param(b"GET / RTSP/1.0\r\nHost: h\r\n\r\n", 400, id="RTSP"),
        pytest.param(b"SOURCE / ICE/1.0\r\nHost: h\r\n\r\n", 400, id="ICE"),
        pytest.param(b"GET /\r\nHost: h\r\n\r\n", 400, id="no version"),
        pytest.param(b"GET  / HTTP/1.1\r\nHost: h\r\n\r\n", 400, id="two blanks"),
        pytest.param(b"GET / HTTP/1.1 \r\nHost: h\r\n\r\n", 400, id="blank at the end"),
        pytest.param(b" GET / HTTP/1.1\r\nHost: h\r\n\r\n", 400, id="blank at the start"),
        pytest.param(b"GET /a b HTTP/1.1\r\nHost: h\r\n\r\n", 400, id="blank in the target"),
        pytest.param(b"GET /\tx HTTP/1.1\r\nHost: h\r\n\r\n", 400, id="tab in the target"),
        pytest.param(b"GET /\xc3 HTTP/1.1\r\nHost: h\r\n\r\n", 400, id="high byte in the target"),
        pytest.param(b"GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n", 400, id="bad escape"),
        pytest.param(b"GET metrics HTTP/1.1\r\nHost: h\r\n\r\n", 400, id="relative target"),
        pytest.param(b"GE(T / HTTP/1.1\r\nHost: h\r\n\r\n", 400, id="no token"),
        pytest.param(b"get / HTTP/1.1\r\nHost: h\r\n\r\n", 501, id="lower case"),
        pytest.param(b"BREW / HTTP/1.1\r\nHost: h\r\n\r\n", 501, id="unknown method"),
        pytest.param(b"DESCRIBE / HTTP/1.1\r\nHost: h\r\n\r\n", 501, id="RTSP's method"),
        pytest.param(b"PRI / HTTP/1.1\r\nHost: h\r\n\r\n", 501, id="HTTP/2's method"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", 400, id="no Host"),
        pytest.param(HEAD % b"Host: i", 400, id="two Hosts"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400, id="malformed Host"),
        pytest.param(HEAD % b"broken", 400, id="no colon"),
        pytest.param(HEAD % b"A: one\r\n two", 400, id="folded"),
        pytest.param(HEAD % b"A : b", 400, id="blank before the colon"),
        pytest.param(HEAD % b"A: a\0b", 400, id="NUL"),
        pytest.param(HEAD % b"A: a\rb", 400, id="bare CR"),
        pytest.param(b"GET / HTTP/1.1\nHost: h\nX-A: 1\n\n\r", 400, id="bare LF, no blank line"),
        pytest.param(HEAD % b"A: b\n\nGET / HTTP/1.1", 400, id="head ended by bare LF"),
        pytest.param(HEAD % b"Content-Length: 3\r\nContent-Length: 3", 400, id="equal lengths"),
        pytest.param(HEAD % b"Content-Length: 4\r\nTransfer-Encoding: chunked", 400, id="both"),
        pytest.param(HEAD % b"Transfer-Encoding: gzip, chunked", 501, id="gzip"),
        pytest.param(HEAD % b"Transfer-Encoding: identity", 501, id="identity"),
        pytest.param(HEAD % b"Transfer-Encoding: \x0bchunked", 400, id="disguised coding"),
        pytest.param(
            b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400, id="chunked in 1.0"
        ),
        pytest.param(HEAD % b"Expect: banana", 417, id="expectation"),
        pytest.param(b"GET /%s HTTP/1.1\r\nHost: h\r\n\r\n" % (b"a" * 65_536), 431, id="long path"),
        *(
            pytest.param(HEAD % (name + b": a" + b",a" * 1000), 400, id=f"long list {name!r}")
            for name in (b"Connection", b"TE", b"Trailer", b"Expect", b"Sec-WebSocket-Protocol")
        ),
        pytest.param(
            HEAD % (b"Connection: a" + b",a" * 500 + b"\r\nConnection: a" + b",a" * 500),
            400,
            id="long list in two lines",
        ),
        pytest.param(HEAD % b"Expect: 100-continue, banana", 417, id="one of two expectations"),
        pytest.param(
            HEAD % b"Connection: Upgrade\r\nUpgrade: \xe9cho\r\nContent-Length: 3",
            400,
            id="unprintable upgrade, body",
        ),
        pytest.param(
            HEAD % b"Connection: upgrade\r\nUpgrade: h2c\r\nContent-Length: 3", 400, id="h2c, body"
        ),
        pytest.param(
            HEAD % b"Connection: upgrade\r\nUpgrade: a, h2c\r\nTransfer-Encoding: chunked",
            400,
            id="h2c in a list, chunked body",
        ),
        pytest.param(
            b"POST / HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: a\r\nContent-Length: 3\r\n\r\n",
            400,
            id="upgrade in HTTP/1.0, body",
        ),
    ],
)
def test_refused_requests(head: bytes, status: int) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        read_request(head)
    assert caught.value.status == status


def test_long_paths_lists_and_values_below_the_bounds_pass() -> None:
    long_path = b"/" + b"a" * 65_535
    lines = b"Connection: a" + b",a" * 999 + b"\r\nAuthorization: Bearer " + b"x," * 50_000
    query = b"a" * 900_000
    raw = b"GET %s?%s HTTP/1.1\r\nHost: h\r\n%s\r\n\r\n" % (long_path, query, lines)
    head, target, _, _ = read_request(raw)
    assert (target.raw_path, target.raw_query) == (long_path, query)
    assert len(head.headers) == 3


def test_a_request() -> None:
    head, target, framing, may_switch = read_request(
        b"POST http://h/a?b HTTP/1.0\r\nx-A: 1\r\nContent-Length: 3\r\n\r\n"
    )
    headers = Headers([(b"x-A", b"1"), (b"Content-Length", b"3")])
    assert head == RequestHead(b"POST", b"http://h/a?b", headers, minor=0)
    assert (target.form, target.path, target.authority) == (Form.ABSOLUTE, "/a", b"h")
    assert framing == Framing(Kind.LENGTH, 3)
    assert not may_switch


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        pytest.param(HEAD % b"A: b", False, id="nothing"),
        pytest.param(HEAD % b"Upgrade: echo", False, id="not in Connection"),
        pytest.param(HEAD % b"Connection: upgrade\r\nUpgrade: echo", True, id="upgrade"),
        pytest.param(
            HEAD % b"Connection: upgrade\r\nUpgrade: echo\r\nContent-Length: 3",
            True,
            id="upgrade with a body",
        ),
        pytest.param(HEAD % b"Connection: upgrade\r\nUpgrade: h2c", False, id="h2c"),
        pytest.param(HEAD % b"Connection: upgrade\r\nUpgrade: \xe9cho", False, id="unprintable"),
        pytest.param(
            HEAD % b"Connection: upgrade\r\nUpgrade: h2c\r\nContent-Length: 0",
            False,
            id="h2c without body",
        ),
        pytest.param(b"CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n", True, id="CONNECT"),
        pytest.param(b"CONNECT /m HTTP/1.1\r\nHost: h\r\n\r\n", True, id="CONNECT a path"),
    ],
)
def test_who_asks_for_a_tunnel(*, head: bytes, expected: bool) -> None:
    assert read_request(head)[3] is expected


@pytest.mark.parametrize("value", [b"100-continue", b"100-Continue", b""])
def test_expectations_that_can_be_met(value: bytes) -> None:
    assert read_request(HEAD % (b"Expect: " + value))[2] is NO_BODY


@pytest.mark.parametrize(("lines", "is_refused"), [(499, False), (500, True)])
def test_the_line_limit_from_both_sides(*, lines: int, is_refused: bool) -> None:
    # Host is the five hundredth.
    head = b"GET / HTTP/1.1\r\nHost: h\r\n" + b"A:\r\n" * lines + b"\r\n"
    if not is_refused:
        assert len(read_request(head)[0].headers) == 500
        return
    with pytest.raises(RemoteProtocolError) as caught:
        read_request(head)
    assert caught.value.status == 431


def test_the_methods_are_those_that_llhttp_knows_for_http() -> None:
    class Nothing:
        pass

    def is_known(method: bytes) -> bool:
        try:
            httptools.HttpRequestParser(Nothing()).feed_data(method + b" / HTTP/1.1\r\n\r\n")
        except httptools.HttpParserUpgrade:
            return True
        except httptools.HttpParserError:
            return False
        return True

    rtsp = b"DESCRIBE ANNOUNCE SETUP PLAY PAUSE TEARDOWN GET_PARAMETER SET_PARAMETER RECORD FLUSH"
    assert [method for method in METHODS if not is_known(method)] == []
    assert [method for method in rtsp.split() if is_known(method)] == []
    assert METHODS.isdisjoint(rtsp.split())


HEADS = st.lists(
    st.sampled_from(
        [
            b"GET /a HTTP/1.1\r\n",
            b"CONNECT h HTTP/1.1\r\n",
            b"GET /a HTTP/1.0\r\n",
            b"Host: h\r\n",
            b"Content-Length: 3\r\n",
            b"Transfer-Encoding: chunked\r\n",
            b"X: \xff \r\n",
            b"Connection: upgrade\r\nUpgrade: a\r\n",
            b" ",
            b":",
            b"\r",
            b"\n",
            b"\0",
        ]
    ),
    max_size=6,
).map(lambda pieces: b"".join(pieces) + b"\r\n")


@given(HEADS | st.binary(max_size=40))
def test_a_head_is_refused_or_reads_the_same_when_written_again(raw: bytes) -> None:
    try:
        read = read_request(raw)
    except RemoteProtocolError as fault:
        status = fault.status
    else:
        assert read_request(writer.request_head(read[0])) == read
        return
    assert status in {400, 417, 431, 501, 505}


# --- responses ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "method", "head", "framing"),
    [
        pytest.param(
            b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n",
            b"GET",
            ResponseHead(200, b"OK", Headers([(b"A", b"b")])),
            UNTIL_CLOSE,
            id="until close",
        ),
        pytest.param(
            b"HTTP/1.0 200\r\nA: b\r\n\r\n",
            b"GET",
            ResponseHead(200, b"", Headers([(b"A", b"b")]), minor=0),
            UNTIL_CLOSE,
            id="no reason",
        ),
        pytest.param(
            b"HTTP/1.1 418 I'm a \xe9\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"GET",
            ResponseHead(418, b"I'm a \xe9", Headers([(b"Transfer-Encoding", b"chunked")])),
            CHUNKED,
            id="chunked, high bytes in the reason",
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n",
            b"HEAD",
            ResponseHead(200, b"OK", Headers([(b"Content-Length", b"9")])),
            NO_BODY,
            id="HEAD",
        ),
        pytest.param(
            b"HTTP/1.1 100 Continue\r\n\r\n",
            b"GET",
            ResponseHead(100, b"Continue", Headers()),
            None,
            id="interim",
        ),
        pytest.param(
            b"HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: a\r\n\r\n",
            b"GET",
            ResponseHead(101, b"X", Headers([(b"Connection", b"upgrade"), (b"Upgrade", b"a")])),
            NO_BODY,
            id="switch",
        ),
    ],
)
def test_responses(raw: bytes, method: bytes, head: ResponseHead, framing: Framing | None) -> None:
    assert read_response(raw, method) == (head, framing)


@pytest.mark.parametrize(
    "line",
    [
        b"HTTP/3.7 200 OK",
        b"HTTP/1.2 200 OK",
        b"HTTP/1.1 2x0 OK",
        b"HTTP/1.1 20 OK",
        b"HTTP/1.1 2000 OK",
        b"HTTP/1.1 099 OK",
        b"HTTP/1.1  200 OK",
        b"HTTP/1.1 200 O\0K",
        b"HTTP/1.1",
        b"RTSP/1.0 200 OK",
        b"",
    ],
)
def test_malformed_status_lines(line: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        read_response(line + b"\r\nA: b\r\n\r\n", b"GET")

import pytest

from pyrbacproxy.http1.head import (
    Headers,
    LocalProtocolError,
    RequestHead,
    ResponseHead,
)
from pyrbacproxy.http1.writer import (
    chunk,
    last_chunk,
    own_request,
    own_response_head,
    request_head,
    response_head,
)


def test_a_request_head() -> None:
    head = RequestHead(b"GET", b"/a?b", Headers([(b"Host", b"h"), (b"X-Bytes", b"\xe9\xff")]))
    assert request_head(head) == b"GET /a?b HTTP/1.1\r\nHost: h\r\nX-Bytes: \xe9\xff\r\n\r\n"
    assert request_head(RequestHead(b"GET", b"/", Headers(), 0)) == b"GET / HTTP/1.0\r\n\r\n"


def test_a_request_of_our_own_says_what_it_takes() -> None:
    assert own_request(b"GET", b"/a", b"h:1", (b"Connection", b"close")) == (
        b"GET /a HTTP/1.1\r\nHost: h:1\r\nAccept: application/json\r\n"
        b"Accept-Encoding: identity\r\nUser-Agent: pyrbacproxy\r\nConnection: close\r\n\r\n"
    )


def test_a_response_head() -> None:
    head = ResponseHead(200, b"OK", Headers([(b"A", b""), (b"a", b"2")]))
    assert response_head(head) == b"HTTP/1.1 200 OK\r\nA: \r\na: 2\r\n\r\n"
    assert response_head(ResponseHead(299, b"", Headers(), 0)) == b"HTTP/1.0 299 \r\n\r\n"


@pytest.mark.parametrize("bad", [b"\r", b"\n", b"\0", b"\r\n", b"\r\nX-Injected: yes"])
def test_nothing_that_could_end_a_line_gets_out(bad: bytes) -> None:
    for headers in (Headers([(b"A", b"x" + bad)]), Headers([(b"A" + bad, b"x")])):
        with pytest.raises(LocalProtocolError):
            request_head(RequestHead(b"GET", b"/", headers))
        with pytest.raises(LocalProtocolError):
            response_head(ResponseHead(200, b"OK", headers))
        with pytest.raises(LocalProtocolError):
            last_chunk(headers)
        with pytest.raises(LocalProtocolError):
            own_response_head(200, [*headers], minor=1)
    with pytest.raises(LocalProtocolError):
        request_head(RequestHead(b"GET", b"/" + bad, Headers()))
    with pytest.raises(LocalProtocolError):
        response_head(ResponseHead(200, b"OK" + bad, Headers()))


@pytest.mark.parametrize(
    ("method", "target"), [(b"GET", b""), (b"GET", b"/a b"), (b"", b"/"), (b"GET /x", b"/")]
)
def test_no_request_line_reads_as_another(method: bytes, target: bytes) -> None:
    with pytest.raises(LocalProtocolError):
        request_head(RequestHead(method, target, Headers()))


def test_chunks() -> None:
    assert chunk(b"abc") == b"3\r\nabc\r\n"
    assert chunk(b"x" * 26) == b"1a\r\n" + b"x" * 26 + b"\r\n"
    assert chunk(b"") == b""


def test_last_chunks() -> None:
    assert last_chunk() == b"0\r\n\r\n"
    assert last_chunk(Headers()) == b"0\r\n\r\n"
    assert last_chunk(Headers([(b"X-Sum", b"1"), (b"X-B", b"2")])) == (
        b"0\r\nX-Sum: 1\r\nX-B: 2\r\n\r\n"
    )


@pytest.mark.parametrize("minor", [0, 1])
def test_the_head_of_an_own_response_has_the_standard_phrase(minor: int) -> None:
    written = own_response_head(404, [(b"A", b"b")], minor=minor)
    assert written == b"HTTP/1.%d 404 Not Found\r\nA: b\r\n\r\n" % minor

"""Invariant: however a chunked body is cut into reads, data, trailers and end are the same."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrbacproxy.http1.head import Headers, RemoteProtocolError
from pyrbacproxy.http1.parser import ChunkedBody, request_head_lines, response_lines

REQUEST = b"POST / HTTP/1.1\r\nHost: h\r\n%s\r\n\r\n"
RESPONSE = b"HTTP/1.1 200 OK\r\n%s\r\n\r\n"


@pytest.mark.parametrize(
    ("line", "pair"),
    [
        pytest.param(b"A: b", (b"A", b"b"), id="plain"),
        pytest.param(b"A:b", (b"A", b"b"), id="no blank"),
        pytest.param(b"A: \t  a  b \t ", (b"A", b"a  b"), id="blanks around are off"),
        pytest.param(b"A:", (b"A", b""), id="empty"),
        pytest.param(b"X-Bytes: \xe9\xff\x80", (b"X-Bytes", b"\xe9\xff\x80"), id="high bytes"),
        pytest.param(b"x_y!#$%&'*+.^`|~: 1", (b"x_y!#$%&'*+.^`|~", b"1"), id="every token byte"),
    ],
)
def test_lines(line: bytes, pair: tuple[bytes, bytes]) -> None:
    assert request_head_lines(REQUEST % line) == Headers([(b"Host", b"h"), pair])
    assert response_lines(RESPONSE % line) == Headers([pair])


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"broken", id="no colon"),
        pytest.param(b"A : b", id="blank before the colon"),
        pytest.param(b"A B: c", id="blank in the name"),
        pytest.param(b" A: b", id="blank before the name"),
        pytest.param(b": b", id="no name"),
        pytest.param(b"A\xe9: b", id="high byte in the name"),
        pytest.param(b"A: b\r\n c", id="folded"),
        pytest.param(b"A: b\r\n\tc", id="folded with a tab"),
        pytest.param(b"A: a\0b", id="NUL"),
        pytest.param(b"A: a\rb", id="bare CR"),
        pytest.param(b"A: a\nB: b", id="bare LF"),
        pytest.param(b"A: a\x0bb", id="vertical tab"),
        pytest.param(b"A: a\x7fb", id="delete"),
        pytest.param(b"Transfer-Encoding: \x0bchunked", id="disguised coding"),
        pytest.param(b"Content-Length: 3\r\nContent-Length: 3", id="equal lengths"),
        pytest.param(b"Content-Length: 3\r\nContent-Length: 4", id="two lengths"),
        pytest.param(b"Content-Length: +3", id="sign"),
        pytest.param(b"Content-Length: 99999999999999999999", id="beyond 64 bits"),
        pytest.param(b"Content-Length: 3\r\nTransfer-Encoding: chunked", id="length and coding"),
        pytest.param(b"\n", id="blank line with a bare LF"),
    ],
)
def test_refused_lines(line: bytes) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        request_head_lines(REQUEST % line)
    assert caught.value.status == 400
    with pytest.raises(RemoteProtocolError):
        response_lines(RESPONSE % line)


@pytest.mark.parametrize("coding", [b"identity", b"xchunked", b"gzip"])
def test_a_coding_that_llhttp_cannot_frame_is_not_implemented(coding: bytes) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        request_head_lines(REQUEST % (b"Transfer-Encoding: " + coding))
    assert caught.value.status == 501


def test_an_upgrade_is_a_head_like_any_other() -> None:
    head = REQUEST % b"Connection: upgrade\r\nUpgrade: echo\r\nContent-Length: 3"
    assert request_head_lines(head).get(b"content-length") == b"3"
    assert request_head_lines(b"CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n").get(b"host") == b"h"
    switch = b"HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n"
    assert response_lines(switch).get(b"upgrade") == b"echo"


@pytest.mark.parametrize("line", [b"Upgrade: echo", b"Connection: upgrade", b"A: b"])
def test_a_switch_that_does_not_say_to_what_is_refused(line: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        response_lines(b"HTTP/1.1 101 X\r\n" + line + b"\r\n\r\n")


def test_a_head_that_does_not_end_is_no_head() -> None:
    with pytest.raises(RemoteProtocolError, match="does not end"):
        request_head_lines(b"GET / HTTP/1.1\r\nHost: h\r\n")


def read(body: ChunkedBody, pieces: list[bytes]) -> tuple[bytes, bytes]:
    """The data, and what is left behind the end."""
    data = b""
    rest = b""
    for piece in pieces:
        if body.is_complete or body.fault:
            rest += piece
            continue
        found, position = body.feed(piece, 0)
        data += found
        rest += piece[position:]
    return data, rest


@pytest.mark.parametrize(
    ("sent", "data", "trailers"),
    [
        pytest.param(b"0\r\n\r\n", b"", [], id="empty"),
        pytest.param(b"3\r\nabc\r\n0\r\n\r\n", b"abc", [], id="one chunk"),
        pytest.param(b"3\r\nabc\r\n00a\r\n0123456789\r\n0\r\n\r\n", b"abc0123456789", [], id="two"),
        pytest.param(b"3;x=1\r\nabc\r\n0;y\r\n\r\n", b"abc", [], id="extensions"),
        pytest.param(b"A\r\n\r\n\r\n\r\n\r\n\r\n\r\n0\r\n\r\n", b"\r\n" * 5, [], id="blank lines"),
        pytest.param(b"5\r\n0\r\n\r\n\r\n0\r\n\r\n", b"0\r\n\r\n", [], id="a false end"),
        pytest.param(
            b"1\r\na\r\n0\r\nX-Sum: \t1 \r\nx: y\r\n\r\n",
            b"a",
            [(b"X-Sum", b"1"), (b"x", b"y")],
            id="trailers",
        ),
    ],
)
def test_chunked_bodies(sent: bytes, data: bytes, trailers: list[tuple[bytes, bytes]]) -> None:
    for behind in (b"", b"GET / HTTP/1.1\r\n\r\n", b"\r\n\r\n", b"\n"):
        stream = sent + behind
        for pieces in ([stream], [stream[i : i + 1] for i in range(len(stream))]):
            body = ChunkedBody()
            assert read(body, pieces) == (data, behind)
            assert body.is_complete
            assert body.fault is None
            assert body.trailers == Headers(trailers)


@given(
    st.lists(st.text("\r\n0a:", min_size=1, max_size=9).map(str.encode), max_size=4),
    st.lists(st.integers(0, 80), max_size=5),
)
def test_cuts_do_not_matter(chunks: list[bytes], cuts: list[int]) -> None:
    sent = (
        b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\nA: b\r\n\r\n"
    )
    stream = sent + b"next"
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    pieces = [stream[a:b] for a, b in pairwise(edges)]
    body = ChunkedBody()
    assert read(body, pieces) == (b"".join(chunks), b"next")
    assert body.trailers == Headers([(b"A", b"b")])


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"zz\r\n", id="no number"),
        pytest.param(b"-1\r\n", id="sign"),
        pytest.param(b"0x1\r\na\r\n", id="prefix"),
        pytest.param(b"\r\n", id="no size"),
        pytest.param(b"2\nab\r\n0\r\n\r\n", id="bare LF behind a size"),
        pytest.param(b"2;\nxx\r\nab\r\n0\r\n\r\n", id="bare LF in an extension"),
        pytest.param(b"2;a=b\nc\r\nab\r\n0\r\n\r\n", id="bare LF in an extension's value"),
        pytest.param(b"2\r\nabc\r\n", id="more than the size"),
        pytest.param(b"2\r\nab\n0\r\n\r\n", id="bare LF behind data"),
        pytest.param(b"11111111111111111\r\n", id="beyond 64 bits"),
        pytest.param(b"0\r\nA : b\r\n\r\n", id="malformed trailer"),
        pytest.param(b"0\r\nA: b\n\r\n\r\n", id="bare LF in a trailer"),
        pytest.param(b"0\r\nContent-Length: 9\r\n\r\n", id="trailer that frames"),
        pytest.param(b"0\r\nTransfer-Encoding: chunked\r\n\r\n", id="trailer that codes"),
    ],
)
def test_malformed_chunks(sent: bytes) -> None:
    for pieces in ([sent], [sent[i : i + 1] for i in range(len(sent))]):
        body = ChunkedBody()
        read(body, pieces)
        assert body.fault is not None
        assert body.fault.status == 400
        assert not body.is_complete


def test_data_before_a_fault_is_given() -> None:
    body = ChunkedBody()
    assert body.feed(b"3\r\nabc\r\nzz\r\n", 0)[0] == b"abc"
    assert body.fault is not None


def test_what_is_no_data_is_bounded() -> None:
    body = ChunkedBody()
    body.feed(b"1;" + b"x" * 16_382, 0)
    assert body.fault is None
    body.feed(b"x", 0)
    assert body.fault is not None


def test_what_is_no_data_is_bounded_in_trailers_too() -> None:
    body = ChunkedBody()
    body.feed(b"0\r\n", 0)
    body.feed(b"A:" + b"x" * 16_379, 0)
    assert body.fault is None
    body.feed(b"x", 0)
    assert body.fault is not None


def test_small_chunks_are_no_fault() -> None:
    body = ChunkedBody()
    for _ in range(10_000):
        assert body.feed(b"1\r\na\r\n", 0) == (b"a", 6)
    assert body.feed(b"1\r\na\r\n" * 10_000, 0) == (b"a" * 10_000, 60_000)
    assert body.fault is None

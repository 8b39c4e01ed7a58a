"""Invariant: a message is framed by exactly one canonical line, or by none, or it is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrbacproxy.http1.framing import (
    CHUNKED,
    NO_BODY,
    UNTIL_CLOSE,
    Framing,
    Kind,
    request_framing,
    request_lines,
    response_framing,
    response_lines,
)
from pyrbacproxy.http1.head import Headers, RemoteProtocolError, RequestHead, ResponseHead

CL = b"Content-Length"
TE = b"Transfer-Encoding"


def request(*lines: tuple[bytes, bytes], minor: int = 1) -> RequestHead:
    return RequestHead(b"POST", b"/", Headers(lines), minor)


def response(*lines: tuple[bytes, bytes], status: int = 200, minor: int = 1) -> ResponseHead:
    return ResponseHead(status, b"", Headers(lines), minor)


@pytest.mark.parametrize(
    ("lines", "framing"),
    [
        pytest.param([], NO_BODY, id="none"),
        pytest.param([(CL, b"0")], Framing(Kind.LENGTH, 0), id="length zero"),
        pytest.param([(CL, b"7")], Framing(Kind.LENGTH, 7), id="length"),
        pytest.param([(CL, b"007")], Framing(Kind.LENGTH, 7), id="leading zeros"),
        pytest.param([(CL, b"9" * 18)], Framing(Kind.LENGTH, 10**18 - 1), id="18 digits"),
        pytest.param([(TE, b"chunked")], CHUNKED, id="chunked"),
        pytest.param([(TE, b"Chunked")], CHUNKED, id="chunked, any case"),
    ],
)
def test_framings(lines: list[tuple[bytes, bytes]], framing: Framing) -> None:
    assert request_framing(request(*lines)) == framing
    expected = UNTIL_CLOSE if framing is NO_BODY else framing
    assert response_framing(response(*lines), b"GET") == expected


@pytest.mark.parametrize(
    ("lines", "minor", "status"),
    [
        pytest.param([(CL, b"4"), (TE, b"chunked")], 1, 400, id="both"),
        pytest.param([(TE, b"chunked"), (CL, b"4")], 1, 400, id="both, the other way round"),
        pytest.param([(TE, b"chunked")], 0, 400, id="chunked in HTTP/1.0"),
        pytest.param([(CL, b"3"), (CL, b"4")], 1, 400, id="two lengths"),
        pytest.param([(CL, b"3"), (CL, b"3")], 1, 400, id="equal lengths"),
        pytest.param([(CL, b"3, 3")], 1, 400, id="a list"),
        pytest.param([(CL, b"")], 1, 400, id="empty"),
        pytest.param([(CL, b"+3")], 1, 400, id="plus"),
        pytest.param([(CL, b"-1")], 1, 400, id="minus"),
        pytest.param([(CL, b"0x3")], 1, 400, id="hexadecimal"),
        pytest.param([(CL, b"1_0")], 1, 400, id="underscore"),
        pytest.param([(CL, b"\xb2")], 1, 400, id="superscript two"),
        pytest.param([(CL, b"3 ")], 1, 400, id="blank"),
        pytest.param([(CL, b"1" + b"0" * 18)], 1, 400, id="19 digits"),
        pytest.param([(TE, b"chunked"), (TE, b"chunked")], 1, 501, id="chunked twice"),
        pytest.param([(TE, b"chunked, chunked")], 1, 501, id="chunked twice in a line"),
        pytest.param([(TE, b"gzip, chunked")], 1, 501, id="gzip"),
        pytest.param([(TE, b"identity")], 1, 501, id="identity"),
        pytest.param([(TE, b"xchunked")], 1, 501, id="xchunked"),
        pytest.param([(TE, b"\x0bchunked")], 1, 501, id="vertical tab"),
        pytest.param([(TE, b", chunked")], 1, 501, id="empty member"),
        pytest.param([(TE, b"")], 1, 501, id="empty coding"),
        pytest.param([(TE, b"chunked;x=1")], 1, 501, id="parameter"),
    ],
)
def test_refused_framings(lines: list[tuple[bytes, bytes]], minor: int, status: int) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        request_framing(request(*lines, minor=minor))
    assert caught.value.status == status
    with pytest.raises(RemoteProtocolError):
        response_framing(response(*lines, minor=minor), b"GET")


@pytest.mark.parametrize("lines", [[], [(CL, b"4")], [(TE, b"chunked")], [(TE, b"gzip")]])
@pytest.mark.parametrize(
    ("method", "status"),
    [(b"HEAD", 200), (b"GET", 204), (b"GET", 304), (b"GET", 100), (b"GET", 101), (b"GET", 103)],
)
def test_responses_without_body_by_nature(
    method: bytes, status: int, lines: list[tuple[bytes, bytes]]
) -> None:
    assert response_framing(response(*lines, status=status), method) is NO_BODY


VALUES = st.sampled_from([b"", b"0", b"3", b"+3", b"3,3", b"chunked", b"Chunked", b"gzip", b"a"])


@given(
    st.lists(st.tuples(st.sampled_from([CL, TE, b"content-length", b"X"]), VALUES), max_size=4),
    st.sampled_from([0, 1]),
)
def test_one_canonical_line_or_none_or_a_refusal(
    lines: list[tuple[bytes, bytes]], minor: int
) -> None:
    try:
        framing = request_framing(request(*lines, minor=minor))
    except RemoteProtocolError:
        return
    said = [(name.lower(), value.lower()) for name, value in lines if name != b"X"]
    assert len(said) <= 1
    again = [(name.lower(), value) for name, value in request_lines(framing, b"GET")]
    assert again == said


@pytest.mark.parametrize(
    ("framing", "has_body"),
    [
        (NO_BODY, False),
        (Framing(Kind.LENGTH, 0), False),
        (Framing(Kind.LENGTH, 1), True),
        (CHUNKED, True),
        (UNTIL_CLOSE, True),
    ],
)
def test_whether_bytes_are_to_come(*, framing: Framing, has_body: bool) -> None:
    assert framing.has_body is has_body


@pytest.mark.parametrize(
    ("framing", "method", "lines"),
    [
        (NO_BODY, b"GET", ()),
        (NO_BODY, b"DELETE", ()),
        (NO_BODY, b"POST", ((CL, b"0"),)),
        (NO_BODY, b"PUT", ((CL, b"0"),)),
        (NO_BODY, b"PATCH", ((CL, b"0"),)),
        (Framing(Kind.LENGTH, 0), b"GET", ((CL, b"0"),)),
        (Framing(Kind.LENGTH, 7), b"GET", ((CL, b"7"),)),
        (CHUNKED, b"POST", ((TE, b"chunked"),)),
    ],
)
def test_lines_towards_the_upstream(
    framing: Framing, method: bytes, lines: tuple[tuple[bytes, bytes], ...]
) -> None:
    assert request_lines(framing, method) == lines


@pytest.mark.parametrize(
    ("framing", "head", "can_chunk", "lines"),
    [
        pytest.param(Framing(Kind.LENGTH, 7), response(), True, ((CL, b"7"),), id="length"),
        pytest.param(CHUNKED, response(), True, ((TE, b"chunked"),), id="chunked"),
        pytest.param(UNTIL_CLOSE, response(), True, ((TE, b"chunked"),), id="until close"),
        pytest.param(CHUNKED, response(), False, (), id="chunked for HTTP/1.0"),
        pytest.param(UNTIL_CLOSE, response(), False, (), id="until close for HTTP/1.0"),
        pytest.param(NO_BODY, response((CL, b"1234")), True, ((CL, b"1234"),), id="HEAD"),
        pytest.param(NO_BODY, response(), True, (), id="HEAD without length"),
        pytest.param(NO_BODY, response((TE, b"chunked")), True, (), id="HEAD, chunked"),
        pytest.param(NO_BODY, response((CL, b"1"), (CL, b"1")), True, (), id="HEAD, doubled"),
        pytest.param(NO_BODY, response((CL, b"77"), status=304), True, ((CL, b"77"),), id="304"),
        pytest.param(NO_BODY, response((CL, b"4"), status=204), True, (), id="204"),
        pytest.param(NO_BODY, response((CL, b"4"), status=101), True, (), id="101"),
    ],
)
def test_lines_towards_the_client(
    *,
    framing: Framing,
    head: ResponseHead,
    can_chunk: bool,
    lines: tuple[tuple[bytes, bytes], ...],
) -> None:
    assert response_lines(framing, head, can_chunk=can_chunk) == lines

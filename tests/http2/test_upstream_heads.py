import pytest

from pyrbacproxy.http1.framing import CHUNKED, NO_BODY, Framing, Kind
from pyrbacproxy.http1.head import Headers, RemoteProtocolError
from pyrbacproxy.http1.parser import InterimReceived, ResponseReceived
from pyrbacproxy.http2 import upstream_fields as upstream_heads

Fields = list[tuple[bytes, bytes]]


def test_a_request_head_becomes_fields_without_what_speaks_of_a_connection() -> None:
    head = (
        b"POST /a?b=c HTTP/1.1\r\nHost: h:1\r\nTransfer-Encoding: chunked\r\nTe: trailers\r\n"
        b"Trailer: X-Sum\r\nX-A: 1: 2\r\nCookie: a=b\r\nX-A: \r\n\r\n"
    )
    assert upstream_heads.request_fields(head, b"http") == [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":authority", b"h:1"),
        (b":path", b"/a?b=c"),
        (b"te", b"trailers"),
        (b"trailer", b"X-Sum"),
        (b"x-a", b"1: 2"),
        (b"cookie", b"a=b"),
        (b"x-a", b""),
    ]


@pytest.mark.parametrize("scheme", [b"http", b"https"])
@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"PROPFIND /a?b=c HTTP/1.1\r\nHost: h.test\r\nX-A: 1\r\nX-B: \r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)
def test_a_head_is_never_larger_than_it_is_told(head: bytes, scheme: bytes) -> None:
    size = upstream_heads.list_bytes(upstream_heads.request_fields(head, scheme))
    assert size <= upstream_heads.request_list_bytes(head) <= size + 100


@pytest.mark.parametrize(
    ("fields", "method", "is_ended", "framing", "raw"),
    [
        pytest.param(
            [(b":status", b"200"), (b"a", b"b")],
            b"GET",
            False,
            CHUNKED,
            b"HTTP/1.1 200 OK\r\na: b\r\ntransfer-encoding: chunked\r\n\r\n",
            id="a body without a length",
        ),
        pytest.param(
            [(b":status", b"200"), (b"content-length", b"5")],
            b"GET",
            False,
            Framing(Kind.LENGTH, 5),
            b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n",
            id="a body with a length",
        ),
        pytest.param(
            [(b":status", b"200")],
            b"POST",
            True,
            Framing(Kind.LENGTH, 0),
            b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            id="no body",
        ),
        pytest.param(
            [(b":status", b"200"), (b"content-length", b"5")],
            b"HEAD",
            True,
            NO_BODY,
            b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n",
            id="HEAD",
        ),
        pytest.param(
            [(b":status", b"200")],
            b"HEAD",
            False,
            NO_BODY,
            b"HTTP/1.1 200 OK\r\n\r\n",
            id="HEAD without a length",
        ),
        pytest.param(
            [(b":status", b"204")], b"GET", True, NO_BODY, b"HTTP/1.1 204 No Content\r\n\r\n"
        ),
        pytest.param(
            [(b":status", b"304")], b"GET", False, NO_BODY, b"HTTP/1.1 304 Not Modified\r\n\r\n"
        ),
        pytest.param(
            [(b":status", b"599")],
            b"GET",
            True,
            Framing(Kind.LENGTH, 0),
            b"HTTP/1.1 599 \r\ncontent-length: 0\r\n\r\n",
            id="a status without a name",
        ),
    ],
)
def test_a_response_is_read_as_if_it_had_come_over_http_1(
    fields: Fields, method: bytes, framing: Framing, raw: bytes, *, is_ended: bool
) -> None:
    received = upstream_heads.response(fields, method, is_ended=is_ended)
    assert isinstance(received, ResponseReceived)
    assert received.raw == raw
    assert received.framing == framing


def test_what_comes_before_the_response_is_told_apart() -> None:
    received = upstream_heads.response(
        [(b":status", b"103"), (b"link", b"</a>")], b"GET", is_ended=False
    )
    assert isinstance(received, InterimReceived)
    assert received.head.status == 103
    assert received.head.headers.pairs == ((b"link", b"</a>"),)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param([], id="nothing"),
        pytest.param([(b"a", b"b")], id="no status"),
        pytest.param([(b"a", b"b"), (b":status", b"200")], id="a status behind a field"),
        pytest.param([(b":status", b"200"), (b":status", b"200")], id="two"),
        pytest.param([(b":status", b"200"), (b":path", b"/")], id="a request's"),
        pytest.param([(b":status", b"20")], id="short"),
        pytest.param([(b":status", b"099")], id="below 100"),
        pytest.param([(b":status", b"+20")], id="no number"),
        pytest.param([(b":status", b"101")], id="switching protocols"),
        pytest.param([(b":status", b"200"), (b"A", b"b")], id="capitals"),
        pytest.param([(b":status", b"200"), (b"a b", b"c")], id="a blank in a name"),
        pytest.param([(b":status", b"200"), (b"", b"c")], id="no name"),
        pytest.param([(b":status", b"200"), (b"a", b"b\r\nc: d")], id="a line break"),
        pytest.param([(b":status", b"200"), (b"a", b"b\0")], id="a NUL"),
        pytest.param([(b":status", b"200"), (b"a", b"\x01")], id="what HTTP/1.1 refuses too"),
        pytest.param([(b":status", b"200"), (b"connection", b"close")], id="of the connection"),
        pytest.param([(b":status", b"200"), (b"transfer-encoding", b"chunked")], id="a coding"),
        pytest.param([(b":status", b"200"), (b"content-length", b"+1")], id="a bad length"),
        pytest.param(
            [(b":status", b"200"), (b"content-length", b"1"), (b"content-length", b"1")],
            id="two lengths",
        ),
    ],
)
def test_a_malformed_response_is_none(fields: Fields) -> None:
    with pytest.raises(RemoteProtocolError):
        upstream_heads.response(fields, b"GET", is_ended=False)


def test_trailers_are_plain_fields() -> None:
    assert upstream_heads.trailers([(b"grpc-status", b"0")]) == Headers([(b"grpc-status", b"0")])
    for name in (b":status", b"A", b"connection"):
        with pytest.raises(RemoteProtocolError):
            upstream_heads.trailers([(name, b"1")])
    for value in (b"\n", b"\x7f"):
        with pytest.raises(RemoteProtocolError):
            upstream_heads.trailers([(b"a", value)])

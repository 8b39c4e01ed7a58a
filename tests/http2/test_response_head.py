import pytest

from pyrbacproxy.http1.head import Headers, LocalProtocolError, Response, ResponseHead, text
from pyrbacproxy.http2.codec import Fields
from pyrbacproxy.http2.fields import interim_fields, own_fields, relayed_fields, trailer_fields
from tests.proxy.dialogue import DATE, received

RELAYED = {
    "a length": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-A: b\r\n\r\n",
        [(b":status", b"200"), (b"x-a", b"b"), (b"content-length", b"2"), (b"date", DATE)],
    ),
    "chunks, with trailers announced": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\nDate: then\r\n\r\n",
        [(b":status", b"200"), (b"date", b"then"), (b"trailer", b"X-Sum")],
    ),
    "until the close, hop-by-hop fields": (
        b"HTTP/1.1 404 Not Found\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 2\r\n\r\n",
        [(b":status", b"404"), (b"date", DATE)],
    ),
    "no body": (b"HTTP/1.1 204 No Content\r\n\r\n", [(b":status", b"204"), (b"date", DATE)]),
}


@pytest.mark.parametrize("case", RELAYED.values(), ids=RELAYED)
def test_an_upstream_s_head(case: tuple[bytes, Fields]) -> None:
    raw, fields = case
    assert relayed_fields(received(raw), DATE) == fields


def test_the_length_that_an_answer_to_head_states() -> None:
    raw = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n"
    assert (b"content-length", b"7") in relayed_fields(received(raw, b"HEAD"), DATE)


def test_an_interim_head() -> None:
    head = ResponseHead(103, b"Early Hints", Headers([(b"Link", b"x"), (b"Connection", b"y")]))
    assert interim_fields(head) == [(b":status", b"103"), (b"link", b"x")]


def test_an_answer_of_our_own() -> None:
    assert own_fields(text(403, "no\n"), DATE) == [
        (b":status", b"403"),
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"x-content-type-options", b"nosniff"),
        (b"date", DATE),
        (b"content-length", b"3"),
    ]
    assert own_fields(Response(204), DATE) == [(b":status", b"204"), (b"date", DATE)]


def test_trailers() -> None:
    assert trailer_fields(Headers([(b"Grpc-Status", b"0")])) == [(b"grpc-status", b"0")]


@pytest.mark.parametrize("value", [b"a\nb", b"a\rb", b"a\0b"])
def test_a_line_break_never_leaves(value: bytes) -> None:
    with pytest.raises(LocalProtocolError):
        own_fields(Response(200, Headers([(b"X", value)])), DATE)

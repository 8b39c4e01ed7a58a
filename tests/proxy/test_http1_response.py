from pyrbacproxy.http1.head import Headers, RequestHead, ResponseHead, text
from pyrbacproxy.model import ExchangeRecord
from pyrbacproxy.proxy.client_http1 import Http1Response
from pyrbacproxy.proxy.exchange import ResponseState
from tests.proxy.dialogue import OK, STREAM, ClientTape, World, received


def side(
    client: ClientTape,
    *,
    method: bytes = b"GET",
    minor: int = 1,
    state: ResponseState = ResponseState.AWAITING,
) -> Http1Response:
    head = RequestHead(method, b"/", Headers(), minor)
    record = ExchangeRecord("127.0.0.1", "GET", "/")
    response = Http1Response(World().services, client, record, head)
    response.state = state
    return response


def test_head_and_body_leave_together() -> None:
    client = ClientTape()
    response = side(client)
    assert not response.head(received(OK), closes=False)
    response.body(b"o")
    assert client.take() == b""
    response.flush()
    response.flush()
    assert client.take() == OK + b"o"
    response.body(b"k")
    response.ended()
    assert client.take() == b"k"
    assert response.state is ResponseState.DONE


def test_chunks_and_trailers() -> None:
    client = ClientTape()
    response = side(client)
    response.head(received(STREAM), closes=False)
    response.body(b"hello")
    response.trailers(Headers([(b"X-Sum", b"1"), (b"Content-Length", b"9")]))
    response.ended()
    assert client.take() == STREAM + b"5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n"


def test_a_long_piece_is_not_copied() -> None:
    written: list[tuple[object, ...]] = []
    client = ClientTape()
    client.write = lambda *pieces: written.append(pieces)  # type: ignore[method-assign] # to look
    response = side(client)
    response.head(received(OK), closes=False)
    long = bytes(16_385)
    response.body(long)
    response.flush()
    response.body(long[:-1])
    response.flush()
    assert [len(pieces) for pieces in written] == [2, 1]
    assert written[0][1] is long


def test_an_answer_of_our_own() -> None:
    for method, body in ((b"GET", b"no\n"), (b"HEAD", b"")):
        client = ClientTape()
        response = side(client, method=method, state=ResponseState.DECIDING)
        response.whole(text(403, "no\n"), closes=False)
        answer = client.take()
        assert answer.startswith(b"HTTP/1.1 403 Forbidden\r\n")
        assert answer.endswith(b"Content-Length: 3\r\n\r\n" + body)
        assert response._record.sent_bytes == len(body)


def test_interim_answers_pass_but_not_to_http10() -> None:
    for minor, sent in ((1, b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"), (0, b"")):
        client = ClientTape()
        response = side(client, minor=minor)
        lines = Headers([(b"Link", b"x"), (b"Connection", b"y")])
        response.interim(ResponseHead(103, b"Early Hints", lines))
        assert client.take() == sent


def test_one_go_ahead_and_only_before_the_answer() -> None:
    go_ahead = b"HTTP/1.1 100 Continue\r\n\r\n"
    client = ClientTape()
    response = side(client)
    response.go_ahead()
    response.interim(ResponseHead(100, b"Continue", Headers()))
    assert client.take() == go_ahead
    for minor, state in (
        (0, ResponseState.AWAITING),
        (1, ResponseState.DONE),
        (1, ResponseState.RELAYING),
    ):
        response = side(client, minor=minor, state=state)
        response.go_ahead()
        assert client.take() == b""

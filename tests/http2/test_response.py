import pytest

from pyrbacproxy.http1.head import Headers, RequestHead, Response, ResponseHead, text
from pyrbacproxy.http2.codec import Fields
from pyrbacproxy.http2.stream import Http2Response, response_to
from pyrbacproxy.model import ExchangeRecord
from pyrbacproxy.proxy.exchange import Piece, ResponseState
from tests.proxy.dialogue import DATE, OK, STREAM, received


class Frames:
    """A `FrameSink` that notes what it gets."""

    def __init__(self) -> None:
        self.sent: list[object] = []
        self.fields: dict[bytes, bytes] = {}

    def send_head(self, fields: Fields, *, ends: bool) -> None:
        self.fields = dict(fields)
        self.sent.append((int(fields[0][1]), ends))

    def send_body(self, data: Piece) -> None:
        self.sent.append(bytes(data))

    def send_end(self, trailers: Fields) -> None:
        self.sent.append(trailers)

    def flush(self) -> None:
        self.sent.append("flush")

    def take(self) -> list[object]:
        sent, self.sent = self.sent, []
        return sent


class Side:
    def __init__(
        self,
        state: ResponseState = ResponseState.AWAITING,
        *,
        is_head: bool = False,
        is_grpc: bool = False,
    ) -> None:
        self.frames = Frames()
        self.record = ExchangeRecord("127.0.0.1", "GET", "/")
        self.response = Http2Response(
            self.frames, self.record, date=lambda: DATE, is_head=is_head, is_grpc=is_grpc
        )
        self.response.state = state


def test_a_head_waits_for_its_body() -> None:
    side = Side()
    assert not side.response.head(received(OK), closes=True)
    assert side.frames.take() == []
    side.response.body(b"o")
    side.response.flush()
    side.response.body(b"k")
    side.response.ended()
    assert side.frames.take() == [(200, False), b"o", "flush", b"k", [], "flush"]
    assert side.response.state is ResponseState.DONE
    assert (side.record.status, side.record.sent_bytes) == (200, 2)


def test_a_head_without_body_ends_the_stream() -> None:
    side = Side()
    side.response.head(received(b"HTTP/1.1 204 No Content\r\n\r\n"), closes=True)
    side.response.ended()
    assert side.frames.take() == [(204, True), "flush"]


def test_a_head_goes_out_at_the_latest_when_the_upstream_rests() -> None:
    side = Side()
    side.response.head(received(STREAM), closes=True)
    side.response.flush()
    side.response.ended()
    assert side.frames.take() == [(200, False), "flush", [], "flush"]


def test_trailers_without_a_body() -> None:
    side = Side()
    side.response.head(received(STREAM), closes=True)
    side.response.trailers(Headers([(b"Grpc-Status", b"0"), (b"Content-Length", b"9")]))
    side.response.ended()
    assert side.frames.take() == [(200, False), [(b"grpc-status", b"0")], "flush"]


@pytest.mark.parametrize(
    ("answer", "is_head", "sent", "count"),
    [
        (text(403, "no\n"), False, [(403, False), b"no\n", [], "flush"], 3),
        (text(403, "no\n"), True, [(403, True), "flush"], 0),
        (Response(502), False, [(502, True), "flush"], 0),
    ],
)
def test_an_answer_of_our_own(
    answer: Response, sent: list[object], count: int, *, is_head: bool
) -> None:
    side = Side(ResponseState.DECIDING, is_head=is_head)
    side.response.whole(answer, closes=True)
    assert side.frames.take() == sent
    assert (side.record.status, side.record.sent_bytes) == (answer.status, count)
    assert side.response.state is ResponseState.DONE


def test_an_answer_of_our_own_to_a_grpc_client_has_no_body() -> None:
    side = Side(ResponseState.DECIDING, is_grpc=True)
    side.response.whole(text(403, "no\n"), closes=True)
    assert side.frames.take() == [(403, True), "flush"]
    assert side.frames.fields[b"content-length"] == b"0"
    assert side.record.sent_bytes == 0


@pytest.mark.parametrize(
    ("method", "content_type", "has_body"),
    [
        (b"POST", b"application/grpc", False),
        (b"POST", b"application/grpc+proto", False),
        (b"POST", b"application/json", True),
        (b"POST", b"", True),
        (b"HEAD", b"", False),
    ],
)
def test_who_asked_is_seen_in_the_request(
    method: bytes, content_type: bytes, *, has_body: bool
) -> None:
    lines = [(b"Content-Type", content_type)] if content_type else []
    frames, record = Frames(), ExchangeRecord("127.0.0.1", "GET", "/")
    request = RequestHead(method, b"/", Headers(lines))
    response_to(request, frames, record, date=lambda: DATE).whole(text(401, "no\n"), closes=True)
    assert (b"no\n" in frames.sent) is has_body


def test_one_go_ahead_and_other_interim_heads() -> None:
    side = Side()
    side.response.go_ahead()
    side.response.interim(ResponseHead(100, b"Continue", Headers()))
    side.response.interim(ResponseHead(103, b"Early Hints", Headers([(b"Link", b"x")])))
    assert side.frames.take() == [(100, False), "flush", (103, False), "flush"]
    late = Side(ResponseState.RELAYING)
    late.response.go_ahead()
    assert late.frames.take() == []

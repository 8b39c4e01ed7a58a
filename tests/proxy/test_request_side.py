import pytest

from pyrbacproxy.http1.framing import CHUNKED, NO_BODY, Framing
from pyrbacproxy.http1.head import Headers, RequestHead
from pyrbacproxy.model import ExchangeRecord
from pyrbacproxy.proxy.exchange import PauseReason, RequestSide, RequestState
from tests.proxy.dialogue import (
    SWITCH,
    UPGRADE,
    ClientTape,
    UpstreamTape,
    World,
    length,
    received,
)


def side(
    framing: Framing, client: ClientTape | None = None, *, method: bytes = b"POST", minor: int = 1
) -> RequestSide:
    head = RequestHead(method, b"/", Headers([(b"Expect", b"100-continue")]), minor)
    record = ExchangeRecord("127.0.0.1", "POST", "/")
    return RequestSide(World().services, client or ClientTape(), record, head=head, framing=framing)


def test_without_a_body_it_has_ended_at_once() -> None:
    request = side(NO_BODY)
    assert request.is_ended
    assert request.can_be_drained
    assert not request.expects_continue
    assert side(length(0)).is_ended


def test_a_body_goes_through_without_its_framing() -> None:
    for framing in (length(5), CHUNKED):
        request, upstream = side(framing), UpstreamTape()
        request.attach(upstream)
        request.body(b"abc")
        request.body(b"de")
        request.ended()
        assert upstream.take() == b"abcde"
        assert upstream.done == ["end"]
        assert request.state is RequestState.ENDED


def test_it_waits_while_nobody_takes_it_and_the_client_is_held() -> None:
    client, upstream = ClientTape(), UpstreamTape()
    request = side(length(6), client)
    request.body(b"abc")
    assert client.done == [("pause", PauseReason.BODY_WAITS)]
    request.attach(upstream)
    assert client.done[1:] == [("resume", PauseReason.BODY_WAITS)]
    request.detach()
    request.body(b"def")
    assert upstream.take() == b"abc"


def test_it_waits_in_one_piece_while_the_upstream_takes_no_more() -> None:
    """A client of HTTP/2 sends a whole window though it is not read, be it byte by byte."""
    client, upstream = ClientTape(), UpstreamTape()
    pieces: list[bytes] = []

    def see(data: bytes) -> None:
        pieces.append(data)

    upstream.body = see  # type: ignore[method-assign] # to see them apart
    request = side(CHUNKED, client)
    request.attach(upstream)
    request.body(b"a")
    request.hold()
    for _ in range(1000):
        request.body(b"b")
    request.ended()
    assert pieces == [b"a"]
    assert (request.is_ended, request.is_passed_on, upstream.done) == (True, False, [])
    request.release()
    assert pieces == [b"a", b"b" * 1000]
    assert (request.is_passed_on, upstream.done) == (True, ["end"])
    assert client.done[-1] == ("resume", PauseReason.UPSTREAM_FULL)


def test_what_waited_may_fill_the_upstream_again() -> None:
    client, upstream = ClientTape(), UpstreamTape()
    request = side(CHUNKED, client)
    request.attach(upstream)
    request.hold()
    request.body(b"abc")
    upstream.body = lambda data: request.hold()  # type: ignore[method-assign] # noqa: ARG005 - takes no more
    request.release()
    assert client.done == [("pause", PauseReason.UPSTREAM_FULL)] * 2
    request.detach()
    request.release()
    assert client.done[2:] == [("resume", PauseReason.UPSTREAM_FULL)]


def test_after_the_answer_it_goes_nowhere() -> None:
    client, upstream = ClientTape(), UpstreamTape()
    request = side(CHUNKED, client)
    request.attach(upstream)
    request.discard()
    request.discard()
    request.body(b"abc")
    request.ended()
    request.discard()
    assert upstream.take() == b""
    assert client.done == [("resume", PauseReason.BODY_WAITS, PauseReason.UPSTREAM_FULL)]


@pytest.mark.parametrize(
    ("framing", "sent", "can"),
    [
        pytest.param(length(262_144), b"", True, id="just short enough"),
        pytest.param(length(262_145), b"", False, id="a byte too long"),
        pytest.param(length(262_145), b"x", True, id="a byte has come"),
        pytest.param(CHUNKED, b"", False, id="unknown length"),
    ],
)
def test_what_can_be_drained(framing: Framing, sent: bytes, *, can: bool) -> None:
    request = side(framing)
    request.body(sent)
    assert request.can_be_drained == can


def test_who_waits_for_a_go_ahead() -> None:
    request = side(length(3))
    assert request.expects_continue
    request.body(b"a")
    assert not request.expects_continue
    assert not side(length(3), minor=0).expects_continue


@pytest.mark.parametrize(
    ("method", "framing", "is_reused", "was_refused", "can"),
    [
        pytest.param(b"GET", NO_BODY, True, False, True, id="stale"),
        pytest.param(b"GET", NO_BODY, False, False, False, id="fresh"),
        pytest.param(b"GET", length(1), True, True, False, id="a body"),
        pytest.param(b"DELETE", NO_BODY, True, False, False, id="not safe"),
        pytest.param(b"DELETE", NO_BODY, False, True, True, id="not safe, but refused"),
    ],
)
def test_what_may_be_repeated(
    method: bytes, framing: Framing, *, is_reused: bool, was_refused: bool, can: bool
) -> None:
    lost = UpstreamTape(is_reused=is_reused)
    lost.was_refused = was_refused
    request = side(framing, method=method)
    assert request.can_be_repeated(lost) == can
    request.is_last_try = True
    assert not request.can_be_repeated(lost)


def test_it_ends_once() -> None:
    request = side(length(1))
    request.ended()
    with pytest.raises(RuntimeError, match="cannot become"):
        request.ended()


def test_trailers_lose_what_no_trailer_may_be() -> None:
    request, upstream = side(CHUNKED), UpstreamTape()
    request.attach(upstream)
    request.trailers(Headers([(b"X-Remote-User", b"root"), (b"A", b"1"), (b"Host", b"h")]))
    request.ended()
    assert upstream.trailers == Headers([(b"A", b"1")])


def test_an_end_waits_as_the_body_does() -> None:
    client, upstream = ClientTape(), UpstreamTape()
    request = side(CHUNKED, client)
    request.trailers(Headers([(b"A", b"1")]))
    request.ended()
    request.attach(upstream)
    assert upstream.done == ["end"]
    assert upstream.trailers == Headers([(b"A", b"1")])


def test_it_has_stalled_when_nothing_came_between_two_looks_though_it_could() -> None:
    client = ClientTape()
    request = side(length(6), client)
    request.attach(UpstreamTape())
    request.hold()
    assert not request.is_stalled()
    assert not request.is_stalled()
    request.release()
    assert not request.is_stalled()
    request.body(b"abc")
    assert not request.is_stalled()
    assert client.wakes == [90.0] * 5
    assert request.is_stalled()
    request.discard()
    assert not request.is_stalled()


def test_without_a_body_no_time_is_asked_for() -> None:
    client = ClientTape()
    side(NO_BODY, client).attach(UpstreamTape())
    assert client.wakes == []


def test_a_switch_must_be_asked_for_by_a_whole_request() -> None:
    switch = received(SWITCH).head
    for framing, lines, expected in (
        (NO_BODY, UPGRADE, True),
        (length(0), UPGRADE, True),
        (length(3), UPGRADE, False),
        (NO_BODY, (), False),
    ):
        head = RequestHead(b"POST", b"/", Headers(lines))
        record = ExchangeRecord("127.0.0.1", "POST", "/")
        request = RequestSide(World().services, ClientTape(), record, head=head, framing=framing)
        assert request.has_asked_for(switch) is expected


def test_the_head_towards_the_upstream_announces_trailers_that_may_go_on() -> None:
    head = RequestHead(b"POST", b"/", Headers([(b"Trailer", b"X-Sum, X-Remote-User")]))
    record = ExchangeRecord("127.0.0.1", "POST", "/")
    request = RequestSide(World().services, ClientTape(), record, head=head, framing=CHUNKED)
    raw = request.upstream_head(RequestHead(b"POST", b"/x", Headers([(b"Host", b"h")]))).raw
    assert raw.startswith(b"POST /x HTTP/1.1\r\nHost: h\r\n")
    assert raw.endswith(b"Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n")


def test_no_trailers_can_follow_a_body_with_a_length() -> None:
    head = RequestHead(b"POST", b"/", Headers([(b"Trailer", b"X-Sum")]))
    record = ExchangeRecord("127.0.0.1", "POST", "/")
    request = RequestSide(World().services, ClientTape(), record, head=head, framing=length(3))
    raw = request.upstream_head(RequestHead(b"POST", b"/x", Headers([(b"Host", b"h")]))).raw
    assert raw.endswith(b"Host: h\r\nContent-Length: 3\r\n\r\n")

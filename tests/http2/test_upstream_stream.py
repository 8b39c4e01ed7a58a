"""`UpstreamStream` and what it does on the wire, with h2's server side at the other end."""

import pytest
from h2 import events
from h2.errors import ErrorCodes
from h2.settings import SettingCodes

from pyrbacproxy.http1.framing import CHUNKED, NO_BODY, Framing, Kind
from pyrbacproxy.http1.head import Headers
from pyrbacproxy.http2.upstream import WINDOW_BYTES, UpstreamStream
from pyrbacproxy.proxy.exchange import Limits, UpstreamSink
from tests.http2.upstream_peer import LENGTH_2, OK, Peer

POST = b"POST /p HTTP/1.1\r\nHost: h\r\nTe: trailers\r\nTransfer-Encoding: chunked\r\n\r\n"


def answer(peer: Peer, fields: list[tuple[bytes, bytes]], body: bytes = b"", *, ends: bool) -> None:
    peer.server.send_headers(1, fields, end_stream=ends and not body)
    if body:
        peer.server.send_data(1, body, end_stream=ends)
    peer.exchange()


def test_it_is_a_sink() -> None:
    sink: UpstreamSink = UpstreamStream(Peer().connection)
    assert not sink.is_reused
    assert not sink.was_refused
    with pytest.raises(RuntimeError):
        sink.release()


def test_a_request_and_its_answer() -> None:
    peer = Peer()
    user, _ = peer.ask()
    (request,) = peer.of(events.RequestReceived)
    assert isinstance(request, events.RequestReceived)
    assert request.headers == [
        (b":method", b"GET"),
        (b":scheme", b"http"),
        (b":authority", b"h"),
        (b":path", b"/a?b=c"),
        (b"accept", b"*/*"),
    ]
    assert request.stream_ended is not None
    answer(peer, LENGTH_2, b"ok", ends=True)
    assert user.told == ["response 200", "ended"]
    assert user.heard == b"ok"
    assert peer.resets == []
    assert peer.connection.is_open
    assert peer.connection.is_idle


def test_what_comes_early_and_late() -> None:
    peer = Peer()
    user, _ = peer.ask()
    peer.server.send_headers(1, [(b":status", b"103"), (b"link", b"</a>")])
    peer.server.send_headers(1, OK)
    peer.server.send_data(1, b"one")
    peer.exchange()
    peer.server.send_data(1, b"two")
    peer.server.send_headers(1, [(b"grpc-status", b"0")], end_stream=True)
    peer.exchange()
    assert user.told == [
        "interim 103",
        "response 200",
        "flush",
        "trailers ((b'grpc-status', b'0'),)",
        "ended",
    ]
    assert user.heard == b"onetwo"


def test_a_body_goes_up_with_its_trailers() -> None:
    peer = Peer()
    user, stream = peer.ask(b"POST", POST, CHUNKED)
    stream.body(b"abc")
    stream.body(b"de")
    stream.end(Headers([(b"X-Sum", b"1")]))
    peer.exchange()
    assert peer.body == b"abcde"
    (trailers,) = peer.of(events.TrailersReceived)
    assert isinstance(trailers, events.TrailersReceived)
    assert trailers.headers == [(b"x-sum", b"1")]
    assert len(peer.of(events.StreamEnded)) == 1
    answer(peer, OK, ends=True)
    assert user.told == ["response 200", "ended"]
    assert peer.resets == []


def test_a_body_without_trailers_ends_as_well() -> None:
    peer = Peer()
    _, stream = peer.ask(b"POST", POST, Framing(Kind.LENGTH, 3))
    stream.body(b"abc")
    stream.end(None)
    peer.exchange()
    assert peer.body == b"abc"
    assert len(peer.of(events.StreamEnded)) == 1


def test_an_early_answer_ends_the_request() -> None:
    peer = Peer()
    user, stream = peer.ask(b"POST", POST, CHUNKED)
    stream.body(b"abc")
    peer.exchange()
    peer.server.send_headers(1, [(b":status", b"413")], end_stream=True)
    peer.server.reset_stream(1, ErrorCodes.NO_ERROR)
    peer.exchange()
    assert user.told == ["response 413", "ended"]
    stream.body(b"late")
    stream.end(None)
    peer.exchange()
    assert peer.body == b"abc"
    user, stream = peer.ask(b"POST", POST, CHUNKED)
    peer.server.send_headers(3, [(b":status", b"413")], end_stream=True)
    peer.exchange()
    assert user.told == ["response 413", "ended"]
    assert peer.resets == [(3, ErrorCodes.CANCEL)]


def test_a_client_that_goes_resets_its_stream_alone() -> None:
    peer = Peer()
    user, stream = peer.ask()
    other, _ = peer.ask()
    stream.close()
    stream.close()
    peer.exchange()
    assert peer.resets == [(1, ErrorCodes.CANCEL)]
    peer.server.send_headers(3, OK, end_stream=True)
    peer.exchange()
    assert user.told == []
    assert other.told == ["response 200", "ended"]


@pytest.mark.parametrize("drops_at", ["interim 103", "response 200"])
def test_a_client_may_go_in_the_middle_of_what_came(drops_at: str) -> None:
    peer = Peer()
    user, _ = peer.ask()
    user.drops_at = drops_at
    peer.server.send_headers(1, [(b":status", b"103")])
    peer.server.send_headers(1, OK)
    peer.server.send_data(1, b"abc")
    peer.server.send_headers(1, [(b"a", b"1")], end_stream=True)
    peer.exchange()
    assert user.told[-1] == drops_at
    assert user.heard == b""
    assert peer.connection.is_open


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param([(b":status", b"101")], id="switching protocols"),
        pytest.param([*OK, (b":path", b"/")], id="a pseudo-header"),
        pytest.param([*OK, (b"connection", b"close")], id="of a connection"),
    ],
)
def test_a_malformed_response_is_a_lost_stream(fields: list[tuple[bytes, bytes]]) -> None:
    peer = Peer()
    peer.server.config.normalize_outbound_headers = False
    user, _ = peer.ask()
    other, _ = peer.ask()
    peer.server.send_headers(1, fields)
    peer.server.send_headers(3, OK, end_stream=True)
    peer.exchange()
    assert user.told == ["lost: upstream broke HTTP"]
    assert (1, ErrorCodes.PROTOCOL_ERROR) in peer.resets
    assert other.told == ["response 200", "ended"]


def test_malformed_trailers_are_a_lost_stream() -> None:
    peer = Peer()
    user, _ = peer.ask()
    peer.server.send_headers(1, OK)
    peer.server.send_headers(1, [(b":status", b"200")], end_stream=True)
    peer.exchange()
    assert user.told == ["response 200", "lost: upstream broke HTTP"]


@pytest.mark.parametrize(
    ("status", "method"), [(b"204", b"GET"), (b"304", b"GET")], ids=["204", "304"]
)
def test_a_body_where_none_can_be_is_a_lost_stream(status: bytes, method: bytes) -> None:
    peer = Peer()
    user, _ = peer.ask(method)
    answer(peer, [(b":status", status)], b"GET /smuggled", ends=True)
    assert user.told == [f"response {status.decode()}", "lost: upstream broke HTTP"]
    assert user.heard == b""


@pytest.mark.parametrize("sent", [b"", b"a"])
def test_a_body_that_is_cut_is_a_lost_stream(sent: bytes) -> None:
    """Where trailers end it h2 counts no more, nor where nothing comes."""
    peer = Peer()
    user, _ = peer.ask()
    peer.server.send_headers(1, LENGTH_2, end_stream=not sent)
    if sent:
        peer.server.send_data(1, sent)
        peer.server.send_headers(1, [(b"a", b"1")], end_stream=True)
    peer.exchange()
    assert user.told[-1] == "lost: upstream closed early"


def test_a_body_that_is_too_long_loses_the_connection() -> None:
    peer = Peer()
    user, _ = peer.ask()
    answer(peer, LENGTH_2, b"abc", ends=True)
    assert user.told[-1] == "lost: upstream broke HTTP"
    assert user.heard == b""


def test_the_answer_to_head_has_a_length_and_no_body() -> None:
    peer = Peer()
    user, _ = peer.ask(b"HEAD", b"HEAD / HTTP/1.1\r\nHost: h\r\n\r\n")
    answer(peer, LENGTH_2, ends=True)
    assert user.told == ["response 200", "ended"]


@pytest.mark.parametrize(
    ("error", "failure", "was_refused"),
    [
        (ErrorCodes.REFUSED_STREAM, "upstream refused the stream", True),
        (ErrorCodes.INTERNAL_ERROR, "upstream reset the stream", False),
        (ErrorCodes.NO_ERROR, "upstream reset the stream", False),
    ],
)
def test_a_reset_is_told(error: ErrorCodes, failure: str, *, was_refused: bool) -> None:
    peer = Peer()
    peer.ask()
    answer(peer, OK, ends=True)
    user, stream = peer.ask()
    assert stream.is_reused
    peer.server.reset_stream(3, error)
    peer.exchange()
    assert user.told == [f"lost: {failure}"]
    assert stream.was_refused == was_refused
    assert not stream.is_reused


def test_who_answers_badly_is_not_stale() -> None:
    peer = Peer()
    peer.ask()
    answer(peer, OK, ends=True)
    user, stream = peer.ask()
    peer.server.send_headers(3, [(b":status", b"101")])
    peer.exchange()
    assert user.told == ["lost: upstream broke HTTP"]
    assert not stream.is_reused


@pytest.mark.parametrize(("size", "is_sent"), [(1000 - 32 - 5, True), (1000 - 32 - 4, False)])
def test_trailers_that_the_upstream_would_not_read_are_left_out(
    size: int, *, is_sent: bool
) -> None:
    peer = Peer(settings={SettingCodes.MAX_HEADER_LIST_SIZE: 1000})
    _, stream = peer.ask(b"POST", POST, CHUNKED)
    stream.end(Headers([(b"X-Sum", b"s" * size)]))
    peer.exchange()
    assert bool(peer.of(events.TrailersReceived)) == is_sent
    assert len(peer.of(events.StreamEnded)) == 1


def test_a_reset_behind_other_frames_is_no_stumbling_block() -> None:
    """What each frame means is told before the next one is read."""
    peer = Peer(settings={SettingCodes.INITIAL_WINDOW_SIZE: 2})
    user, stream = peer.ask(b"POST", POST, CHUNKED)
    stream.body(b"abcd")
    peer.exchange()
    peer.server.increment_flow_control_window(10, 1)
    peer.server.reset_stream(1, ErrorCodes.CANCEL)
    peer.exchange()
    assert user.told == ["paused", "resumed", "lost: upstream reset the stream"]


def test_a_slow_client_holds_its_own_stream_alone() -> None:
    peer = Peer()
    user, stream = peer.ask()
    other, _ = peer.ask()
    stream.pause_reading()
    peer.server.send_headers(1, OK)
    peer.server.send_headers(3, OK)
    for _ in range(WINDOW_BYTES // 16_384):
        peer.server.send_data(1, bytes(16_384))
        peer.exchange()
    assert peer.server.local_flow_control_window(1) == 0
    for _ in range(400):
        peer.server.send_data(3, bytes(16_384))
        peer.exchange()
    assert len(user.heard) == WINDOW_BYTES
    assert len(other.heard) == 400 * 16_384
    stream.resume_reading()
    peer.exchange()
    assert peer.server.local_flow_control_window(1) == WINDOW_BYTES


def test_padding_counts_for_the_window() -> None:
    peer = Peer()
    peer.ask()
    peer.server.send_headers(1, OK)
    for _ in range(3000):
        peer.server.send_data(1, b"x", pad_length=250)
        peer.exchange()
    assert peer.server.local_flow_control_window(1) > WINDOW_BYTES // 3


def test_a_body_waits_for_its_window_and_the_client_with_it() -> None:
    peer = Peer(settings={SettingCodes.INITIAL_WINDOW_SIZE: 5})
    user, stream = peer.ask(b"POST", POST, CHUNKED)
    stream.body(b"abcdefgh")
    stream.body(b"ij")
    stream.end(None)
    peer.exchange()
    assert peer.body == b"abcde"
    assert user.told == ["paused"]
    peer.server.increment_flow_control_window(4, 1)
    peer.exchange()
    assert peer.body == b"abcdefghi"
    assert user.told == ["paused"]
    peer.server.increment_flow_control_window(4, 1)
    peer.exchange()
    assert peer.body == b"abcdefghij"
    assert user.told == ["paused", "resumed"]
    assert len(peer.of(events.StreamEnded)) == 1


def test_a_body_waits_for_the_window_of_the_connection() -> None:
    peer = Peer(settings={SettingCodes.INITIAL_WINDOW_SIZE: 1_000_000})
    user, stream = peer.ask(b"POST", POST, CHUNKED)
    stream.body(bytes(70_000))
    peer.exchange()
    assert len(peer.body) == 65_535
    peer.server.increment_flow_control_window(10_000)
    peer.exchange()
    assert len(peer.body) == 70_000
    assert user.told == ["paused", "resumed"]


def test_a_larger_initial_window_lets_waiting_bodies_go() -> None:
    peer = Peer(settings={SettingCodes.INITIAL_WINDOW_SIZE: 5})
    user, stream = peer.ask(b"POST", POST, CHUNKED)
    stream.body(b"abcdefgh")
    peer.exchange()
    peer.server.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 100})
    peer.exchange()
    assert peer.body == b"abcdefgh"
    assert user.told == ["paused", "resumed"]


def test_a_body_waits_for_the_transport() -> None:
    peer = Peer()
    user, stream = peer.ask(b"POST", POST, CHUNKED)
    peer.connection.pause_writing()
    stream.body(b"abc")
    peer.exchange()
    assert peer.body == b""
    peer.connection.resume_writing()
    peer.exchange()
    assert peer.body == b"abc"
    assert user.told == ["paused", "resumed"]


def test_an_upstream_that_opens_no_window_has_stalled() -> None:
    limits = Limits(write_stall_seconds=8)
    peer = Peer(limits, {SettingCodes.INITIAL_WINDOW_SIZE: 5})
    user, stream = peer.ask(b"POST", POST, CHUNKED)
    other, _ = peer.ask()
    stream.body(b"abcdefgh")
    peer.exchange()
    peer.clock.advance(7)
    peer.server.increment_flow_control_window(1, 1)
    peer.exchange()
    peer.clock.advance(7)
    assert user.told == ["paused"]
    peer.clock.advance(4)
    peer.exchange()
    assert user.told == ["paused", "lost: upstream stopped reading"]
    assert peer.resets == [(1, ErrorCodes.CANCEL)]
    assert other.told == []


def test_nothing_is_sent_for_a_body_that_nobody_wants() -> None:
    peer = Peer()
    _, stream = peer.ask(b"POST", POST, CHUNKED)
    stream.close()
    stream.body(b"abc")
    stream.end(None)
    stream.resume_reading()
    stream.pause_reading()
    peer.exchange()
    assert peer.body == b""


def test_a_stream_that_nobody_uses_tells_nobody() -> None:
    stream = UpstreamStream(Peer().connection)
    stream.take(events.StreamEnded(stream_id=1))
    stream.flush()


def test_a_body_before_its_head_is_a_lost_stream() -> None:
    peer = Peer()
    user, stream = peer.ask()
    stream.take(events.DataReceived(stream_id=1, data=b"abc", flow_controlled_length=3))
    assert user.told == ["lost: upstream broke HTTP"]
    user, stream = peer.ask()
    stream.take(events.StreamEnded(stream_id=3))
    assert user.told == ["lost: upstream closed early"]


def test_the_body_of_a_bodyless_request_is_its_head() -> None:
    peer = Peer()
    peer.ask(b"GET", framing=NO_BODY)
    assert len(peer.of(events.StreamEnded)) == 1

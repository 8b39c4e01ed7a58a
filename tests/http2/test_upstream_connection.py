"""One connection over HTTP/2 on a tape, with h2's server side at the other end."""

import pytest
from h2 import events
from h2.errors import ErrorCodes
from h2.settings import SettingCodes

from pyrbacproxy.http1.framing import CHUNKED
from pyrbacproxy.http2.upstream import UpstreamConnection
from pyrbacproxy.proxy.exchange import Limits
from tests.fakes import TapeTransport
from tests.http2.upstream_peer import HEAD, LENGTH_2, OK, Peer

LIMITS = Limits(write_stall_seconds=8, upstream_idle_seconds=50)


def goaway(last: int, error: ErrorCodes = ErrorCodes.NO_ERROR) -> bytes:
    return b"\0\0\x08\x07\0\0\0\0\0" + last.to_bytes(4, "big") + int(error).to_bytes(4, "big")


def test_it_settles_once_the_upstream_has_spoken() -> None:
    peer = Peer()
    assert peer.settled == [True]
    assert peer.connection.has_room
    peer.server.update_settings({SettingCodes.MAX_CONCURRENT_STREAMS: 3})
    peer.exchange()
    assert peer.settled == [True]
    remote = peer.server.remote_settings
    assert remote.enable_push == 0
    assert remote.initial_window_size == 262_144
    assert remote.max_header_list_size == Limits().max_header_bytes


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(b"HTTP/1.1 400 Bad Request\r\n\r\n", id="HTTP/1.1"),
        pytest.param(goaway(0)[:3] + b"\x06" + goaway(0)[4:], id="PING first"),
        pytest.param(b"\0\0\1\x07\0\0\0\0\0\0", id="a bad GOAWAY"),
    ],
)
def test_what_speaks_no_http_2_never_settles(said: bytes) -> None:
    peer = Peer()
    tcp = TapeTransport()
    settled: list[bool] = []
    connection = UpstreamConnection(peer, settled.append)
    peer.connection = connection
    connection.connection_made(tcp)
    connection.data_received(said)
    assert settled in ([False], [])
    connection.connection_lost(None)
    assert settled == [False]
    assert not connection.is_open


def test_room_is_what_the_upstream_allows() -> None:
    peer = Peer(settings={SettingCodes.MAX_CONCURRENT_STREAMS: 2})
    peer.ask()
    assert peer.connection.has_room
    peer.ask()
    assert not peer.connection.has_room
    freed = peer.freed_count
    peer.server.send_headers(1, OK, end_stream=True)
    peer.exchange()
    assert peer.connection.has_room
    assert peer.freed_count == freed + 1


def test_a_ping_is_answered() -> None:
    peer = Peer()
    peer.server.ping(b"12345678")
    peer.exchange()
    assert len(peer.of(events.PingAckReceived)) == 1


def test_after_goaway_what_was_begun_is_answered_and_the_rest_refused() -> None:
    """As Go and gRPC stop: GOAWAY twice, with a PING between."""
    peer = Peer()
    first, _ = peer.ask()
    second, stream = peer.ask()
    peer.connection.data_received(goaway(2**31 - 1))
    peer.server.ping(b"12345678")
    peer.exchange()
    assert peer.forgotten
    assert not peer.connection.has_room
    assert second.told == []
    peer.connection.data_received(goaway(1))
    assert second.told == ["lost: upstream refused the stream"]
    assert stream.was_refused
    peer.server.send_headers(1, LENGTH_2)
    peer.server.send_data(1, b"ok", end_stream=True)
    peer.exchange()
    assert first.told == ["response 200", "ended"]
    assert first.heard == b"ok"
    assert peer.tcp.done == ["close"]
    assert len(peer.of(events.ConnectionTerminated)) == 1


def test_goaway_to_an_idle_connection_closes_it() -> None:
    peer = Peer()
    peer.connection.data_received(goaway(0))
    assert peer.tcp.done == ["close"]
    peer.connection.close()
    assert peer.tcp.done == ["close"]


@pytest.mark.parametrize(
    ("end", "failure"),
    [
        (lambda peer: peer.connection.eof_received(), "upstream closed early"),
        (lambda peer: peer.connection.connection_lost(None), "upstream closed early"),
        (lambda peer: peer.connection.connection_lost(OSError()), "upstream connection lost"),
        (
            lambda peer: peer.connection.data_received(b"\0" * 9 + b"\xff" * 20),
            "upstream broke HTTP",
        ),
        (lambda peer: peer.connection.close(), "upstream connection closed"),
    ],
    ids=["eof", "closed", "lost", "nonsense", "by us"],
)
def test_streams_are_lost_with_their_connection(end: object, failure: str) -> None:
    assert callable(end)
    peer = Peer()
    users = [peer.ask()[0], peer.ask()[0]]
    end(peer)
    assert [user.told for user in users] == [[f"lost: {failure}"]] * 2
    assert peer.forgotten
    assert peer.connection.is_idle
    assert not peer.connection.has_room


def test_a_frame_that_is_too_long_is_not_waited_for() -> None:
    peer = Peer()
    user, _ = peer.ask()
    peer.connection.data_received(b"\xff\xff\xff\0\0\0\0\0\1")
    assert user.told == ["lost: upstream broke HTTP"]
    assert peer.forgotten


@pytest.mark.parametrize(
    ("settings", "takes"),
    [({}, True), ({SettingCodes.MAX_HEADER_LIST_SIZE: 100}, False)],
)
def test_an_upstream_may_say_how_large_heads_may_be(
    settings: dict[SettingCodes, int], *, takes: bool
) -> None:
    peer = Peer(settings=settings)
    assert peer.connection.takes(100)
    assert peer.connection.takes(101) == takes


def test_a_connection_that_served_may_have_gone_stale() -> None:
    peer = Peer()
    _, stream = peer.ask()
    assert not stream.is_reused
    peer.server.send_headers(1, OK, end_stream=True)
    peer.exchange()
    _, stream = peer.ask()
    peer.connection.connection_lost(None)
    assert stream.is_reused


def test_it_rests_for_a_while_and_closes_with_a_goodbye() -> None:
    peer = Peer(LIMITS)
    peer.clock.advance(49)
    peer.ask()
    peer.clock.advance(49)
    peer.server.send_headers(1, OK, end_stream=True)
    peer.exchange()
    peer.clock.advance(49)
    assert peer.tcp.done == []
    peer.clock.advance(1)
    peer.exchange()
    assert peer.tcp.done == ["close"]
    assert len(peer.of(events.ConnectionTerminated)) == 1


def test_an_upstream_that_reads_nothing_has_stalled() -> None:
    peer = Peer(LIMITS)
    user, _ = peer.ask()
    peer.tcp.pending_bytes = 300_000
    peer.connection.pause_writing()
    peer.clock.advance(7)
    peer.connection.resume_writing()
    peer.connection.pause_writing()
    peer.clock.advance(7)
    assert user.told == []
    peer.clock.advance(1)
    assert user.told == ["lost: upstream stopped reading"]
    assert peer.tcp.done == ["abort"]


def test_an_upstream_that_asks_and_never_reads_is_dropped() -> None:
    peer = Peer()
    peer.tcp.pending_bytes = 2_000_000
    peer.server.ping(b"12345678")
    peer.connection.data_received(peer.server.data_to_send())
    assert peer.tcp.done == ["abort"]


def test_header_lists_are_bounded() -> None:
    peer = Peer(Limits(max_header_bytes=10_000))
    user, _ = peer.ask()
    peer.server.send_headers(1, [*OK, (b"a", b"x" * 12_000)])
    peer.exchange()
    assert user.told == ["lost: upstream broke HTTP"]
    peer = Peer(Limits(max_header_bytes=20_000))
    user, _ = peer.ask()
    peer.server.send_headers(1, [*OK, (b"a", b"x" * 12_000)])
    peer.exchange()
    assert user.told == ["response 200", "flush"]


def test_the_table_of_our_requests_stays_small_whatever_the_upstream_wishes() -> None:
    peer = Peer(settings={SettingCodes.HEADER_TABLE_SIZE: 2**30})
    peer.server.decoder.max_allowed_table_size = 2**30
    for number in range(300):
        head = HEAD[:-2] + b"X-Much: %d %s\r\n\r\n" % (number, b"x" * 200)
        _, stream = peer.ask(head=head)
        stream.close()
    assert peer.connection.h2.encoder.header_table_size == 4096


def test_when_all_ids_are_used_no_stream_is_begun() -> None:
    peer = Peer()
    peer.connection.h2.highest_outbound_stream_id = 2**31 - 3
    user, _ = peer.ask()
    assert peer.forgotten
    assert not peer.connection.has_room
    peer.server.send_headers(2**31 - 1, OK, end_stream=True)
    peer.exchange()
    assert user.told == ["response 200", "ended"]
    assert peer.tcp.done == ["close"]


def test_after_its_end_everything_is_harmless() -> None:
    peer = Peer()
    _, stream = peer.ask(b"POST", HEAD, CHUNKED)
    peer.connection.connection_lost(None)
    peer.connection.connection_lost(None)
    peer.connection.eof_received()
    peer.connection.flush()
    peer.connection.close()
    stream.body(b"late")
    stream.resume_reading()
    assert not peer.connection.is_alive(99)

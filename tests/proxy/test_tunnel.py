"""A tunnel between two tapes: what one side does, and what becomes of both."""

from dataclasses import dataclass, field

import pytest

from pyrbacproxy.model import ExchangeRecord, Failure
from pyrbacproxy.proxy.exchange import ConnectionHandler, Released, begin_tunnel
from tests.proxy.dialogue import SideTape, World


@dataclass
class Talk:
    """A tunnel that has begun."""

    client: SideTape = field(default_factory=SideTape)
    upstream: SideTape = field(default_factory=SideTape)
    client_left: bytes = b""
    upstream_left: bytes = b""
    has_client_ended: bool = False
    is_write_paused: bool = False
    world: World = field(default_factory=World)

    def __post_init__(self) -> None:
        self.record = ExchangeRecord("127.0.0.1", "GET", "/x", status=101, received_bytes=3)
        begin_tunnel(
            self.world.services,
            self.record,
            Released(
                self.client,
                self.client_left,
                has_ended=self.has_client_ended,
                is_write_paused=self.is_write_paused,
            ),
            Released(self.upstream, self.upstream_left, is_write_paused=self.is_write_paused),
        )

    @property
    def from_client(self) -> ConnectionHandler:
        assert self.client.user is not None
        return self.client.user

    @property
    def from_upstream(self) -> ConnectionHandler:
        assert self.upstream.user is not None
        return self.upstream.user

    @property
    def is_over(self) -> bool:
        return self.world.records == [self.record]


def test_bytes_pass_both_ways_and_are_counted_once_at_the_end() -> None:
    talk = Talk()
    talk.from_client.data_received(b"GET / HTTP/1.1\r\n")
    talk.from_upstream.data_received(b"abc")
    talk.from_client.data_received(b"de")
    assert talk.upstream.sent == b"GET / HTTP/1.1\r\nde"
    assert talk.client.sent == b"abc"
    assert not talk.is_over
    talk.from_client.connection_lost()
    talk.from_upstream.connection_lost()
    assert talk.is_over
    assert (talk.record.received_bytes, talk.record.sent_bytes) == (3 + 18, 3)
    assert talk.record.ended_at == 5.0


def test_what_came_too_early_goes_first() -> None:
    talk = Talk(client_left=b"early", upstream_left=b"last words")
    assert talk.upstream.sent == b"early"
    assert talk.client.sent == b"last words"
    assert talk.client.done == talk.upstream.done == []


def test_a_side_that_takes_no_more_holds_the_other() -> None:
    talk = Talk()
    talk.from_client.pause_writing()
    assert (talk.client.done, talk.upstream.done) == ([], ["pause"])
    talk.from_client.resume_writing()
    talk.from_upstream.pause_writing()
    talk.from_upstream.resume_writing()
    assert (talk.client.done, talk.upstream.done) == (["pause", "resume"], ["pause", "resume"])


def test_a_full_buffer_is_taken_over() -> None:
    talk = Talk(is_write_paused=True)
    assert talk.client.done == talk.upstream.done == ["pause"]


def test_a_client_that_ends_its_sending_still_gets_bytes() -> None:
    talk = Talk()
    assert talk.from_client.eof_received()
    assert talk.upstream.done == ["end"]
    talk.from_upstream.data_received(b"bye")
    assert talk.client.sent == b"bye"
    assert not talk.from_upstream.eof_received()
    assert talk.upstream.done == ["end", "close"]
    assert talk.client.done == ["close"]
    assert talk.is_over
    assert talk.record.failure is None


def test_an_upstream_that_ends_its_sending_still_gets_bytes() -> None:
    talk = Talk()
    assert talk.from_upstream.eof_received()
    assert talk.client.done == ["end"]
    talk.from_client.data_received(b"bye")
    assert talk.upstream.sent == b"bye"
    assert not talk.from_client.eof_received()
    assert talk.is_over


def test_a_client_that_had_ended_before_the_tunnel() -> None:
    talk = Talk(client_left=b"early", has_client_ended=True)
    assert talk.upstream.sent == b"early"
    assert talk.upstream.done == ["end"]
    assert not talk.is_over


@pytest.mark.parametrize("has_ended_before", [True, False])
def test_where_an_end_cannot_be_told_the_tunnel_is_over(*, has_ended_before: bool) -> None:
    talk = Talk(upstream=SideTape(can_end=False), has_client_ended=has_ended_before)
    if not has_ended_before:
        assert not talk.from_client.eof_received()
    assert talk.upstream.done == ["end", "close"]
    assert talk.client.done == ["close"]
    assert talk.is_over


def test_a_client_lost_in_the_middle_cuts_the_upstream() -> None:
    talk = Talk()
    talk.from_client.connection_lost()
    assert talk.upstream.done == ["close_truncated"]
    assert talk.is_over
    assert talk.record.failure == "client gone"


@pytest.mark.parametrize("failure", [None, Failure.WRITE_STALL])
def test_an_upstream_lost_in_the_middle_cuts_the_client(failure: Failure | None) -> None:
    talk = Talk()
    talk.from_upstream.connection_lost(failure)
    assert talk.client.done == ["close_truncated"]
    assert talk.is_over
    assert talk.record.failure == (failure or Failure.CONNECTION_LOST)


def test_a_side_lost_after_its_end_leaves_the_other_its_bytes() -> None:
    talk = Talk()
    talk.from_upstream.eof_received()
    talk.from_upstream.connection_lost()
    assert talk.client.done == ["end", "linger"]
    assert talk.is_over
    assert talk.record.failure is None


def test_nothing_passes_when_it_is_over() -> None:
    talk = Talk()
    talk.from_client.connection_lost()
    talk.from_upstream.data_received(b"x")
    assert not talk.from_upstream.eof_received()
    talk.from_upstream.connection_lost()
    assert talk.client.sent == b""
    assert talk.is_over
    assert talk.record.sent_bytes == 0


def test_a_shutdown_leaves_it_alone() -> None:
    talk = Talk()
    talk.from_client.drain()
    assert talk.client.done == talk.upstream.done == []
    assert not talk.is_over

"""An upstream connection behind its 101, on a tape; time goes on by hand."""

from pyrbacproxy.proxy.exchange import Limits
from pyrbacproxy.proxy.upstream_http1 import SwitchedUpstream
from tests.fakes import ManualLoop, TapeTransport
from tests.proxy.dialogue import ConnectionHandlerTape


class Talk:
    """A connection that is served."""

    def __init__(
        self, *, stays_open: bool = True, knows_eof: bool = True, is_write_paused: bool = False
    ) -> None:
        self.loop = ManualLoop()
        self.tcp = TapeTransport()
        self.tcp.knows_eof = knows_eof
        self.tcp.pending_bytes = 10 if is_write_paused else 0
        self.user = ConnectionHandlerTape(stays_open=stays_open)
        self.side = SwitchedUpstream(
            self.tcp,
            Limits(write_stall_seconds=60),
            self.loop.as_loop(),
            is_write_paused=is_write_paused,
        )
        self.side.serve(self.user)

    def take(self) -> list[str]:
        done, self.tcp.done = self.tcp.done, []
        return done


def test_bytes_pass_both_ways() -> None:
    talk = Talk()
    assert talk.tcp.protocol is talk.side
    assert talk.take() == ["probe"]
    talk.side.data_received(b"abc")
    talk.side.write(b"d", memoryview(b"ef"))
    talk.side.pause_reading()
    talk.side.resume_reading()
    assert talk.user.heard == b"abc"
    assert talk.tcp.written == b"def"
    assert talk.take() == ["pause", "resume"]


def test_an_end_is_passed_on_both_ways() -> None:
    talk = Talk()
    assert talk.side.end_sending()
    assert talk.take() == ["probe", "eof"]
    assert talk.side.eof_received()
    assert talk.user.told == ["end"]
    assert not Talk(stays_open=False).side.eof_received()


def test_tls_has_no_half_closed_connections() -> None:
    talk = Talk(knows_eof=False)
    assert not talk.side.end_sending()
    assert not talk.side.eof_received()
    assert talk.user.told == ["end"]
    assert talk.take() == ["probe"]


def test_a_full_buffer_that_shrinks_is_waited_for() -> None:
    talk = Talk()
    talk.tcp.pending_bytes = 10
    talk.side.pause_writing()
    talk.loop.advance(50)
    talk.tcp.pending_bytes = 9
    talk.loop.advance(50)
    talk.side.resume_writing()
    talk.loop.advance(500)
    assert talk.user.told == ["pause", "resume"]
    assert talk.take() == ["probe"]


def test_a_full_buffer_that_does_not_shrink_ends_it() -> None:
    talk = Talk()
    talk.tcp.pending_bytes = 10
    talk.side.pause_writing()
    talk.loop.advance(76)
    talk.side.connection_lost(None)
    assert talk.user.told == ["pause", "lost upstream stopped reading"]
    assert talk.take() == ["probe", "abort"]


def test_a_buffer_that_was_full_before_is_watched_too() -> None:
    talk = Talk(is_write_paused=True)
    talk.loop.advance(76)
    assert talk.user.told == ["lost upstream stopped reading"]
    assert talk.take() == ["probe", "abort"]


def test_a_close_leaves_time_for_what_is_unsent_but_not_for_ever() -> None:
    talk = Talk()
    talk.tcp.pending_bytes = 10
    talk.side.close()
    assert talk.take() == ["probe", "close"]
    talk.loop.advance(76)
    assert talk.take() == ["abort"]


def test_a_cut_is_a_reset() -> None:
    talk = Talk()
    talk.side.close_truncated()
    assert talk.take() == ["probe", "reset on close", "abort"]


def test_a_lost_connection_is_told_once_and_used_no_more() -> None:
    talk = Talk()
    talk.side.connection_lost(ConnectionResetError())
    assert talk.user.told == ["lost"]
    talk.side.write(b"x")
    talk.side.pause_reading()
    talk.side.resume_reading()
    talk.side.close()
    talk.side.close_truncated()
    assert not talk.side.end_sending()
    assert not talk.side.eof_received()
    talk.side.data_received(b"x")
    talk.side.pause_writing()
    talk.side.resume_writing()
    assert talk.user.told == ["lost"]
    assert talk.tcp.written == b""
    assert talk.take() == ["probe"]


def test_one_that_was_lost_before_is_told_at_once() -> None:
    user = ConnectionHandlerTape(stays_open=True)
    SwitchedUpstream(None, Limits(), ManualLoop().as_loop()).serve(user)
    assert user.told == ["lost"]

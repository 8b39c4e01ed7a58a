from pyrbacproxy.proxy.exchange import Limits
from pyrbacproxy.proxy.transport import Connection
from tests.fakes import ManualLoop, TapeTransport


class Talk:
    """A connection that nobody serves on."""

    def __init__(self, *, is_made: bool = True) -> None:
        self.loop = ManualLoop()
        self.tcp = TapeTransport()
        self.connection = Connection(Limits(write_stall_seconds=60), self.loop.as_loop())
        if is_made:
            self.connection.connection_made(self.tcp)

    def use(self) -> None:
        self.connection.write(b"a", memoryview(b"bc"))
        self.connection.pause_reading()
        self.connection.resume_reading()
        self.connection.abort()


def test_what_is_asked_for_reaches_the_transport() -> None:
    talk = Talk()
    talk.use()
    assert talk.tcp.written == b"abc"
    assert talk.tcp.done == ["pause", "resume", "abort"]


def test_a_transport_may_be_made_before() -> None:
    tcp = TapeTransport()
    Connection(Limits(), ManualLoop().as_loop(), tcp).write(b"a")
    assert tcp.written == b"a"


def test_before_and_after_the_transport_there_is_nothing_to_do() -> None:
    lost = Talk()
    lost.connection.connection_lost(None)
    for talk in (Talk(is_made=False), lost):
        talk.use()
        talk.connection.pause_writing()
        talk.loop.advance(76)
        assert talk.tcp.written == b""
        assert talk.tcp.done == []


def test_a_peer_that_reads_slowly_is_waited_for() -> None:
    talk = Talk()
    talk.tcp.pending_bytes = 10
    talk.connection.pause_writing()
    talk.loop.advance(50)
    talk.tcp.pending_bytes = 9
    talk.loop.advance(50)
    talk.connection.resume_writing()
    talk.loop.advance(500)
    assert talk.tcp.done == []


def test_a_peer_that_reads_no_more_is_cut() -> None:
    talk = Talk()
    talk.tcp.pending_bytes = 10
    talk.connection.pause_writing()
    talk.loop.advance(76)
    assert talk.tcp.done == ["abort"]


def test_a_lost_one_is_watched_no_more() -> None:
    talk = Talk()
    talk.tcp.pending_bytes = 10
    talk.connection.pause_writing()
    talk.connection.connection_lost(None)
    assert talk.loop.timers == []

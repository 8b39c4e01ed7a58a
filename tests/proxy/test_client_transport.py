from pyrbacproxy.model import Failure
from pyrbacproxy.proxy.exchange import Limits
from pyrbacproxy.proxy.transport import ClientTransport
from tests.fakes import ManualLoop, TapeTransport
from tests.proxy.dialogue import ConnectionHandlerTape


class Talk:
    """A connected `ClientTransport`."""

    def __init__(
        self, *, stays_open: bool = False, peername: tuple[str, int] | None = ("192.0.2.1", 1)
    ) -> None:
        self.loop = ManualLoop()
        self.handler = ConnectionHandlerTape(stays_open=stays_open)
        self.closed: list[ClientTransport] = []
        self.client = ClientTransport(
            lambda _: self.handler,
            limits=Limits(write_stall_seconds=60),
            loop=self.loop.as_loop(),
            on_closed=self.closed.append,
        )
        self.tcp = TapeTransport(peername)
        self.client.connection_made(self.tcp)


def test_bytes_pass_both_ways() -> None:
    talk = Talk()
    talk.client.data_received(b"abc")
    talk.client.write(b"d", b"ef")
    talk.client.pause_reading()
    talk.client.resume_reading()
    assert talk.handler.heard == b"abc"
    assert talk.tcp.written == b"def"
    assert talk.tcp.done == ["pause", "resume"]


def test_the_address_is_plain() -> None:
    for name, address in (
        (("192.0.2.1", 1), "192.0.2.1"),
        (("::ffff:192.0.2.1", 1), "192.0.2.1"),
        (("2001:db8::1", 1), "2001:db8::1"),
        (None, ""),
    ):
        assert Talk(peername=name).client.peer_address == address


def test_an_end_closes_unless_the_inner_side_wants_to_go_on() -> None:
    for stays_open in (False, True):
        talk = Talk(stays_open=stays_open)
        assert talk.client.eof_received()
        assert talk.client.eof_received()
        assert talk.handler.told == ["end"]
        assert talk.tcp.done == ([] if stays_open else ["close"])


def test_a_lost_connection_is_told_once_and_everything_after_it_is_harmless() -> None:
    talk = Talk()
    talk.client.connection_lost(None)
    client = talk.client
    for action in (client.close, client.close_truncated, client.abort, client.linger, client.drain):
        action()
    client.write(b"late")
    client.pause_reading()
    client.resume_reading()
    client.pause_writing()
    client.resume_writing()
    client.data_received(b"late")
    client.eof_received()
    assert talk.handler.told == ["lost"]
    assert talk.closed == [talk.client]
    assert talk.tcp.written == b""
    assert talk.tcp.done == []


def test_why_we_closed_it_at_once_is_told() -> None:
    talk = Talk()
    talk.client.abort(Failure.CUT_AT_SHUTDOWN)
    talk.client.connection_lost(None)
    assert talk.tcp.done == ["abort"]
    assert talk.handler.told == ["lost cut at shutdown"]


def test_lingering_hears_no_more_until_it_is_closed() -> None:
    talk = Talk()
    talk.client.linger()
    talk.client.data_received(b"more")
    talk.client.close()
    talk.client.close()
    assert talk.handler.heard == b""
    assert talk.tcp.done == ["resume", "eof", "close"]


def test_fr79_lingering_ends_with_the_client_s_end_or_after_a_while() -> None:
    talk = Talk()
    talk.client.linger()
    talk.loop.advance(1.1)
    assert talk.tcp.done == ["resume", "eof", "close"]
    talk = Talk()
    talk.client.linger()
    talk.client.eof_received()
    assert talk.tcp.done == ["resume", "eof", "close"]
    talk = Talk(stays_open=True)
    talk.client.eof_received()
    talk.client.linger()
    assert talk.tcp.done == ["close"]
    talk.client.connection_lost(None)
    assert talk.loop.timers == []


def test_lingering_does_not_swallow_without_end() -> None:
    talk = Talk()
    talk.client.linger()
    done = list(talk.tcp.done)
    piece = bytes(Limits().max_lingered_bytes // 4)
    for _ in range(4):
        talk.client.data_received(piece)
    assert talk.tcp.done == done
    for _ in range(2):
        talk.client.data_received(b"x")
    assert talk.tcp.done == [*done, "close"]
    assert talk.handler.heard == b""


def test_a_cut_is_a_reset() -> None:
    talk = Talk()
    talk.client.close_truncated()
    talk.client.close_truncated()
    assert talk.tcp.done == ["reset on close", "close"]


def test_who_stops_reading_is_cut() -> None:
    for closes in (False, True):
        talk = Talk()
        talk.tcp.pending_bytes = 1000
        if closes:
            talk.client.close()
        else:
            talk.client.pause_writing()
        talk.loop.advance(59)
        assert "abort" not in talk.tcp.done
        talk.loop.advance(2)
        assert "abort" in talk.tcp.done
        talk.client.connection_lost(None)
        assert talk.handler.told[-1] == "lost client stopped reading"


def test_who_reads_again_is_spared() -> None:
    talk = Talk()
    talk.tcp.pending_bytes = 1000
    talk.client.pause_writing()
    talk.loop.advance(50)
    talk.client.resume_writing()
    talk.loop.advance(1000)
    assert talk.handler.told == ["pause", "resume"]
    assert talk.tcp.done == []


def test_draining_is_the_inner_sides_business() -> None:
    talk = Talk()
    talk.client.drain()
    assert talk.handler.told == ["drain"]
    talk.client.abort()
    assert talk.tcp.done == ["abort"]


def test_one_side_of_a_tunnel_serves_its_end() -> None:
    talk = Talk()
    end = ConnectionHandlerTape(stays_open=True)
    talk.client.serve(end)
    talk.client.data_received(b"abc")
    talk.client.pause_writing()
    talk.client.resume_writing()
    assert talk.client.end_sending()
    talk.client.data_received(b"d")
    assert talk.client.eof_received()
    assert talk.tcp.done == ["probe", "eof"]
    talk.client.connection_lost(None)
    assert end.heard == b"abcd"
    assert end.told == ["pause", "resume", "end", "lost"]
    assert talk.handler.told == []
    assert talk.closed == [talk.client]
    talk.client.serve(end)
    assert talk.client.end_sending()

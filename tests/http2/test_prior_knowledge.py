import pytest

from pyrbacproxy.http2.frames import PREFACE
from pyrbacproxy.http2.prior_knowledge import PriorKnowledge
from pyrbacproxy.proxy.exchange import ConnectionHandler, Limits
from tests.fakes import ManualLoop
from tests.proxy.dialogue import ConnectionHandlerTape


class Host:
    """A client transport that is handed over."""

    def __init__(self) -> None:
        self.handler: ConnectionHandler | None = None
        self.is_closed = False

    def set_handler(self, handler: ConnectionHandler) -> None:
        self.handler = handler

    def close(self) -> None:
        self.is_closed = True


class Talk:
    def __init__(self) -> None:
        self.loop = ManualLoop()
        self.host = Host()
        self.http1 = ConnectionHandlerTape()
        self.http2 = ConnectionHandlerTape()
        self.handler = PriorKnowledge(
            self.host,
            Limits(idle_seconds=90, read_header_seconds=30),
            http1=lambda: self.http1,
            http2=lambda: self.http2,
            loop=self.loop.as_loop(),
        )


@pytest.mark.parametrize(
    "pieces",
    [
        [b"GET / HTTP/1.1\r\n"],
        [b"P", b"OST / HTTP/1.1\r\n"],
        [b"PRI * HTTP/2.0\r\n", b"Host: h\r\n"],
        [b"\r\n"],
    ],
)
def test_http1_is_known_by_the_first_byte_that_differs(pieces: list[bytes]) -> None:
    talk = Talk()
    for piece in pieces[:-1]:
        talk.handler.data_received(piece)
        assert talk.host.handler is None
    talk.handler.data_received(pieces[-1])
    assert talk.host.handler is talk.http1
    assert talk.http1.heard == b"".join(pieces)
    assert talk.loop.timers == []


def test_http2_is_known_by_its_preface() -> None:
    for size in (1, 5, 100):
        talk = Talk()
        sent = PREFACE + b"more"
        for start in range(0, len(sent), size):
            if talk.host.handler is None:
                talk.handler.data_received(sent[start : start + size])
        assert talk.host.handler is talk.http2
        assert talk.http2.heard.startswith(PREFACE)


def test_who_says_nothing_is_idle_and_who_begins_must_go_on() -> None:
    talk = Talk()
    talk.loop.advance(89)
    talk.handler.data_received(PREFACE[:3])
    talk.loop.advance(29)
    talk.handler.data_received(PREFACE[3:4])
    assert not talk.host.is_closed
    talk.loop.advance(2)
    assert talk.host.is_closed
    silent = Talk()
    silent.loop.advance(91)
    assert silent.host.is_closed


def test_the_end_before_the_beginning() -> None:
    talk = Talk()
    talk.handler.pause_writing()
    talk.handler.resume_writing()
    assert not talk.handler.eof_received()
    talk.handler.connection_lost()
    assert talk.loop.timers == []


def test_draining_lets_http1_decide() -> None:
    talk = Talk()
    talk.handler.drain()
    assert talk.host.handler is talk.http1
    assert talk.http1.told == ["drain"]

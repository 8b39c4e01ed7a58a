import contextlib

import pytest
from OpenSSL import SSL

from pyrbacproxy.proxy.exchange import Limits
from pyrbacproxy.proxy.transport import ClientTransport, SecureTransport
from pyrbacproxy.tls.engine import PlainHttpError
from pyrbacproxy.tls.server_context import TlsSettings, server_context
from tests.fakes import ManualLoop, TapeTransport
from tests.proxy.dialogue import ConnectionHandlerTape
from tests.tls.parties import Client, issue

SERVER = issue("CN=server")
ALICE = issue("CN=alice")
CONTEXT = server_context(SERVER.pair, TlsSettings())


class Talk:
    """A client in memory that talks to a `SecureTransport`."""

    def __init__(self, client: Client | None = None, *, stays_open: bool = False) -> None:
        self.loop = ManualLoop()
        self.handler = ConnectionHandlerTape(stays_open=stays_open)
        self.made: list[SecureTransport] = []
        self.closed: list[ClientTransport] = []
        self.handshakes: list[tuple[str, str]] = []
        self.client = client or Client()
        self.secure = SecureTransport(
            self._make,
            context=lambda: CONTEXT,
            limits=Limits(handshake_seconds=10),
            loop=self.loop.as_loop(),
            on_closed=self.closed.append,
            on_handshake=lambda *told: self.handshakes.append(told),
        )
        self.tcp = TapeTransport()
        self.secure.connection_made(self.tcp)

    def _make(self, transport: SecureTransport) -> ConnectionHandlerTape:
        self.made.append(transport)
        return self.handler

    def hear(self) -> bytes:
        written, self.tcp.written = self.tcp.written, b""
        return self.client.hear(written)

    def deliver(self) -> None:
        written, self.tcp.written = self.tcp.written, b""
        if written:
            self.client.connection.bio_write(written)

    def shake_hands(self) -> "Talk":
        while not self.made:
            with contextlib.suppress(SSL.WantReadError):
                self.client.connection.do_handshake()
            self.secure.data_received(self.client.outgoing())
            self.deliver()
        return self


def test_the_inner_side_is_made_when_the_handshake_is_done() -> None:
    talk = Talk(Client(identity=ALICE))
    assert talk.made == []
    talk.shake_hands()
    assert talk.made == [talk.secure]
    assert talk.secure.peer_chain() == (ALICE.der,)
    assert talk.secure.alpn() == b""
    assert talk.loop.timers == []


def test_how_a_handshake_ended_is_told_once() -> None:
    done, plain, broken, late, left = (Talk() for _ in range(5))
    done.shake_hands()
    plain.secure.data_received(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    broken.secure.data_received(b"\x00" * 50)
    late.loop.advance(10)
    for talk in (done, plain, broken, late, left):
        talk.secure.connection_lost(None)
    assert done.handshakes == [("TLSv1.3", "")]
    failed = [talk.handshakes for talk in (plain, broken, late, left)]
    words = ("plain_http", "tls_error", "timeout", "connection_lost")
    assert failed == [[("", word)] for word in words]


def test_plaintext_passes_both_ways() -> None:
    talk = Talk().shake_hands()
    talk.secure.data_received(talk.client.say(b"abc") + talk.client.say(b"def"))
    assert talk.handler.heard == b"abcdef"
    talk.secure.write(b"x" * 100_000, memoryview(b"yz"))
    assert talk.hear() == b"x" * 100_000 + b"yz"


def test_a_late_handshake_is_cut() -> None:
    talk = Talk()
    talk.loop.advance(10)
    assert talk.tcp.done == ["abort"]


def test_who_is_shaking_hands_may_still_ask_before_the_drain() -> None:
    silent, talk = Talk(), Talk()
    silent.secure.drain()
    silent.loop.advance(5)
    assert silent.tcp.done == ["abort"]
    talk.secure.drain()
    talk.shake_hands()
    assert talk.tcp.done == []
    assert talk.handler.told == ["drain"]
    talk = Talk().shake_hands()
    talk.secure.drain()
    assert talk.handler.told == ["drain"]


@pytest.mark.parametrize("is_shaken", [False, True], ids=["at once", "later"])
def test_garbage_ends_the_connection_with_one_low_line(
    caplog: pytest.LogCaptureFixture, *, is_shaken: bool
) -> None:
    talk = Talk().shake_hands() if is_shaken else Talk()
    caplog.set_level(1)
    talk.secure.data_received(b"\x17\x03\x03\x00\x05hello" if is_shaken else b"\x00" * 50)
    talk.secure.data_received(b"more")
    assert talk.tcp.done == (["close"] if is_shaken else ["resume", "eof"])
    assert [record.levelno for record in caplog.records] == [18]


def test_plain_http_is_told_so() -> None:
    talk = Talk()
    talk.secure.data_received(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    assert talk.tcp.written == PlainHttpError.ANSWER
    assert talk.tcp.done == ["resume", "eof"]


@pytest.mark.parametrize("has_ended", [False, True])
def test_fr79_a_client_whose_handshake_failed_has_time_to_read_why(*, has_ended: bool) -> None:
    talk = Talk()
    talk.secure.data_received(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n")
    talk.secure.data_received(b"123456")
    if has_ended:
        talk.secure.eof_received()
    else:
        talk.loop.advance(1.1)
    assert talk.tcp.done == ["resume", "eof", "close"]
    assert talk.tcp.written == PlainHttpError.ANSWER
    assert talk.handshakes == [("", "plain_http")]


@pytest.mark.parametrize("stays_open", [False, True])
def test_a_client_that_ends_may_still_read(*, stays_open: bool) -> None:
    for says_so in (False, True):
        talk = Talk(stays_open=stays_open).shake_hands()
        if says_so:
            talk.client.connection.shutdown()
            talk.secure.data_received(talk.client.outgoing())
        talk.secure.eof_received()
        assert talk.handler.told == ["end"]
        assert talk.tcp.done == ([] if stays_open else ["close"])


def test_an_end_within_the_handshake_is_the_end() -> None:
    talk = Talk()
    talk.secure.eof_received()
    assert talk.tcp.done == ["abort"]


@pytest.mark.parametrize("how", ["close", "linger", "close_truncated"])
def test_a_close_says_goodbye_and_a_cut_does_not(how: str) -> None:
    talk = Talk().shake_hands()
    for _ in range(2):
        getattr(talk.secure, how)()
    talk.deliver()
    with pytest.raises(SSL.WantReadError if how == "close_truncated" else SSL.ZeroReturnError):
        talk.client.connection.recv(1)


def test_lingering_does_not_swallow_without_end() -> None:
    talk = Talk().shake_hands()
    talk.secure.linger()
    done = list(talk.tcp.done)
    piece = bytes(Limits().max_lingered_bytes // 4)
    for _ in range(4):
        talk.secure.data_received(piece)
    assert talk.tcp.done == done
    for _ in range(2):
        talk.secure.data_received(b"x")
    assert talk.tcp.done == [*done, "close"]
    assert talk.handler.heard == b""


def test_a_lost_connection() -> None:
    talk = Talk().shake_hands()
    talk.secure.connection_lost(ConnectionResetError())
    talk.secure.write(b"late")
    talk.secure.data_received(b"late")
    talk.secure.close_truncated()
    assert talk.handler.told == ["lost"]
    assert talk.closed == [talk.secure]
    Talk().secure.connection_lost(None)


def test_the_end_of_our_sending_leaves_the_client_its_own() -> None:
    talk = Talk(stays_open=True).shake_hands()
    talk.secure.write(b"bye")
    assert talk.secure.end_sending()
    with pytest.raises(SSL.ZeroReturnError):
        talk.hear()
    talk.secure.data_received(talk.client.say(b"still here"))
    assert talk.handler.heard == b"still here"
    assert talk.tcp.done == []
    talk.secure.close()
    assert talk.tcp.done == ["close"]
    talk.secure.connection_lost(None)
    assert talk.secure.end_sending()

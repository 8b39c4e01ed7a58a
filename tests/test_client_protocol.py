"""Which version of HTTP serves a connection, over a real TLS handshake in memory."""

import contextlib
import subprocess
import sys

import pytest
from OpenSSL import SSL

from pyrbacproxy.client_protocol import ClientProtocol
from pyrbacproxy.http2.frames import PREFACE
from pyrbacproxy.http2.limits import Http2Limits
from pyrbacproxy.http2.prior_knowledge import PriorKnowledge
from pyrbacproxy.http2.server import Http2Connection
from pyrbacproxy.proxy.client_http1 import Http1Connection
from pyrbacproxy.proxy.exchange import Limits
from pyrbacproxy.proxy.transport import ClientTransport, SecureTransport
from pyrbacproxy.tls.client_chain import ClientChains
from pyrbacproxy.tls.server_context import TlsSettings, server_context
from tests.fakes import ManualLoop, TapeTransport
from tests.proxy.dialogue import World
from tests.tls.parties import Client, issue

SERVER = issue("CN=server")
CONTEXT = server_context(SERVER.pair, TlsSettings(alpn=(b"http/1.1", b"h2")))


class Talk:
    def __init__(self, limits: Http2Limits | None = Http2Limits()) -> None:  # noqa: B008 - it is frozen
        self.loop = ManualLoop()
        self.services = World(clock=self.loop.time).services
        self.protocol = ClientProtocol(ClientChains(), limits, self.loop.as_loop())
        self.tcp = TapeTransport()

    def shake_hands(self, client: Client) -> object:
        """What serves the connection when the hands are shaken."""
        secure = SecureTransport(
            lambda transport: self.protocol.secure(transport, self.services),
            context=lambda: CONTEXT,
            limits=Limits(),
            loop=self.loop.as_loop(),
            on_closed=lambda _: None,
            on_handshake=lambda *_: None,
        )
        secure.connection_made(self.tcp)
        while secure._handler is None:
            with contextlib.suppress(SSL.WantReadError):
                client.connection.do_handshake()
            secure.data_received(client.outgoing())
            written, self.tcp.written = self.tcp.written, b""
            if written:
                client.connection.bio_write(written)
        return secure._handler

    def connect(self) -> ClientTransport:
        plain = ClientTransport(
            lambda transport: self.protocol.plain(transport, self.services),
            limits=Limits(),
            loop=self.loop.as_loop(),
            on_closed=lambda _: None,
        )
        plain.connection_made(self.tcp)
        return plain


@pytest.mark.parametrize(
    ("alpn", "kind"),
    [
        ((), Http1Connection),
        ((b"h2", b"http/1.1"), Http1Connection),
        ((b"h2",), Http2Connection),
    ],
)
def test_alpn_chooses(alpn: tuple[bytes, ...], kind: type) -> None:
    assert isinstance(Talk().shake_hands(Client(alpn=alpn)), kind)


def test_a_suite_that_http2_forbids_ends_the_connection() -> None:
    weak = Client(alpn=(b"h2",), version=SSL.TLS1_2_VERSION, ciphers="ECDHE-ECDSA-AES256-SHA")
    talk = Talk()
    talk.shake_hands(weak)
    assert talk.tcp.done == ["resume", "eof"]


def test_the_first_bytes_choose_where_there_is_no_tls() -> None:
    for first, kind in ((b"GET / HTTP/1.1\r\n", Http1Connection), (PREFACE, Http2Connection)):
        plain = Talk().connect()
        assert isinstance(plain._handler, PriorKnowledge)
        plain.data_received(first)
        assert isinstance(plain._handler, kind)


def test_nothing_is_looked_for_where_http2_is_off() -> None:
    talk = Talk(None)
    plain = talk.connect()
    assert isinstance(plain._handler, Http1Connection)
    plain.data_received(PREFACE)
    assert talk.tcp.done == ["resume", "eof"]


def test_the_library_is_not_there_before_it_is_needed() -> None:
    code = (
        "import sys, pyrbacproxy.cli, pyrbacproxy.serve;"
        "sys.exit(bool({'h2', 'hpack', 'hyperframe'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

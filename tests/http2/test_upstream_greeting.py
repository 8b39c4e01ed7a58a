import asyncio
import ssl

from pyrbacproxy.http2.upstream_connector import Greeting, chose_http2
from tests.fakes import TapeTransport


class Heard(asyncio.Protocol):
    def __init__(self) -> None:
        self.events: list[object] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.events.append(transport)

    def data_received(self, data: bytes) -> None:
        self.events.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.events.append(exc)


class Transport(TapeTransport):
    """A transport that remembers whose it is."""

    protocol: asyncio.BaseProtocol | None = None

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol


def test_the_transport_is_handed_over() -> None:
    heard, transport = Heard(), Transport()
    Greeting(lambda _: heard).connection_made(transport)
    assert transport.protocol is heard
    assert heard.events == [transport]


def test_what_came_before_is_told_after() -> None:
    heard, transport = Heard(), Transport()
    greeting = Greeting(lambda _: heard)
    greeting.data_received(b"a")
    greeting.data_received(b"b")
    greeting.connection_lost(None)
    greeting.connection_made(transport)
    assert heard.events == [transport, b"ab", None]


def test_without_tls_nothing_was_chosen() -> None:
    assert not chose_http2(TapeTransport())


def test_tls_that_chose_nothing() -> None:
    context = ssl.create_default_context()
    tls = context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="h")

    class Secure(TapeTransport):
        def get_extra_info(self, name: str, default: object = None) -> object:
            return tls if name == "ssl_object" else default

    assert not chose_http2(Secure())

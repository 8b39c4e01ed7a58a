"""An upstream that speaks HTTP/2, as a tape: h2's server side at the other end of a connection."""

import asyncio

from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.settings import SettingCodes, Settings

from pyrbacproxy.http1.framing import NO_BODY, Framing
from pyrbacproxy.http2.upstream import UpstreamConnection, UpstreamStream
from pyrbacproxy.proxy.exchange import Limits
from tests.fakes import ManualLoop, TapeTransport
from tests.proxy.upstream_user import User

HEAD = b"GET /a?b=c HTTP/1.1\r\nHost: h\r\nAccept: */*\r\n\r\n"
OK = [(b":status", b"200"), (b"content-type", b"text/plain")]
LENGTH_2 = [*OK, (b"content-length", b"2")]


class Peer:
    """The connection under test, its keeper, and the upstream that it talks to."""

    def __init__(
        self, limits: Limits | None = None, settings: dict[SettingCodes, int] | None = None
    ) -> None:
        self.clock = ManualLoop()
        self.limits = limits or Limits()
        self.loop: asyncio.AbstractEventLoop = self.clock.as_loop()
        self.scheme = b"http"
        self.forgotten = False
        self.freed_count = 0
        self.settled: list[bool] = []
        self.tcp = TapeTransport()
        self.connection = UpstreamConnection(self, self.settled.append)
        self.server = H2Connection(
            H2Configuration(
                client_side=False, header_encoding=None, validate_outbound_headers=False
            )
        )
        self.heard: list[events.Event] = []
        self.connection.connection_made(self.tcp)
        self.server.local_settings = Settings(client=False, initial_values=settings or {})
        self.server.initiate_connection()
        self.exchange()

    # the keeper

    def freed(self) -> None:
        self.freed_count += 1

    def forget(self, connection: UpstreamConnection) -> None:
        assert connection is self.connection
        self.forgotten = True

    # what happens

    def exchange(self) -> None:
        """Let both sides say what they have, until they are silent."""
        while True:
            said, self.tcp.written = self.tcp.written, b""
            if said:
                self.heard += self.server.receive_data(said)
            answer = self.server.data_to_send()
            if answer and not self.tcp.is_closing():
                self.connection.data_received(answer)
            if not answer and not self.tcp.written:
                return

    def ask(
        self, method: bytes = b"GET", head: bytes = HEAD, framing: Framing = NO_BODY
    ) -> tuple[User, UpstreamStream]:
        user, stream = User(), self.connection.stream()
        user.upstream_ready(stream)
        stream.begin(user, method, head, framing)
        self.exchange()
        return user, stream

    def of(self, kind: type[events.Event]) -> list[events.Event]:
        """What the upstream heard of that kind."""
        return [event for event in self.heard if isinstance(event, kind)]

    @property
    def body(self) -> bytes:
        """All body bytes that the upstream heard."""
        return b"".join(e.data for e in self.heard if isinstance(e, events.DataReceived))

    @property
    def resets(self) -> list[tuple[int, int]]:
        """Streams that were reset, and why."""
        return [
            (e.stream_id, int(e.error_code))
            for e in self.heard
            if isinstance(e, events.StreamReset)
        ]

"""An h2 client and raw frames against an `Http2Connection`, without a socket."""

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    InformationalResponseReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.settings import SettingCodes
from hpack.hpack import Encoder

from pyrbacproxy.http2.frames import DATA, END_STREAM, GOAWAY, HEADERS, RST_STREAM, Frame
from pyrbacproxy.http2.limits import Code, Http2Limits
from pyrbacproxy.http2.server import Http2Connection
from pyrbacproxy.model import Failure, Peer
from pyrbacproxy.proxy.exchange import Limits, UpstreamUser
from tests.fakes import ManualLoop
from tests.proxy.dialogue import SideTape, UpstreamTape, World, received
from tests.proxy.test_http1_connection import Users

Fields = list[tuple[bytes, bytes]]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
STREAM = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
SETTINGS = bytes(Frame(4, 0, 0, b""))


def request(path: bytes = b"/x", *lines: tuple[bytes, bytes], method: bytes = b"GET") -> Fields:
    return [
        (b":method", method),
        (b":scheme", b"https"),
        (b":authority", b"h"),
        (b":path", path),
        *lines,
    ]


def head(number: int, path: bytes = b"/x", flags: int = 0x5, method: bytes = b"GET") -> Frame:
    """A request's HEADERS that need no table."""
    fields = [(name, value, True) for name, value in request(path, method=method)]
    return Frame(HEADERS, flags, number, Encoder().encode(fields))


class Client:
    """What one client sees. Nothing that it sends is checked."""

    def __init__(self, window: int = 65_535) -> None:
        config = H2Configuration(
            header_encoding=None,
            validate_outbound_headers=False,
            normalize_outbound_headers=False,
        )
        self.h2 = H2Connection(config)
        self.h2.local_settings[SettingCodes.INITIAL_WINDOW_SIZE] = window
        self.h2.local_settings.acknowledge()
        self.h2.initiate_connection()
        self.statuses: dict[int, list[int]] = {}
        self.heads: dict[int, dict[bytes, bytes]] = {}
        self.bodies: dict[int, bytes] = {}
        self.trailers: dict[int, Fields] = {}
        self.ended: set[int] = set()
        self.resets: dict[int, int] = {}
        self.goaways: list[int] = []
        self.takes = True
        # Whoever sends raw frames has the library no longer know what goes on.
        self.is_raw = False

    def hear(self, data: bytes) -> None:
        if self.is_raw:
            self._read_raw(data)
            return
        for event in self.h2.receive_data(data):
            self._note(event)

    def _read_raw(self, data: bytes) -> None:
        while data:
            end = 9 + int.from_bytes(data[:3])
            kind, number, payload = data[3], int.from_bytes(data[5:9]), data[9:end]
            if kind == RST_STREAM:
                self.resets[number] = int.from_bytes(payload)
            elif kind == GOAWAY:
                self.goaways.append(int.from_bytes(payload[4:]))
            elif kind == DATA:
                self.bodies[number] = self.bodies.get(number, b"") + payload
            if kind in (DATA, HEADERS) and data[4] & END_STREAM:
                self.ended.add(number)
            data = data[end:]

    def _note(self, event: Event) -> None:
        number = getattr(event, "stream_id", 0) or 0
        if isinstance(event, ResponseReceived | InformationalResponseReceived):
            head = dict(event.headers)
            self.statuses.setdefault(number, []).append(int(head[b":status"]))
            self.heads[number] = {bytes(name): bytes(value) for name, value in head.items()}
        elif isinstance(event, DataReceived):
            self.bodies[number] = self.bodies.get(number, b"") + event.data
            if self.takes:
                self.h2.acknowledge_received_data(event.flow_controlled_length, number)
        elif isinstance(event, TrailersReceived):
            self.trailers[number] = [(bytes(n), bytes(v)) for n, v in event.headers]
        elif isinstance(event, StreamEnded):
            self.ended.add(number)
        elif isinstance(event, StreamReset):
            self.resets[number] = int(event.error_code)
        elif isinstance(event, ConnectionTerminated):
            self.goaways.append(int(event.error_code or 0))


class Talk:
    """A connection between tapes."""

    def __init__(
        self,
        limits: Limits | None = None,
        http2: Http2Limits | None = None,
        *,
        window: int = 65_535,
        fault: Code | None = None,
    ) -> None:
        self.loop = ManualLoop()
        self.world = World(limits=limits or Limits(), clock=self.loop.time)
        self.connector = Users()
        self.world.services.connector = self.connector
        self.transport = SideTape()
        self.client = Client(window)
        self.connection = Http2Connection(
            self.transport,
            self.world.services,
            http2 or Http2Limits(),
            peer=lambda: Peer("192.0.2.1"),
            loop=self.loop.as_loop(),
            fault=fault,
        )

    def exchange(self) -> "Talk":
        """Bytes both ways until both are silent."""
        while sent := self.client.h2.data_to_send():
            self.connection.data_received(sent)
            self.listen()
        self.listen()
        return self

    def listen(self) -> None:
        self.loop.turn()
        heard, self.transport.sent = self.transport.sent, b""
        if heard:
            self.client.hear(heard)

    def ask(
        self,
        path: bytes = b"/x",
        *lines: tuple[bytes, bytes],
        method: bytes = b"GET",
        body: bytes | None = None,
    ) -> int:
        """Open a stream; `body` None: there is none, b"": more follows."""
        number = self.client.h2.get_next_available_stream_id()
        self.client.h2.send_headers(
            number, request(path, *lines, method=method), end_stream=body is None
        )
        if body:
            self.client.h2.send_data(number, body)
        self.exchange()
        return number

    def raw(self, *frames: Frame) -> None:
        """Send frames that no library would."""
        self.client.is_raw = True
        self.connection.data_received(b"".join(map(bytes, frames)))
        self.listen()

    def answer(self, index: int = -1, raw: bytes = OK, *body: bytes, ends: bool = True) -> None:
        """An upstream answers."""
        user = self.user(index)
        user.response(received(raw))
        for piece in body or ((b"ok",) if raw is OK else ()):
            user.response_side.body(piece)
        if ends:
            user.response_ended()
        else:
            user.response_side.flush()
        self.exchange()

    def user(self, index: int = -1) -> UpstreamUser:
        return self.connector.users[index]

    def upstream(self, index: int = -1) -> UpstreamTape:
        return self.connector.upstreams[index]

    @property
    def records(self) -> list[tuple[int, Failure | None]]:
        return [(record.status, record.failure) for record in self.world.records]

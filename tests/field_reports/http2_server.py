"""An upstream that speaks HTTP/2 without TLS, or where TLS chose it: a thread a connection."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.exceptions import StreamClosedError

from tests.field_reports.servers import Listener

Pairs = list[tuple[str, str]]


@dataclass
class Asked:
    """One request, whole; what is answered goes out as the windows let it."""

    session: "Session"
    id: int
    headers: dict[str, str]
    body: bytearray = field(default_factory=bytearray)
    trailers: Pairs = field(default_factory=list)
    waiting: bytearray = field(default_factory=bytearray)
    ending: Pairs | None = None

    @property
    def target(self) -> str:
        return self.headers[":path"]

    def answer(
        self, body: bytes = b"", *lines: tuple[str, str], status: str = "200", ends: bool = True
    ) -> None:
        """Head and body, and unless told otherwise the end."""
        head = [(":status", status), *lines]
        self.session.h2.send_headers(self.id, head, end_stream=ends and not body)
        self.waiting += body
        if ends and body:
            self.end()

    def end(self, *trailers: tuple[str, str]) -> None:
        """The end, behind what still waits."""
        self.ending = list(trailers)

    def pump(self) -> None:
        """Send what there is a window for."""
        h2 = self.session.h2
        while self.waiting and (room := h2.local_flow_control_window(self.id)):
            size = min(room, h2.max_outbound_frame_size, len(self.waiting))
            h2.send_data(self.id, bytes(self.waiting[:size]))
            del self.waiting[:size]
        if not self.waiting and self.ending is not None:
            ending, self.ending = self.ending, None
            if ending:
                h2.send_headers(self.id, ending, end_stream=True)
            else:
                h2.end_stream(self.id)


Script = Callable[[Asked], None]


def plain(request: Asked) -> None:
    request.answer(b"upstream", ("content-type", "text/plain"))


class Session:
    """One connection."""

    def __init__(self, server: "Http2Upstream", connection: socket.socket) -> None:
        self.server = server
        self.connection = connection
        self.h2 = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self.streams: dict[int, Asked] = {}
        self._lock = threading.RLock()

    def serve(self) -> None:
        self.h2.initiate_connection()
        self.flush()
        while data := self.connection.recv(65536):
            with self._lock:
                for event in self.h2.receive_data(data):
                    self.take(event)
                self.flush()

    def take(self, event: events.Event) -> None:
        if isinstance(event, events.RequestReceived):
            headers = {str(name): str(value) for name, value in event.headers}
            self.streams[event.stream_id] = Asked(self, event.stream_id, headers)
        elif isinstance(event, events.DataReceived):
            self.streams[event.stream_id].body += event.data
            self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, events.TrailersReceived):
            pairs = [(str(name), str(value)) for name, value in event.headers]
            self.streams[event.stream_id].trailers = pairs
        elif isinstance(event, events.StreamEnded):
            request = self.streams[event.stream_id]
            self.server.requests.append(request)
            self.server.script(request)
        elif isinstance(event, events.StreamReset):
            self.server.resets.append((event.stream_id, int(event.error_code)))
            self.streams.pop(event.stream_id, None)

    def later(self, act: Callable[[], None]) -> None:
        """Do something on this connection from another thread."""
        with self._lock:
            act()
            self.flush()

    def flush(self) -> None:
        for request in tuple(self.streams.values()):
            with contextlib.suppress(StreamClosedError):
                request.pump()
        self.connection.sendall(self.h2.data_to_send())


class Http2Upstream(Listener):
    """Answers as `script` says; notes what it was asked and which streams were reset."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.script: Script = plain
        self.requests: list[Asked] = []
        self.resets: list[tuple[int, int]] = []
        super().__init__(tls=tls)

    @property
    def targets(self) -> list[str]:
        return [request.target for request in self.requests]

    def serve(self, connection: socket.socket) -> None:
        Session(self, connection).serve()

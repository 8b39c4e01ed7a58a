"""A small server on loopback that speaks HTTP/2, or HTTP/1.1 if ALPN says so."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from typing import cast

from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.settings import SettingCodes, Settings

HTTP_1_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nhttp/1 "


class Server:
    """Answers every stream with its path once it has ended; /wait waits for `answer_waiting`."""

    def __init__(self, settings: dict[SettingCodes, int] | None = None) -> None:
        self.settings = settings or {}
        self.port = 0
        self.sessions: list[Session] = []
        self.choose: Callable[[list[str]], None] = lambda _: None
        # Says nothing, not even SETTINGS.
        self.is_silent = False

    def answer_waiting(self) -> None:
        for session in self.sessions:
            session.answer_waiting()


class Session(asyncio.Protocol):
    """One connection."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.h2 = H2Connection(H2Configuration(client_side=False, header_encoding="ascii"))
        self.h2.local_settings = Settings(client=False, initial_values=server.settings)
        self.paths: dict[int, str] = {}
        self.waiting: list[int] = []
        self.is_http2 = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.server.sessions.append(self)
        tls = transport.get_extra_info("ssl_object")
        self.is_http2 = tls is None or tls.selected_alpn_protocol() == "h2"
        if self.is_http2 and not self.server.is_silent:
            self.h2.initiate_connection()
            self.flush()

    def data_received(self, data: bytes) -> None:
        if self.server.is_silent:
            return
        if not self.is_http2:
            self.transport.write(HTTP_1_ANSWER)
            return
        for event in self.h2.receive_data(data):
            if isinstance(event, events.RequestReceived):
                pairs = [(str(name), str(value)) for name, value in event.headers]
                self.paths[event.stream_id] = dict(pairs)[":path"]
            elif isinstance(event, events.StreamEnded):
                self.ended(event.stream_id)
        self.flush()

    def ended(self, stream_id: int) -> None:
        if self.paths[stream_id] == "/wait":
            self.waiting.append(stream_id)
        elif self.paths[stream_id] == "/die":
            self.transport.abort()
        else:
            self.answer(stream_id)

    def answer(self, stream_id: int) -> None:
        self.h2.send_headers(stream_id, [(":status", "200")])
        self.h2.send_data(stream_id, self.paths[stream_id].encode(), end_stream=True)

    def answer_waiting(self) -> None:
        while self.waiting:
            self.answer(self.waiting.pop(0))
        self.flush()

    def flush(self) -> None:
        self.transport.write(self.h2.data_to_send())


@contextlib.asynccontextmanager
async def serving(
    settings: dict[SettingCodes, int] | None = None, *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Server]:
    """A server that listens."""
    server = Server(settings)
    listener = await asyncio.get_running_loop().create_server(
        lambda: Session(server), "127.0.0.1", 0, ssl=tls
    )
    server.port = int(listener.sockets[0].getsockname()[1])
    try:
        yield server
    finally:
        listener.close()
        for session in server.sessions:
            session.transport.abort()

"""What an upstream connection tells, as a tape."""

import asyncio

from pyrbacproxy.http1.head import Headers, ResponseHead
from pyrbacproxy.http1.parser import ResponseReceived
from pyrbacproxy.model import Failure
from pyrbacproxy.proxy.exchange import Released, UpstreamSink
from pyrbacproxy.proxy.heads import UpstreamHead


class User:
    """An `UpstreamUser` that notes what it is told; it takes itself for what takes the body."""

    def __init__(self, *, is_request_ended: bool = True) -> None:
        self.told: list[object] = []
        self.heard = b""
        self.cause = ""
        self.upstream_head = UpstreamHead(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        self.upstream: UpstreamSink | None = None
        self.is_request_ended = is_request_ended
        self.wants_upstream = True
        self.drops_at = ""
        self.releases_at = ""
        self.released: Released | None = None
        self.ready = asyncio.Event()

    @property
    def response_side(self) -> "User":
        return self

    def upstream_ready(self, upstream: UpstreamSink) -> None:
        self.upstream = upstream
        self.wants_upstream = False
        self.ready.set()

    def upstream_failed(self, failure: Failure, cause: str = "") -> None:
        self.told.append(failure)
        self.cause = cause
        self.ready.set()

    def interim(self, head: ResponseHead) -> None:
        self.note(f"interim {head.status}")

    def response(self, received: ResponseReceived) -> None:
        self.note(f"response {received.head.status}")

    def body(self, data: bytes | memoryview) -> None:
        self.heard += data

    def trailers(self, trailers: Headers) -> None:
        self.note(f"trailers {trailers.pairs!r}")

    def response_ended(self) -> None:
        self.note("ended")

    def flush(self) -> None:
        self.note("flush")

    def upstream_lost(self, failure: Failure, cause: str = "") -> None:
        self.cause = cause
        self.note(f"lost: {failure}")

    def upstream_paused(self) -> None:
        self.note("paused")

    def upstream_resumed(self) -> None:
        self.note("resumed")

    def note(self, event: str) -> None:
        self.told.append(event)
        if event == self.drops_at and self.upstream is not None:
            self.upstream.close()
        if event == self.releases_at and self.upstream is not None:
            self.released = self.upstream.release()

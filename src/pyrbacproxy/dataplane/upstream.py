"""The `asyncio.Protocol` towards the upstream, and the connector over the pool."""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import cast

from pyrbacproxy.dataplane.deadline import Deadline, StallWatch
from pyrbacproxy.dataplane.dial import Dialler
from pyrbacproxy.dataplane.heads import Destination
from pyrbacproxy.dataplane.limits import Limits
from pyrbacproxy.dataplane.pool import Pool
from pyrbacproxy.dataplane.sinks import UpstreamUser
from pyrbacproxy.egress_proxy import ProxyAddress
from pyrbacproxy.http1.errors import RemoteProtocolError
from pyrbacproxy.http1.framing import Kind
from pyrbacproxy.http1.parser import (
    END,
    InterimReceived,
    KnownResponses,
    ResponseEvent,
    ResponseParser,
    ResponseReceived,
)

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class UpstreamSettings:
    """Where requests go.

    `scheme` is "http", "https" or "" (unusable: every forwarded request answers 502, reference
    1.2). `base_path` and `raw_query` are joined to each request's (reference 4.1.3). `host` has no
    brackets. `ca_file` "" means the system's roots; the client pair is both or neither. `proxy` is
    the egress proxy that applies to this upstream.
    """

    scheme: str = ""
    host: str = ""
    port: int = 0
    base_path: bytes = b""
    raw_query: bytes = b""
    ca_file: str = ""
    client_certificate_file: str = ""
    client_key_file: str = ""
    proxy: ProxyAddress | None = None


def destination(settings: UpstreamSettings) -> Destination:
    """What of the settings stands in request heads."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    authority = f"{host}:{settings.port}".encode()
    proxy = settings.proxy
    if proxy is None or settings.scheme != "http":
        return Destination(authority, settings.base_path, settings.raw_query)
    return Destination(
        authority,
        settings.base_path,
        settings.raw_query,
        absolute_prefix=b"http://" + authority,
        proxy_authorization=proxy.authorization.encode(),
    )


class UpstreamConnection(asyncio.Protocol):
    """One connection: an `UpstreamSink` while an exchange has it, else idle or closed."""

    __slots__ = (
        "_connector",
        "_idle",
        "_is_persistent",
        "_method",
        "_parser",
        "_stall",
        "_transport",
        "_user",
        "is_reused",
    )

    def __init__(self, connector: "Connector") -> None:
        limits = connector.limits
        loop = connector.loop
        self._connector = connector
        self._transport: asyncio.Transport | None = None
        self._user: UpstreamUser | None = None
        # Made when a response needs one.
        self._parser: ResponseParser | None = None
        self._is_persistent = False
        self._method = b""
        self.is_reused = False
        self._idle = Deadline(loop, self.close)
        self._stall = StallWatch(
            loop,
            limits.write_stall_seconds,
            pending_bytes=self._pending_bytes,
            stalled=self._stalled,
        )

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connected, TLS handshake included."""
        tcp = cast("asyncio.Transport", transport)
        tcp.set_write_buffer_limits(self._connector.limits.write_high_water_bytes)
        self._transport = tcp

    def data_received(self, data: bytes) -> None:
        """Some of a response."""
        user = self._user
        if user is None:
            # Bytes that nobody asked for would be the next exchange's answer.
            self.close()
            return
        if self._parser is None:
            if self._takes_whole(user, data):
                return
            self._parser = self._new_parser()
        try:
            events = self._parser.feed(data)
        except RemoteProtocolError:
            self._lose("upstream broke HTTP")
            return
        parser = self._parser
        self._tell(user, events)
        if self._user is user and parser.fault is not None:
            self._lose("upstream broke HTTP")

    def eof_received(self) -> None:
        """The upstream ended its sending: the transport closes, as nothing can follow."""
        user = self._user
        if user is None:
            # The usual end of an idle one: nobody may be given it any more.
            self.close()
            return
        parser = self._parser or self._new_parser()
        try:
            events = parser.feed_eof()
        except RemoteProtocolError:
            self._lose("upstream closed early")
            return
        self._tell(user, events)

    def connection_lost(self, exc: Exception | None) -> None:
        """Closed, by whomever."""
        self._transport = None
        self._idle.cancel()
        self._stall.cancel()
        self._connector.forget(self)
        if self._user is not None:
            self._lose("upstream closed early" if exc is None else "upstream connection lost")

    def pause_writing(self) -> None:
        """The write buffer is over its mark."""
        self._stall.start()
        if self._user is not None:
            self._user.upstream_paused()

    def resume_writing(self) -> None:
        """The write buffer is low again."""
        self._stall.stop()
        if self._user is not None:
            self._user.upstream_resumed()

    # UpstreamSink

    @property
    def is_open(self) -> bool:
        """Whether it may be used."""
        return self._transport is not None and not self._transport.is_closing()

    def begin(self, user: UpstreamUser, *, method: bytes, head: bytes) -> None:
        """Send a request head; the answer is told to `user`."""
        self._idle.clear()
        self._user = user
        self._method = method
        if self._transport is not None:
            self._transport.write(head)

    def write(self, data: bytes) -> None:
        """Send bytes; on a lost connection they vanish, and the loss is told."""
        if self._transport is not None:
            self._transport.write(data)

    def pause_reading(self) -> None:
        """Stop reading the answer."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Go on reading it."""
        if self._transport is not None:
            self._transport.resume_reading()

    def close(self) -> None:
        """Drop the connection at once; nothing is told any more."""
        self._user = None
        self._parser = None
        self._connector.forget(self)
        if self._transport is not None:
            self._transport.abort()

    def rest(self, seconds: float) -> None:
        """Be idle for at most so long."""
        self._idle.set(seconds)

    # The answer

    def _takes_whole(self, user: UpstreamUser, data: bytes) -> bool:
        """The usual answer, a known head and all of its body in one read, needs no parser."""
        end = data.find(b"\r\n\r\n") + 4
        received = self._connector.known_responses.get(data[:end])
        if (
            received is None
            or self._method == b"HEAD"
            or received.framing.kind is not Kind.LENGTH
            or len(data) != end + received.framing.length
        ):
            return False
        self._respond(user, received)
        if self._user is user:
            if received.framing.length:
                user.response_side.body(memoryview(data)[end:])
            self._end(user)
        return True

    def _respond(self, user: UpstreamUser, received: ResponseReceived) -> None:
        # A body that lasts until the close leaves nothing to keep.
        is_bounded = received.framing.kind is not Kind.UNTIL_CLOSE
        self._is_persistent = is_bounded and self._connector.is_persistent(received)
        user.response(received)

    def _tell(self, user: UpstreamUser, events: list[ResponseEvent]) -> None:
        """Hand events on until the exchange drops us."""
        response = user.response_side
        for event in events:
            if isinstance(event, bytes):
                response.body(event)
            elif event is END:
                self._end(user)
            elif isinstance(event, ResponseReceived):
                self._respond(user, event)
            elif isinstance(event, InterimReceived):
                user.interim(event.head)
            else:
                response.trailers(event.headers)
            if self._user is not user:
                return
        response.flush()

    def _end(self, user: UpstreamUser) -> None:
        """The response is complete: keep the connection if nothing speaks against it."""
        parser, self._parser, self._user = self._parser, None, None
        is_clean = (parser is None or not parser.leftover) and user.is_request_ended
        if is_clean and self._is_persistent and self.is_open:
            self.is_reused = True
            self._connector.take_back(self)
        else:
            self.close()
        user.response_ended()

    def _lose(self, failure: str) -> None:
        user = self._user
        self.close()
        if user is not None:
            user.upstream_lost(failure)

    def _new_parser(self) -> ResponseParser:
        connector = self._connector
        return ResponseParser(
            request_method=self._method,
            max_head_bytes=connector.limits.max_header_bytes,
            known=connector.known_responses,
        )

    def _pending_bytes(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def _stalled(self) -> None:
        self._lose("upstream stopped reading")


class Connector:
    """Upstream connections on demand, kept alive between exchanges.

    `context` gives the TLS context for an https upstream whenever one is dialled (it may change);
    it is not asked for http. `sinks.Connector` is what exchanges see of it. Must be made inside the
    running loop, or be given one.
    """

    def __init__(
        self,
        settings: UpstreamSettings,
        limits: Limits,
        *,
        context: Callable[[], ssl.SSLContext] | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.limits = limits
        self.loop = loop or asyncio.get_running_loop()
        self.known_responses: KnownResponses = {}
        self._last_received: ResponseReceived | None = None
        self._is_last_persistent = False
        self._settings = settings
        self._dialler = Dialler(
            limits,
            scheme=settings.scheme,
            host=settings.host,
            port=settings.port,
            proxy=settings.proxy,
            context=context,
        )
        self._pool: Pool[UpstreamConnection] = Pool(limits.max_idle_upstreams)
        self._dials: set[asyncio.Task[None]] = set()

    def connect(self, user: UpstreamUser, *, is_fresh: bool) -> None:
        """Give `user` an idle connection now, or a new one later; or tell that there is none."""
        connection = None if is_fresh else self._pool.check_out()
        if connection is not None:
            user.upstream_ready(connection)
        elif not self._settings.scheme:
            user.upstream_failed(502, "no usable upstream")
        else:
            self._begin(self._dial(user))

    def warm(self) -> None:
        """Have a connection ready; if it fails, the exchange that needs one will tell."""
        if self._settings.scheme and not len(self._pool):
            self._begin(self._dial_ahead())

    def is_persistent(self, received: ResponseReceived) -> bool:
        """Whether the upstream keeps its connection; looked up once for a head that repeats."""
        if received is not self._last_received:
            self._last_received = received
            self._is_last_persistent = received.head.is_persistent
        return self._is_last_persistent

    def take_back(self, connection: UpstreamConnection) -> None:
        """Keep a connection for the next exchange, or close one if there are too many."""
        connection.rest(self.limits.upstream_idle_seconds)
        surplus = self._pool.check_in(connection)
        if surplus is not None:
            surplus.close()

    def forget(self, connection: UpstreamConnection) -> None:
        """A connection is closing."""
        self._pool.discard(connection)

    async def close(self) -> None:
        """End dials and idle connections; those in use belong to their exchanges."""
        for task in tuple(self._dials):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        for connection in self._pool.clear():
            connection.close()

    def _begin(self, dial: Coroutine[None, None, None]) -> None:
        task = self.loop.create_task(dial)
        self._dials.add(task)
        task.add_done_callback(self._dials.discard)

    async def _dial_ahead(self) -> None:
        connection = UpstreamConnection(self)
        # It may be closed when it is wanted, as one that served before.
        connection.is_reused = True
        with contextlib.suppress(OSError):
            await self._dialler.dial(connection)
            if connection.is_open:
                self.take_back(connection)

    async def _dial(self, user: UpstreamUser) -> None:
        connection = UpstreamConnection(self)
        try:
            await self._dialler.dial(connection)
        except TimeoutError:
            self._tell_failure(user, 504, "upstream did not answer the connection in time")
        except OSError as error:
            # ssl's errors are OSErrors too; their text names certificates and addresses, no secret.
            _LOG.error("cannot connect to the upstream: %s", error)
            self._tell_failure(user, 502, "upstream refused the connection")
        else:
            if user.wants_upstream:
                user.upstream_ready(connection)
            elif connection.is_open:
                self.take_back(connection)

    def _tell_failure(self, user: UpstreamUser, status: int, failure: str) -> None:
        if user.wants_upstream:
            user.upstream_failed(status, failure)

"""Finds HTTP/2 streams to the upstream: by prior knowledge, or when ALPN chose `h2`."""

import asyncio
import contextlib
import ssl
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from pyrbacproxy.http2.upstream_fields import request_list_bytes
from pyrbacproxy.model import Failure
from pyrbacproxy.proxy import upstream_http1
from pyrbacproxy.proxy.connector import Connector, DialError, Dialler
from pyrbacproxy.proxy.exchange import Limits, UpstreamUser

if TYPE_CHECKING:
    from pyrbacproxy.http2.upstream import UpstreamConnection


# --- upstream greeting ----------------------------------------------------------------
# A new upstream connection until it is known what it speaks: what ALPN chose, or HTTP/2 anyway.


def chose_http2(transport: asyncio.BaseTransport) -> bool:
    """Whether the TLS handshake ended with HTTP/2 (RFC 7301)."""
    tls = transport.get_extra_info("ssl_object")
    return isinstance(tls, ssl.SSLObject) and tls.selected_alpn_protocol() == "h2"


class Greeting(asyncio.Protocol):
    """Hands the transport to the protocol that `choose` makes for it."""

    def __init__(self, choose: Callable[[asyncio.BaseTransport], asyncio.Protocol]) -> None:
        self._choose = choose
        self._early = b""
        self._has_ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connected, TLS handshake included."""
        protocol = self._choose(transport)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if self._early:
            protocol.data_received(self._early)
        if self._has_ended:
            protocol.connection_lost(None)

    def data_received(self, data: bytes) -> None:
        """An upstream that speaks first, through a tunnel that isn't ours yet."""
        self._early += data

    def connection_lost(self, exc: Exception | None) -> None:
        """And one that went at once."""
        del exc
        self._has_ended = True


# --- upstream connector ---------------------------------------------------------------
#
# Finds streams towards an upstream: HTTP/2 by prior knowledge, or if the TLS handshake chose it.
#
# Nothing here imports `h2`: an https upstream that chooses HTTP/1.1 costs no memory for the other.
# Few connections carry all: the first one with room is taken, and another one dialled only when all
# are full. What the upstream chose last is expected of it next: one dial serves all who wait for
# HTTP/2, while HTTP/1.1 needs one for each.


class Http2Connector:
    """A `Connector`; a `Keeper` of HTTP/2 connections.

    `http1` serves what HTTP/2 can't, an upgrade, and all if the upstream chooses so; without it
    HTTP/2 is known to be spoken. Must be made inside the running loop, or be given one.
    """

    def __init__(
        self,
        limits: Limits,
        dialler: Dialler,
        *,
        scheme: str,
        http1: Connector | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.limits = limits
        self.loop = loop or asyncio.get_running_loop()
        self.scheme = scheme.encode()
        self._dialler = dialler
        self._http1 = http1
        self._speaks_http2 = http1 is None
        self._connections: list[UpstreamConnection] = []
        # In their order; the values mean nothing.
        self._waiting: OrderedDict[UpstreamUser, None] = OrderedDict()
        self._dials: set[asyncio.Task[None]] = set()
        if http1 is None and scheme:
            _connection_type()

    # Connector

    def connect(self, user: UpstreamUser, *, is_fresh: bool) -> None:
        """Give `user` a stream or a connection, now or later; or tell that there is none."""
        http1 = self._http1
        if user.upstream_head.asks_for_upgrade:
            if http1 is None:
                user.upstream_failed(Failure.NO_UPGRADE)
            else:
                http1.connect(user, is_fresh=is_fresh)
        elif http1 is not None and http1.has_idle and not (is_fresh or self._speaks_http2):
            http1.connect(user, is_fresh=False)
        elif not self.scheme:
            user.upstream_failed(Failure.NO_UPSTREAM)
        else:
            self._find(user, is_fresh=is_fresh)

    def cancel(self, user: UpstreamUser) -> None:
        """It waits no more; who waits next gets what was dialled for it."""
        self._waiting.pop(user, None)
        if self._http1 is not None:
            self._http1.cancel(user)

    def warm(self) -> None:
        """Have a connection ready; if it fails, the exchange that needs one will tell."""
        if self.scheme and not self._connections:
            self._begin_dial()

    async def close(self) -> None:
        """End dials and connections."""
        for task in tuple(self._dials):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._waiting.clear()
        for connection in tuple(self._connections):
            connection.close()
        if self._http1 is not None:
            await self._http1.close()

    # Keeper

    def freed(self) -> None:
        """There may be room for a waiting exchange."""
        if self._waiting:
            self._serve()

    def forget(self, connection: "UpstreamConnection") -> None:
        """No stream may be begun on it any more."""
        if connection in self._connections:
            self._connections.remove(connection)
            self._dial_as_needed()

    # Who waits

    def _find(self, user: UpstreamUser, *, is_fresh: bool) -> None:
        for connection in self._connections:
            # An idle one may be as stale as the one that failed.
            if connection.has_room and not (is_fresh and connection.is_idle):
                _give(connection, user)
                return
        self._waiting[user] = None
        self._dial_as_needed()

    def _serve(self) -> None:
        """Give streams to those who wait, as far as there is room; dial for the others."""
        for connection in tuple(self._connections):
            while connection.has_room and (user := self._next()) is not None:
                _give(connection, user)
        self._dial_as_needed()

    def _next(self) -> UpstreamUser | None:
        while self._waiting:
            user, _ = self._waiting.popitem(last=False)
            if user.wants_upstream:
                return user
        return None

    def _dial_as_needed(self) -> None:
        wanted = len(self._waiting)
        if self._speaks_http2:
            room = self.limits.max_idle_upstreams - len(self._connections)
            wanted = min(wanted, room, 1)
        while len(self._dials) < wanted:
            self._begin_dial()

    # Dialling

    def _begin_dial(self) -> None:
        task = self.loop.create_task(self._dial())
        self._dials.add(task)
        task.add_done_callback(self._dialled)

    def _dialled(self, task: asyncio.Task[None]) -> None:
        self._dials.discard(task)
        if not task.cancelled():
            self._dial_as_needed()

    async def _dial(self) -> None:
        answer = self.loop.create_future()
        made: list[upstream_http1.UpstreamConnection | UpstreamConnection] = []

        def choose(transport: asyncio.BaseTransport) -> asyncio.Protocol:
            if self._http1 is None or chose_http2(transport):
                made.append(_connection_type()(self, partial(_settle, answer)))
            else:
                made.append(upstream_http1.UpstreamConnection(self._http1.pool))
            return made[0]

        try:
            await self._dialler.dial(Greeting(choose))
            await self._use(made[0], answer)
        except DialError as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001 - the exchanges would wait for ever
            self.loop.call_exception_handler({"message": "a dial", "exception": error})
            self._fail(DialError(Failure.NO_UPSTREAM, ""))

    async def _use(
        self,
        connection: "upstream_http1.UpstreamConnection | UpstreamConnection",
        answer: asyncio.Future[bool],
    ) -> None:
        """Give it to those who wait, as what it is. Raises DialError."""
        if isinstance(connection, upstream_http1.UpstreamConnection):
            self._settle_http1(connection)
            return
        try:
            async with asyncio.timeout(self.limits.connect_seconds):
                speaks_http2 = await answer
        except TimeoutError:
            connection.close()
            raise self._dialler.too_late() from None
        except BaseException:
            connection.close()
            raise
        if not speaks_http2 or not connection.is_open:
            raise self._dialler.failed(Failure.NO_HTTP2, "does not speak HTTP/2")
        self._settle_http2(connection)

    def _settle_http2(self, connection: "UpstreamConnection") -> None:
        self._speaks_http2 = True
        is_spare = any(other.has_room for other in self._connections)
        self._connections.append(connection)
        self._serve()
        if not connection.is_idle:
            return
        if self._waiting:
            raise self._dialler.failed(Failure.NO_CONNECTION, "takes no streams")
        if is_spare:
            connection.close()

    def _settle_http1(self, connection: upstream_http1.UpstreamConnection) -> None:
        self._speaks_http2 = False
        user = self._next()
        if user is not None:
            user.upstream_ready(connection)
        elif connection.is_open and self._http1 is not None:
            # It may be closed when it is wanted, as one that served before.
            connection.is_reused = True
            self._http1.pool.check_in(connection)

    def _fail(self, error: DialError) -> None:
        """Tell those whom this dial was for."""
        count = len(self._waiting) if self._speaks_http2 else 1
        for user in [self._next() for _ in range(count)]:
            if user is not None:
                user.upstream_failed(error.failure, error.cause)


def _give(connection: "UpstreamConnection", user: UpstreamUser) -> None:
    if connection.takes(request_list_bytes(user.upstream_head.raw)):
        user.upstream_ready(connection.stream())
    else:
        user.upstream_failed(Failure.HEAD_TOO_LARGE)


def _settle(answer: asyncio.Future[bool], speaks_http2: bool) -> None:  # noqa: FBT001 - all it says
    if not answer.done():
        answer.set_result(speaks_http2)


def _connection_type() -> "type[UpstreamConnection]":
    # Imported for those who speak it; for the others it would only cost memory.
    from pyrbacproxy.http2.upstream import UpstreamConnection  # noqa: PLC0415

    return UpstreamConnection

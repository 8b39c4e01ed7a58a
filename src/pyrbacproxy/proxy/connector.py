"""Finds HTTP/1.1 connections to the upstream: dials new ones, keeps idle ones."""

import asyncio
import contextlib
import ssl
from collections.abc import Callable, Coroutine
from typing import Generic, TypeVar

from pyrbacproxy.egress import ProxyAddress
from pyrbacproxy.http1.parser import KnownResponses, ResponseReceived
from pyrbacproxy.model import Failure
from pyrbacproxy.proxy.exchange import Limits, UpstreamUser
from pyrbacproxy.proxy.heads import Destination
from pyrbacproxy.proxy.upstream_http1 import DialError, Dialler, UpstreamConnection
from pyrbacproxy.values import Frozen

# --- pool -----------------------------------------------------------------------------
#
# Idle upstream connections: check out, check in, what to close. Books only.
#
# The newest idle connection is taken first: it is the least likely to have been closed by the
# upstream meanwhile, and the older ones age until their idle time is over.

C = TypeVar("C")


class Pool(Generic[C]):
    """At most `max_idle` connections that wait for an exchange, oldest first."""

    __slots__ = ("_idle", "_max_idle")

    def __init__(self, max_idle: int) -> None:
        self._idle: list[C] = []
        self._max_idle = max_idle

    def __len__(self) -> int:
        return len(self._idle)

    def check_out(self) -> C | None:
        """The connection used last, now the caller's; None when none is idle."""
        return self._idle.pop() if self._idle else None

    def check_in(self, connection: C) -> C | None:
        """Take a connection back; the one returned, if any, has no place and must be closed."""
        self._idle.append(connection)
        return self._idle.pop(0) if len(self._idle) > self._max_idle else None

    def discard(self, connection: C) -> None:
        """Forget a connection that is closed; one that is not idle is no fault."""
        if connection in self._idle:
            self._idle.remove(connection)

    def clear(self) -> list[C]:
        """Forget all; they must be closed."""
        idle, self._idle = self._idle, []
        return idle


# --- upstream -------------------------------------------------------------------------
# Where requests go, and the connector: HTTP/1.1 connections on demand, over the pool.

# What stands in the head to a unix socket for a client that named no host.
_LOCAL = b"localhost"


class UpstreamSettings(Frozen):
    """Where requests go.

    `scheme` is "http", "https" or "" (unusable: every forwarded request answers 502, reference
    1.2). `base_path` and `raw_query` are joined to each request's (reference 4.1.3). `host` has no
    brackets. `ca_file` "" means the system's roots; the client pair is both or neither. `proxy` is
    the egress proxy that applies to this upstream. `is_h2c`: HTTP/2 by prior knowledge, without TLS
    or proxy whatever the scheme. `socket_path`, when given, is a unix socket to reach instead of
    host and port (N10).
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
    is_h2c: bool = False
    socket_path: str = ""

    @property
    def is_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.scheme == "https" and not self.is_h2c

    @property
    def offers_http2(self) -> bool:
        """Whether the upstream may choose HTTP/2 in the TLS handshake (reference 6.4)."""
        return self.is_tls and not self.ca_file


def destination(settings: UpstreamSettings) -> Destination:
    """What of the settings stands in request heads."""
    if settings.socket_path:
        return Destination(_LOCAL)
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


def dialler(
    settings: UpstreamSettings, limits: Limits, context: Callable[[], ssl.SSLContext] | None = None
) -> Dialler:
    """What dials there. `context` gives the TLS context whenever it is needed (it may change)."""
    return Dialler(
        limits,
        is_tls=settings.is_tls,
        host=settings.host,
        port=settings.port,
        proxy=settings.proxy,
        socket_path=settings.socket_path,
        context=context,
    )


class Connector:
    """Upstream connections on demand, kept alive between exchanges.

    `context` is as for `dialler`. `Connector` is what exchanges see of it. Must be made
    inside the running loop, or be given one.
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
        self._dialler = dialler(settings, limits, context)
        self._pool: Pool[UpstreamConnection] = Pool(limits.max_idle_upstreams)
        self._dials: set[asyncio.Task[None]] = set()
        self._dialled_for: dict[UpstreamUser, asyncio.Task[None]] = {}

    @property
    def has_idle(self) -> bool:
        """Whether a connection waits for an exchange."""
        return len(self._pool) > 0

    def connect(self, user: UpstreamUser, *, is_fresh: bool) -> None:
        """Give `user` an idle connection now, or a new one later; or tell that there is none."""
        connection = None if is_fresh else self._pool.check_out()
        if connection is not None:
            user.upstream_ready(connection)
        elif not self._settings.scheme:
            user.upstream_failed(Failure.NO_UPSTREAM)
        else:
            self._dialled_for[user] = self._begin(self._dial(user))

    def cancel(self, user: UpstreamUser) -> None:
        """End the dial for an exchange that is over.

        Dials live for half a minute, each with a descriptor: a client that resets its streams
        would have any number of them (CVE-2023-44487).
        """
        task = self._dialled_for.pop(user, None)
        if task is not None:
            task.cancel()

    def warm(self) -> None:
        """Have a connection ready; if it fails, the exchange that needs one will tell."""
        if self._settings.scheme and not self.has_idle:
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

    def _begin(self, dial: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = self.loop.create_task(dial)
        self._dials.add(task)
        task.add_done_callback(self._dials.discard)
        return task

    async def _dial_ahead(self) -> None:
        connection = UpstreamConnection(self)
        # It may be closed when it is wanted, as one that served before.
        connection.is_reused = True
        with contextlib.suppress(DialError):
            await self._dialler.dial(connection)
            if connection.is_open:
                self.take_back(connection)

    async def _dial(self, user: UpstreamUser) -> None:
        connection = UpstreamConnection(self)
        try:
            await self._dialler.dial(connection)
        except DialError as error:
            self._tell_failure(user, error.failure, error.cause)
        except Exception as error:  # noqa: BLE001 - the exchange would wait for ever
            self.loop.call_exception_handler({"message": "a dial", "exception": error})
            self._tell_failure(user, Failure.NO_UPSTREAM)
        else:
            self._dialled_for.pop(user, None)
            if user.wants_upstream:
                user.upstream_ready(connection)
            elif connection.is_open:
                self.take_back(connection)

    def _tell_failure(self, user: UpstreamUser, failure: Failure, cause: str = "") -> None:
        self._dialled_for.pop(user, None)
        if user.wants_upstream:
            user.upstream_failed(failure, cause)

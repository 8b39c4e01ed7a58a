"""Connections to the upstream: where it is, how it is dialled, and which connection serves next.

An exchange asks the connector and gets an idle HTTP/1.1 connection at once, a new one when the dial
is done, or a `Failure`. A dial belongs to the exchange that it was begun for, and is cancelled with
it; a connection that comes too late for its exchange is kept for the next one.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Coroutine

from pyrbacproxy import dialing
from pyrbacproxy.egress import ProxyAddress
from pyrbacproxy.model import Failure
from pyrbacproxy.proxy.exchange import Limits, UpstreamUser
from pyrbacproxy.proxy.heads import Destination
from pyrbacproxy.proxy.upstream_http1 import UpstreamConnection, UpstreamPool
from pyrbacproxy.values import Frozen

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


class Connector:
    """Upstream connections on demand, kept alive between exchanges; an `exchange.Connector`.

    `context` is as for `dialler`; `pool` has the idle ones. Must be made inside the running loop,
    or be given one.
    """

    def __init__(
        self,
        settings: UpstreamSettings,
        limits: Limits,
        *,
        context: Callable[[], ssl.SSLContext] | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._loop = loop or asyncio.get_running_loop()
        self._settings = settings
        self._dialler = dialler(settings, limits, context)
        self.pool = UpstreamPool(limits, self._loop)
        self._dials: set[asyncio.Task[None]] = set()
        self._dialled_for: dict[UpstreamUser, asyncio.Task[None]] = {}

    @property
    def has_idle(self) -> bool:
        """Whether a connection waits for an exchange."""
        return len(self.pool) > 0

    def connect(self, user: UpstreamUser, *, is_fresh: bool) -> None:
        """Give `user` an idle connection now or a new one later, or the failure to get one."""
        connection = None if is_fresh else self.pool.check_out()
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

    async def close(self) -> None:
        """End dials and idle connections; those in use belong to their exchanges."""
        for task in tuple(self._dials):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self.pool.close()

    def _begin(self, dial: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(dial)
        self._dials.add(task)
        task.add_done_callback(self._dials.discard)
        return task

    async def _dial_ahead(self) -> None:
        connection = UpstreamConnection(self.pool)
        # It may be closed when it is wanted, as one that served before.
        connection.is_reused = True
        with contextlib.suppress(DialError):
            await self._dialler.dial(connection)
            if connection.is_open:
                self.pool.check_in(connection)

    async def _dial(self, user: UpstreamUser) -> None:
        connection = UpstreamConnection(self.pool)
        try:
            await self._dialler.dial(connection)
        except DialError as error:
            self._report_failure(user, error.failure, error.cause)
        except Exception as error:  # noqa: BLE001 - the exchange would wait for ever
            self._loop.call_exception_handler({"message": "a dial", "exception": error})
            self._report_failure(user, Failure.NO_UPSTREAM)
        else:
            self._dialled_for.pop(user, None)
            if user.wants_upstream:
                user.upstream_ready(connection)
            elif connection.is_open:
                self.pool.check_in(connection)

    def _report_failure(self, user: UpstreamUser, failure: Failure, cause: str = "") -> None:
        self._dialled_for.pop(user, None)
        if user.wants_upstream:
            user.upstream_failed(failure, cause)


# --- dialling -------------------------------------------------------------------------


class Dialler:
    """Dials one address, or the unix socket at `socket_path`.

    `context` gives the TLS context of the moment.
    """

    def __init__(
        self,
        limits: Limits,
        *,
        is_tls: bool,
        host: str,
        port: int,
        proxy: ProxyAddress | None,
        context: Callable[[], ssl.SSLContext] | None,
        socket_path: str = "",
    ) -> None:
        self._limits = limits
        self._is_tls = is_tls
        self._socket_path = socket_path
        self._route = dialing.Route(host, port, proxy)
        self._lookup = dialing.lookup_of(self._route)
        self._context = context

    @property
    def address(self) -> str:
        """What is dialled, for the log."""
        host = f"[{self._route.host}]" if ":" in self._route.host else self._route.host
        return self._socket_path or f"{host}:{self._route.port}"

    async def dial(self, protocol: asyncio.Protocol) -> None:
        """Connect `protocol`. Raises DialError."""
        try:
            async with asyncio.timeout(self._limits.connect_seconds):
                await self._dial(protocol)
        except TimeoutError:
            raise self.too_late() from None
        except (OSError, UnicodeError) as error:
            words = dialing.in_words(error, "the upstream")
            raise self.failed(_failure(error), words) from error

    def failed(self, failure: Failure, words: str) -> "DialError":
        """The error that says so of this address, and of the proxy on the way."""
        proxy = self._route.proxy
        through = f" through the egress proxy {proxy.host}:{proxy.port}" if proxy else ""
        return DialError(failure, f"{self.address}{through}: {words}")

    def too_late(self) -> "DialError":
        """The error of a dial that took too long."""
        seconds = self._limits.connect_seconds
        return self.failed(Failure.CONNECT_TIMEOUT, f"no connection within {seconds:g} s")

    async def _dial(self, protocol: asyncio.Protocol) -> None:
        if self._socket_path:
            loop = asyncio.get_running_loop()
            await loop.create_unix_connection(lambda: protocol, self._socket_path)
            return
        context = self._context() if self._is_tls and self._context is not None else None
        if self._is_tls and context is None:
            raise OSError("no TLS context for an https upstream")
        await self._lookup.works()
        await dialing.dial(
            self._route,
            protocol,
            context=context,
            handshake_seconds=self._limits.upstream_handshake_seconds,
        )


def dialler(
    settings: UpstreamSettings, limits: Limits, context: Callable[[], ssl.SSLContext] | None = None
) -> Dialler:
    """What dials the upstream of these settings; `context` is as for `Dialler`."""
    return Dialler(
        limits,
        is_tls=settings.is_tls,
        host=settings.host,
        port=settings.port,
        proxy=settings.proxy,
        socket_path=settings.socket_path,
        context=context,
    )


class DialError(OSError):
    """There is no connection to the upstream; `cause` is its address and what happened."""

    def __init__(self, failure: Failure, cause: str) -> None:
        super().__init__(cause)
        self.failure = failure
        self.cause = cause


_FAILURES = (
    (ssl.SSLCertVerificationError, Failure.NOT_TRUSTED),
    (ssl.SSLError, Failure.TLS_FAILED),
    ((socket.gaierror, UnicodeError), Failure.NAME_NOT_FOUND),
    (dialing.TunnelRefusedError, Failure.TUNNEL_REFUSED),
    (ConnectionRefusedError, Failure.REFUSED),
)


def _failure(error: OSError | UnicodeError) -> Failure:
    for kinds, failure in _FAILURES:
        if isinstance(error, kinds):
            return failure
    return Failure.NO_CONNECTION

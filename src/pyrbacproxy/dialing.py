"""Opens one outgoing connection: plain or TLS, directly or through an egress proxy (D34)."""

import asyncio
import contextlib
import os
import socket
import ssl
import threading
from collections.abc import Callable
from functools import partial
from ipaddress import ip_address

from pyrbacproxy.egress import ProxyAddress
from pyrbacproxy.tls.client_context import client_context
from pyrbacproxy.values import Frozen

# --- lookup ---------------------------------------------------------------------------
#
# One look-up of a server's name at a time, shared by all that wait for it.
#
# A look-up that hangs can't be called off: it holds one of the loop's few threads for names until
# the resolver gives up. One for each review or request would hold them all, no other name would
# ever be found (FR48), and a signal would have no effect meanwhile, for those threads are waited
# for.


class Lookup:
    """Of a host; for an address and `localhost`, which a file has, there is nothing to look up."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._is_known = host == "localhost" or _is_address(host)
        self._asking: asyncio.Future[None] | None = None

    async def works(self) -> None:
        """Wait until the name is found; raises OSError or UnicodeError when it isn't.

        What was found isn't kept: who dials now asks again, of a resolver that answers.
        """
        if self._is_known:
            return
        if self._asking is None:
            self._asking = _asking(self._host, self._port)
            self._asking.add_done_callback(self._forget)
        await asyncio.shield(self._asking)

    def _forget(self, asking: asyncio.Future[None]) -> None:
        self._asking = None
        if not asking.cancelled():
            asking.exception()  # or asyncio complains when nothing waits any more


def _asking(host: str, port: int) -> asyncio.Future[None]:
    """A look-up in a thread that is not waited for at the end."""
    loop = asyncio.get_running_loop()
    # As bytes: text would load the tables of international names.
    name = host.encode() if host.isascii() else host
    answer: asyncio.Future[None] = loop.create_future()

    def ask() -> None:
        tell = partial(answer.set_result, None)
        try:
            socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
        except Exception as error:  # noqa: BLE001 -- whatever it is, who waits is to know
            tell = partial(answer.set_exception, error)
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(tell)

    threading.Thread(target=ask, name="look-up", daemon=True).start()
    return answer


def _is_address(host: str) -> bool:
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


# --- egress dial ----------------------------------------------------------------------
# One new outgoing connection: plain or TLS, straight or through an egress proxy (D34).

_MAX_ANSWER_BYTES = 16_384


class TunnelRefusedError(ConnectionError):
    """The egress proxy answered CONNECT with `status`, which is no 2xx; 0: with no status."""

    def __init__(self, status: int) -> None:
        answer = f" with {status}" if status else ""
        super().__init__(f"the egress proxy refused the tunnel{answer}")
        self.status = status


class Route(Frozen):
    """Where a connection leads, and the proxy on the way if there is one. `host` has no brackets;
    `server_name` is whom its certificate must name, "" for the host.

    A plain server behind a proxy is the proxy's business: it is connected to, and the requests name
    the server in absolute-form (RFC 9112 §3.2.2). For a server with TLS the proxy is asked for a
    tunnel (RFC 9110 §9.3.6).
    """

    host: str
    port: int
    proxy: ProxyAddress | None = None
    server_name: str = ""

    @property
    def name(self) -> str:
        """The server as certificates and SNI spell it (RFC 6066 §3): without the root's dot."""
        return self.server_name or self.host.removesuffix(".")


# OpenSSL's reasons that are riddles; {server} is the component that was connected to.
_PLAIN = "wrong version number: does {server} speak plain HTTP?"
_NO_VERSION = "no TLS version in common: 1.2 is the lowest that is used"
_CERTIFICATE_REFUSED = "{server} refused our client certificate"
_TLS_WORDS = {
    "WRONG_VERSION_NUMBER": _PLAIN,
    # What OpenSSL from 3.2 on makes of text in the place of a record.
    "RECORD_LAYER_FAILURE": _PLAIN,
    "PACKET_LENGTH_TOO_LONG": _PLAIN,
    "TLSV1_ALERT_PROTOCOL_VERSION": _NO_VERSION,
    "UNSUPPORTED_PROTOCOL": _NO_VERSION,
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "{server} refused the handshake: no cipher suite in common, "
    "or it wants a client certificate",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "{server} wants a client certificate",
    "TLSV1_ALERT_UNKNOWN_CA": _CERTIFICATE_REFUSED,
    "SSLV3_ALERT_BAD_CERTIFICATE": _CERTIFICATE_REFUSED,
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": _CERTIFICATE_REFUSED,
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": _CERTIFICATE_REFUSED,
    "TLSV1_UNRECOGNIZED_NAME": "{server} has no certificate for this name",
}


def in_words(error: OSError | UnicodeError, server: str) -> str:
    """Why a connection to `server` ("the upstream") could not be made, for a log.

    Names, addresses and the system's or OpenSSL's words; nothing that the server said.
    """
    if isinstance(error, UnicodeError):
        return "the name cannot be looked up: it is no name for DNS"
    if isinstance(error, socket.gaierror):
        return f"the name cannot be looked up: {error.strerror}"
    if isinstance(error, ssl.SSLCertVerificationError):
        # An error that OpenSSL didn't make has neither attribute.
        message = getattr(error, "verify_message", "") or str(error)
        return f"certificate not trusted: {message.removesuffix('.')}"
    if isinstance(error, ssl.SSLError):
        reason = getattr(error, "reason", "") or str(error)
        words = _TLS_WORDS.get(reason, reason.lower().replace("_", " "))
        return f"TLS: {words.format(server=server)}"
    if error.errno is not None:
        # Not `strerror`, into which the loop writes the address again.
        return os.strerror(error.errno)
    return str(error) or f"{server} closed the connection"


def lookup_of(route: Route) -> Lookup:
    """The look-up of the first name on the way: who dials waits for it, before `dial`."""
    first = route.proxy or route
    return Lookup(first.host, first.port)


async def dial(
    route: Route,
    protocol: asyncio.Protocol,
    *,
    context: ssl.SSLContext | None,
    handshake_seconds: float | None = None,
) -> None:
    """Connect `protocol`, with TLS if there is a `context`.

    Raises OSError (refused, TLS failure). How long it may take altogether is the caller's to say;
    one that is cancelled leaves nothing open. `handshake_seconds` bounds each TLS handshake (None:
    the loop's minute).
    """
    if route.proxy is None:
        await _connect(lambda: protocol, route, context, handshake_seconds)
    elif context is None:
        await _connect_to_proxy(route.proxy, lambda: protocol, handshake_seconds)
    else:
        await _tunnel(route, route.proxy, protocol, context, handshake_seconds)


async def _connect(
    make_protocol: Callable[[], asyncio.Protocol],
    route: Route,
    context: ssl.SSLContext | None,
    handshake_seconds: float | None,
) -> asyncio.Transport:
    transport, _ = await asyncio.get_running_loop().create_connection(
        make_protocol,
        route.host,
        route.port,
        ssl=context,
        server_hostname=route.name if context is not None else None,
        ssl_handshake_timeout=handshake_seconds if context is not None else None,
    )
    return transport


async def _connect_to_proxy(
    proxy: ProxyAddress,
    make_protocol: Callable[[], asyncio.Protocol],
    handshake_seconds: float | None,
) -> asyncio.Transport:
    context = None
    if proxy.scheme == "https":
        # In a thread: the system's roots are many.
        context = await asyncio.to_thread(client_context)
    route = Route(proxy.host, proxy.port)
    return await _connect(make_protocol, route, context, handshake_seconds)


async def _tunnel(
    route: Route,
    proxy: ProxyAddress,
    protocol: asyncio.Protocol,
    context: ssl.SSLContext,
    handshake_seconds: float | None,
) -> None:
    loop = asyncio.get_running_loop()
    asking = _TunnelRequest(loop)
    transport = await _connect_to_proxy(proxy, lambda: asking, handshake_seconds)
    try:
        transport.write(_tunnel_head(route, proxy))
        await asking.answer
        upgraded = await loop.start_tls(
            transport,
            protocol,
            context,
            server_hostname=route.name,
            ssl_handshake_timeout=handshake_seconds,
        )
    except BaseException:
        transport.abort()
        raise
    if upgraded is None:
        raise ConnectionError("the egress proxy closed the tunnel")
    protocol.connection_made(upgraded)


def _tunnel_head(route: Route, proxy: ProxyAddress) -> bytes:
    host = f"[{route.host}]" if ":" in route.host else route.host
    lines = [f"CONNECT {host}:{route.port} HTTP/1.1", f"Host: {host}:{route.port}"]
    if proxy.authorization:
        lines.append(f"Proxy-Authorization: {proxy.authorization}")
    return "\r\n".join([*lines, "", ""]).encode()


class _TunnelRequest(asyncio.Protocol):
    """Waits for a proxy's answer to CONNECT; `answer` fails with OSError unless it is a 2xx."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.answer: asyncio.Future[None] = loop.create_future()
        self._received = b""

    def data_received(self, data: bytes) -> None:
        """Some of the answer's head: a 2xx has no body (RFC 9110 §9.3.6)."""
        self._received += data
        if self.answer.done():
            return
        if b"\r\n\r\n" in self._received:
            status = self._received.split(b" ", 2)[1:2]
            if status and len(status[0]) >= 3 and status[0].startswith(b"2"):  # noqa: PLR2004 - 2xx
                self.answer.set_result(None)
            else:
                # Three digits (RFC 9112 §4): int() has no use for thousands.
                is_status = bool(status) and len(status[0]) == 3 and status[0].isdigit()  # noqa: PLR2004 -- 3
                number = int(status[0]) if is_status else 0
                self.answer.set_exception(TunnelRefusedError(number))
        elif len(self._received) > _MAX_ANSWER_BYTES:
            self.answer.set_exception(ConnectionError("the egress proxy's answer is too long"))

    def connection_lost(self, exc: Exception | None) -> None:
        """The proxy closed instead of answering."""
        if not self.answer.done():
            self.answer.set_exception(exc or ConnectionError("the egress proxy closed"))

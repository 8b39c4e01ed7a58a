"""GET one document from an issuer: over verified TLS, within bounds, by the egress proxy (D34)."""

import asyncio
import ssl
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import quote, urljoin, urlsplit

from pyrbacproxy.egress_dial import Route, dial, in_words, lookup_of
from pyrbacproxy.egress_proxy import DEFAULT_PORTS, EgressProxies, proxy_for
from pyrbacproxy.http1 import writer
from pyrbacproxy.http1.errors import LocalProtocolError, RemoteProtocolError
from pyrbacproxy.http1.head import Headers, ResponseHead
from pyrbacproxy.http1.parser import END, ResponseEvent, ResponseParser, ResponseReceived

WHOLE_SECONDS = 30.0
MAX_BODY_BYTES = 1 << 20
MAX_REDIRECTS = 10  # as Go's client
_MAX_HEAD_BYTES = 65_536
_OK = 200
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
# RFC 3986 §3.3 and §3.4: what may stand there as it is.
_TARGET_CHARACTERS = "/%:@!$&'()*+,;=~?"


class FetchError(Exception):
    """There is no document; the text is ours alone, nothing from the wire is in it."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """A whole answer."""

    status: int
    headers: Headers
    body: bytes = field(repr=False)


async def fetch(
    url: str,
    *,
    context: ssl.SSLContext,
    proxies: EgressProxies,
    within_seconds: float = WHOLE_SECONDS,
) -> Fetched:
    """The answer 200 to a GET, redirects to https followed; raises FetchError for all else."""
    try:
        async with asyncio.timeout(within_seconds):
            return await _followed(url, context, proxies)
    except TimeoutError:
        raise FetchError(f"no answer within {within_seconds:g} s") from None
    except RemoteProtocolError:
        raise FetchError("the answer is cut, too large or no HTTP/1.1") from None
    except OSError as error:
        raise FetchError(f"cannot be reached: {in_words(error, 'the issuer')}") from None
    except (LocalProtocolError, ValueError):  # UnicodeError, where DNS can't spell the host, is one
        raise FetchError("the address cannot be used") from None


async def _followed(url: str, context: ssl.SSLContext, proxies: EgressProxies) -> Fetched:
    for _ in range(MAX_REDIRECTS + 1):
        fetched = await _asked(url, context, proxies)
        location = fetched.headers.get(b"location")
        if fetched.status not in _REDIRECTS or location is None:
            break
        url = urljoin(url, location.decode("latin-1"))
    else:
        raise FetchError("too many redirects")
    if fetched.status != _OK:
        raise FetchError(f"the answer is {fetched.status}")
    if fetched.headers.get(b"content-encoding") not in (None, b"identity"):
        raise FetchError("the answer is compressed, unasked")
    return fetched


async def _asked(url: str, context: ssl.SSLContext, proxies: EgressProxies) -> Fetched:
    """One request on a connection of its own. Raises FetchError and what `fetch` turns into one."""
    parts = urlsplit(url)
    if parts.scheme != "https":
        raise FetchError("a redirect leads away from https")
    host, port = parts.hostname or "", parts.port or DEFAULT_PORTS["https"]
    authority = parts.netloc.rpartition("@")[2].encode("idna")
    target = quote(parts.path or "/", safe=_TARGET_CHARACTERS)
    if parts.query:
        target += "?" + quote(parts.query, safe=_TARGET_CHARACTERS)
    request = writer.own_request(b"GET", target.encode(), authority, (b"Connection", b"close"))
    asking = _Asking(request)
    route = Route(host, port, proxy_for(proxies, "https", host, port))
    try:
        await lookup_of(route).works()
        await dial(route, asking, context=context)
        return await asking.answer
    finally:
        asking.abort()


class _Asking(asyncio.Protocol):
    """Sends the request once it is connected, and reads the answer."""

    def __init__(self, request: bytes) -> None:
        self.answer: asyncio.Future[Fetched] = asyncio.get_running_loop().create_future()
        self._request = request
        self._parser = ResponseParser(request_method=b"GET", max_head_bytes=_MAX_HEAD_BYTES)
        self._transport: asyncio.Transport | None = None
        self._head: ResponseHead | None = None
        self._body = bytearray()

    def abort(self) -> None:
        """Close, whatever is under way."""
        # Whoever is cancelled at the moment of a failure does not fetch it: that is no news.
        if self.answer.done() and not self.answer.cancelled():
            self.answer.exception()
        self.answer.cancel()
        if self._transport is not None:
            self._transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connected, TLS handshake included."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Some of the answer."""
        try:
            self._take(self._parser.feed(data))
        except RemoteProtocolError as error:
            self._fail(error)
        if self._parser.fault is not None:
            self._fail(self._parser.fault)

    def connection_lost(self, exc: Exception | None) -> None:
        """The issuer closed: an answer may end so."""
        try:
            self._take(self._parser.feed_eof())
        except RemoteProtocolError as error:
            self._fail(exc or error)
        self._fail(exc or RemoteProtocolError("cut"))

    def _take(self, events: list[ResponseEvent]) -> None:
        for event in events:
            if isinstance(event, ResponseReceived):
                self._head = event.head
            elif isinstance(event, bytes):
                self._body += event
        if len(self._body) > MAX_BODY_BYTES:
            self._fail(RemoteProtocolError("too large"))
        elif END in events and self._head is not None and not self.answer.done():
            head = self._head
            self.answer.set_result(Fetched(head.status, head.headers, bytes(self._body)))

    def _fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)

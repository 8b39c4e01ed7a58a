"""Keeps an issuer's signature keys fresh: discovery, then its key set as its headers say."""

import asyncio
import logging
import re
import ssl
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import cast
from urllib.parse import quote, urljoin, urlsplit

from pyrbacproxy.background import Activity
from pyrbacproxy.dialing import Route, dial, in_words, lookup_of
from pyrbacproxy.egress import DEFAULT_PORTS, EgressProxies, proxy_for
from pyrbacproxy.http1 import writer
from pyrbacproxy.http1.head import Headers, LocalProtocolError, RemoteProtocolError, ResponseHead
from pyrbacproxy.http1.parser import END, ResponseEvent, ResponseParser, ResponseReceived
from pyrbacproxy.oidc import tokens
from pyrbacproxy.oidc.settings import OidcSettings
from pyrbacproxy.oidc.tokens import KeySet, json_object
from pyrbacproxy.values import Frozen, field

# --- discovery ------------------------------------------------------------------------
# What an issuer says about itself: where its keys are, and how long they may be kept.

# An issuer's word about its keys holds between these: it is not asked all the time, nor believed
# for ever.
LEAST_SECONDS = 60.0
MOST_SECONDS = 3600.0
USUAL_SECONDS = 300.0
_MAX_AGE = re.compile(rb"max-age=\"?([0-9]{1,9})\"?")
_WELL_KNOWN = "/.well-known/openid-configuration"


def discovery_url(issuer: str) -> str:
    """Where the issuer describes itself (OpenID Connect Discovery 1.0, section 4)."""
    return issuer.removesuffix("/") + _WELL_KNOWN


def key_set_url(text: bytes, issuer: str) -> str:
    """The address of the issuer's key set, from its discovery document.

    Raises ValueError in fixed words, also when the document is another issuer's.
    """
    document = json_object(text)
    if document is None:
        raise ValueError("the discovery document is no JSON object")
    if document.get("issuer") != issuer:
        raise ValueError("the discovery document names another issuer than --oidc-issuer")
    url = document.get("jwks_uri")
    if not isinstance(url, str) or not _is_https(url):
        raise ValueError("the discovery document names no https address of a key set")
    return url


def fresh_seconds(headers: Headers, now: float) -> float:
    """How long an answer that came `now` (seconds since the epoch) may be used (RFC 9111 §4.2.1),
    within our own bounds.
    """
    directives = headers.tokens(b"cache-control")
    if b"no-store" in directives or b"no-cache" in directives:
        return LEAST_SECONDS
    for directive in directives:
        if age := _MAX_AGE.fullmatch(directive):
            return _bounded(float(age[1]) - _age(headers))
    expires = headers.get(b"expires")
    return USUAL_SECONDS if expires is None else _bounded(_instant(expires) - now)


def _bounded(seconds: float) -> float:
    return min(max(seconds, LEAST_SECONDS), MOST_SECONDS)


def _age(headers: Headers) -> float:
    age = headers.get(b"age") or b""
    return float(age) if re.fullmatch(rb"[0-9]{1,9}", age) else 0.0


def _instant(expires: bytes) -> float:
    """Seconds since the epoch; 0.0, long past, for what is no date (RFC 9111 §5.3)."""
    try:
        return parsedate_to_datetime(expires.decode("latin-1")).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def _is_https(url: str) -> bool:
    try:
        return urlsplit(url).scheme == "https"
    except ValueError:
        return False


# --- fetch ----------------------------------------------------------------------------
# GET one document from an issuer: over verified TLS, within bounds, by the egress proxy (D34).

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


class Fetched(Frozen):
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
        # A waiter cancelled at the moment of a failure does not fetch it; that is expected.
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


# --- issuer ---------------------------------------------------------------------------
#
# The issuer's keys, kept fresh: discovery until it works, then its key set as its headers say.
#
# One task does all the asking, so that there is never more than one question under way. A key that
# nobody knows makes it ask before its time, but at most every 10 s: forged names of keys are no
# storm (D14's idea for bad tokens). When the issuer cannot be reached, the keys at hand stay in
# use.

_LOG = logging.getLogger(__name__)

RETRY_SECONDS = 10.0  # reference 3.4
# Below Prometheus's usual scrape timeout of 10 s, as for reviews (D14).
MAX_WAIT_SECONDS = 8.0
MAX_WAITING = 256


class Issuer:
    """Asks as long as `run` runs; `keys` is None until discovery worked.

    `context` gives the TLS context of the moment, `retry_seconds` is the shortest time between two
    questions. Keys that were found again are the same object.
    """

    def __init__(
        self,
        settings: OidcSettings,
        context: Callable[[], ssl.SSLContext],
        *,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self._settings = settings
        self._context = context
        self._retry_seconds = retry_seconds
        self._key_set_url = ""
        self._fault = ""
        self._asked_at = 0.0
        self._is_asking = False
        self._wanted = asyncio.Event()
        self._waiting: list[Callable[[], None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self.keys: KeySet | None = None
        self.activity = Activity("OIDC keys")

    def newer_keys(self, then: Callable[[], None]) -> bool:
        """Call `then` once the issuer was asked for its keys again, or after 8 s without its word.

        False if it won't be asked: not discovered yet, asked a moment ago, or too many wait.
        """
        loop = asyncio.get_running_loop()
        is_due = self._is_asking or loop.time() >= self._asked_at + self._retry_seconds
        if self.keys is None or not is_due or len(self._waiting) >= MAX_WAITING:
            return False
        self._waiting.append(then)
        self._wanted.set()
        if self._timer is None:
            self._timer = loop.call_later(MAX_WAIT_SECONDS, self._answer)
        return True

    async def run(self) -> None:
        """Ask, and ask again in time, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            self._is_asking = True
            seconds = await self.activity.attempt(self._asked)
            self._is_asking = False
            self._asked_at = loop.time()
            # Waiters that came meanwhile have their answer with the others.
            self._wanted.clear()
            self._answer()
            try:
                async with asyncio.timeout(seconds):
                    await self._wanted.wait()
            except TimeoutError:
                pass  # nothing wanted it earlier

    def _answer(self) -> None:
        """Tell those who wait to look again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            try:
                then()
            except Exception as error:  # noqa: BLE001 - the others must not wait for it
                self.activity.failed(error, "a request that waited")

    async def _asked(self) -> float:
        """Put newer keys to use, or say why not; the seconds until the next time."""
        try:
            return await self._renewed()
        except (FetchError, ValueError) as error:
            # Its key set may have moved.
            self._key_set_url = ""
            if str(error) != self._fault:
                self._fault = str(error)
                _LOG.error("OIDC issuer %s: %s", self._settings.issuer, error)
            return self._retry_seconds

    async def _renewed(self) -> float:
        issuer = self._settings.issuer
        if not self._key_set_url:
            document = await self._fetched(discovery_url(issuer), "discovery document")
            self._key_set_url = key_set_url(document.body, issuer)
        document = await self._fetched(self._key_set_url, "key set")
        keys = tokens.parse_key_set(document.body)
        if self._fault or self.keys is None:
            self._fault = ""
            _LOG.info("OIDC issuer %s: its keys are known, %d usable", issuer, len(keys.keys))
        if keys != self.keys:
            self.keys = keys
        return fresh_seconds(document.headers, time.time())

    async def _fetched(self, url: str, what: str) -> Fetched:
        try:
            return await fetch(url, context=self._context(), proxies=self._settings.proxies)
        except FetchError as error:
            raise FetchError(f"{what}: {error}") from error

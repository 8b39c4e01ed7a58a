"""Connections to the API server under one credential: an aiohttp session that posts reviews.

A link is never changed: another credential is another link, so no connection outlives the
certificate or token that it was made with (FR39). Only this module knows aiohttp, and imports it
when a link is made.
"""

import asyncio
import errno
import importlib
import logging
import ssl
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pyrbacproxy.egress_proxy import EgressProxies, ProxyAddress, proxy_for
from pyrbacproxy.kube import review_codec, tls_context
from pyrbacproxy.kube.attempt import FailedAttempt
from pyrbacproxy.kube.kubeconfig import ApiServer
from pyrbacproxy.reviews import Answer, Review

if TYPE_CHECKING:
    import aiohttp

_LOG = logging.getLogger(__name__)
_V8 = 20 - 8

CONNECT_SECONDS = 2.0
# Less than the idle time of most load balancers: a connection closed under our hands costs a retry.
KEEP_ALIVE_SECONDS = 30.0
MAX_CONNECTIONS = 128
MAX_ANSWER_BYTES = 1 << 20

UNAUTHORIZED = 401
# Reference 3.3.1 and 15.14: a bare 503 is not tried again, whatever carries Retry-After is.
_TRANSIENT = frozenset({429, *range(500, 600)}) - {503}


@dataclass(slots=True)
class _Call:
    """What aiohttp's trace tells about one call."""

    is_reused: bool = False


class Link:
    """POST under one credential. `is_dead` says that nothing came back lately and others should
    dial anew.
    """

    def __init__(
        self, server: ApiServer, session: "aiohttp.ClientSession", proxy: ProxyAddress | None
    ) -> None:
        self.server = server
        self.is_dead = False
        self._session = session
        self._proxy_url = _url(proxy) if proxy else None
        authorization = proxy.authorization if proxy else ""
        self._proxy_headers = {"Proxy-Authorization": authorization} if authorization else {}
        self._calls = 0
        self._answers = 0
        self._is_retired = False

    async def post(self, review: Review) -> tuple[Answer, int]:
        """The answer and the HTTP status, 0 when there was no response."""
        self._calls += 1
        answers_before = self._answers
        try:
            return await self._post(review)
        except asyncio.CancelledError:
            # The deadline. If nobody else got an answer meanwhile, the connections may lead
            # nowhere.
            self.is_dead = self._answers == answers_before
            raise
        finally:
            self._calls -= 1
            await self._close_if_unused()

    async def retire(self) -> None:
        """Close as soon as the last call is over; no call may begin after this."""
        self._is_retired = True
        await self._close_if_unused()

    async def _close_if_unused(self) -> None:
        if self._is_retired and self._calls == 0:
            await self._session.close()

    async def _post(self, review: Review) -> tuple[Answer, int]:
        import aiohttp  # noqa: PLC0415 -- there already, see `open_link`

        call = _Call()
        try:
            status, retry_after, body = await self._exchange(review, call)
        except aiohttp.ServerTimeoutError:
            return FailedAttempt(f"no connection to the API server in {CONNECT_SECONDS:g} s"), 0
        except aiohttp.ServerDisconnectedError:
            # On a kept connection it only means that the server had enough of waiting.
            text = "the API server closed the connection without an answer"
            return FailedAttempt(text, is_transient=call.is_reused), 0
        except (aiohttp.ClientError, OSError) as error:
            return _failure(error), 0
        self._answers += 1
        if status not in range(200, 300):
            return _refusal(status, retry_after), status
        if len(body) > MAX_ANSWER_BYTES:
            return FailedAttempt("the API server's answer is too long"), status
        return review_codec.decode(review, body), status

    async def _exchange(self, review: Review, call: _Call) -> tuple[int, str, bytes]:
        """Status, Retry-After, body (cut behind what is allowed)."""
        headers = {
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
            "User-Agent": "pyrbacproxy",
        }
        if self.server.authorization:
            headers["Authorization"] = self.server.authorization
        if self.server.url.startswith("http://"):
            headers |= self._proxy_headers  # there is no CONNECT that aiohttp would add them to
        is_logged = _LOG.isEnabledFor(_V8)
        if is_logged:
            _LOG.log(_V8, "Request Body: %s", review_codec.masked(review))
        async with self._session.post(
            self.server.url + review_codec.api_path(review),
            data=review_codec.encode(review),
            headers=headers,
            allow_redirects=False,  # a redirect would carry the token elsewhere
            proxy=self._proxy_url,
            proxy_headers=self._proxy_headers,
            trace_request_ctx=call,
        ) as response:
            body = bytearray()
            async for part in response.content.iter_any():
                body += part
                if len(body) > MAX_ANSWER_BYTES:
                    response.close()
                    break
            if is_logged:
                text = review_codec.masked_answer(review, bytes(body))
                _LOG.log(_V8, "Response Body: %s", _without(text, self.server.authorization))
            return response.status, response.headers.get("Retry-After", ""), bytes(body)


async def open_link(server: ApiServer, proxies: EgressProxies) -> Link:
    """A link without connections yet; raises OSError (ssl.SSLError is one) when its certificates
    are unusable.
    """
    context = await asyncio.to_thread(_prepared, server)
    import aiohttp  # noqa: PLC0415 -- imported by the thread a line ago

    trace = aiohttp.TraceConfig()
    trace.on_connection_reuseconn.append(_note_reuse)
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            ssl=context if context is not None else True,
            limit=MAX_CONNECTIONS,
            keepalive_timeout=KEEP_ALIVE_SECONDS,
        ),
        timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        trust_env=False,
        trace_configs=[trace],
    )
    url = urlsplit(server.url)
    port = url.port or (443 if url.scheme == "https" else 80)
    return Link(server, session, proxy_for(proxies, url.scheme, url.hostname or "", port))


def begin_import() -> None:
    """Let a thread import the HTTP client, while credentials are still being read."""
    asyncio.get_running_loop().run_in_executor(None, importlib.import_module, "aiohttp")


def _prepared(server: ApiServer) -> ssl.SSLContext | None:
    """Everything slow: the import, and the certificates (the system's roots are many)."""
    import aiohttp  # noqa: F401, PLC0415 -- for its effect

    if not server.url.startswith("https://"):
        return None
    return tls_context.client_context(
        ca=server.ca,
        certificate=server.certificate,
        key=server.key,
        is_verified=server.is_verified,
    )


async def _note_reuse(_session: object, context: SimpleNamespace, _params: object) -> None:
    context.trace_request_ctx.is_reused = True


def _failure(error: Exception) -> FailedAttempt:
    """Why the call broke, in words of the system alone: aiohttp's may quote what was sent."""
    number = error.errno if isinstance(error, OSError) else None
    is_reset = isinstance(error, ConnectionResetError) or number in (errno.ECONNRESET, errno.EPIPE)
    cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error
    words = getattr(cause, "verify_message", "") or getattr(cause, "strerror", "")
    return FailedAttempt(
        f"the API server can't be reached: {words or type(error).__name__}", is_transient=is_reset
    )


def _refusal(status: int, retry_after: str) -> FailedAttempt:
    seconds = float(retry_after) if retry_after.isascii() and retry_after.isdecimal() else None
    is_failure = status >= 400  # noqa: PLR2004 -- RFC 9110 §15.5
    return FailedAttempt(
        f"the API server answered {status}",
        is_transient=status in _TRANSIENT or (is_failure and seconds is not None),
        retry_after_seconds=seconds or 0.0,
    )


def _without(text: str, authorization: str) -> str:
    """The text without our own credential, should the server repeat it."""
    credential = authorization.rpartition(" ")[2]
    return text.replace(credential, review_codec.MASK) if credential else text


def _url(proxy: ProxyAddress) -> str:
    host = f"[{proxy.host}]" if ":" in proxy.host else proxy.host
    return f"{proxy.scheme}://{host}:{proxy.port}"

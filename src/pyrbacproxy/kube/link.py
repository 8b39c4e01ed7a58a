"""Connections to the API server under one credential: reviews are posted, answers judged.

A link is never changed: another credential is another link, so no connection outlives the
certificate or token that it was made with (FR39).
"""

import asyncio
import errno
import logging
import socket
import ssl
from functools import partial
from urllib.parse import urlsplit

from pyrbacproxy.egress_dial import Route, TunnelRefusedError, dial, in_words, lookup_of
from pyrbacproxy.egress_proxy import DEFAULT_PORTS, EgressProxies, ProxyAddress, proxy_for
from pyrbacproxy.http1.errors import RemoteProtocolError
from pyrbacproxy.kube import review_codec, tls_context
from pyrbacproxy.kube.attempt import Cause, FailedAttempt
from pyrbacproxy.kube.connection import Connection, UnansweredError
from pyrbacproxy.kube.kubeconfig import ApiServer
from pyrbacproxy.kube.pool import Pool
from pyrbacproxy.kube.post import post_of
from pyrbacproxy.kube.reply import Reply
from pyrbacproxy.lookup import Lookup
from pyrbacproxy.reviews import Answer, Review

_LOG = logging.getLogger(__name__)
_V8 = 20 - 8

CONNECT_SECONDS = 2.0
MAX_ANSWER_BYTES = 1 << 20

UNAUTHORIZED = 401
_FORBIDDEN = 403
# Reference 3.3.1 and 15.14: a bare 503 is not tried again, whatever carries Retry-After is.
_TRANSIENT = frozenset({429, *range(500, 600)}) - {503}
_FAILED_THERE = range(500, 600)
_NOT_THERE = (ConnectionError, TimeoutError, socket.gaierror, ssl.SSLEOFError)
_NO_WAY_TO_IT = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EHOSTDOWN)


class Link:
    """POST under one credential. `is_dead` says that nothing came back lately and others should
    dial anew.
    """

    def __init__(self, server: ApiServer, pool: Pool, proxy: ProxyAddress | None) -> None:
        self.server = server
        self.is_dead = False
        self._pool = pool
        self._proxy = proxy
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
            self._close_if_unused()

    def retire(self) -> None:
        """Close as soon as the last call is over; no call may begin after this."""
        self._is_retired = True
        self._close_if_unused()

    def _close_if_unused(self) -> None:
        if self._is_retired and self._calls == 0:
            self._pool.close()

    async def _post(self, review: Review) -> tuple[Answer, int]:
        try:
            reply = await self._reply(review)
        except _NoConnectionError as error:
            text = (
                f"no connection to the API server in {CONNECT_SECONDS:g} s ({_where(self.server)})"
            )
            return FailedAttempt(text, cause=error.cause), 0
        except UnansweredError as error:
            text = f"the API server closed the connection without an answer ({_where(self.server)})"
            # As in `_failure`.
            cause = Cause.NOT_ASKED if error.is_reused else Cause.AWAY
            return FailedAttempt(text, is_transient=error.is_reused, cause=cause), 0
        except RemoteProtocolError:
            return FailedAttempt("the API server's answer is cut or no HTTP/1.1"), 0
        except (OSError, UnicodeError) as error:  # UnicodeError: the host is no name for DNS
            return _failure(error, self.server), 0
        if isinstance(reply, FailedAttempt):
            return reply, 0
        self._answers += 1
        if reply.status not in range(200, 300):
            return _refusal(reply, self._said(review, reply)), reply.status
        if len(reply.body) > MAX_ANSWER_BYTES:
            return FailedAttempt("the API server's answer is too long"), reply.status
        return review_codec.decode(review, reply.body), reply.status

    async def _reply(self, review: Review) -> Reply | FailedAttempt:
        """No redirect is followed: it would carry the token elsewhere."""
        server = self.server
        request = post_of(
            review,
            url=server.url,
            authorization=server.authorization,
            proxy=self._proxy,
            impersonation=server.impersonation,
        )
        connection = await self._connection()
        is_logged = _LOG.isEnabledFor(_V8)
        if is_logged:
            _LOG.log(_V8, "Request Body: %s", review_codec.masked(review))
        try:
            reply = await connection.exchange(request, max_body_bytes=MAX_ANSWER_BYTES)
        except OSError as error:
            return _failure(error, self.server, is_reused=connection.is_reused)
        finally:
            self._pool.give_back(connection)
        if is_logged:
            text = review_codec.masked_answer(review, reply.body)
            _LOG.log(_V8, "Response Body: %s", _without(text, server.authorization))
        return reply

    def _said(self, review: Review, reply: Reply) -> str:
        """Whom RBAC refuses what is for the log to tell; other answers say it by their status."""
        if reply.status != _FORBIDDEN:
            return ""
        return _without(review_codec.message(review, reply.body), self.server.authorization)

    async def _connection(self) -> Connection:
        cause = Cause.NOT_ASKED
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._pool.place()
                cause = Cause.AWAY
                return await self._pool.take()
        except TimeoutError:
            raise _NoConnectionError(cause) from None


class _NoConnectionError(Exception):
    """There was none in time. Not asked: too many calls of ours were under way."""

    def __init__(self, cause: Cause) -> None:
        super().__init__(cause.value)
        self.cause = cause


async def open_link(server: ApiServer, proxies: EgressProxies) -> Link:
    """A link without connections yet; raises OSError (ssl.SSLError is one) when its certificates
    are unusable.
    """
    # In a thread: the system's roots are many.
    context = await asyncio.to_thread(_context, server)
    url = urlsplit(server.url)
    host, port = url.hostname or "", url.port or DEFAULT_PORTS[url.scheme]
    # One that the kubeconfig names is taken for loopback addresses as well, as in client-go.
    proxy = server.proxy or proxy_for(proxies, url.scheme, host, port)
    route = Route(host, port, proxy, server_name=server.server_name)
    return Link(server, Pool(partial(_dial, lookup_of(route), route, context)), proxy)


async def _dial(
    lookup: Lookup, route: Route, context: ssl.SSLContext | None, protocol: asyncio.Protocol
) -> None:
    await lookup.works()
    await dial(route, protocol, context=context)


def _context(server: ApiServer) -> ssl.SSLContext | None:
    if not server.url.startswith("https://"):
        return None
    return tls_context.client_context(
        ca=server.ca,
        certificate=server.certificate,
        key=server.key,
        is_verified=server.is_verified,
    )


def _where(server: ApiServer) -> str:
    """Host and port: a URL may hold a password."""
    url = urlsplit(server.url)
    return f"{url.hostname}:{url.port or DEFAULT_PORTS[url.scheme]}"


def _failure(
    error: OSError | UnicodeError, server: ApiServer, *, is_reused: bool = False
) -> FailedAttempt:
    """Why the call broke, in words of the system. A kept connection that was reset says nothing of
    the server: the next try dials.
    """
    number = error.errno if isinstance(error, OSError) else None
    is_reset = isinstance(error, ConnectionResetError) or number in (errno.ECONNRESET, errno.EPIPE)
    where = _where(server)
    if isinstance(error, ssl.SSLError) and server.ca:
        where += f", CA file {server.ca}"
    return FailedAttempt(
        f"the API server can't be reached: {in_words(error, 'the API server')} ({where})",
        is_transient=is_reset,
        cause=Cause.NOT_ASKED if is_reset and is_reused else _cause(error),
    )


def _cause(error: OSError | UnicodeError) -> Cause:
    """Whether nobody is there, as far as the error tells: a server that can't be verified is
    somebody, and a want of descriptors is ours.
    """
    if isinstance(error, TunnelRefusedError):
        # Its 5xx speaks for what is behind it, as one without a tunnel would.
        return Cause.AWAY if error.status in _FAILED_THERE else Cause.NOT_ASKED
    # The loop puts the errors of several addresses into one that has no number.
    is_of_many = type(error) is OSError and error.errno is None
    is_unreachable = isinstance(error, OSError) and error.errno in _NO_WAY_TO_IT
    is_away = isinstance(error, _NOT_THERE) or is_of_many or is_unreachable
    return Cause.AWAY if is_away else Cause.NOT_ASKED


def _refusal(reply: Reply, message: str) -> FailedAttempt:
    status, retry_after = reply.status, reply.retry_after
    seconds = float(retry_after) if retry_after.isascii() and retry_after.isdecimal() else None
    is_failure = status >= 400  # noqa: PLR2004 -- RFC 9110 §15.5
    return FailedAttempt(
        f"the API server answered {status}{message and ': '}{message}",
        is_transient=status in _TRANSIENT or (is_failure and seconds is not None),
        retry_after_seconds=seconds or 0.0,
        cause=Cause.AWAY if status in _FAILED_THERE else Cause.ANSWERED,
    )


def _without(text: str, authorization: str) -> str:
    """The text without our own credential, should the server repeat it."""
    credential = authorization.rpartition(" ")[2]
    return text.replace(credential, review_codec.MASK) if credential else text

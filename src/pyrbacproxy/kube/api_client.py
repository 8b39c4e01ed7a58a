"""POSTs reviews to the API server: connections, credential, deadline, rate."""

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from typing import cast
from urllib.parse import quote, urlsplit

from pyrbacproxy.background import Activity
from pyrbacproxy.dialing import Lookup, Route, TunnelRefusedError, dial, in_words, lookup_of
from pyrbacproxy.egress import DEFAULT_PORTS, EgressProxies, ProxyAddress, proxy_for
from pyrbacproxy.http1 import writer
from pyrbacproxy.http1.head import RemoteProtocolError, ResponseHead
from pyrbacproxy.http1.parser import END, ResponseEvent, ResponseParser, ResponseReceived
from pyrbacproxy.kube import review_codec, tls_context
from pyrbacproxy.kube.credentials import CredentialError, Credentials, source_of
from pyrbacproxy.kube.kubeconfig import ApiServer, KubeSettings
from pyrbacproxy.kube.memory import Cause, FailedAttempt
from pyrbacproxy.kube.rate import WAIT_SECONDS, Turns
from pyrbacproxy.model import Answer, Review
from pyrbacproxy.values import Frozen, field

# --- post -----------------------------------------------------------------------------
# A review → the bytes of the request that posts it.

# RFC 3986 §3.3: what may stand in a path as it is.
_PATH_CHARACTERS = "/%:@!$&'()*+,;=~"


def post_of(
    review: Review,
    *,
    url: str,
    authorization: str,
    proxy: ProxyAddress | None,
    impersonation: tuple[tuple[str, str], ...] = (),
) -> bytes:
    """The request for the API server at `url`, whose path comes before the review's.

    For a plain server behind a proxy the target is in absolute-form and the proxy gets its
    credentials; with TLS the proxy has seen them in CONNECT. The credential is in it: never log it.
    Raises UnicodeError when DNS can't spell the host and LocalProtocolError when HTTP can't.
    """
    parts = urlsplit(url)
    authority = parts.netloc.encode("idna")
    target = quote(parts.path + review_codec.api_path(review), safe=_PATH_CHARACTERS).encode()
    body = review_codec.encode(review)
    lines = [
        (b"Content-Type", b"application/json"),
        (b"Content-Length", b"%d" % len(body)),
    ]
    if authorization:
        lines.append((b"Authorization", authorization.encode()))
    lines += [(name.encode(), value.encode()) for name, value in impersonation]
    if proxy is not None and parts.scheme == "http":
        target = b"http://" + authority + target
        if proxy.authorization:
            lines.append((b"Proxy-Authorization", proxy.authorization.encode()))
    return writer.own_request(b"POST", target, authority, *lines) + body


# --- reply ----------------------------------------------------------------------------
# The bytes of one answer to a POST → `Reply`: what of it matters to the reviewer.

_MAX_HEAD_BYTES = 65_536
_SWITCHING_PROTOCOLS = 101


class Reply(Frozen):
    """A whole answer, or one that was cut because it is too long.

    `retry_after` is the header as sent, "" without one. `keeps_connection` says that the connection
    is good for another request.
    """

    status: int
    retry_after: str
    body: bytes = field(repr=False)  # may repeat a token
    keeps_connection: bool


class ReplyReader:
    """Reads one answer, passing over the interim ones (1xx) before it.

    A body that is longer than `max_body_bytes` is cut somewhere behind that.
    """

    def __init__(self, *, max_body_bytes: int) -> None:
        self._max_body_bytes = max_body_bytes
        self._parser = ResponseParser(request_method=b"POST", max_head_bytes=_MAX_HEAD_BYTES)
        self._head: ResponseHead | None = None
        self._body = bytearray()
        self.has_begun = False

    def feed(self, data: bytes) -> Reply | None:
        """The answer, if it has ended. Raises RemoteProtocolError."""
        self.has_begun = True
        reply = self._taken(self._parser.feed(data))
        if reply is None and self._parser.fault is not None:
            raise self._parser.fault
        return reply

    def feed_eof(self) -> Reply | None:
        """The server has closed: the answer, if that is how it ends. Raises RemoteProtocolError."""
        return self._taken(self._parser.feed_eof(), is_closed=True)

    def _taken(self, events: list[ResponseEvent], *, is_closed: bool = False) -> Reply | None:
        for event in events:
            if isinstance(event, ResponseReceived):
                self._head = event.head
            elif isinstance(event, bytes):
                self._body += event
        head = self._head
        is_too_long = len(self._body) > self._max_body_bytes
        if head is None or not (is_too_long or END in events):
            return None
        retry_after = head.headers.get(b"retry-after") or b""
        return Reply(
            status=head.status,
            retry_after=retry_after.decode("latin-1"),
            body=bytes(self._body),
            keeps_connection=not is_too_long
            and not is_closed
            and head.is_persistent
            and head.status != _SWITCHING_PROTOCOLS
            # Unasked bytes would be the next answer.
            and not self._parser.leftover,
        )


# --- connection -----------------------------------------------------------------------
# One HTTP/1.1 connection to the API server: one call at a time.


class UnansweredError(Exception):
    """The server closed the connection instead of answering.

    `is_reused`: other calls had been answered on it, so that it only means that the server had
    enough of waiting.
    """

    def __init__(self, *, is_reused: bool) -> None:
        super().__init__("closed without an answer")
        self.is_reused = is_reused


class Connection(asyncio.Protocol):
    """`on_closed` is called, possibly twice, when it can't be used for another call.

    `is_reused`: a call has been answered on it.
    """

    def __init__(self, on_closed: Callable[["Connection"], None]) -> None:
        self._on_closed = on_closed
        self._transport: asyncio.Transport | None = None
        self._reader: ReplyReader | None = None
        self._reply: asyncio.Future[Reply] | None = None
        self.is_reused = False

    @property
    def is_open(self) -> bool:
        """Whether a call may go over it, as far as we know."""
        return self._transport is not None

    async def exchange(self, request: bytes, *, max_body_bytes: int) -> Reply:
        """Send a request and read its answer; who is cancelled meanwhile closes the connection.

        Raises UnansweredError, RemoteProtocolError (a cut answer is one) and OSError.
        """
        transport = self._transport
        if transport is None:
            raise UnansweredError(is_reused=self.is_reused)
        self._reader = ReplyReader(max_body_bytes=max_body_bytes)
        self._reply = asyncio.get_running_loop().create_future()
        transport.write(request)
        try:
            reply = await self._reply
        except BaseException:
            self._abort()
            raise
        finally:
            self._reader = self._reply = None
        # An answer to half a request: what is left of it would be taken for the next one.
        if not reply.keeps_connection or transport.get_write_buffer_size():
            self._abort()
        self.is_reused = True
        return reply

    def close(self) -> None:
        """Close in good order. No call may be under way."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.close()
            self._on_closed(self)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connected, TLS handshake included."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Some of an answer, or unasked bytes."""
        reader = self._reader
        if reader is None:
            self.close()
        else:
            self._read(lambda: reader.feed(data))

    def eof_received(self) -> None:
        """The server ended its sending: an answer may end so, and the transport closes."""
        if self._reader is None:
            self.close()  # the usual end of an idle one
        else:
            self._end(self._reader)

    def connection_lost(self, exc: Exception | None) -> None:
        """Closed, by whomever."""
        self._transport = None
        if self._reader is not None:
            if exc is None:
                self._end(self._reader)
            else:
                self._settle(exc)
        self._on_closed(self)

    def _end(self, reader: ReplyReader) -> None:
        if reader.has_begun:
            self._read(reader.feed_eof)
        else:
            self._settle(UnansweredError(is_reused=self.is_reused))

    def _read(self, read: Callable[[], Reply | None]) -> None:
        try:
            outcome: Reply | RemoteProtocolError | None = read()
        except RemoteProtocolError as error:
            outcome = error
        if outcome is not None:
            self._settle(outcome)

    def _settle(self, outcome: Reply | Exception) -> None:
        """The call is over; what comes now belongs to none."""
        self._reader = None
        if self._reply is None or self._reply.done():
            return
        if isinstance(outcome, Reply):
            self._reply.set_result(outcome)
        else:
            self._reply.set_exception(outcome)

    def _abort(self) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
            self._on_closed(self)


# --- pool -----------------------------------------------------------------------------
# The connections to one server under one credential: how many, and how long they are kept.

# Less than the idle time of most load balancers: a connection closed under our hands costs a retry.
KEEP_ALIVE_SECONDS = 30.0
MAX_CONNECTIONS = 128


class Pool:
    """At most 128 connections; each is one caller's between `take` and `give_back`, who first
    waits for a `place`.
    """

    def __init__(self, dial: Callable[[asyncio.Protocol], Awaitable[None]]) -> None:
        self._dial = dial
        self._places = asyncio.Semaphore(MAX_CONNECTIONS)
        # Used last, taken first: the least likely to be closed by the server meanwhile.
        self._idle: dict[Connection, asyncio.TimerHandle] = {}

    async def place(self) -> None:
        """Wait until one more connection may be in use: `take` it, with no other step between."""
        await self._places.acquire()

    async def take(self) -> Connection:
        """A kept connection, else a new one, for a place. Raises what dialling raises."""
        if self._idle:
            connection, timer = self._idle.popitem()
            timer.cancel()
            return connection
        connection = Connection(self._forget)
        try:
            await self._dial(connection)
        except BaseException:
            self._places.release()
            raise
        return connection

    def give_back(self, connection: Connection) -> None:
        """The caller's call is over; the connection is kept for another if it is still open."""
        self._places.release()
        if connection.is_open:
            loop = asyncio.get_running_loop()
            self._idle[connection] = loop.call_later(KEEP_ALIVE_SECONDS, connection.close)

    def close(self) -> None:
        """Close what is kept. No call may be under way, and none may begin."""
        for connection in list(self._idle):
            connection.close()

    def _forget(self, connection: Connection) -> None:
        timer = self._idle.pop(connection, None)
        if timer is not None:
            timer.cancel()


# --- link -----------------------------------------------------------------------------
#
# Connections to the API server under one credential: reviews are posted, answers judged.
#
# A link is never changed: another credential is another link, so no connection outlives the
# certificate or token that it was made with (FR39).

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
    """Whether the server is away, as far as the error tells: one that can't be verified is there,
    and running out of descriptors is a local failure.
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


# --- api client -----------------------------------------------------------------------
#
# POST one review to the API server: rate, deadline, credential; failure → `ReviewFailed`.
#
# It neither decides nor remembers answers; trying again is `kube.reviewer`'s.

CALL_SECONDS = 8.0  # below Prometheus's usual scrape timeout of 10 s (D14)


class ApiClient:
    """The API server of the settings."""

    def __init__(self, settings: KubeSettings, credentials: Credentials | None = None) -> None:
        self._credentials = credentials or Credentials(source_of(settings))
        self._proxies = settings.proxies
        self._authentication = Turns(per_second=settings.qps, burst=settings.burst)
        self._authorization = (
            self._authentication
            if settings.is_rate_shared
            else Turns(per_second=settings.qps, burst=settings.burst)
        )
        self._link: Link | None = None
        self._linking = asyncio.Lock()

    @property
    def activity(self) -> Activity:
        """The reading of our credential."""
        return self._credentials.activity

    @property
    def generation(self) -> int:
        """Changes when another API server is asked, or another CA vouches for it."""
        return self._credentials.generation

    async def review(
        self,
        review: Review,
        asker: str,
        *,
        is_preferred: bool = False,
        within_seconds: float = CALL_SECONDS,
    ) -> Answer:
        """One call, or two when the first was refused with a credential that has been replaced
        since.

        `asker` is the peer's address: peers take turns when the rate is reached, those who are
        `is_preferred` first.
        """
        deadline = _Deadline(asyncio.get_running_loop().time() + within_seconds, within_seconds)
        try:
            async with asyncio.timeout_at(deadline.at):
                turns = self._turns(review)
                if not await turns.turn(asker, is_preferred=is_preferred):
                    text = f"our own rate left no room within {WAIT_SECONDS:g} s"
                    return FailedAttempt(text, cause=Cause.NOT_ASKED)
                server = await self._credentials.current()
            return await self._asked(server, review, deadline)
        except TimeoutError:
            # Not the API server's time: our own turn's, or a credential's.
            return deadline.failure(Cause.NOT_ASKED)
        except CredentialError as error:
            return FailedAttempt(str(error), cause=Cause.NOT_ASKED)

    def warm(self) -> None:
        """Begin to read the credential, so that the first review need not wait for it.

        Called when reviews will come. A failure is logged by `Credentials`, once.
        """
        self._credentials.begin_reading()

    async def close(self) -> None:
        """Close every connection, and end a reading of the credential."""
        self._credentials.close()
        self._drop_link()

    def _turns(self, review: Review) -> Turns:
        is_token = review_codec.api_group(review) == "authentication.k8s.io"
        return self._authentication if is_token else self._authorization

    async def _asked(self, server: ApiServer, review: Review, deadline: "_Deadline") -> Answer:
        answer, status = await self._posted(server, review, deadline)
        if status == UNAUTHORIZED:
            async with asyncio.timeout_at(deadline.at):
                renewed = await self._credentials.after_refusal(server)
            if renewed != server:
                answer, _ = await self._posted(renewed, review, deadline)
        return answer

    async def _posted(
        self, server: ApiServer, review: Review, deadline: "_Deadline"
    ) -> tuple[Answer, int]:
        try:
            async with asyncio.timeout_at(deadline.at):
                link = await self._link_to(server)
        except TimeoutError:
            raise
        except OSError:  # ssl.SSLError is one
            text = f"{server.url}: the CA or client certificate is unusable"
            return FailedAttempt(text, cause=Cause.NOT_ASKED), 0
        # Waiting for our turn, for a credential or between two tries is no silence of the server's.
        had_time = deadline.at - asyncio.get_running_loop().time() >= CONNECT_SECONDS
        try:
            async with asyncio.timeout_at(deadline.at):
                return await link.post(review)
        except TimeoutError:
            return deadline.failure(Cause.AWAY if had_time else Cause.NOT_ASKED), 0

    async def _link_to(self, server: ApiServer) -> Link:
        """The connections with this credential; those with another are closed when their last call
        is over.
        """
        async with self._linking:
            if self._link is None or self._link.server != server or self._link.is_dead:
                self._drop_link()
                self._link = await open_link(server, self._proxies)
            return self._link

    def _drop_link(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.retire()


class _Deadline(Frozen):
    """When a call must be over, in the loop's time, and the seconds that it had."""

    at: float
    seconds: float

    def failure(self, cause: Cause) -> FailedAttempt:
        """It is over without an answer."""
        text = f"the API server gave no answer within {self.seconds:.1f} s"
        return FailedAttempt(text, cause=cause)

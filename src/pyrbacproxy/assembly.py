"""The parts put together: every object between a listener and the upstream, made from `Settings`.

It decides nothing about a request. `app` runs what is made here.
"""

import asyncio
import socket
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from OpenSSL import SSL

from pyrbacproxy.access import Access
from pyrbacproxy.admin.health import Check, Look
from pyrbacproxy.admin.status import Program
from pyrbacproxy.authn.authenticator import Authenticator, UnionAuthenticator
from pyrbacproxy.authn.bearer_token import BearerTokenAuthenticator, IdTokenAuthenticator
from pyrbacproxy.authn.client_certificate import ClientCertificateAuthenticator
from pyrbacproxy.authz.attributes import AttributeSource, verb_of
from pyrbacproxy.authz.subject_access_review import rules_then_review
from pyrbacproxy.background import Activity, LoopFaults
from pyrbacproxy.certificates import Certificates
from pyrbacproxy.client_protocol import ClientProtocol
from pyrbacproxy.config.settings import Settings
from pyrbacproxy.dataplane.client_transport import ClientTransport
from pyrbacproxy.dataplane.heads import Heads, HttpDate, same_trailers
from pyrbacproxy.dataplane.listener import Listener
from pyrbacproxy.dataplane.secure_transport import SecureTransport
from pyrbacproxy.dataplane.services import Services
from pyrbacproxy.dataplane.upstream import Connector, destination, dialler
from pyrbacproxy.endpoints import (
    UpstreamWatch,
    WatchedClient,
    background,
    endpoints_handler,
    running_program,
    serving_certificate,
    shutdown,
    uncounted,
)
from pyrbacproxy.handler import Handler
from pyrbacproxy.kube.kubeconfig import KubeSettings
from pyrbacproxy.kube.no_api_server import NoApiServer
from pyrbacproxy.kube.reviewer import JudgeTokens, Reviewer
from pyrbacproxy.measuring import MetricsPage
from pyrbacproxy.observe.decision_log import AnswerWatch, DecisionLog
from pyrbacproxy.observe.loop_lag import LoopLag
from pyrbacproxy.observe.metrics import Metrics
from pyrbacproxy.record import ExchangeRecord
from pyrbacproxy.tls.reloader import CLIENT_CA, SERVING_PAIR
from pyrbacproxy.tls.upstream_context import UpstreamContext

if TYPE_CHECKING:
    from pyrbacproxy.http2.upstream_connector import Http2Connector
    from pyrbacproxy.kube.api_client import ApiClient
    from pyrbacproxy.kube.stale_reviews import StaleReviews
    from pyrbacproxy.observe.access_log_writer import AccessLog
    from pyrbacproxy.observe.line_outlet import LineOutlet
    from pyrbacproxy.oidc.issuer import Issuer

Sockets = list[socket.socket]
OnClosed = Callable[[ClientTransport], None]


class Assembly:
    """All that stands between the listeners and the upstream. Made inside the running loop.

    `lines` takes the access log, if there shall be one.
    """

    def __init__(
        self,
        settings: Settings,
        certificates: Certificates,
        is_stopping: Callable[[], bool],
        lines: "LineOutlet | None" = None,
    ) -> None:
        self._settings = settings
        self._limits = settings.limits
        self._certificates = certificates
        self._client = _client(settings.kube)
        self._metrics = Metrics()
        self._decision_log = DecisionLog(verb_of)
        self._access_log = None if lines is None else _access_log(lines)
        self._watched_client = WatchedClient(self._client, self._metrics)
        self.issuer, judge_tokens = _oidc(settings, certificates)
        kube = settings.kube or KubeSettings()
        stale = _stale(kube, self._client, certificates, self._metrics)
        self._reviewer = Reviewer(self._watched_client, kube, judge_tokens, stale)
        self._upstream_watch = UpstreamWatch()
        self.loop_faults = LoopFaults()
        self._observers = Activity("observers")
        self.background = self._activities()
        self.startup_gate: Look = lambda: Check("startup-gate")
        self.connector = _connector(settings, certificates.upstream)
        authenticator = _authenticator(settings)
        access = _access(settings, authenticator)
        checks = self._checks(is_stopping)
        program = running_program(settings.pages)
        self._metrics_page = self._numbers(program, checks)
        pages = self._pages(program, authenticator, checks) or access.handle
        services = partial(
            Services,
            runner=self._reviewer,
            connector=self.connector,
            heads=Heads(destination(settings.upstream)),
            limits=settings.limits,
            clock=time.monotonic,
            wall_clock=time.time,
            date=HttpDate(time.time),
        )
        loop = asyncio.get_running_loop()
        self._protocol = ClientProtocol(certificates.chains, settings.http2, loop)
        self._listeners: list[Listener] = []
        self._answer_watch = AnswerWatch(loop, self._awaiting)
        self._lag = LoopLag(loop, self._metrics.loop_lag)
        self._proxied = services(
            handler=access.handle,
            clean_trailers=access.clean_trailers,
            observe=self._observe if self._access_log is None else self._observe_and_write,
        )
        self._own = services(
            handler=pages,
            clean_trailers=same_trailers,
            observe=self._observe_page,
        )

    def _activities(self) -> list[Activity]:
        """What goes on beside the requests; `app` adds the gate's while it waits."""
        client = None if isinstance(self._client, NoApiServer) else self._client
        parts = (self._certificates.reloader, self.issuer, client, self._access_log)
        found = [part.activity for part in parts if part is not None]
        return [*found, self._observers, self.loop_faults]

    def _working(self) -> list[Activity]:
        self.loop_faults.look(asyncio.get_running_loop())
        return self.background

    def warm(self) -> None:
        """Read the API server's credential now, so that no first request waits for it."""
        if self._settings.needs_reviews:
            self._client.warm()

    def secure_listener(self, sockets: Sockets) -> Listener:
        """Forwards, over TLS."""
        make = partial(self._secure_transport, self._proxied, self._certificates.serving)
        return self._listener("secure", sockets, make)

    def insecure_listener(self, sockets: Sockets) -> Listener:
        """Forwards, without TLS."""
        return self._listener("insecure", sockets, self._plain_transport)

    def endpoints_listener(self, sockets: Sockets) -> Listener:
        """Shows the pages, over TLS."""
        make = partial(self._secure_transport, self._own, self._certificates.of_endpoints)
        return self._listener("endpoints", sockets, make)

    async def close(self) -> None:
        """End what the listeners leave behind."""
        self._answer_watch.close()
        self._reviewer.close()
        await self.connector.close()
        await self._client.close()
        if self._access_log is not None:
            self._access_log.close()

    def _observe(self, record: ExchangeRecord) -> None:
        """Show each observer an exchange; one by one, for a loop over them costs a request 2 us.

        What they raise is no reason to break a connection.
        """
        try:
            self._decision_log.observe(record)
            self._upstream_watch.observe(record)
            self._metrics.observe(record)
            self._lag.observe(record)
        except Exception as error:  # noqa: BLE001 - as above
            self._observers.failed(error)
        else:
            if self._observers.fault:
                self._observers.worked()

    def _observe_and_write(self, record: ExchangeRecord) -> None:
        """The same with an access log; without one nobody looks for it."""
        self._observe(record)
        assert self._access_log is not None, "there is one"  # noqa: S101 - for the type
        try:
            self._access_log.observe(record)
        except Exception as error:  # noqa: BLE001 - as in `_observe`
            self._access_log.activity.failed(error)

    def _observe_page(self, record: ExchangeRecord) -> None:
        try:
            self._decision_log.observe(record)
            self._metrics.observe_page(record)
            self._lag.observe(record)
        except Exception as error:  # noqa: BLE001 - as in `_observe`
            self._observers.failed(error)

    def _awaiting(self) -> Iterator[ExchangeRecord]:
        for listener in self._listeners:
            yield from listener.awaiting()

    def _listener(
        self, name: str, sockets: Sockets, make: Callable[[OnClosed], ClientTransport]
    ) -> Listener:
        listener = Listener(sockets, make, self._limits)
        self._listeners.append(listener)
        if sockets:
            self._metrics_page.listeners[name] = listener
        return listener

    def _pages(
        self, program: Program, authenticator: Authenticator, checks: tuple[Look, ...]
    ) -> Handler | None:
        """The endpoints port's handler; None without such a port, where nobody asks."""
        settings = self._settings
        if settings.endpoints is None:
            return None
        return endpoints_handler(
            settings.pages,
            program,
            authenticator,
            settings.static_rules,
            has_api_server=settings.kube is not None,
            checks=checks,
            others={b"/metrics": self._metrics_page},
        )

    def _numbers(self, program: Program, checks: tuple[Look, ...]) -> MetricsPage:
        certificates, log = self._certificates, self._access_log
        return MetricsPage(
            self._metrics,
            self._settings.pages,
            program,
            checks=checks,
            gate=self._startup_gate,
            serving=lambda: certificates.served,
            watched=lambda: certificates.reloader.watched,
            max_connections=self._limits.max_connections,
            dropped_lines=lambda: 0 if log is None else log.dropped,
            background=self._working,
        )

    def _checks(self, is_stopping: Callable[[], bool]) -> tuple[Look, ...]:
        """What the health pages check, in the order in which they list it."""
        certificates, faults = self._certificates, self._certificates.reloader.faults
        return (
            lambda: Check("ping"),
            lambda: serving_certificate(certificates.served, faults().get(SERVING_PAIR, "")),
            lambda: uncounted("client-ca", faults().get(CLIENT_CA, "")),
            self._startup_gate,
            lambda: uncounted("upstream", self._upstream_watch.fault),
            lambda: uncounted("apiserver", self._watched_client.fault),
            lambda: background(self._working()),
            lambda: shutdown(is_stopping=is_stopping()),
        )

    def _startup_gate(self) -> Check:
        # Looked up at each call: `app` replaces it while a gate waits.
        return self.startup_gate()

    def _secure_transport(
        self, services: Services, context: Callable[[], SSL.Context], on_closed: OnClosed
    ) -> ClientTransport:
        return SecureTransport(
            partial(self._protocol.secure, services=services),
            context=context,
            limits=services.limits,
            loop=asyncio.get_running_loop(),
            on_closed=on_closed,
            on_handshake=self._metrics.shook_hands,
        )

    def _plain_transport(self, on_closed: OnClosed) -> ClientTransport:
        return ClientTransport(
            partial(self._protocol.plain, services=self._proxied),
            limits=self._limits,
            loop=asyncio.get_running_loop(),
            on_closed=on_closed,
        )


def _connector(settings: Settings, tls: UpstreamContext | None) -> "Connector | Http2Connector":
    """What finds the upstream's connections: over HTTP/2 only where that can be (reference 6.4)."""
    upstream, limits = settings.upstream, settings.limits
    context = None if tls is None else lambda: tls.current
    if tls is not None and upstream.offers_http2:
        http1 = Connector(upstream, limits, context=tls.http1)
    elif upstream.is_h2c:
        http1 = None
    else:
        return Connector(upstream, limits, context=context)
    # Imported by those who may need it: to the others it would only be memory.
    from pyrbacproxy.http2.upstream_connector import Http2Connector  # noqa: PLC0415

    dial = dialler(upstream, limits, context)
    return Http2Connector(limits, dial, scheme=upstream.scheme, http1=http1)


def _access_log(lines: "LineOutlet") -> "AccessLog":
    # As above.
    from pyrbacproxy.observe.access_log_writer import AccessLog  # noqa: PLC0415

    return AccessLog(lines, asyncio.get_running_loop(), time.time)


def _client(settings: KubeSettings | None) -> "ApiClient | NoApiServer":
    if settings is None:
        return NoApiServer()
    # As above.
    from pyrbacproxy.kube.api_client import ApiClient  # noqa: PLC0415

    return ApiClient(settings)


def _oidc(
    settings: Settings, certificates: Certificates
) -> tuple["Issuer | None", JudgeTokens | None]:
    """In OIDC mode the issuer, to be run, and who judges its tokens."""
    context = certificates.issuer
    if settings.oidc is None or context is None:
        return None, None
    # As above.
    from pyrbacproxy.oidc.issuer import Issuer  # noqa: PLC0415
    from pyrbacproxy.oidc.verifier import Verifier  # noqa: PLC0415

    issuer = Issuer(settings.oidc, lambda: context.current)
    return issuer, Verifier(settings.oidc, issuer, time.time).ask


def _stale(
    kube: KubeSettings,
    client: "ApiClient | NoApiServer",
    certificates: Certificates,
    metrics: Metrics,
) -> "StaleReviews | None":
    """What is kept for when the API server is away; None when nothing is to be."""
    if not kube.stale_seconds or isinstance(client, NoApiServer):
        return None
    # As above.
    from pyrbacproxy.kube.stale_reviews import StaleReviews  # noqa: PLC0415

    return StaleReviews(
        kube.stale_seconds,
        trust=lambda: (certificates.chains.generation, client.generation),
        count=metrics.used_stale,
    )


def _authenticator(settings: Settings) -> Authenticator:
    if settings.oidc is not None:
        return IdTokenAuthenticator()
    return UnionAuthenticator(
        (ClientCertificateAuthenticator(), BearerTokenAuthenticator(settings.audiences))
    )


def _access(settings: Settings, authenticator: Authenticator) -> Access:
    has_api_server = settings.kube is not None
    authorizer = rules_then_review(settings.static_rules, has_api_server=has_api_server)
    return Access(settings.access, authenticator, AttributeSource(settings.attributes), authorizer)

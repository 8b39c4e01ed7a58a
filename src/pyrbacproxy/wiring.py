"""Builds every object between the listeners and the upstream from `Settings`."""

import asyncio
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from OpenSSL import SSL, crypto

from pyrbacproxy.access import Access
from pyrbacproxy.authn.authenticators import (
    Authenticator,
    BearerTokenAuthenticator,
    ClientCertificateAuthenticator,
    IdTokenAuthenticator,
    UnionAuthenticator,
)
from pyrbacproxy.authz.attributes import AttributeSource, verb_of
from pyrbacproxy.authz.authorizers import StaticRule, rules_then_review
from pyrbacproxy.background import Activity, LoopFaults
from pyrbacproxy.certificates import Certificates
from pyrbacproxy.client_protocol import ClientProtocol
from pyrbacproxy.config.settings import Settings
from pyrbacproxy.handler import Handler, Request
from pyrbacproxy.http1.head import Headers, Response
from pyrbacproxy.kube.kubeconfig import KubeSettings
from pyrbacproxy.kube.reviewer import Client, JudgeTokens, NoApiServer, Reviewer
from pyrbacproxy.model import Answer, ExchangeRecord, Review, ReviewFailed
from pyrbacproxy.observe.logs import AnswerWatch, DecisionLog
from pyrbacproxy.observe.metrics import Metrics
from pyrbacproxy.observe.process import LoopLag, process_started_at
from pyrbacproxy.pages.health import Check, Look
from pyrbacproxy.pages.status import COMPONENT, PageSettings, Program
from pyrbacproxy.proxy.connector import Connector, destination, dialler
from pyrbacproxy.proxy.exchange import Services
from pyrbacproxy.proxy.heads import Heads, HttpDate, same_trailers
from pyrbacproxy.proxy.listener import Listener
from pyrbacproxy.proxy.transport import ClientTransport, SecureTransport
from pyrbacproxy.tls.certificate import from_der
from pyrbacproxy.tls.files import WatchedFiles
from pyrbacproxy.tls.reloader import CLIENT_CA, SERVING_PAIR
from pyrbacproxy.tls.upstream_context import UpstreamContext

if TYPE_CHECKING:
    from pyrbacproxy.http2.upstream_connector import Http2Connector
    from pyrbacproxy.kube.api_client import ApiClient
    from pyrbacproxy.kube.memory import StaleReviews
    from pyrbacproxy.observe.access_log import AccessLog, LineOutlet
    from pyrbacproxy.observe.exposition import Gauges
    from pyrbacproxy.oidc.issuer import Issuer
    from pyrbacproxy.pages.pages import Page


# --- measuring ------------------------------------------------------------------------
# The page `/metrics`: what was counted, and what each part knows at the moment.


def validity(context: SSL.Context | None) -> tuple[float, float] | None:
    """When the certificate of a server's context begins and ends, in epoch seconds."""
    shown = None if context is None else SSL.Connection(context).get_certificate()
    if shown is None:
        return None
    certificate = from_der(crypto.dump_certificate(crypto.FILETYPE_ASN1, shown))
    return certificate.not_before, certificate.not_after


class MetricsPage:
    """The page. `gate` is one of the `checks`; `listeners` are added by name once they are made.

    `serving` gives the context that the secure port shows, `watched` the files that are kept fresh,
    `dropped_lines` the number of those that the access log lost, `background` what goes on beside
    the requests.
    """

    def __init__(
        self,
        metrics: Metrics,
        settings: PageSettings,
        program: Program,
        *,
        checks: tuple[Look, ...],
        gate: Look,
        serving: Callable[[], SSL.Context | None],
        watched: Callable[[], tuple[WatchedFiles, ...]],
        max_connections: int,
        dropped_lines: Callable[[], int],
        background: Callable[[], Iterable[Activity]] = tuple,
    ) -> None:
        self._metrics = metrics
        self._settings = settings
        self._program = program
        self._checks = checks
        self._gate = gate
        self._serving = serving
        self._watched = watched
        self._max_connections = max_connections
        self._dropped_lines = dropped_lines
        self._background = background
        self.listeners: dict[str, Listener] = {}

    def __call__(self, request: Request) -> Response:
        """The page in the form that the scraper wants; an `pages.pages.Page`."""
        # Imported by those who are asked for it; for the others it would only cost memory.
        from pyrbacproxy.observe.exposition import exposition  # noqa: PLC0415

        headers = request.head.headers
        written = exposition(
            self._metrics,
            self._gauges(),
            accept=(headers.get(b"accept") or b"").decode("latin-1"),
            accept_encoding=(headers.get(b"accept-encoding") or b"").decode("latin-1"),
        )
        lines = [(b"Content-Type", written.content_type.encode())]
        if written.content_coding:
            lines.append((b"Content-Encoding", written.content_coding.encode()))
        return Response(200, Headers(lines), written.body)

    def _gauges(self) -> "Gauges":
        # As above.
        from pyrbacproxy.observe.exposition import Connections, Files, Gauges, Task  # noqa: PLC0415
        from pyrbacproxy.pages.statusz_flagz import version_info  # noqa: PLC0415

        settings, valid = self._settings, validity(self._serving())
        checks = [look() for look in self._checks]
        return Gauges(
            connections={
                name: Connections(listener.connections, listener.accepted)
                for name, listener in self.listeners.items()
            },
            connections_limit=self._max_connections,
            files={
                files.name: Files(files.reloads, files.failures, is_bad=bool(files.fault))
                for files in self._watched()
            },
            certificate_begins_at=None if valid is None else valid[0],
            certificate_expires_at=None if valid is None else valid[1],
            background={
                one.name: Task(one.failures, is_failing=bool(one.fault))
                for one in self._background()
            },
            is_gate_open=not self._gate().progress,
            checks={check.name: check.is_ok for check in checks},
            features={
                "ComponentStatusz": settings.has_statusz,
                "ComponentFlagz": settings.has_flagz,
            },
            build=version_info(self._program),
            access_log_dropped=self._dropped_lines(),
            component=COMPONENT,
            started_at=self._program.started_at,
        )


# --- endpoints ------------------------------------------------------------------------
#
# The endpoints port's handler put together: the pages, who may see them, and the checks.
#
# The checks only look at what is known anyway: none connects to anything, so that a page answers
# whatever is down.

# What a build knew of itself: a JSON object that setup.py writes beside this module.
BUILD_FILE = Path(__file__).with_name("build.json")
_BUILD_KEYS = ("gitCommit", "gitTreeState", "buildDate")
# GOARCH, where it differs from the kernel's name for the machine.
_GO_MACHINES = {
    "x86_64": "amd64",
    "aarch64": "arm64",
    "armv6l": "arm",
    "armv7l": "arm",
    "i386": "386",
    "i686": "386",
    "loongarch64": "loong64",
}


def endpoints_handler(
    settings: PageSettings,
    program: Program,
    authenticator: Authenticator,
    rules: tuple[StaticRule, ...],
    *,
    has_api_server: bool,
    checks: tuple[Look, ...],
    others: "dict[bytes, Page]",
) -> Handler:
    """Answers on the endpoints port. `checks` come in the order in which they are listed, `ping`
    first; `others` are pages beyond status, flags, health and version.
    """
    # Imported by those who serve pages: to the others it would only be memory.
    import random  # noqa: PLC0415

    from pyrbacproxy.pages.pages import (  # noqa: PLC0415  # noqa: PLC0415  # noqa: PLC0415
        PageAccess,
        Pages,
        component_attributes,
        health_pages,
        node_attributes,
        page_table,
        rules_for_pages,
    )
    from pyrbacproxy.pages.statusz_flagz import DELIMITERS  # noqa: PLC0415

    attributes = node_attributes(settings.node_name) if settings.node_name else component_attributes
    authorizer = rules_then_review(rules_for_pages(rules), has_api_server=has_api_server)
    health = health_pages(checks)
    table = page_table(
        settings,
        program,
        delimiter=partial(random.choice, DELIMITERS),
        health=health,
        others=others,
    )
    return Pages(PageAccess(authenticator, attributes, authorizer), health, table).handle


def serving_certificate(context: SSL.Context | None, reload_fault: str) -> Check:
    """Counts once it has expired, for then no client can verify us. While the old pair serves on
    after a bad reload (D10) it does not.
    """
    name = "serving-certificate"
    if context is None:
        return Check(name, is_ok=False, detail="not there yet", counts_for_readiness=False)
    valid = validity(context)
    if valid is None or valid[1] < time.time():
        return Check(name, is_ok=False, detail="expired")
    if reload_fault:
        return Check(name, is_ok=False, detail=reload_fault, counts_for_readiness=False)
    return Check(name)


def uncounted(name: str, fault: str) -> Check:
    """A check that is shown and never decides."""
    return Check(name, is_ok=not fault, detail=fault, counts_for_readiness=False)


def background(activities: Iterable[Activity]) -> Check:
    """What goes on beside the requests; a failure is tried again and never decides."""
    faults = (f"{one.name} {one.fault}" for one in activities if one.fault)
    return uncounted("background", "; ".join(faults))


def shutdown(*, is_stopping: bool) -> Check:
    """Fails from the signal on, so that no new client is sent to us."""
    return Check("shutdown", is_ok=not is_stopping, detail="shutting down" if is_stopping else "")


class WatchedClient:
    """A client of the API server whose last failure is known; "" after a success or none yet.

    Each call is counted in `metrics`, which `clock` (seconds) tells how long it took.
    """

    def __init__(
        self, client: Client, metrics: Metrics, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._metrics = metrics
        self._clock = clock
        self.fault = ""

    async def review(
        self, review: Review, asker: str, *, is_preferred: bool, within_seconds: float
    ) -> Answer:
        """The client's answer."""
        begun_at = self._clock()
        answer = await self._client.review(
            review, asker, is_preferred=is_preferred, within_seconds=within_seconds
        )
        self.fault = answer.reason if isinstance(answer, ReviewFailed) else ""
        seconds = self._clock() - begun_at
        self._metrics.reviewed(type(review).__name__, seconds, is_answered=not self.fault)
        return answer


class UpstreamWatch:
    """What the last exchange that reached for the upstream says of it; "" when it answered."""

    def __init__(self) -> None:
        self.fault = ""

    def observe(self, record: ExchangeRecord) -> None:
        """Look at one exchange."""
        if record.upstream_answered_at:
            self.fault = ""
        elif record.failure is not None and record.failure.reason:
            cause = f" ({record.cause})" if record.cause else ""
            self.fault = f"{record.failure}{cause}, at the last request"


def running_program(settings: PageSettings) -> Program:
    """This process, as the pages describe it."""
    return Program(
        version=settings.version,
        language="python" + ".".join(map(str, sys.version_info[:3])),
        implementation=sys.implementation.name,
        platform=go_platform(sys.platform, os.uname().machine),
        started_at=process_started_at(),
        build=build_facts(BUILD_FILE),
    )


def go_platform(system: str, machine: str) -> str:
    """`GOOS/GOARCH`, as Kubernetes' components name where they run."""
    return f"{system}/{_GO_MACHINES.get(machine, machine)}"


def build_facts(path: Path) -> dict[str, str]:
    """The facts in a build's file that are there, in the order of version.Info.

    A page about ourselves is no reason not to start: a file that is missing or odd says nothing.
    """
    try:
        facts = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    if not isinstance(facts, dict):
        return {}
    known = {key: facts.get(key) for key in _BUILD_KEYS}
    return {key: value for key, value in known.items() if isinstance(value, str) and value}


# --- assembly -------------------------------------------------------------------------
#
# The parts put together: every object between a listener and the upstream, made from `Settings`.
#
# It decides nothing about a request. `app` runs what is made here.

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
        """The same with an access log; without one it is not looked up."""
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
        """The endpoints port's handler; None without such a port."""
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
            on_handshake=self._metrics.observe_handshake,
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
    from pyrbacproxy.observe.access_log import AccessLog  # noqa: PLC0415

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
    from pyrbacproxy.oidc.tokens import Verifier  # noqa: PLC0415

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
    from pyrbacproxy.kube.memory import StaleReviews  # noqa: PLC0415

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

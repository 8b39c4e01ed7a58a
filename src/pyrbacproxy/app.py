"""The composition root: builds every object from `Settings`, runs them, handles signals, drains.

It decides nothing about a request. Addresses are bound and files are read before anything else
runs, so that a start that fails leaves nothing behind.
"""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import time
from collections.abc import Callable
from functools import partial

import uvloop
from OpenSSL import SSL

from pyrbacproxy.access import Access
from pyrbacproxy.admin.pages import Pages
from pyrbacproxy.authn.authenticator import UnionAuthenticator
from pyrbacproxy.authn.bearer_token import BearerTokenAuthenticator
from pyrbacproxy.authn.client_certificate import ClientCertificateAuthenticator
from pyrbacproxy.authz.attributes import AttributeSource
from pyrbacproxy.authz.authorizer import UnionAuthorizer
from pyrbacproxy.authz.static import StaticAuthorizer
from pyrbacproxy.authz.subject_access_review import SubjectAccessReviewAuthorizer
from pyrbacproxy.config.settings import Address, Settings
from pyrbacproxy.dataplane.client_transport import ClientTransport
from pyrbacproxy.dataplane.downstream import Downstream
from pyrbacproxy.dataplane.heads import Heads, HttpDate, same_trailers
from pyrbacproxy.dataplane.listener import Listener, bind
from pyrbacproxy.dataplane.peer_source import PeerSource
from pyrbacproxy.dataplane.secure_transport import SecureTransport
from pyrbacproxy.dataplane.services import Services
from pyrbacproxy.dataplane.upstream import Connector, destination
from pyrbacproxy.handler import Handler
from pyrbacproxy.kube.api_client import ApiClient, NoApiServer
from pyrbacproxy.kube.kubeconfig import KubeSettings
from pyrbacproxy.kube.reviewer import Reviewer
from pyrbacproxy.observe.decision_log import log_notes
from pyrbacproxy.observe.logs import structured
from pyrbacproxy.peer import Peer
from pyrbacproxy.tls.client_chain import ClientChains
from pyrbacproxy.tls.contexts import self_signed_pair, server_context
from pyrbacproxy.tls.reloader import TlsReloader
from pyrbacproxy.tls.upstream_context import UpstreamContext
from pyrbacproxy.tls.watched_files import TlsFileError

_LOG = logging.getLogger(__name__)
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
OnClosed = Callable[[ClientTransport], None]


def serve(settings: Settings) -> int:
    """Serves until a signal; returns the exit status: 0 after a signal, 1 when the start fails."""
    try:
        program = _Program(settings)
        sockets = _bound((settings.secure, settings.insecure, settings.endpoints))
    except (OSError, TlsFileError) as error:
        _LOG.error("%s", structured("command failed", err=error))
        return 1
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(program.run(*sockets))
    return 0


def _bound(addresses: tuple[Address | None, ...]) -> list[list[socket.socket]]:
    """The listening sockets of each address, none for None. All or, with an OSError, none."""
    with contextlib.ExitStack() as on_failure:
        bound = []
        for address in addresses:
            sockets = [] if address is None else bind(address.host, address.port)
            for listening in sockets:
                on_failure.callback(listening.close)
            bound.append(sockets)
        on_failure.pop_all()
    return bound


class _Program:
    """Everything that lives as long as the process serves. Raises TlsFileError for a bad file."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._chains = ClientChains()
        self._context: SSL.Context | None = None
        self._upstream_tls = self._upstream_context()
        self._reloader = self._loaded_reloader()
        self._stopped = asyncio.Event()

    async def run(
        self,
        secure: list[socket.socket],
        insecure: list[socket.socket],
        endpoints: list[socket.socket],
    ) -> None:
        """Serve, until a signal, what was bound."""
        settings, limits = self._settings, self._settings.limits
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._signalled)
        client = NoApiServer() if settings.kube is None else ApiClient(settings.kube)
        reviewer = Reviewer(client, settings.kube or KubeSettings())
        tls = self._upstream_tls
        connector = Connector(
            settings.upstream, limits, context=None if tls is None else lambda: tls.current
        )
        access, pages = self._handlers()
        services = partial(
            Services,
            runner=reviewer,
            connector=connector,
            heads=Heads(destination(settings.upstream)),
            observe=log_notes,
            limits=limits,
            clock=loop.time,
            wall_clock=time.time,
            date=HttpDate(time.time),
        )
        proxied = services(handler=access.handle, clean_trailers=access.clean_trailers)
        own = services(handler=pages, clean_trailers=same_trailers)
        listeners = [
            Listener(secure, partial(self._secure_transport, proxied), limits),
            Listener(insecure, partial(self._plain_transport, proxied), limits),
            Listener(endpoints, partial(self._secure_transport, own), limits),
        ]
        self._start(listeners)
        async with asyncio.TaskGroup() as tasks:
            reloading = tasks.create_task(self._reloader.run())
            await self._stopped.wait()
            async with asyncio.TaskGroup() as draining:
                for listener in listeners:
                    draining.create_task(listener.drain(limits.shutdown_grace_seconds))
            reloading.cancel()
        reviewer.close()
        await connector.close()
        await client.close()

    def _upstream_context(self) -> UpstreamContext | None:
        upstream = self._settings.upstream
        if upstream.scheme != "https":
            return None
        return UpstreamContext(
            upstream.ca_file, upstream.client_certificate_file, upstream.client_key_file
        )

    def _loaded_reloader(self) -> TlsReloader:
        """Everything is read once here; its `run` keeps it fresh."""
        settings, upstream_tls = self._settings, self._upstream_tls
        if settings.secure is not None and not settings.tls.certificate_file:
            self._use_context(server_context(self_signed_pair(socket.gethostname()), settings.tls))
        reloader = TlsReloader(
            settings.tls,
            self._use_context,
            self._chains.replace_pool,
            () if upstream_tls is None else (upstream_tls.files,),
        )
        reloader.load()
        return reloader

    def _use_context(self, context: SSL.Context) -> None:
        self._context = context

    def _current_context(self) -> SSL.Context:
        assert self._context is not None, "a secure listener without a pair"  # noqa: S101 - a fault of ours
        return self._context

    def _handlers(self) -> tuple[Access, Handler]:
        settings = self._settings
        authenticator = UnionAuthenticator(
            (ClientCertificateAuthenticator(), BearerTokenAuthenticator(settings.audiences))
        )
        authorizer = UnionAuthorizer(
            (StaticAuthorizer(settings.static_rules), SubjectAccessReviewAuthorizer())
        )
        access = Access(
            settings.access, authenticator, AttributeSource(settings.attributes), authorizer
        )
        return access, Pages(authenticator, authorizer).handle

    def _start(self, listeners: list[Listener]) -> None:
        # What lives until the end is not looked at again by the collector.
        gc.collect()
        gc.freeze()
        for listener in listeners:
            listener.start()
        settings = self._settings
        if settings.secure is not None:
            _LOG.info("Listening securely on %s", settings.secure.text)
        if settings.endpoints is not None:
            _LOG.info("Listening securely on %s for proxy endpoints", settings.endpoints.text)
        if settings.insecure is not None:
            _LOG.info("Listening insecurely on %s", settings.insecure.text)

    def _secure_transport(self, services: Services, on_closed: OnClosed) -> ClientTransport:
        loop = asyncio.get_running_loop()

        def downstream(transport: SecureTransport) -> Downstream:
            peer = PeerSource(
                self._chains,
                address=transport.peer_address,
                chain=transport.peer_chain(),
                wall_clock=time.time,
            )
            return Downstream(transport, services, peer=peer, loop=loop)

        return SecureTransport(
            downstream,
            context=self._current_context,
            limits=services.limits,
            loop=loop,
            on_closed=on_closed,
        )

    def _plain_transport(self, services: Services, on_closed: OnClosed) -> ClientTransport:
        loop = asyncio.get_running_loop()

        def downstream(transport: ClientTransport) -> Downstream:
            peer = Peer(transport.peer_address)
            return Downstream(transport, services, peer=lambda: peer, loop=loop)

        return ClientTransport(downstream, limits=services.limits, loop=loop, on_closed=on_closed)

    def _signalled(self) -> None:
        """The first drains; the second ends the process, as Kubernetes' own servers do (D12)."""
        if self._stopped.is_set():
            _LOG.warning("Second signal: exiting at once")
            os._exit(1)
        _LOG.info("Shutting down")
        self._stopped.set()

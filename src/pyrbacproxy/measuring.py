"""The page `/metrics`: what was counted, and what each part knows at the moment."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from OpenSSL import SSL, crypto

from pyrbacproxy.admin.health import Look
from pyrbacproxy.admin.status import COMPONENT, PageSettings, Program
from pyrbacproxy.background import Activity
from pyrbacproxy.dataplane.listener import Listener
from pyrbacproxy.handler import Request
from pyrbacproxy.http1.head import Headers
from pyrbacproxy.http1.response import Response
from pyrbacproxy.observe.metrics import Metrics
from pyrbacproxy.tls.certificate import from_der
from pyrbacproxy.tls.watched_files import WatchedFiles

if TYPE_CHECKING:
    from pyrbacproxy.observe.gauges import Gauges


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
        """The page in the form that the scraper wants; an `admin.pages.Page`."""
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
        from pyrbacproxy.admin.version import version_info  # noqa: PLC0415
        from pyrbacproxy.observe.gauges import Connections, Files, Gauges, Task  # noqa: PLC0415

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

"""Writes `/metrics` by prometheus-client: names, help, labels and gauges read at scrape time."""

import gzip
import re
from collections.abc import Iterable, Iterator, Mapping

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector, CollectorRegistry

from pyrbacproxy.model import Outcome
from pyrbacproxy.observe.metrics import Histogram, Metrics
from pyrbacproxy.values import Frozen

# --- gauges ---------------------------------------------------------------------------
# What `/metrics` shows without counting: looked up at each scrape.


class Connections(Frozen):
    """A listener's connections: open now, and accepted since the start."""

    open: int
    accepted: int


class Files(Frozen):
    """Watched files: how often they were replaced or found bad since the start, and if they are."""

    reloads: int
    failures: int
    is_bad: bool


class Task(Frozen):
    """Something beside the requests: its unexpected failures since the start; if it works now."""

    failures: int
    is_failing: bool


class Gauges(Frozen):
    """What is looked up at the moment.

    `started_at`, `certificate_begins_at` and `certificate_expires_at` are seconds since the epoch,
    the last two None without a pair.
    `access_log_dropped` counts lines since the start.
    `build` has the keys of Kubernetes' version.Info; `checks` are those of /readyz.
    """

    connections: Mapping[str, Connections]
    connections_limit: int
    files: Mapping[str, Files]
    certificate_begins_at: float | None
    certificate_expires_at: float | None
    is_gate_open: bool
    background: Mapping[str, Task]
    checks: Mapping[str, bool]
    features: Mapping[str, bool]
    build: Mapping[str, str]
    access_log_dropped: int
    component: str
    started_at: float


# --- families -------------------------------------------------------------------------
#
# Numbers → prometheus-client's metric families: names, help, labels.
#
# What may rise is shown as 0 before it does, so that a first increment is one to Prometheus too.

_PREFIX = "kube_rbac_proxy_"
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
# By outcome, the first digits of the usual statuses.
_USUAL = {
    *((Outcome.ALLOWED, digit) for digit in (2, 3, 4, 5)),
    *((outcome, 4) for outcome in (Outcome.DENIED, Outcome.UNAUTHENTICATED, Outcome.REFUSED)),
    (Outcome.ERROR, 5),
}
# Kubernetes' labels of request metrics (apiserver_request_total); most of them are empty here.
_PAGE_LABELS = (
    *("verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component"),
)


class Families(Collector):
    """Every family, made of the numbers at each collection."""

    def __init__(self, metrics: Metrics, gauges: Gauges) -> None:
        self._metrics = metrics
        self._gauges = gauges

    def collect(self) -> Iterator[Metric]:
        """Every family, once."""
        yield from _requests(self._metrics)
        yield from _upstream(self._metrics)
        yield from _reviews(self._metrics)
        yield from _clients(self._metrics, self._gauges)
        yield from _state(self._gauges)
        yield from _pages(self._metrics, self._gauges.component)
        yield from _kubernetes(self._gauges)
        yield from _process(self._metrics, self._gauges.started_at)


def _requests(metrics: Metrics) -> Iterator[Metric]:
    requests = CounterMetricFamily(
        f"{_PREFIX}requests",
        "Requests that are over, by what was decided and the class of the status.",
        labels=("outcome", "code"),
    )
    for outcome, counts in metrics.requests.items():
        for digit, count in enumerate(counts):
            if count or (outcome, digit) in _USUAL:
                code = f"{digit}xx" if digit else "none"
                requests.add_metric((str(outcome), code), count)
    yield requests
    yield _counter(
        "authentications",
        "Requests whose user is known, by how: 'none' is an ignored path.",
        "source",
        metrics.authentications,
    )
    yield _counter(
        "authorizations",
        "Decided requests, by who decided: 'none' is an ignored path or nobody.",
        "source",
        metrics.authorizations,
    )
    yield _histogram(
        "request_duration_seconds",
        "Time from a request's head to the end of its response, or to the start of a tunnel.",
        {(): metrics.request_seconds},
    )
    yield _counter(
        "received_bytes",
        "Bytes of request bodies, and of tunnels.",
        "",
        {"": metrics.received_bytes},
    )
    yield _counter(
        "sent_bytes", "Bytes of response bodies, and of tunnels.", "", {"": metrics.sent_bytes}
    )
    yield _counter(
        "client_aborts",
        "Exchanges that the client left before their end.",
        "",
        {"": metrics.client_aborts},
    )


def _upstream(metrics: Metrics) -> Iterator[Metric]:
    yield _histogram(
        "upstream_duration_seconds",
        "Time from the decision to the head of the upstream's response, dialling included.",
        {(): metrics.upstream_seconds},
    )
    yield _counter(
        "upstream_failures",
        "Exchanges that failed on the upstream's side.",
        "reason",
        metrics.upstream_failures,
    )


def _reviews(metrics: Metrics) -> Iterator[Metric]:
    yield _histogram(
        "review_duration_seconds",
        "Time that one call to the API server took, the wait for our own rate included.",
        {(kind,): seconds for kind, seconds in metrics.review_seconds.items()},
        labels=("review",),
    )
    yield _counter(
        "review_failures",
        "Calls to the API server without an answer.",
        "review",
        metrics.review_failures,
    )
    yield _counter(
        "stale_reviews",
        "Reviews answered past their time, because the API server is away.",
        "review",
        metrics.stale_reviews,
    )


def _clients(metrics: Metrics, gauges: Gauges) -> Iterator[Metric]:
    connections = gauges.connections
    yield _gauge(
        "connections",
        "Open client connections.",
        "listener",
        {name: each.open for name, each in connections.items()},
    )
    yield _counter(
        "connections_accepted",
        "Client connections accepted.",
        "listener",
        {name: each.accepted for name, each in connections.items()},
    )
    yield _gauge(
        "connections_limit",
        "Client connections at which a listener stops accepting.",
        "",
        {"": gauges.connections_limit},
    )
    yield _counter(
        "tls_handshakes", "Finished TLS handshakes with clients.", "version", metrics.handshakes
    )
    yield _counter(
        "tls_handshake_failures",
        "TLS handshakes with clients that failed.",
        "reason",
        metrics.handshake_failures,
    )


def _state(gauges: Gauges) -> Iterator[Metric]:
    reloads = CounterMetricFamily(
        f"{_PREFIX}reloads",
        "Changed files that were put to use, or looks at files that were bad.",
        labels=("files", "result"),
    )
    for name, files in gauges.files.items():
        reloads.add_metric((name, "success"), files.reloads)
        reloads.add_metric((name, "failure"), files.failures)
    yield reloads
    yield _gauge(
        "files_bad",
        "1 while the newest content of files is bad and the old one is kept.",
        "files",
        {name: files.is_bad for name, files in gauges.files.items()},
    )
    yield _counter(
        "background_failures",
        "Unexpected failures of what runs beside the requests; each is tried again.",
        "task",
        {name: task.failures for name, task in gauges.background.items()},
    )
    yield _gauge(
        "background_failing",
        "1 while the last try of a task failed unexpectedly and what it last achieved is kept.",
        "task",
        {name: task.is_failing for name, task in gauges.background.items()},
    )
    yield _instant(
        "serving_certificate_not_before_timestamp_seconds",
        "When the serving certificate in use begins to be valid, in seconds since the epoch.",
        gauges.certificate_begins_at,
    )
    yield _instant(
        "serving_certificate_expiry_timestamp_seconds",
        "When the serving certificate in use ends, in seconds since the epoch.",
        gauges.certificate_expires_at,
    )
    yield _counter(
        "access_log_dropped_lines",
        "Lines of the access log that could not be written.",
        "",
        {"": gauges.access_log_dropped},
    )
    yield _gauge(
        "startup_gate_open",
        "1 once nothing is waited for before the secure port is served.",
        "",
        {"": gauges.is_gate_open},
    )


def _pages(metrics: Metrics, component: str) -> Iterator[Metric]:
    requests = CounterMetricFamily(
        f"{_PREFIX}zpage_requests",
        "Requests for /statusz and /flagz; group and version are those of the object given.",
        labels=(*_PAGE_LABELS, "code"),
    )
    for (resource, verb, group, version, status), count in metrics.pages.items():
        labels = _page_labels(resource, verb, group, version, component)
        requests.add_metric((*labels, str(status)), count)
    yield requests
    yield _histogram(
        "zpage_request_duration_seconds",
        "Time from the head of a request for /statusz or /flagz to the end of its response.",
        {
            _page_labels(*asked, component): seconds
            for asked, seconds in metrics.page_seconds.items()
        },
        labels=_PAGE_LABELS,
    )


def _page_labels(
    resource: str, verb: str, group: str, version: str, component: str
) -> tuple[str, ...]:
    return (verb, "", group, version, resource, "", "", component)


def _kubernetes(gauges: Gauges) -> Iterator[Metric]:
    """Families that every Kubernetes component has, under their own names."""
    build = GaugeMetricFamily(
        "kubernetes_build_info",
        "A constant 1 with the labels of version.Info.",
        labels=tuple(_CAMEL.sub("_", key).lower() for key in gauges.build),
    )
    build.add_metric(tuple(gauges.build.values()), 1)
    yield build
    features = GaugeMetricFamily(
        "kubernetes_feature_enabled",
        "1 if the feature gate is on.",
        labels=("name", "stage"),
    )
    for name, is_on in gauges.features.items():
        features.add_metric((name, "BETA"), is_on)
    yield features
    checks = GaugeMetricFamily(
        "kubernetes_healthcheck",
        "1 if the check of /readyz passes, counted for readiness or not.",
        labels=("name", "type"),
    )
    for name, is_ok in gauges.checks.items():
        checks.add_metric((name, "readyz"), is_ok)
    yield checks


def _process(metrics: Metrics, started_at: float) -> Iterator[Metric]:
    yield _histogram(
        "event_loop_lag_seconds",
        "How late the event loop calls what is due, sampled while there are requests.",
        {(): metrics.loop_lag},
    )
    started = "process_start_time_seconds"
    # The kernel's own figure moves with the clock; /statusz and this must agree.
    yield GaugeMetricFamily(
        started, "Start time of the process since unix epoch in seconds.", started_at
    )
    for family in ProcessCollector(registry=None).collect():
        if family.name != started:
            yield family


def _counter(name: str, text: str, label: str, counts: Mapping[str, float]) -> Metric:
    """A family with one label, or with one number and no label when `label` is ""."""
    family = CounterMetricFamily(f"{_PREFIX}{name}", text, labels=_labels(label))
    for value, count in counts.items():
        family.add_metric(_labels(value), count)
    return family


def _gauge(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    """As `_counter`."""
    family = GaugeMetricFamily(f"{_PREFIX}{name}", text, labels=_labels(label))
    for value, number in values.items():
        family.add_metric(_labels(value), number)
    return family


def _instant(name: str, text: str, instant: float | None) -> Metric:
    """A gauge without a sample while there is no such instant."""
    return _gauge(name, text, "", {} if instant is None else {"": instant})


def _labels(text: str) -> tuple[str, ...]:
    return (text,) if text else ()


def _histogram(
    name: str,
    text: str,
    histograms: Mapping[tuple[str, ...], Histogram],
    labels: Iterable[str] = (),
) -> Metric:
    family = HistogramMetricFamily(f"{_PREFIX}{name}", text, labels=tuple(labels))
    for values, histogram in histograms.items():
        so_far = 0
        buckets: list[tuple[str, float]] = []
        bounds = (*(str(bound) for bound in histogram.bounds), "+Inf")
        for bound, count in zip(bounds, histogram.counts, strict=True):
            so_far += count
            buckets.append((bound, so_far))
        family.add_metric(values, buckets, histogram.total)
    return family


# --- exposition -----------------------------------------------------------------------
#
# The text of `/metrics` in the form that the scraper asks for, by prometheus-client.
#
# Importing this costs about 3 MiB and 50 ms, so only who is asked for the page imports it.

# The library compares any other as numbers, raises where it is none, and echoes it.
_VERSIONS = frozenset(("0.0.1", "0.0.4", "1.0.0"))
_ZERO = re.compile(r"0(\.0*)?")


class Exposition(Frozen):
    """A body with what its header lines say; `content_coding` is "" or "gzip"."""

    body: bytes
    content_type: str
    content_coding: str


def exposition(
    metrics: Metrics, gauges: Gauges, *, accept: str, accept_encoding: str
) -> Exposition:
    """The page as Prometheus' own handler negotiates it: OpenMetrics or text, packed if wished."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Families(metrics, gauges))
    encode, content_type = choose_encoder(_understood(accept))
    body = encode(registry)
    if not _takes_gzip(accept_encoding):
        return Exposition(body, content_type, "")
    return Exposition(gzip.compress(body, compresslevel=6, mtime=0), content_type, "gzip")


def _understood(accept: str) -> str:
    """The entries of an Accept header that name no version, or one that there is."""
    return ",".join(entry for entry in accept.split(",") if _VERSIONS.issuperset(_versions(entry)))


def _versions(entry: str) -> Iterator[str]:
    for parameter in entry.split(";"):
        name, _, value = parameter.strip().partition("=")
        if name == "version" and value:
            yield value


def _takes_gzip(accept_encoding: str) -> bool:
    """Whether gzip is named and not weighed with zero (RFC 9110 §12.5.3)."""
    for entry in accept_encoding.lower().split(","):
        coding, _, parameters = entry.partition(";")
        if coding.strip() == "gzip":
            _, _, weight = parameters.partition("q=")
            return not _ZERO.fullmatch(weight.strip())
    return False

"""The families: Prometheus' linter finds nothing, and each number is where it belongs."""

import shutil
import subprocess

import pytest
from prometheus_client.core import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import CollectorRegistry

from pyrbacproxy.model import Decided, ExchangeRecord, Outcome, PageShown
from pyrbacproxy.observe.exposition import Connections, Families, Files, Gauges, Task
from pyrbacproxy.observe.metrics import Metrics

GAUGES = Gauges(
    connections={"secure": Connections(2, 5)},
    connections_limit=100,
    files={"client CA": Files(1, 3, is_bad=True)},
    certificate_begins_at=1e9,
    certificate_expires_at=2e9,
    is_gate_open=True,
    background={"access log": Task(4, is_failing=True)},
    checks={"ping": True, "upstream": False},
    features={"ComponentStatusz": True, "ComponentFlagz": False},
    build={"gitVersion": "v0.1.0", "goVersion": "python3.12.3"},
    access_log_dropped=8,
    component="kube-rbac-proxy",
    started_at=1234.5,
)
NO_PAIR = Gauges(
    *({}, 0, {}, None, None, False, {}, {}, {}, {}, 0, "kube-rbac-proxy", 0.0),
)


def busy() -> Metrics:
    """Numbers of which each kind has been counted."""
    metrics = Metrics()
    decided = Decided(Outcome.ALLOWED, "alice", "certificate", "static")
    answered = ExchangeRecord("192.0.2.1", "GET", "/secret", decided, 200)
    answered.started_at, answered.ended_at, answered.sent_bytes = 1.0, 1.02, 160
    answered.decided_at, answered.upstream_answered_at = 1.0, 1.01
    metrics.observe(answered)
    page = Decided(Outcome.ALLOWED, page=PageShown("statusz", "config.k8s.io", "v1beta1"))
    metrics.observe_page(ExchangeRecord("192.0.2.1", "GET", "/statusz", page, 200))
    metrics.observe_handshake("TLSv1.3", "")
    metrics.reviewed("TokenReview", 0.004, is_answered=False)
    metrics.used_stale("TokenReview")
    return metrics


def families(metrics: Metrics, gauges: Gauges = GAUGES) -> dict[str, Metric]:
    return {family.name: family for family in Families(metrics, gauges).collect()}


def value(metrics: Metrics, sample: str, /, **labels: str) -> float:
    """The one sample with this name and these labels."""
    found = [
        each.value
        for family in families(metrics).values()
        for each in family.samples
        if each.name == sample and labels.items() <= each.labels.items()
    ]
    assert len(found) == 1, (sample, labels, found)
    return found[0]


def text(metrics: Metrics, gauges: Gauges = GAUGES) -> str:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Families(metrics, gauges))
    return generate_latest(registry).decode()


@pytest.mark.e2e
def test_promtool_has_no_complaint() -> None:
    promtool = shutil.which("promtool")
    assert promtool, "promtool is missing: `make setup` (as root) brings Debian's prometheus"
    for metrics, gauges in ((busy(), GAUGES), (Metrics(), NO_PAIR)):
        checked = subprocess.run(
            [promtool, "check", "metrics"],
            input=text(metrics, gauges),
            capture_output=True,
            text=True,
            check=False,
        )
        assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_no_label_holds_what_a_client_chooses() -> None:
    written = text(busy())
    assert "alice" not in written
    assert "/secret" not in written
    assert "192.0.2.1" not in written


def test_what_may_rise_is_there_as_zero_before() -> None:
    zero = Metrics()
    for outcome in Outcome:
        shown = {
            sample.labels["code"]: sample.value
            for sample in families(zero)["kube_rbac_proxy_requests"].samples
            if sample.labels["outcome"] == outcome
        }
        assert shown
        assert set(shown.values()) == {0}
    assert value(zero, "kube_rbac_proxy_upstream_failures_total", reason="refused") == 0
    assert value(zero, "kube_rbac_proxy_review_failures_total", review="TokenReview") == 0
    assert value(zero, "kube_rbac_proxy_stale_reviews_total", review="TokenReview") == 0
    assert value(zero, "kube_rbac_proxy_tls_handshake_failures_total", reason="timeout") == 0


def test_what_is_unusual_is_shown_once_it_happened() -> None:
    metrics = Metrics()
    metrics.observe(ExchangeRecord("192.0.2.1", "GET", "/", None, 0))
    name = "kube_rbac_proxy_requests_total"
    assert value(metrics, name, outcome="undecided", code="none") == 1
    assert value(metrics, name, outcome="allowed", code="2xx") == 0


def test_counted_numbers() -> None:
    metrics = busy()
    assert value(metrics, "kube_rbac_proxy_requests_total", outcome="allowed", code="2xx") == 1
    assert value(metrics, "kube_rbac_proxy_authentications_total", source="certificate") == 1
    assert value(metrics, "kube_rbac_proxy_authorizations_total", source="static") == 1
    assert value(metrics, "kube_rbac_proxy_sent_bytes_total") == 160
    assert value(metrics, "kube_rbac_proxy_tls_handshakes_total", version="TLSv1.3") == 1
    assert value(metrics, "kube_rbac_proxy_review_failures_total", review="TokenReview") == 1
    assert value(metrics, "kube_rbac_proxy_stale_reviews_total", review="TokenReview") == 1


def test_buckets_add_up() -> None:
    metrics, name = busy(), "kube_rbac_proxy_request_duration_seconds"
    assert value(metrics, f"{name}_bucket", le="0.01") == 0
    assert value(metrics, f"{name}_bucket", le="0.025") == 1
    assert value(metrics, f"{name}_bucket", le="+Inf") == 1
    assert value(metrics, f"{name}_count") == 1
    assert round(value(metrics, f"{name}_sum"), 6) == 0.02
    review = "kube_rbac_proxy_review_duration_seconds_count"
    assert value(metrics, review, review="TokenReview") == 1


def test_what_is_looked_up() -> None:
    zero = Metrics()
    assert value(zero, "kube_rbac_proxy_connections", listener="secure") == 2
    assert value(zero, "kube_rbac_proxy_connections_accepted_total", listener="secure") == 5
    assert value(zero, "kube_rbac_proxy_connections_limit") == 100
    assert value(zero, "kube_rbac_proxy_access_log_dropped_lines_total") == 8
    reloads = "kube_rbac_proxy_reloads_total"
    assert value(zero, reloads, files="client CA", result="success") == 1
    assert value(zero, reloads, files="client CA", result="failure") == 3
    assert value(zero, "kube_rbac_proxy_files_bad", files="client CA") == 1
    assert value(zero, "kube_rbac_proxy_serving_certificate_not_before_timestamp_seconds") == 1e9
    assert value(zero, "kube_rbac_proxy_serving_certificate_expiry_timestamp_seconds") == 2e9
    assert value(zero, "kube_rbac_proxy_background_failures_total", task="access log") == 4
    assert value(zero, "kube_rbac_proxy_background_failing", task="access log") == 1
    assert value(zero, "kube_rbac_proxy_startup_gate_open") == 1
    assert value(zero, "kubernetes_healthcheck", name="ping", type="readyz") == 1
    assert value(zero, "kubernetes_healthcheck", name="upstream", type="readyz") == 0


def test_without_a_pair_nothing_expires() -> None:
    shown = families(Metrics(), NO_PAIR)
    for name in ("not_before", "expiry"):
        family = f"kube_rbac_proxy_serving_certificate_{name}_timestamp_seconds"
        assert shown[family].samples == []
    assert shown["kube_rbac_proxy_startup_gate_open"].samples[0].value == 0


def test_z_g8_pages_have_kubernetes_labels() -> None:
    labels = {
        "verb": "GET",
        "dry_run": "",
        "group": "config.k8s.io",
        "version": "v1beta1",
        "resource": "statusz",
        "subresource": "",
        "scope": "",
        "component": "kube-rbac-proxy",
    }
    metrics = busy()
    (requests,) = families(metrics)["kube_rbac_proxy_zpage_requests"].samples
    assert (requests.labels, requests.value) == ({**labels, "code": "200"}, 1)
    count = "kube_rbac_proxy_zpage_request_duration_seconds_count"
    assert value(metrics, count, **labels) == 1


def test_z_g9_families_of_every_component() -> None:
    zero, gate = Metrics(), "kubernetes_feature_enabled"
    assert value(zero, gate, name="ComponentStatusz", stage="BETA") == 1
    assert value(zero, gate, name="ComponentFlagz", stage="BETA") == 0
    build = {"git_version": "v0.1.0", "go_version": "python3.12.3"}
    assert value(zero, "kubernetes_build_info", **build) == 1
    assert value(zero, "process_start_time_seconds") == 1234.5
    assert value(zero, "process_resident_memory_bytes") > 0
    assert value(zero, "process_open_fds") > 0

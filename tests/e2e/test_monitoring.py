"""Prometheus scrapes the proxy's own metrics, and what deploy/monitoring asks of them is there."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from pyrbacproxy.demo.documents import Document, document
from pyrbacproxy.demo.pki import Authority
from tests.e2e.cluster import READER_ACCOUNT, Cluster
from tests.e2e.programs import Programs, free_port
from tests.e2e.prometheus import by_token, start_jobs, start_prometheus
from tests.e2e.proxy import Proxies, Proxy

pytestmark = pytest.mark.e2e

MONITORING = Path(__file__).resolve().parents[2] / "deploy" / "monitoring"
OWN_PORT = "9638"  # of the ServiceMonitor
SCRAPER = "system:serviceaccount:openshift-monitoring:prometheus-k8s"
STATIC_RULE = f"""
authorization:
  static:
    - {{user: {{name: "{SCRAPER}"}}, verb: get, path: /metrics}}
"""


def endpoints(proxy: Proxy, port: int) -> Proxy:
    """The same proxy's endpoints port."""
    return Proxy(f"127.0.0.1:{port}", proxy.program, proxy.authority)


async def test_z_e3_prometheus_scrapes_the_proxy_itself_with_a_token(
    authority: Authority, cluster: Cluster, programs: Programs, proxies: Proxies, node_exporter: str
) -> None:
    port = free_port()
    proxy = await proxies.start(node_exporter, f"--proxy-endpoints-port={port}")
    own = endpoints(proxy, port)
    credentials = by_token(authority, programs, await cluster.token(READER_ACCOUNT))
    prometheus = await start_prometheus(programs, own.address, credentials)
    assert await prometheus.until('up{job="node"} == 1') == 1
    assert await prometheus.until('sum_over_time(up{job="node"}[5m]) >= 3') >= 3
    assert cluster.calls() == {"tokenreviews": 1, "subjectaccessreviews": 1}
    # What was asked for its own sake is not what the proxy is there for.
    assert await prometheus.until("sum(kube_rbac_proxy_requests_total)") == 0
    assert await prometheus.until("sum(kube_rbac_proxy_review_duration_seconds_count)") == 2


async def test_z_e1_prometheus_scrapes_nothing_without_credentials(
    authority: Authority, programs: Programs, proxies: Proxies, node_exporter: str
) -> None:
    port = free_port()
    proxy = await proxies.start(node_exporter, f"--proxy-endpoints-port={port}")
    trust = {"tls_config": {"ca_file": str(authority.certificate_file)}}
    prometheus = await start_prometheus(programs, endpoints(proxy, port).address, trust)
    await prometheus.until_error("server returned HTTP status 401 Unauthorized")


def service_monitor_jobs(
    target: str, own_port: int, tls: dict[str, str]
) -> Iterator[dict[str, object]]:
    """The scrape jobs that the Prometheus operator makes of our ServiceMonitors, for one target."""
    files = (MONITORING / "crio-job" / "servicemonitor.yaml", MONITORING / "servicemonitor.yaml")
    manifests = [document(yaml.safe_load(file.read_text())) for file in files]
    endpoints = [each for one in manifests for each in one.child("spec").children("endpoints")]
    for number, endpoint in enumerate(endpoints):
        yield {
            "job_name": f"serviceMonitor/{number}",
            "scheme": endpoint.text("scheme"),
            "scrape_interval": "2s",
            "scrape_timeout": "2s",
            "static_configs": [{"targets": [target]}],
            "tls_config": tls,
            "relabel_configs": [
                {
                    snake(key): value.replace(OWN_PORT, str(own_port))
                    if isinstance(value, str)
                    else value
                    for key, value in relabeling.fields.items()
                }
                for relabeling in endpoint.children("relabelings")
            ],
        }


def snake(key: str) -> str:
    return re.sub(r"(?=[A-Z])", "_", key).lower()


async def test_the_service_monitors_keep_the_job_and_add_our_own(
    authority: Authority, cluster: Cluster, programs: Programs, proxies: Proxies, node_exporter: str
) -> None:
    port = free_port()
    proxy = await proxies.start(
        node_exporter,
        f"--client-ca-file={authority.certificate_file}",
        f"--proxy-endpoints-port={port}",
        config=STATIC_RULE,
    )
    client = authority.client("scraper", SCRAPER)
    tls = {
        "ca_file": str(authority.certificate_file),
        "cert_file": str(client.certificate_file),
        "key_file": str(client.key_file),
    }
    prometheus = await start_jobs(programs, list(service_monitor_jobs(proxy.address, port, tls)))
    assert await prometheus.until('up{job="crio"} == 1') == 1
    assert await prometheus.until('count({job="crio",__name__=~"node_.*"})') > 100
    assert await prometheus.until('up{job="kube-rbac-proxy-crio"} == 1') == 1
    assert await prometheus.until('kube_rbac_proxy_startup_gate_open{job="kube-rbac-proxy-crio"}')
    allowed = 'sum(kube_rbac_proxy_requests_total{outcome="allowed",code="2xx"})'
    assert await prometheus.until(f"{allowed} >= 2") >= 2
    assert cluster.calls() == {}


def panels() -> tuple[Document, ...]:
    dashboard = document(json.loads((MONITORING / "dashboard.json").read_text()))
    return tuple(panel for panel in dashboard.children("panels") if panel.text("type") != "row")


def queries() -> Iterator[str]:
    """Every query of the dashboard with its variables filled in, and each name in an alert."""
    for panel in panels():
        for target in panel.children("targets"):
            query = target.text("expr").replace("$__rate_interval", "1m")
            yield query.replace("$job", ".*").replace("$instance", ".*")
    names = set(re.findall(r"kube_rbac_proxy_\w+", (MONITORING / "alerts.yaml").read_text()))
    yield from (f"count({name})" for name in sorted(names))


async def test_every_panel_and_every_alert_finds_its_series(
    authority: Authority, cluster: Cluster, programs: Programs, proxies: Proxies, node_exporter: str
) -> None:
    port = free_port()
    proxy = await proxies.start(node_exporter, f"--proxy-endpoints-port={port}")
    token = await cluster.token(READER_ACCOUNT)
    assert (await endpoints(proxy, port).get("/statusz", token=token))[0] == 403
    credentials = by_token(authority, programs, token)
    prometheus = await start_prometheus(programs, endpoints(proxy, port).address, credentials)
    await prometheus.until('sum_over_time(up{job="node"}[5m]) >= 2')
    assert (await proxy.get(token=token))[0] == 200
    asked = list(queries())
    assert len(asked) > 40
    for query in asked:
        await prometheus.until(query)
    served = 'sum(rate(kube_rbac_proxy_requests_total{outcome="allowed",code="2xx"}[1m])) > 0'
    assert await prometheus.until(served) > 0


def test_every_panel_says_what_it_shows() -> None:
    lacking = [panel.text("title") for panel in panels() if not panel.text("description")]
    assert lacking == []
    places = [json.dumps(panel.fields["gridPos"]) for panel in panels()]
    assert len(set(places)) == len(places)

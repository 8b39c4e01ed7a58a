"""Prometheus scrapes node-exporter through the proxy: by certificate, by token, and in vain."""

import pytest

from pyrbacproxy.demo.pki import Authority
from tests.e2e.cluster import READER_ACCOUNT, Cluster
from tests.e2e.programs import Programs
from tests.e2e.prometheus import by_token, start_prometheus
from tests.e2e.proxy import Proxies

pytestmark = pytest.mark.e2e

SCRAPER = "system:serviceaccount:openshift-monitoring:prometheus-k8s"
STATIC_RULE = f"""
authorization:
  static:
    - user: {{name: "{SCRAPER}"}}
      verb: get
      path: /metrics
      resourceRequest: false
"""


async def test_by_certificate_without_asking_the_api_server(
    authority: Authority,
    cluster: Cluster,
    programs: Programs,
    proxies: Proxies,
    node_exporter: str,
) -> None:
    proxy = await proxies.start(
        node_exporter, f"--client-ca-file={authority.certificate_file}", config=STATIC_RULE
    )
    client = authority.client("scraper", SCRAPER)
    tls = {
        "ca_file": str(authority.certificate_file),
        "cert_file": str(client.certificate_file),
        "key_file": str(client.key_file),
    }
    prometheus = await start_prometheus(programs, proxy.address, {"tls_config": tls})
    assert await prometheus.until('up{job="node"} == 1') == 1
    assert await prometheus.until('count({job="node",__name__=~"node_.*"})') > 100
    assert await prometheus.until('node_exporter_build_info{job="node"}') == 1
    assert cluster.calls() == {}


async def test_by_token_with_one_review_of_each_kind(
    authority: Authority,
    cluster: Cluster,
    programs: Programs,
    proxies: Proxies,
    node_exporter: str,
) -> None:
    proxy = await proxies.start(node_exporter)
    credentials = by_token(authority, programs, await cluster.token(READER_ACCOUNT))
    prometheus = await start_prometheus(programs, proxy.address, credentials)
    assert await prometheus.until('up{job="node"} == 1') == 1
    assert await prometheus.until('count({job="node",__name__=~"node_.*"})') > 100
    assert await prometheus.until('sum_over_time(up{job="node"}[5m]) >= 3') >= 3
    assert cluster.calls() == {"tokenreviews": 1, "subjectaccessreviews": 1}


async def test_a_wrong_token_scrapes_nothing(
    authority: Authority,
    cluster: Cluster,
    programs: Programs,
    proxies: Proxies,
    node_exporter: str,
) -> None:
    proxy = await proxies.start(node_exporter)
    credentials = by_token(authority, programs, "wrong")
    prometheus = await start_prometheus(programs, proxy.address, credentials)
    await prometheus.until_error("server returned HTTP status 401 Unauthorized")
    assert await prometheus.until('up{job="node"}') == 0
    assert await prometheus.until('scrape_samples_scraped{job="node"}') == 0
    assert "subjectaccessreviews" not in cluster.calls()

"""The original's end-to-end cases by their ids, K-E1 to K-E26 (reference 7.1).

As there, the client is curl, which succeeds or fails, and the proxy logs all that it can. HTTP/2
is preferred where a case is about it (D25), and what OpenShift's fork has built in is said by the
authorization file (D22).
"""

from pathlib import Path

import pytest

from pyrbacproxy.demo.pki import Authority
from tests.e2e.cluster import (
    NAMESPACE,
    OPENSHIFT_ACCOUNT,
    OPENSHIFT_NAMESPACE,
    READER_ACCOUNT,
    READER_USER,
    STRANGER_ACCOUNT,
    Cluster,
)
from tests.e2e.curl import REFUSED, curl
from tests.e2e.nginx import start_nginx
from tests.e2e.programs import Programs, free_port
from tests.e2e.proxy import Proxies

pytestmark = pytest.mark.e2e

ALL_LOGS = "--v=10"
STRANGER = f"system:serviceaccount:{NAMESPACE}:{STRANGER_ACCOUNT}"
OPENSHIFT_RULE = Path(__file__).parents[2] / "config" / "crio-metrics.good.yaml"


@pytest.fixture
async def upstream(programs: Programs) -> str:
    return await start_nginx(programs)


# --- tokens and RBAC ------------------------------------------------------------------


async def test_k_e1_a_token_without_a_role_is_forbidden(
    cluster: Cluster, proxies: Proxies, upstream: str
) -> None:
    proxy = await proxies.start(upstream, ALL_LOGS)
    token = await cluster.token(STRANGER_ACCOUNT)
    got = await curl(f"{proxy.url}/metrics", token=token)
    assert (got.code, got.status) == (REFUSED, 403)


async def test_k_e2_a_token_with_a_role_is_let_in(
    cluster: Cluster, proxies: Proxies, upstream: str
) -> None:
    proxy = await proxies.start(upstream, ALL_LOGS)
    got = await curl(f"{proxy.url}/metrics", token=await cluster.token(READER_ACCOUNT))
    assert (got.code, got.status, got.output) == (0, 200, "HTTP/1.1 /metrics\n")


async def test_k_e3_an_upstream_that_speaks_h2c_only(
    cluster: Cluster, programs: Programs, proxies: Proxies
) -> None:
    upstream = await start_nginx(programs, "http2")
    proxy = await proxies.start(upstream, ALL_LOGS, "--upstream-force-h2c=true")
    got = await curl(f"{proxy.url}/metrics", token=await cluster.token(READER_ACCOUNT))
    assert (got.code, got.status, got.output) == (0, 200, "HTTP/2.0 /metrics\n")


@pytest.mark.parametrize("audience", ["wrong-audience", ""], ids=["K-E7", "K-E7-none"])
async def test_k_e7_a_token_for_another_audience_is_refused(
    cluster: Cluster, proxies: Proxies, upstream: str, audience: str
) -> None:
    proxy = await proxies.start(upstream, ALL_LOGS, "--auth-token-audiences=kube-rbac-proxy")
    token = await cluster.token(READER_ACCOUNT, *filter(None, [audience]))
    got = await curl(f"{proxy.url}/metrics", token=token)
    assert (got.code, got.status) == (REFUSED, 401)


async def test_k_e8_a_token_for_the_audience_is_let_in(
    cluster: Cluster, proxies: Proxies, upstream: str
) -> None:
    proxy = await proxies.start(upstream, ALL_LOGS, "--auth-token-audiences=kube-rbac-proxy")
    token = await cluster.token(READER_ACCOUNT, "kube-rbac-proxy")
    assert (await curl(f"{proxy.url}/metrics", token=token)).code == 0


# --- client certificates --------------------------------------------------------------


async def test_k_e4_a_certificate_without_a_role_is_forbidden(
    authority: Authority, proxies: Proxies, upstream: str
) -> None:
    flag = f"--client-ca-file={authority.certificate_file}"
    proxy = await proxies.start(upstream, ALL_LOGS, flag)
    pair = authority.client("test-client", "test-client")
    got = await curl(f"{proxy.url}/metrics", pair=pair)
    assert (got.code, got.status) == (REFUSED, 403)


async def test_k_e5_a_certificate_with_a_role_is_let_in(
    authority: Authority, cluster: Cluster, proxies: Proxies, upstream: str
) -> None:
    flag = f"--client-ca-file={authority.certificate_file}"
    proxy = await proxies.start(upstream, ALL_LOGS, flag)
    pair = authority.client("reader", READER_USER)
    assert (await curl(f"{proxy.url}/metrics", pair=pair)).code == 0
    assert cluster.calls() == {"subjectaccessreviews": 1}


async def test_k_e6_a_certificate_of_another_authority_is_nobody(
    authority: Authority, proxies: Proxies, upstream: str, tmp_path: Path
) -> None:
    flag = f"--client-ca-file={Authority(tmp_path, 'other-ca').certificate_file}"
    proxy = await proxies.start(upstream, ALL_LOGS, flag)
    pair = authority.client("reader", READER_USER)
    got = await curl(f"{proxy.url}/metrics", pair=pair)
    assert (got.code, got.status) == (REFUSED, 401)


# --- allowed and ignored paths --------------------------------------------------------

ALLOW_PATHS = "--allow-paths=/metrics,/api/v1/label/*/values"
IGNORE_PATHS = "--ignore-paths=/metrics,/api/v1/*"


@pytest.mark.parametrize("path", ["/", "/api/v1/label/name"])
async def test_k_e9_a_path_that_is_not_allowed_is_not_found(
    cluster: Cluster, proxies: Proxies, upstream: str, path: str
) -> None:
    health_port = free_port()
    flag = f"--proxy-endpoints-port={health_port}"
    proxy = await proxies.start(upstream, ALL_LOGS, ALLOW_PATHS, flag)
    await proxy.program.listens(health_port)
    assert (await curl(f"https://127.0.0.1:{health_port}/healthz")).output == "ok"
    got = await curl(f"{proxy.url}{path}", token=await cluster.token(READER_ACCOUNT))
    assert (got.code, got.status) == (REFUSED, 404)


@pytest.mark.parametrize("path", ["/metrics", "/api/v1/label/job/values"])
async def test_k_e10_an_allowed_path_is_forwarded(
    cluster: Cluster, proxies: Proxies, upstream: str, path: str
) -> None:
    """The second path is what the stock role `system:discovery` lets everybody known read."""
    proxy = await proxies.start(upstream, ALL_LOGS, ALLOW_PATHS)
    got = await curl(f"{proxy.url}{path}", token=await cluster.token(READER_ACCOUNT))
    assert (got.code, got.status) == (0, 200)


@pytest.mark.parametrize("path", ["/metrics", "/api/v1/labels"])
async def test_k_e11_an_ignored_path_needs_no_credentials(
    cluster: Cluster, proxies: Proxies, upstream: str, path: str
) -> None:
    proxy = await proxies.start(upstream, ALL_LOGS, IGNORE_PATHS)
    got = await curl(f"{proxy.url}{path}")
    assert (got.code, got.status) == (0, 200)
    assert cluster.calls() == {}


@pytest.mark.parametrize("path", ["/", "/api/v1/label/job/values"])
async def test_k_e12_a_path_that_is_not_ignored_needs_credentials(
    proxies: Proxies, upstream: str, path: str
) -> None:
    proxy = await proxies.start(upstream, ALL_LOGS, IGNORE_PATHS)
    got = await curl(f"{proxy.url}{path}")
    assert (got.code, got.status) == (REFUSED, 401)


# --- versions of TLS and HTTP ---------------------------------------------------------

TLS_MINIMA = {"K-E13": "1.0", "K-E14": "1.1", "K-E15": "1.2", "K-E16": "1.3"}


@pytest.mark.parametrize("minimum", TLS_MINIMA.values(), ids=TLS_MINIMA)
async def test_k_e13_to_e16_a_client_with_a_minimum_version_of_tls(
    cluster: Cluster, proxies: Proxies, upstream: str, minimum: str
) -> None:
    proxy = await proxies.start(upstream, ALL_LOGS)
    token = await cluster.token(READER_ACCOUNT)
    assert (await curl(f"{proxy.url}/metrics", f"--tlsv{minimum}", token=token)).code == 0


async def test_k_e21_a_client_that_offers_http_2_gets_it(proxies: Proxies, upstream: str) -> None:
    proxy = await proxies.start(upstream, ALL_LOGS, IGNORE_PATHS, "--http2-prefer")
    got = await curl(f"{proxy.url}/metrics", "--head", "--http2")
    assert (got.code, got.status, got.version) == (0, 200, "2")
    assert got.output.startswith("HTTP/2 200")


@pytest.mark.parametrize("more", [[], ["--http2-prefer"]], ids=["K-E22", "K-E22-preferred"])
async def test_k_e22_no_client_gets_http_2_when_it_is_disabled(
    proxies: Proxies, upstream: str, more: list[str]
) -> None:
    proxy = await proxies.start(upstream, ALL_LOGS, IGNORE_PATHS, "--http2-disable=true", *more)
    got = await curl(f"{proxy.url}/metrics", "--head", "--http2")
    assert (got.code, got.status, got.version) == (0, 200, "1.1")


# --- the authorization file -----------------------------------------------------------

RESOURCE_RULE = f"""
authorization:
  rewrites:
    byQueryParameter: {{name: namespace}}
  resourceAttributes:
    resource: namespaces
    subresource: metrics
    namespace: "{{{{ .Value }}}}"
  static:
    - user: {{name: "{STRANGER}"}}
      resourceRequest: true
      resource: namespaces
      subresource: metrics
      namespace: default
      verb: get
"""
PATH_RULE = f"""
authorization:
  static:
    - user: {{name: "{STRANGER}"}}
      resourceRequest: false
      verb: get
      path: /metrics
"""
STATIC_CASES = {
    "K-E17": (RESOURCE_RULE, "/metrics?namespace=default", 200),
    "K-E18": (RESOURCE_RULE, "/metrics?namespace=forbidden", 403),
    "K-E19": (PATH_RULE, "/metrics", 200),
    "K-E20": (PATH_RULE, "/forbidden", 403),
}


@pytest.mark.parametrize("case", STATIC_CASES.values(), ids=STATIC_CASES)
async def test_k_e17_to_e20_static_rules(
    cluster: Cluster, proxies: Proxies, upstream: str, case: tuple[str, str, int]
) -> None:
    rule, target, status = case
    proxy = await proxies.start(upstream, ALL_LOGS, config=rule)
    token = await cluster.token(STRANGER_ACCOUNT)
    got = await curl(f"{proxy.url}{target}", token=token)
    assert (got.code, got.status) == (0 if status == 200 else REFUSED, status)
    assert cluster.calls().get("subjectaccessreviews", 0) == (status == 403)


async def test_k_e26_openshifts_prometheus_is_let_in_without_rbac(
    cluster: Cluster, proxies: Proxies, upstream: str
) -> None:
    proxy = await proxies.start(upstream, ALL_LOGS, config=OPENSHIFT_RULE.read_text())
    token = await cluster.token(OPENSHIFT_ACCOUNT, namespace=OPENSHIFT_NAMESPACE)
    assert (await curl(f"{proxy.url}/metrics", token=token)).code == 0
    assert cluster.calls() == {"tokenreviews": 1}


# --- flags and logs -------------------------------------------------------------------

DEAD_FLAGS = [
    "--add-dir-header=true",
    "--alsologtostderr=true",
    "--log-backtrace-at=server.go:10",
    "--log-dir=/tmp/logs",
    "--log-file=proxy.log",
    "--log-file-max-size=1800",
    "--one-output=true",
    "--skip-headers=true",
    "--skip-log-headers=true",
    "--stderrthreshold=2",
]
DEAD_FLAG_CASES = {"K-E23": DEAD_FLAGS, "K-E24": ["--logtostderr"]}


@pytest.mark.parametrize("flags", DEAD_FLAG_CASES.values(), ids=DEAD_FLAG_CASES)
async def test_k_e23_and_e24_dead_flags_do_no_harm(
    cluster: Cluster, proxies: Proxies, upstream: str, flags: list[str]
) -> None:
    proxy = await proxies.start(upstream, ALL_LOGS, *flags)
    token = await cluster.token(READER_ACCOUNT)
    assert (await curl(f"{proxy.url}/metrics", token=token)).code == 0


async def test_k_e25_tokens_are_masked_in_the_log(
    cluster: Cluster, proxies: Proxies, upstream: str
) -> None:
    proxy = await proxies.start(upstream, "--logtostderr=true", "--v=10")
    token = await cluster.token(READER_ACCOUNT)
    assert (await curl(f"{proxy.url}/metrics", token=token)).code == 0
    log = proxy.program.output()
    reviews = [line for line in log.splitlines() if '"kind":"TokenReview"' in line]
    assert reviews
    assert all('"token":"<masked>"' in line for line in reviews)
    assert token not in log


# --- beyond the original's ------------------------------------------------------------

RESOURCE_BY_QUERY = """
authorization:
  rewrites:
    byQueryParameter: {name: namespace}
  resourceAttributes:
    apiVersion: v1
    resource: services
    subresource: proxy
    namespace: "{{ .Value }}"
"""


async def test_a_resource_of_a_namespace_by_query(
    cluster: Cluster, proxies: Proxies, upstream: str
) -> None:
    proxy = await proxies.start(upstream, config=RESOURCE_BY_QUERY)
    token = await cluster.token(READER_ACCOUNT)
    assert (await proxy.get(f"/metrics?namespace={NAMESPACE}", token=token))[0] == 200
    assert (await proxy.get("/metrics?namespace=default", token=token))[0] == 403
    assert (await proxy.get("/metrics", token=token))[0] == 400

"""The original's end-to-end cases, by their ids, that need an API server (reference 7.1).

The rest of that table is on the wire and needs none: the conformance cases have it.
"""

import sys
from pathlib import Path

import pytest

from pyrbacproxy.demo.pki import Authority
from tests.e2e.cluster import (
    NAMESPACE,
    READER_ACCOUNT,
    READER_USER,
    STRANGER_ACCOUNT,
    Cluster,
)
from tests.e2e.programs import Programs
from tests.e2e.proxy import Proxies

pytestmark = pytest.mark.e2e

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


@pytest.fixture
async def upstream(programs: Programs) -> str:
    program = programs.start(
        "crio", *(sys.executable, "-m", "pyrbacproxy.demo.crio", "--port=0", "--size=1000")
    )
    address = await program.logged(r"(127\.0\.0\.1:\d+)\n")
    return f"http://{address}/"


async def test_k_e1_a_token_without_a_role_is_forbidden(
    cluster: Cluster, proxies: Proxies, upstream: str
) -> None:
    proxy = await proxies.start(upstream)
    status, body = await proxy.get(token=await cluster.token(STRANGER_ACCOUNT))
    user = f"system:serviceaccount:{NAMESPACE}:{STRANGER_ACCOUNT}"
    assert status == 403
    assert body == f"Forbidden (user={user}, verb=get, resource=, subresource=)\n"


async def test_k_e2_a_token_with_a_role_is_let_in(
    cluster: Cluster, proxies: Proxies, upstream: str
) -> None:
    proxy = await proxies.start(upstream)
    status, body = await proxy.get(token=await cluster.token(READER_ACCOUNT))
    assert (status, len(body)) == (200, 1000)


async def test_k_e4_a_certificate_without_a_role_is_forbidden(
    authority: Authority, proxies: Proxies, upstream: str
) -> None:
    proxy = await proxies.start(upstream, f"--client-ca-file={authority.certificate_file}")
    assert (await proxy.get(pair=authority.client("stranger", "stranger")))[0] == 403


async def test_k_e5_a_certificate_with_a_role_is_let_in(
    authority: Authority, cluster: Cluster, proxies: Proxies, upstream: str
) -> None:
    proxy = await proxies.start(upstream, f"--client-ca-file={authority.certificate_file}")
    assert (await proxy.get(pair=authority.client("reader", READER_USER)))[0] == 200
    assert cluster.calls() == {"subjectaccessreviews": 1}


async def test_k_e6_a_certificate_of_another_authority_is_nobody(
    authority: Authority, proxies: Proxies, upstream: str, tmp_path: Path
) -> None:
    other = Authority(tmp_path, "other-ca")
    proxy = await proxies.start(upstream, f"--client-ca-file={other.certificate_file}")
    assert (await proxy.get(pair=authority.client("reader", READER_USER)))[0] == 401


async def test_k_e7_a_token_for_another_audience_is_refused(
    cluster: Cluster, proxies: Proxies, upstream: str
) -> None:
    proxy = await proxies.start(upstream, "--auth-token-audiences=kube-rbac-proxy")
    for audiences in (("wrong-audience",), ()):
        token = await cluster.token(READER_ACCOUNT, *audiences)
        assert (await proxy.get(token=token))[0] == 401


async def test_k_e8_a_token_for_the_audience_is_let_in(
    cluster: Cluster, proxies: Proxies, upstream: str
) -> None:
    proxy = await proxies.start(upstream, "--auth-token-audiences=kube-rbac-proxy")
    token = await cluster.token(READER_ACCOUNT, "kube-rbac-proxy")
    assert (await proxy.get(token=token))[0] == 200


async def test_k_e25_tokens_are_masked_in_the_log(
    cluster: Cluster, proxies: Proxies, upstream: str
) -> None:
    proxy = await proxies.start(upstream, "--logtostderr=true", "--v=10")
    token = await cluster.token(READER_ACCOUNT)
    assert (await proxy.get(token=token))[0] == 200
    log = proxy.program.output()
    reviews = [line for line in log.splitlines() if '"kind":"TokenReview"' in line]
    assert reviews
    assert all('"token":"<masked>"' in line for line in reviews)
    assert token not in log


async def test_a_resource_of_a_namespace_by_query(
    cluster: Cluster, proxies: Proxies, upstream: str
) -> None:
    proxy = await proxies.start(upstream, config=RESOURCE_BY_QUERY)
    token = await cluster.token(READER_ACCOUNT)
    assert (await proxy.get(f"/metrics?namespace={NAMESPACE}", token=token))[0] == 200
    assert (await proxy.get("/metrics?namespace=default", token=token))[0] == 403
    assert (await proxy.get("/metrics", token=token))[0] == 400

"""Fixtures of the end-to-end tests: certificates, an API server, processes, proxies."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from pyrbacproxy.demo.pki import Authority
from tests.e2e.cluster import Cluster, RealCluster, embedded, start_real
from tests.e2e.programs import LISTENING, Programs, debian
from tests.e2e.proxy import Proxies

_CLUSTER_STOP_SECONDS = 90.0


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pki"))


@pytest.fixture(scope="session")
def real_cluster(
    authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealCluster | None]:
    """kube-apiserver when `KUBEBUILDER_ASSETS` is set: one for all tests, for it starts slowly."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if not assets:
        yield None
        return
    # It lets requests of its own end first, which it gives a minute.
    programs = Programs(tmp_path_factory.mktemp("cluster"), stop_seconds=_CLUSTER_STOP_SECONDS)
    try:
        yield asyncio.run(start_real(Path(assets), authority, programs))
    finally:
        programs.stop()


@pytest.fixture
async def cluster(authority: Authority, real_cluster: RealCluster | None) -> AsyncIterator[Cluster]:
    if real_cluster:
        real_cluster.begin()
        yield real_cluster
        return
    async with embedded(authority) as cluster:
        yield cluster


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    programs = Programs(tmp_path)
    yield programs
    programs.stop()


@pytest.fixture
def proxies(authority: Authority, cluster: Cluster, programs: Programs) -> Proxies:
    return Proxies(authority, cluster.url, programs)


@pytest.fixture
async def node_exporter(programs: Programs) -> str:
    """Debian's prometheus-node-exporter; the URL of its root."""
    program = programs.start(
        "node-exporter", debian("prometheus-node-exporter"), "--web.listen-address=127.0.0.1:0"
    )
    return f"http://{await program.logged(LISTENING)}/"

"""The manifests in deploy/: taken by the API server, and run as they render."""

import os
import signal
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import kubernetes_validate
import pytest

from pyrbacproxy.demo.pki import Authority
from tests.deploy.rendering import FOLDERS, Host, Object, flags, rendered, sidecar
from tests.deploy.rendering import one as one_of
from tests.e2e.cluster import RealCluster
from tests.e2e.handover import OLD, Answer, Node, crio, scraping
from tests.e2e.programs import Program, Programs

pytestmark = pytest.mark.e2e

BASE = "machine-config-daemon"
# Native sidecars are there by default from the first of these on.
VERSIONS = ("1.29", kubernetes_validate.latest_version())
# What the schemas and a bare API server know nothing of: Prometheus' operator brings them.
CUSTOM = "monitoring.coreos.com/"
PLURALS = {"NetworkPolicy": "networkpolicies"}
CLUSTER_WIDE = {"ClusterRole", "ClusterRoleBinding", "Namespace"}
# Root without capabilities, as the container's user: it reads what root owns, and nothing beyond.
WITHOUT_CAPABILITIES = (
    *("setpriv", "--reuid=0", "--regid=0", "--clear-groups", "--no-new-privs"),
    *("--bounding-set=-all", "--inh-caps=-all"),
)
# A container that is told to end, says so, and ends when it is done.
MAIN = """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR1})
print("started", flush=True)
signal.sigwait({signal.SIGTERM})
print("ending", flush=True)
signal.sigwait({signal.SIGUSR1})
"""


# --- as the API server sees them ------------------------------------------------------


@pytest.mark.parametrize("folder", FOLDERS, ids=str)
async def test_the_api_server_would_take_them(
    folder: Path, real_cluster: RealCluster | None
) -> None:
    objects = rendered(str(folder))
    assert objects
    builtin = [one for one in objects if not one["apiVersion"].startswith(CUSTOM)]
    for one in builtin:
        for version in VERSIONS:
            kubernetes_validate.validate(one, version, strict=True)
    if real_cluster:
        for one in builtin:
            await dry_run(real_cluster, one)


def test_the_schema_refuses_a_misspelt_field() -> None:
    objects = rendered(BASE)
    sidecar(objects, "DaemonSet")["restartPolicies"] = "Always"
    daemonset = one_of(objects, "DaemonSet")
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(daemonset, VERSIONS[-1], strict=True)


async def dry_run(cluster: RealCluster, one: Object) -> None:
    """Have the server judge the object as if it were created."""
    version, kind = one["apiVersion"], one["kind"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    plural = PLURALS.get(kind, f"{kind.lower()}s")
    if kind not in CLUSTER_WIDE:
        # Namespaced objects are judged in a namespace that is there.
        one = {**one, "metadata": {**one["metadata"], "namespace": "default"}}
        plural = f"namespaces/default/{plural}"
    await cluster.create(f"{root}/{plural}?dryRun=All&fieldValidation=Strict", one)


# --- as they run ----------------------------------------------------------------------


class MachineConfigNode(Node):
    """A node whose new proxy runs with the rendered arguments, on what the mounts would show."""

    def __init__(self, authority: Authority, programs: Programs, upstream: str) -> None:
        super().__init__(authority, programs, upstream)
        self.programs = programs
        objects = rendered(BASE)
        self.container = sidecar(objects, "DaemonSet")
        self.root = Host(self.folder / "mounts", objects, "DaemonSet")
        self.root.fill_node(authority)
        path = flags(self.container)["wait-for-absent"]
        self.manifest = self.root.at(path)
        self.manifest.parent.mkdir()
        self.manifest.write_text("kind: Pod\n")
        self._upstream_url = upstream

    def start_sidecar(self, *more: str) -> Program:
        """The container, as unprivileged as its securityContext says."""
        words = self.root.arguments(
            secure_listen_address=f":{self.port}",
            upstream=self._upstream_url,
            proxy_endpoints_port=str(self.pages),
        )
        prefix = WITHOUT_CAPABILITIES if os.geteuid() == 0 else ()
        return self.programs.start(
            f"sidecar-{self.port}", *prefix, sys.executable, "-m", "pyrbacproxy", *words, *more
        )

    async def probe(self, name: str) -> int:
        """What the kubelet gets for a probe as it is rendered, but for the port."""
        get = self.container[name]["httpGet"]
        answer = await self.stranger.ask(get["host"], self.pages, get["path"])
        return answer.status

    async def serves(self, program: Program) -> None:
        """Wait until the sidecar, whose certificate is the kubelet's, answers a scrape."""

        async def look() -> bool | None:
            answer = await self.scrape()
            return (answer.status == 200 and answer.server == "kubelet") or None

        await program.until(look, "good scrape")


@pytest.fixture
async def node(authority: Authority, programs: Programs) -> AsyncIterator[MachineConfigNode]:
    async with crio() as upstream:
        yield MachineConfigNode(authority, programs, upstream)


async def test_the_rendered_sidecar_waits_ready_and_then_serves(node: MachineConfigNode) -> None:
    old = await node.start_old()
    new = node.start_sidecar()
    await node.says(new, "[+]startup-gate ok (waiting: manifest, ")
    assert [await node.probe(name) for name in ("livenessProbe", "readinessProbe")] == [200, 200]
    assert (await node.scrape()).server == OLD
    node.manifest.unlink()
    await new.logged("(waiting for the port)")
    assert old.stop() == 0
    await node.serves(new)
    assert [await node.probe(name) for name in ("livenessProbe", "readinessProbe")] == [200, 200]
    assert (await node.stranger.ask("127.0.0.1", node.port, "/metrics")).status == 401
    assert new.stop() == 0


async def started(node: MachineConfigNode) -> tuple[Program, Program]:
    """A pod that serves: main container and sidecar."""
    node.manifest.unlink()
    new = node.start_sidecar()
    await node.serves(new)
    main = node.programs.start("main", sys.executable, "-c", MAIN)
    await main.logged("(started)")
    return main, new


async def test_a_native_sidecar_serves_until_the_main_container_has_ended(
    node: MachineConfigNode,
) -> None:
    """The kubelet signals native sidecars once every main container has ended."""
    main, new = await started(node)
    async with scraping(node) as scrapes:
        main.signal(signal.SIGTERM)
        await main.logged("(ending)")
        seen = len(scrapes)
        await new.until(partial(more_than, scrapes, seen + 10), "scrapes while the daemon ends")
        main.signal(signal.SIGUSR1)
        assert await main.ended() == 0
    assert [scrape for scrape in scrapes if scrape.status != 200] == []
    assert await node.probe("readinessProbe") == 200
    new.signal(signal.SIGTERM)
    assert await new.ended() == 0
    # The next pod's sidecar comes before its daemon, and finds nothing to wait for.
    await node.serves(node.start_sidecar())


async def more_than(scrapes: list[Answer], count: int) -> bool | None:
    return len(scrapes) > count or None


async def test_a_delay_knows_nothing_of_the_main_container(node: MachineConfigNode) -> None:
    """Why no `--shutdown-delay-duration`: containers of one pod are signalled all at once."""
    node.manifest.unlink()
    new = node.start_sidecar("--shutdown-delay-duration=300ms")
    await node.serves(new)
    main = node.programs.start("main", sys.executable, "-c", MAIN)
    await main.logged("(started)")
    for container in (main, new):
        container.signal(signal.SIGTERM)
    assert await new.ended() == 0
    assert "ending" in main.output()
    assert (await node.scrape()).status == 0
    main.signal(signal.SIGUSR1)
    assert await main.ended() == 0

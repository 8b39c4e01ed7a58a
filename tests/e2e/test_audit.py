"""Faults planted on a node, one at a time: each is found, and a node that is well is clean."""

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from pyrbacproxy.commands import audit
from pyrbacproxy.demo.pki import Authority
from tests.e2e.audited import (
    DAEMON,
    LEGACY_UID,
    NAMESPACE,
    SERVING,
    AuditedNode,
    Rack,
    Serving,
    expired_certificate,
    pod,
)
from tests.e2e.handover import MANIFESTS
from tests.e2e.programs import Programs, free_port

pytestmark = pytest.mark.e2e

Output = pytest.CaptureFixture[str]
LEGACY = "kube-rbac-proxy-crio-worker-0"
SANDBOX = {
    "id": "5" * 64,
    "metadata": {"namespace": NAMESPACE, "name": LEGACY},
    "state": "SANDBOX_NOTREADY",
}
CONTAINER = {
    "id": "c" * 64,
    "metadata": {"name": "setup"},
    "labels": {"io.kubernetes.pod.namespace": NAMESPACE, "io.kubernetes.pod.name": LEGACY},
    "state": "CONTAINER_EXITED",
}


@pytest.fixture(scope="module", name="shared")
def fixture_shared(
    authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Rack, Serving]]:
    """One proxy for all tests that spoil files only."""
    programs = Programs(tmp_path_factory.mktemp("audited"))
    try:
        rack = Rack(authority, programs)
        yield rack, asyncio.run(rack.start())
    finally:
        programs.stop()


@pytest.fixture(name="node")
def fixture_node(shared: tuple[Rack, Serving], tmp_path: Path) -> AuditedNode:
    return AuditedNode(tmp_path, *shared)


@pytest.fixture(name="rack")
def fixture_rack(authority: Authority, programs: Programs) -> Rack:
    return Rack(authority, programs)


def checks(node: AuditedNode, capsys: Output) -> tuple[int, list[dict[str, str]]]:
    """The exit status and every outcome."""
    status = audit.run([*node.command_line(), "--output=json"])
    told = json.loads(capsys.readouterr().out)
    found: list[dict[str, str]] = told["checks"]
    return status, found


def findings(node: AuditedNode, capsys: Output) -> list[dict[str, str]]:
    status, found = checks(node, capsys)
    wrong = [one for one in found if one["status"] in ("error", "warning")]
    assert status == (1 if wrong else 0)
    return wrong


# --- a node that is well ----------------------------------------------------------------


@pytest.mark.parametrize("role", ["worker", "master"])
def test_a_node_that_is_well_is_clean(node: AuditedNode, capsys: Output, role: str) -> None:
    if role == "master":
        node.becomes_a_master()
    status, found = checks(node, capsys)
    assert [one for one in found if one["status"] != "ok"] == []
    assert status == 0
    told = {one["check"]: one["what"] for one in found}
    assert told["listener-pod"] == (
        f"{NAMESPACE}/{DAEMON}, container kube-rbac-proxy-crio {'ab' * 6}a"
    )
    assert f"(pid {node.serving.pid}) of pod {NAMESPACE}/" in told["listener"]
    assert told["scrape"].endswith(" container_runtime_crio_* series")


def test_the_command_itself_prints_a_table(node: AuditedNode) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pyrbacproxy", "audit", *node.command_line()],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("CHECK ")
    assert done.stdout.endswith("\n\nno findings\n")


# --- faults in files --------------------------------------------------------------------

Spoil = Callable[[AuditedNode], object]


@dataclass(frozen=True, slots=True)
class Fault:
    """What is done to the node, and the finding: check, severity and a part of its text."""

    spoil: Spoil
    check: str
    severity: str
    what: str


def master_without(file: str) -> Spoil:
    def spoil(node: AuditedNode) -> None:
        node.becomes_a_master()
        (node.root / MANIFESTS / file).unlink()

    return spoil


def master_with_a_copy(node: AuditedNode) -> None:
    node.becomes_a_master()
    node.put_pod("etcd-pod.yaml.old", "openshift-etcd", "etcd")


def master_without_folder(node: AuditedNode) -> None:
    node.becomes_a_master()
    node.put("etc/kubernetes/kubelet.conf", 'kind: KubeletConfiguration\nstaticPodPath: ""\n')


def only_logs_of_the_legacy_pod(node: AuditedNode) -> None:
    (node.root / f"var/log/pods/{NAMESPACE}_{LEGACY}_{LEGACY_UID}").mkdir()
    node.words.append("--crictl=crictl-that-is-nowhere")


def running_legacy_pod(node: AuditedNode) -> None:
    only_logs_of_the_legacy_pod(node)
    (node.root / f"sys/fs/cgroup/kubepods.slice/kubepods-pod{LEGACY_UID}.slice").mkdir()


def held_by_the_legacy_pod(node: AuditedNode) -> None:
    node.names_the_container("kube-rbac-proxy-crio", f"{LEGACY}_{NAMESPACE}")
    node.sees(node.serving.pid, pod(LEGACY_UID))


def held_by_another_pod(node: AuditedNode) -> None:
    uid = "1" * 8 + "-1111-1111-1111-" + "1" * 12
    node.names_the_container("x", "squatter_ns")
    node.sees(node.serving.pid, pod(uid))


def held_by_a_static_pod(node: AuditedNode) -> None:
    node.names_the_container("x", "static-worker-0_ns")
    node.sees(node.serving.pid, pod("ab" * 16))


def worker_with_static_pods(node: AuditedNode) -> None:
    path = "staticPodPath: /etc/kubernetes/manifests\n"
    node.put("etc/kubernetes/kubelet.conf", f"kind: KubeletConfiguration\n{path}")
    node.words.append("--expect-no-static-pods")


def put(path: str, text: str) -> Spoil:
    return lambda node: node.put(path, text)


def unlink(path: str) -> Spoil:
    return lambda node: (node.root / path).unlink()


def another_pair(node: AuditedNode) -> None:
    node.put(SERVING, node.rack.authority.serving("rotated").combined_file.read_text())


def without_key(node: AuditedNode) -> None:
    node.put(SERVING, node.rack.pair.certificate_file.read_text())


def nobody(node: AuditedNode) -> None:
    node.serving = replace(node.serving, port=free_port())


def no_upstream(node: AuditedNode) -> None:
    node.serving = replace(node.serving, upstream_port=free_port())


def refused_credential(node: AuditedNode) -> None:
    node.credential = node.rack.stranger


FAULTS = {
    "the legacy manifest": Fault(
        put(f"{MANIFESTS}/criometricsproxy.yaml", ""),
        *("legacy-manifest", "error", f"/{MANIFESTS}/criometricsproxy.yaml is there"),
    ),
    "the legacy manifest under another name": Fault(
        lambda node: node.put_pod("x.orig", NAMESPACE, "kube-rbac-proxy-crio"),
        *("legacy-manifest", "error", f"/{MANIFESTS}/x.orig is there"),
    ),
    "a worker's static pod": Fault(
        lambda node: node.put_pod("x.yaml", "ns", "x"),
        *("manifests", "warning", f"/{MANIFESTS}/x.yaml holds ns/x"),
    ),
    "a master without a control-plane pod": Fault(
        master_without("kube-apiserver-pod.yaml"),
        *("manifests", "error", "no manifest of openshift-kube-apiserver/kube-apiserver"),
    ),
    "a copy of a control-plane pod": Fault(
        master_with_a_copy,
        *("manifests", "warning", "etcd-pod.yaml.old holds openshift-etcd/etcd, as another"),
    ),
    "a master without static pods": Fault(
        master_without_folder, "kubelet", "error", "staticPodPath is explicitly empty"
    ),
    "another staticPodPath": Fault(
        put("etc/kubernetes/kubelet.conf", "kind: KubeletConfiguration\nstaticPodPath: /x"),
        *("kubelet", "warning", "staticPodPath is /x"),
    ),
    "an exited sandbox": Fault(
        lambda node: node.runs([SANDBOX], []),
        *("legacy-pod", "error", "sandbox 5555555555555 (notready)"),
    ),
    "an exited container": Fault(
        lambda node: node.runs([], [CONTAINER]),
        *("legacy-pod", "error", "container setup ccccccccccccc (exited)"),
    ),
    "logs of the legacy pod": Fault(
        only_logs_of_the_legacy_pod, "legacy-pod", "error", "(its logs are left)"
    ),
    "a cgroup of the legacy pod": Fault(running_legacy_pod, "legacy-pod", "error", "(running)"),
    "the legacy configuration": Fault(
        put("etc/kubernetes/crio-metrics-proxy.cfg", ""),
        *("legacy-files", "warning", "/etc/kubernetes/crio-metrics-proxy.cfg is left"),
    ),
    "an original that comes back": Fault(
        put(f"etc/machine-config-daemon/orig/{MANIFESTS}/criometricsproxy.yaml.mcdorig", ""),
        *("legacy-files", "warning", "criometricsproxy.yaml.mcdorig is left"),
    ),
    "nobody listens": Fault(nobody, "listener", "error", "nobody listens on port"),
    "the legacy pod holds the port": Fault(
        held_by_the_legacy_pod, "listener-pod", "error", f"the legacy pod {NAMESPACE}/{LEGACY}"
    ),
    "another pod holds the port": Fault(
        held_by_another_pod, "listener-pod", "error", "the pod ns/squatter holds the port"
    ),
    "FR84: a systemd unit holds the port": Fault(
        lambda node: node.sees(node.serving.pid, "/system.slice/metrics.service"),
        *("listener-pod", "error", "of /system.slice/metrics.service holds the port"),
    ),
    "FR84: a static pod holds the port": Fault(
        held_by_a_static_pod, "listener-pod", "error", "the static pod ns/static-worker-0 holds"
    ),
    "FR84: another container of the daemon's pod holds the port": Fault(
        lambda node: node.names_the_container("machine-config-daemon"),
        *("listener-pod", "error", "the container machine-config-daemon of pod"),
    ),
    "FR84: a container holds the port that the kubelet does not name": Fault(
        unlink(f"var/log/containers/{DAEMON}_{NAMESPACE}_kube-rbac-proxy-crio-{'ab' * 32}.log"),
        *("listener-pod", "error", f"container {'ab' * 6}a of pod {NAMESPACE}/{DAEMON} holds"),
    ),
    "a worker with static pods where none shall be": Fault(
        worker_with_static_pods, "kubelet", "error", "staticPodPath is /etc/kubernetes/manifests"
    ),
    "no upstream": Fault(no_upstream, "upstream", "error", "nobody listens on the upstream's port"),
    "a credential that is refused": Fault(
        refused_credential, "scrape", "error", "the scrape was answered 403"
    ),
    "another certificate on disk": Fault(
        another_pair, "served-certificate", "warning", "shows another certificate"
    ),
    "an expired serving certificate": Fault(
        put(SERVING, expired_certificate("node")),
        *("serving-certificate", "error", "CN=node: 31.0 d old, expired 1.0 d ago"),
    ),
    "a serving pair without its key": Fault(
        without_key, "serving-certificate", "error", "holds no key"
    ),
    "no serving pair": Fault(
        unlink(SERVING), "serving-certificate", "error", "kubelet-server-current.pem is not there"
    ),
    "no client CA": Fault(
        unlink("etc/kubernetes/kubelet-ca.crt"),
        *("client-ca", "error", "/etc/kubernetes/kubelet-ca.crt is not there"),
    ),
    "an expired client CA": Fault(
        put("etc/kubernetes/kubelet-ca.crt", expired_certificate("signer")),
        *("client-ca", "error", "CN=signer: 31.0 d old, expired 1.0 d ago"),
    ),
    "an empty client CA": Fault(
        put("etc/kubernetes/kubelet-ca.crt", ""), "client-ca", "error", "holds no certificate"
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(node: AuditedNode, capsys: Output, name: str) -> None:
    fault = FAULTS[name]
    fault.spoil(node)
    found = findings(node, capsys)
    told = [one for one in found if one["check"] == fault.check and fault.what in one["what"]]
    assert [one["status"] for one in told] == [fault.severity], found
    assert all(one["why"] and one["toDo"] for one in found)
    # Whoever spoils the pair on disk makes it another than the one that is shown.
    assert {one["check"] for one in found} <= {fault.check, "served-certificate"}


def test_fr84_a_holder_out_of_sight_is_neither_clean_nor_a_finding(
    node: AuditedNode, capsys: Output
) -> None:
    shutil.rmtree(node.root / "var/log/containers")
    status, found = checks(node, capsys)
    assert status == 2
    unclear = [(one["check"], one["status"]) for one in found if one["status"] != "ok"]
    assert unclear == [("listener-pod", "not seen")]


# --- faults of processes ----------------------------------------------------------------


def found_texts(node: AuditedNode, capsys: Output) -> dict[str, str]:
    return {one["check"]: one["what"] for one in findings(node, capsys)}


async def test_a_second_listener_is_found(node: AuditedNode, rack: Rack, capsys: Output) -> None:
    node.is_served_by(await rack.start(host="127.0.0.1"))
    port = node.serving.port
    node.sees(os.getpid(), "/system.slice/rogue.service")
    with socket.create_server(("::", port), family=socket.AF_INET6):
        told = found_texts(node, capsys)
    assert told["listener"].startswith(f"port {port} has several listeners: ")
    assert f"(pid {os.getpid()})" in told["listener"]


def test_a_hung_process_is_found(
    node: AuditedNode, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyrbacproxy.node.scrape._WAIT_SECONDS", 0.1)
    with socket.create_server(("0.0.0.0", 0)) as hung:
        port = hung.getsockname()[1]
        node.serving = replace(node.serving, port=port)
        told = found_texts(node, capsys)
    silent = f"port {port} does not answer an HTTPS request: silence for 0 s"
    assert told == {"anonymous": silent, "scrape": silent}


def test_an_upstream_that_all_can_reach_is_found(node: AuditedNode, capsys: Output) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("0.0.0.0", 0)))
        port = server.getsockname()[1]
        node.serving = replace(node.serving, upstream_port=port)
        told = found_texts(node, capsys)
    assert told == {"upstream": f"the upstream listens on 0.0.0.0, port {port}"}


async def test_a_proxy_on_loopback_alone_is_found(
    node: AuditedNode, rack: Rack, capsys: Output
) -> None:
    node.is_served_by(await rack.start(host="127.0.0.1"))
    assert found_texts(node, capsys)["listener"] == "only 127.0.0.1 is listened on"


async def test_a_proxy_that_lets_anybody_in_is_found(
    node: AuditedNode, rack: Rack, capsys: Output
) -> None:
    node.is_served_by(await rack.start("--ignore-paths=/metrics"))
    assert found_texts(node, capsys)["anonymous"] == "200 without a credential, instead of 401"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("up 1\n", "the scrape brought no container_runtime_crio_* series"),
        ("", "the scrape was answered 502"),
    ],
)
async def test_a_scrape_without_crio_is_found(
    node: AuditedNode, rack: Rack, capsys: Output, text: str, what: str
) -> None:
    dead = f"http://127.0.0.1:{free_port()}/"
    url = await rack.serve_file("metrics", text) if text else dead
    node.is_served_by(await rack.start(f"--upstream={url}"))
    assert found_texts(node, capsys)["scrape"] == what


# --- tokens -----------------------------------------------------------------------------


def test_a_token_is_sent_to_the_serving_pair_only(node: AuditedNode, capsys: Output) -> None:
    token = node.folder / "token"
    token.write_text("t0psecret")
    words = [word for word in node.command_line() if not word.startswith("--client-")]
    assert audit.run([*words, f"--token-file={token}"]) == 1
    told = capsys.readouterr()
    # It was sent: the proxy, which has no API server here, refused it.
    assert "the scrape was answered 401" in told.out
    another_pair(node)
    assert audit.run([*words, f"--token-file={token}"]) == 1
    again = capsys.readouterr()
    assert "the token was not sent" in again.out
    assert "t0psecret" not in told.out + told.err + again.out + again.err

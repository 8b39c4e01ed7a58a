"""What is left of the legacy pod: by a made-up crictl, and by made-up logs and cgroups."""

import json
from pathlib import Path

import pytest

from pyrbacproxy.node.facts import LegacyPod, NotSeen
from pyrbacproxy.node.host import HostFiles
from pyrbacproxy.node.survey import legacy_pod

NAMESPACE = "openshift-machine-config-operator"
NAME = "kube-rbac-proxy-crio-worker-0"
UID = "0123456789abcdef0123456789abcdef"
OTHER_UID = "fedcba9876543210fedcba9876543210"
NO_CRICTL = "the container runtime was not asked: crictl is not here"
RUNTIME = "the container runtime"
SANDBOX = {
    "id": "5" * 64,
    "metadata": {"namespace": NAMESPACE, "name": NAME},
    "state": "SANDBOX_NOTREADY",
}
CONTAINER = {
    "id": "c" * 64,
    "metadata": {"name": "setup"},
    "labels": {"io.kubernetes.pod.namespace": NAMESPACE, "io.kubernetes.pod.name": NAME},
    "state": "CONTAINER_EXITED",
}
OTHERS = [
    {"id": "1", "metadata": {"namespace": NAMESPACE, "name": "machine-config-daemon-x2x4x"}},
    {"id": "2", "metadata": None},
    7,
]


def crictl(folder: Path, script: str) -> str:
    program = folder / "crictl"
    program.write_text(f'#!/bin/sh\necho "$@" >> {folder}/asked\n{script}\n')
    program.chmod(0o755)
    return str(program)


def answering(folder: Path, pods: object, containers: object) -> str:
    (folder / "pods.json").write_text(json.dumps(pods))
    (folder / "ps.json").write_text(json.dumps(containers))
    script = f"for word; do if [ -e {folder}/$word.json ]; then cat {folder}/$word.json; fi; done"
    return crictl(folder, script)


def logs(root: Path, *names: str) -> None:
    for name in names:
        (root / "var/log/pods" / name).mkdir(parents=True)


@pytest.mark.parametrize(
    ("pods", "containers", "parts"),
    [
        ({"items": OTHERS}, {"containers": OTHERS}, ()),
        ({}, {"containers": None}, ()),
        ({"items": [SANDBOX, *OTHERS]}, {}, (f"sandbox {'5' * 13} (notready)",)),
        (
            {"items": [SANDBOX]},
            {"containers": [CONTAINER]},
            (f"sandbox {'5' * 13} (notready)", f"container setup {'c' * 13} (exited)"),
        ),
    ],
)
def test_the_runtime_knows(
    tmp_path: Path, pods: object, containers: object, parts: tuple[str, ...]
) -> None:
    program = answering(tmp_path, pods, containers)
    # Old logs say nothing where the runtime itself answers.
    logs(tmp_path / "root", f"{NAMESPACE}_{NAME}_{UID}")
    found = legacy_pod(HostFiles(tmp_path / "root"), program)
    assert found == LegacyPod(parts, RUNTIME)
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked == ["pods --output=json", "ps --all --output=json"]


def test_the_host_s_runtime_is_asked_where_its_root_is_mounted(tmp_path: Path) -> None:
    socket = tmp_path / "run" / "crio" / "crio.sock"
    socket.parent.mkdir(parents=True)
    socket.touch()
    legacy_pod(HostFiles(tmp_path), answering(tmp_path, {}, {}))
    asked = (tmp_path / "asked").read_text()
    assert asked.startswith(f"--runtime-endpoint=unix://{socket} pods ")


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo first >&2; echo connection refused >&2; exit 3", "crictl pods ended with 3: conn"),
        ("exit 3", "crictl pods ended with 3: "),
        ("echo '['", "crictl pods: "),
        ("""echo '{"items": 7}'""", "crictl pods: its items are no list"),
    ],
)
def test_a_runtime_that_does_not_answer_is_not_seen(tmp_path: Path, script: str, why: str) -> None:
    found = legacy_pod(HostFiles(tmp_path), crictl(tmp_path, script))
    assert isinstance(found, NotSeen)
    assert found.why.startswith(why)
    assert found.why.endswith("; /var/log/pods: No such file or directory")


def test_a_crictl_that_cannot_run_is_not_seen(tmp_path: Path) -> None:
    program = tmp_path / "crictl"
    program.write_text("#!/no/such/shell\n")
    program.chmod(0o755)
    found = legacy_pod(HostFiles(tmp_path), str(program))
    assert isinstance(found, NotSeen)
    assert found.why.startswith("crictl pods: No such file or directory; ")


def test_a_crictl_that_hangs_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyrbacproxy.node.survey._SECONDS", 0.05)
    found = legacy_pod(HostFiles(tmp_path), crictl(tmp_path, "exec sleep 60"))
    assert isinstance(found, NotSeen)
    assert found.why.startswith("crictl pods did not answer in 0 s; ")


@pytest.mark.parametrize(
    ("cgroups", "state", "doubts"),
    [
        ((f"kubepods-pod{UID}.slice",), "running", []),
        (("kubepods-burstable.slice",), "its logs are left", []),
        ((), "its logs are left", ["/sys/fs/cgroup shows no pods: whether its cgroup is left"]),
        (
            (f"kubepods-pod{OTHER_UID}.slice",),
            "its logs are left",
            [f"static pod {OTHER_UID} runs, but has no logs that tell its name"],
        ),
    ],
)
def test_without_a_runtime_logs_and_cgroups_tell(
    tmp_path: Path, cgroups: tuple[str, ...], state: str, doubts: list[str]
) -> None:
    logs(tmp_path, f"{NAMESPACE}_{NAME}_{UID}", f"{NAMESPACE}_machine-config-daemon-x_1")
    for name in cgroups:
        (tmp_path / "sys/fs/cgroup/kubepods.slice" / name).mkdir(parents=True)
    found = legacy_pod(HostFiles(tmp_path), "crictl-that-is-nowhere")
    assert isinstance(found, LegacyPod)
    assert found.parts == (f"pod {NAMESPACE}/{NAME} ({state})",)
    assert found.source == "/var/log/pods and cgroups" if cgroups else "/var/log/pods"
    assert found.unseen[0] == NO_CRICTL.replace("crictl", "crictl-that-is-nowhere")
    assert len(found.unseen) == len(doubts) + 1
    assert all(map(str.startswith, found.unseen[1:], doubts))


def test_cgroups_that_cannot_be_read_are_not_seen(tmp_path: Path) -> None:
    logs(tmp_path, "a_b_c")
    (tmp_path / "sys").symlink_to("sys")
    found = legacy_pod(HostFiles(tmp_path), "crictl-that-is-nowhere")
    assert isinstance(found, LegacyPod)
    assert found.unseen[1:] == ("/sys/fs/cgroup: Too many levels of symbolic links",)

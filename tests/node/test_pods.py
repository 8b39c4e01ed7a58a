"""Pods from made-up folders of logs and cgroups; `test_sockets` has the cgroups of processes."""

from pathlib import Path

import pytest

from pyrbacproxy.node.host import LoggedPod, is_static, logged_pods, pod_of, running_pods

UID = "0b7b2a4c-1f3e-4d5a-8c9b-0123456789ab"
STATIC = "0123456789abcdef0123456789abcdef"
CONTAINER = "ab" * 32


@pytest.mark.parametrize(
    ("cgroup", "found"),
    [
        (f"kubepods-pod{STATIC}.slice/crio-{CONTAINER}.scope", (STATIC, CONTAINER)),
        (f"kubepods-pod{UID.replace('-', '_')}.slice", (UID, "")),
        ("/system.slice/crio.service", None),
    ],
)
def test_a_cgroup_names_its_pod(cgroup: str, found: tuple[str, str] | None) -> None:
    assert pod_of(cgroup) == found


def test_a_static_pod_shows_by_its_uid() -> None:
    assert is_static(STATIC)
    assert not is_static(UID)


def test_folders_of_logs_name_pods(tmp_path: Path) -> None:
    for name in (f"ns_pod-a_{UID}", "no-pod", "half_one"):
        (tmp_path / name).mkdir()
    assert logged_pods(tmp_path) == [LoggedPod("ns/pod-a", UID)]
    with pytest.raises(FileNotFoundError):
        logged_pods(tmp_path / "missing")


@pytest.mark.parametrize("root", ["kubepods.slice", "systemd/kubepods"])
def test_every_pod_with_a_cgroup_runs(tmp_path: Path, root: str) -> None:
    folder = tmp_path / root
    slice_name = f"kubepods-burstable-pod{UID.replace('-', '_')}.slice"
    (folder / "kubepods-burstable.slice" / slice_name / f"crio-{CONTAINER}.scope").mkdir(
        parents=True
    )
    (folder / f"pod{STATIC}").mkdir()
    assert running_pods(tmp_path) == {UID, STATIC}


def test_without_the_kubelets_root_no_absence_shows(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="shows no pods"):
        running_pods(tmp_path)

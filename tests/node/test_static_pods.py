"""Static pods: every fault of the folder, the kubelet's setting and the legacy pod's remains."""

import pytest

from pyrbacproxy.node.audit import (
    is_legacy_pod,
    kubelet_setting,
    leftovers,
    legacy_pod,
    manifest_folder,
    role_of,
)
from pyrbacproxy.node.facts import (
    Leftovers,
    LegacyPod,
    Manifest,
    NotSeen,
    Role,
    StaticPodPath,
    Unseen,
)
from pyrbacproxy.values import replace
from tests.node.well import BLIND, LEGACY, NAMESPACE, WELL, told

FOLDER = "/etc/kubernetes/manifests"
ETCD = Manifest(f"{FOLDER}/etcd-pod.yaml", "openshift-etcd/etcd")
API = Manifest(f"{FOLDER}/kube-apiserver-pod.yaml", "openshift-kube-apiserver/kube-apiserver")
MASTER = (
    ETCD,
    API,
    Manifest(
        f"{FOLDER}/kube-controller-manager-pod.yaml",
        "openshift-kube-controller-manager/kube-controller-manager",
    ),
    Manifest(
        f"{FOLDER}/kube-scheduler-pod.yaml", "openshift-kube-scheduler/openshift-kube-scheduler"
    ),
)
FOREIGN = Manifest(f"{FOLDER}/x.yaml", "ns/x")
BACKUP = Manifest(f"{API.path}.bak", API.pod)
GARBAGE = Manifest(f"{FOLDER}/garbage", "")
DARK = Manifest(f"{FOLDER}/dark", BLIND)
OLD = Manifest(f"{FOLDER}/criometricsproxy.yaml", "")
RENAMED = Manifest(f"{FOLDER}/old.yaml", f"{NAMESPACE}/kube-rbac-proxy-crio")
GONE = ("legacy-manifest", "ok", "no criometricsproxy.yaml, nor its pod under another name")
FOUR = (
    "as the role master has them: "
    "etcd, kube-apiserver, kube-controller-manager, openshift-kube-scheduler"
)


@pytest.mark.parametrize(
    ("pod", "is_legacy"),
    [
        (LEGACY, True),
        (f"{NAMESPACE}/kube-rbac-proxy-crio", True),
        (f"{NAMESPACE}/kube-rbac-proxy-criometer", False),
        ("other/kube-rbac-proxy-crio-worker-0", False),
    ],
)
def test_the_legacy_pod_has_the_nodes_name_behind_its_own(pod: str, *, is_legacy: bool) -> None:
    assert is_legacy_pod(pod) is is_legacy


@pytest.mark.parametrize(
    ("role", "manifests", "expected"),
    [
        (Role.WORKER, MASTER, (Role.WORKER, "named by --role")),
        (None, BLIND, (None, "no --role, and no guess: too dark")),
        (None, (API,), (Role.MASTER, "guessed from its control-plane manifests")),
        (None, (ETCD,), (Role.ARBITER, "guessed from its only control-plane manifest, etcd")),
        (None, (API, DARK), (Role.MASTER, "guessed from its control-plane manifests")),
        (None, (ETCD, DARK), (None, "no --role, and no guess: too dark")),
        (None, (FOREIGN,), (Role.WORKER, "guessed, for it has no control-plane manifest")),
    ],
)
def test_the_role_is_named_or_guessed(
    role: Role | None,
    manifests: tuple[Manifest, ...] | NotSeen,
    expected: tuple[Role | None, str],
) -> None:
    assert role_of(replace(WELL, role=role, manifests=manifests)) == expected


@pytest.mark.parametrize(
    ("path", "role", "status", "text"),
    [
        (BLIND, Role.WORKER, "not seen", "too dark"),
        (StaticPodPath(None), Role.WORKER, "ok", "staticPodPath is unset"),
        (StaticPodPath(""), Role.WORKER, "ok", "staticPodPath is explicitly empty"),
        (StaticPodPath(FOLDER), None, "ok", f"staticPodPath is {FOLDER}"),
        (
            StaticPodPath(""),
            None,
            "not seen",
            "staticPodPath is explicitly empty: give --role, for it depends on that",
        ),
        (StaticPodPath(FOLDER), Role.WORKER, "ok", f"staticPodPath is {FOLDER}"),
        (StaticPodPath(f"{FOLDER}/"), Role.MASTER, "ok", f"staticPodPath is {FOLDER}/"),
        (StaticPodPath(""), Role.MASTER, "error", "staticPodPath is explicitly empty"),
        (StaticPodPath(None), Role.ARBITER, "error", "staticPodPath is unset"),
        (StaticPodPath("/x"), Role.WORKER, "warning", f"staticPodPath is /x, not {FOLDER}"),
    ],
)
def test_the_kubelets_setting(
    path: StaticPodPath | NotSeen, role: Role | None, status: str, text: str
) -> None:
    facts = replace(WELL, static_pod_path=path)
    assert told(list(kubelet_setting(facts, role))) == [("kubelet", status, text)]


@pytest.mark.parametrize(
    ("manifests", "role", "expected"),
    [
        pytest.param(
            (),
            Role.WORKER,
            [GONE, ("manifests", "ok", "as the role worker has them: none")],
            id="a worker",
        ),
        pytest.param(MASTER, Role.MASTER, [GONE, ("manifests", "ok", FOUR)], id="a master"),
        pytest.param(
            (ETCD,),
            Role.ARBITER,
            [GONE, ("manifests", "ok", "as the role arbiter has them: etcd")],
            id="an arbiter",
        ),
        pytest.param(
            BLIND,
            Role.WORKER,
            [("legacy-manifest", "not seen", "too dark"), ("manifests", "not seen", "too dark")],
            id="a folder out of sight",
        ),
        pytest.param(
            (FOREIGN,),
            None,
            [
                GONE,
                (
                    "manifests",
                    "not seen",
                    "what the folder may hold depends on the role: give --role",
                ),
            ],
            id="no role",
        ),
        pytest.param(
            (OLD, RENAMED),
            Role.WORKER,
            [
                ("legacy-manifest", "error", f"{OLD.path} is there"),
                ("legacy-manifest", "error", f"{RENAMED.path} is there"),
                ("manifests", "ok", "as the role worker has them: none"),
            ],
            id="the legacy manifest, by name and by pod",
        ),
        pytest.param(
            (FOREIGN, GARBAGE, DARK),
            Role.WORKER,
            [
                ("legacy-manifest", "not seen", "too dark"),
                ("manifests", "warning", f"{FOREIGN.path} holds ns/x"),
                ("manifests", "warning", f"{GARBAGE.path} holds no pod that can be read"),
                ("manifests", "warning", f"{DARK.path} holds no pod that can be read"),
            ],
            id="a worker has none, whatever is in it",
        ),
        pytest.param(
            (*MASTER, BACKUP),
            Role.MASTER,
            [
                GONE,
                ("manifests", "warning", f"{API.path} holds {API.pod}, as another file does"),
                ("manifests", "warning", f"{BACKUP.path} holds {API.pod}, as another file does"),
            ],
            id="a copy",
        ),
        pytest.param(
            MASTER[1:],
            Role.MASTER,
            [GONE, ("manifests", "error", f"no manifest of {ETCD.pod} in {FOLDER}")],
            id="a control-plane pod is missing",
        ),
        pytest.param(
            (*MASTER[1:], DARK),
            Role.MASTER,
            [("legacy-manifest", "not seen", "too dark"), ("manifests", "not seen", "too dark")],
            id="it may be in what does not show",
        ),
    ],
)
def test_the_folder(
    manifests: tuple[Manifest, ...] | NotSeen,
    role: Role | None,
    expected: list[tuple[str, str, str]],
) -> None:
    assert told(list(manifest_folder(replace(WELL, manifests=manifests), role))) == expected


@pytest.mark.parametrize(
    ("left", "expected"),
    [
        (BLIND, [("not seen", "too dark")]),
        (LegacyPod((), "logs"), [("ok", "nothing left of kube-rbac-proxy-crio, by logs")]),
        (
            LegacyPod((), "logs", ("cgroups: dark",)),
            [
                ("not seen", "cgroups: dark"),
                ("ok", "nothing left of kube-rbac-proxy-crio, by logs"),
            ],
        ),
        (
            LegacyPod(("sandbox 1 (notready)", "container setup 2 (exited)"), "the runtime"),
            [
                ("error", "sandbox 1 (notready) of kube-rbac-proxy-crio is left, by the runtime"),
                (
                    "error",
                    "container setup 2 (exited) of kube-rbac-proxy-crio is left, by the runtime",
                ),
            ],
        ),
    ],
)
def test_what_is_left_of_the_pod(
    left: LegacyPod | NotSeen, expected: list[tuple[str, str]]
) -> None:
    found = told(list(legacy_pod(replace(WELL, legacy_pod=left))))
    assert found == [("legacy-pod", *one) for one in expected]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (Leftovers((), ("too dark",)), [("not seen", "too dark")]),
        (Leftovers(), [("ok", "none left")]),
        (Leftovers(("/etc/x.cfg",)), [("warning", "/etc/x.cfg is left")]),
        (
            Leftovers(("/etc/machine-config-daemon/orig/etc/x.mcdorig",), ("too dark",)),
            [
                ("warning", "/etc/machine-config-daemon/orig/etc/x.mcdorig is left"),
                ("not seen", "too dark"),
            ],
        ),
    ],
)
def test_leftover_files(found: Leftovers, expected: list[tuple[str, str]]) -> None:
    outcomes = told(list(leftovers(replace(WELL, leftovers=found))))
    assert outcomes == [("legacy-files", *one) for one in expected]


@pytest.mark.parametrize(
    ("path", "role", "status", "text"),
    [
        (FOLDER, Role.WORKER, "error", f"staticPodPath is {FOLDER} on a worker, which shall"),
        ("/other", Role.WORKER, "error", "staticPodPath is /other on a worker, which shall"),
        ("", Role.WORKER, "ok", "staticPodPath is explicitly empty"),
        (None, Role.WORKER, "ok", "staticPodPath is unset"),
        (FOLDER, Role.MASTER, "ok", f"staticPodPath is {FOLDER}"),
        (FOLDER, Role.ARBITER, "ok", f"staticPodPath is {FOLDER}"),
        (FOLDER, None, "not seen", f"staticPodPath is {FOLDER}: give --role"),
    ],
)
def test_where_no_static_pods_shall_be_a_workers_folder_is_a_finding(
    path: str | None, role: Role | None, status: str, text: str
) -> None:
    facts = replace(WELL, static_pod_path=StaticPodPath(path), expects_no_static_pods=True)
    found = list(kubelet_setting(facts, role))
    ((check, found_status, what),) = told(found)
    assert (check, found_status, what[: len(text)]) == ("kubelet", status, text)
    assert [one.is_needed for one in found if isinstance(one, Unseen)] == (
        [True] if status == "not seen" else []
    )


def test_what_is_expected_and_not_seen_is_needed() -> None:
    facts = replace(WELL, static_pod_path=BLIND, expects_no_static_pods=True)
    assert list(kubelet_setting(facts, Role.WORKER)) == [Unseen("kubelet", "too dark", True)]

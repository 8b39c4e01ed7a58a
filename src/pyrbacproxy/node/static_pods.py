"""Facts about static pods → outcomes: the kubelet's setting, the folder, what the old pod left."""

from collections import Counter
from collections.abc import Iterator

from pyrbacproxy.node.facts import Manifest, NodeFacts, NotSeen, Role
from pyrbacproxy.node.findings import Finding, Outcome, Passed, Severity, Unseen
from pyrbacproxy.node.sidecar import CONTAINER, MANIFEST, NAMESPACE

KUBELET_FILE = "/etc/kubernetes/kubelet.conf"
MANIFESTS = "/etc/kubernetes/manifests"
DAEMON_FOLDER = "/etc/machine-config-daemon"
_CONFIG = "/etc/kubernetes/crio-metrics-proxy.cfg"
_ORIGINALS = f"{DAEMON_FOLDER}/orig"
# The daemon puts an original back when a rendered configuration drops the file of that name.
LEFTOVERS = (
    _CONFIG,
    f"{_ORIGINALS}{_CONFIG}.mcdorig",
    f"{_ORIGINALS}{MANIFESTS}/{MANIFEST}.mcdorig",
)
_ETCD = "openshift-etcd/etcd"
_CONTROL_PLANE = (
    _ETCD,
    "openshift-kube-apiserver/kube-apiserver",
    "openshift-kube-controller-manager/kube-controller-manager",
    "openshift-kube-scheduler/openshift-kube-scheduler",
)
_EXPECTED: dict[Role, tuple[str, ...]] = {
    Role.WORKER: (),
    Role.MASTER: _CONTROL_PLANE,
    Role.ARBITER: (_ETCD,),
}
_CHECK = "manifests"


def is_legacy_pod(pod: str) -> bool:
    """Whether NAMESPACE/NAME is the legacy static pod: the kubelet adds the node's name to it."""
    legacy = f"{NAMESPACE}/{CONTAINER}"
    return pod == legacy or pod.startswith(f"{legacy}-")


def role_of(facts: NodeFacts) -> tuple[Role | None, str]:
    """The node's role, as named or else by its control-plane manifests, and how it is known."""
    if facts.role is not None:
        return facts.role, "named by --role"
    if isinstance(facts.manifests, NotSeen):
        return None, f"no --role, and no guess: {facts.manifests.why}"
    pods = {one.pod for one in facts.manifests}
    if pods & set(_CONTROL_PLANE[1:]):
        return Role.MASTER, "guessed from its control-plane manifests"
    dark = [pod.why for pod in pods if isinstance(pod, NotSeen)]
    if dark:
        return None, f"no --role, and no guess: {dark[0]}"
    if _ETCD in pods:
        return Role.ARBITER, "guessed from its only control-plane manifest, etcd"
    return Role.WORKER, "guessed, for it has no control-plane manifest"


def kubelet_setting(facts: NodeFacts, role: Role | None) -> Iterator[Outcome]:
    """`staticPodPath` in the kubelet's file."""
    check, path = "kubelet", facts.static_pod_path
    if isinstance(path, NotSeen):
        yield Unseen(check, path.why, facts.expects_no_static_pods)
    elif path.is_watched and facts.expects_no_static_pods and role is Role.WORKER:
        yield Finding(
            check,
            Severity.ERROR,
            f"staticPodPath is {path} on a worker, which shall have no static pods",
            "what can write there runs pods that admission control never sees (STIG V-242397)",
            'once the sidecar serves on every node of the pool, set staticPodPath to "" in its '
            "KubeletConfig; `pyrbacproxy kubelet-config` shows what the nodes get",
        )
    elif path.is_watched and facts.expects_no_static_pods and role is None:
        yield Unseen(check, f"staticPodPath is {path}: give --role, for it depends on that", True)
    elif path.is_watched and str(path).rstrip("/") != MANIFESTS:
        yield Finding(
            check,
            Severity.WARNING,
            f"staticPodPath is {path}, not {MANIFESTS}",
            "the rendered configuration writes its manifests elsewhere, so the kubelet runs others",
            f"find who changed {KUBELET_FILE}; the operator refuses any other folder",
        )
    elif not path.is_watched and role in (Role.MASTER, Role.ARBITER):
        yield Finding(
            check,
            Severity.ERROR,
            f"staticPodPath is {path}",
            "the control plane's pods are static: none of them survives the kubelet's next start",
            f"take the empty staticPodPath out of the KubeletConfig of the pool {role.value}",
        )
    elif not path.is_watched and role is None:
        yield Unseen(check, f"staticPodPath is {path}: give --role, for it depends on that")
    else:
        yield Passed(check, f"staticPodPath is {path}")


def manifest_folder(facts: NodeFacts, role: Role | None) -> Iterator[Outcome]:
    """The legacy manifest is gone, and the folder holds what the role needs, nothing else."""
    manifests = facts.manifests
    if isinstance(manifests, NotSeen):
        yield Unseen("legacy-manifest", manifests.why)
        yield Unseen(_CHECK, manifests.why)
        return
    yield from _legacy_manifest(manifests)
    if role is None:
        yield Unseen(_CHECK, "what the folder may hold depends on the role: give --role")
        return
    rest = [one for one in manifests if not _is_legacy(one)]
    found: list[Outcome] = [*_unexpected(rest, role), *_missing(rest, role)]
    found += [
        Unseen(_CHECK, one.pod.why)
        for one in rest
        if isinstance(one.pod, NotSeen) and role is not Role.WORKER
    ]
    yield from found
    if not found:
        names = ", ".join(one.rpartition("/")[2] for one in _EXPECTED[role])
        yield Passed(_CHECK, f"as the role {role.value} has them: {names or 'none'}")


def legacy_pod(facts: NodeFacts) -> Iterator[Outcome]:
    """No sandbox or container of the legacy pod is left."""
    check, left = "legacy-pod", facts.legacy_pod
    if isinstance(left, NotSeen):
        yield Unseen(check, left.why)
        return
    yield from (
        Finding(
            check,
            Severity.ERROR,
            f"{part} of {CONTAINER} is left, by {left.source}",
            "it may hold or take back the port, or the kubelet never cleared the pod away",
            "once its manifest is gone: `crictl pods --name kube-rbac-proxy-crio`, then "
            "`crictl rmp --force` its sandbox; if it comes back, restart the kubelet",
        )
        for part in left.parts
    )
    yield from (Unseen(check, why) for why in left.unseen)
    if not left.parts:
        yield Passed(check, f"nothing left of {CONTAINER}, by {left.source}")


def leftovers(facts: NodeFacts) -> Iterator[Outcome]:
    """No file that only the legacy pod read, and none that would bring it back."""
    check, left = "legacy-files", facts.leftovers
    for path in left.paths:
        is_original = path.startswith(_ORIGINALS)
        yield Finding(
            check,
            Severity.WARNING,
            f"{path} is left",
            "the machine-config daemon puts it back when the rendered file goes"
            if is_original
            else "only the legacy pod reads it; rules that are changed here change nothing",
            "remove it"
            if is_original
            else "see that the pool's rendered MachineConfig has dropped it, then remove it",
        )
    yield from (Unseen(check, why) for why in left.unseen)
    if not left.paths and not left.unseen:
        yield Passed(check, "none left")


def _legacy_manifest(manifests: tuple[Manifest, ...]) -> Iterator[Outcome]:
    found = [one.path for one in manifests if _is_legacy(one)]
    for path in found:
        yield Finding(
            "legacy-manifest",
            Severity.ERROR,
            f"{path} is there",
            "the kubelet runs the legacy pod from it, whose port the sidecar then waits for",
            "`oc get mcp`: wait until the pool is updated; if it is and the file still there, "
            "nothing manages it any more: remove it",
        )
    # Under which name the legacy pod's may be in what does not show, nobody knows.
    rest = [one.pod for one in manifests if not _is_legacy(one)]
    dark = [Unseen("legacy-manifest", pod.why) for pod in rest if isinstance(pod, NotSeen)]
    yield from dark
    if not found and not dark:
        yield Passed("legacy-manifest", f"no {MANIFEST}, nor its pod under another name")


def _is_legacy(manifest: Manifest) -> bool:
    is_named_so = manifest.path.rpartition("/")[2] == MANIFEST
    return is_named_so or (isinstance(manifest.pod, str) and is_legacy_pod(manifest.pod))


def _unexpected(manifests: list[Manifest], role: Role) -> Iterator[Finding]:
    copies = Counter(one.pod for one in manifests if isinstance(one.pod, str))
    for one in manifests:
        is_seen = isinstance(one.pod, str)
        if one.pod in _EXPECTED[role] and copies[one.pod] == 1:
            continue
        if not is_seen and role is not Role.WORKER:
            continue
        again = one.pod in _EXPECTED[role]
        yield Finding(
            _CHECK,
            Severity.WARNING,
            f"{one.path} holds {one.pod if is_seen and one.pod else 'no pod that can be read'}"
            + (", as another file does" if again else ""),
            "the kubelet runs every file there, whatever its ending: which of the two does not show"
            if again
            else f"no static pod of the role {role.value} is made from it",
            "keep copies elsewhere: move the older file out of the folder"
            if again
            else "find out who wrote it, then move it out of the folder; or --role is wrong",
        )


def _missing(manifests: list[Manifest], role: Role) -> Iterator[Finding]:
    pods = {one.pod for one in manifests}
    if any(isinstance(pod, NotSeen) for pod in pods):
        return
    for pod in _EXPECTED[role]:
        if pod not in pods:
            yield Finding(
                _CHECK,
                Severity.ERROR,
                f"no manifest of {pod} in {MANIFESTS}",
                f"the role {role.value} has it as a static pod",
                f"ask its operator to install it again: `oc get clusteroperator "
                f"{pod.partition('/')[0].removeprefix('openshift-')}`; or --role is wrong",
            )

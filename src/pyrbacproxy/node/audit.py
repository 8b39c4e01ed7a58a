"""Judges the facts about a node: whether the legacy proxy is gone and the sidecar serves."""

import ipaddress
import re
from collections import Counter
from collections.abc import Iterable, Iterator

from pyrbacproxy.node.documents import Document, Json
from pyrbacproxy.node.facts import (
    SERIES_PREFIX,
    Answer,
    Certificate,
    CertificateFile,
    Finding,
    ListeningSocket,
    Manifest,
    NoAnswer,
    NodeFacts,
    NotSeen,
    Outcome,
    Passed,
    Process,
    Role,
    Severity,
    StaticPodPath,
    Unseen,
)
from pyrbacproxy.values import Frozen

# --- sidecar --------------------------------------------------------------------------
# The sidecar that replaces the legacy static pod: whether manifests have it, and what needs it.

CONTAINER = "kube-rbac-proxy-crio"
DAEMONSET = "machine-config-daemon"
NAMESPACE = "openshift-machine-config-operator"
MANIFEST = "criometricsproxy.yaml"
# As `kubectl get` wraps several objects.
_LIST_KINDS = ("List", "DaemonSetList", "DeploymentList")


class NoSidecarError(Exception):
    """No object has the container; says which were looked at."""


class Sidecar(Frozen):
    """One such container: the object that has it ("DaemonSet machine-config-daemon"), its words."""

    owner: str
    arguments: tuple[str, ...]


def sidecars(objects: Iterable[Document]) -> list[Sidecar]:
    """Each container of that name in a pod template, at least one. Raises NoSidecarError.

    Native sidecars count, which are init containers. A bare Pod does not: the legacy static pod is
    one.
    """
    looked_at = []
    found = []
    for one in _unwrapped(objects):
        spec = _child(_child(_child(one, "spec"), "template"), "spec")
        owner = f"{one.get('kind')} {_child(one, 'metadata').get('name')}"
        looked_at.append(owner)
        containers = [*_children(spec, "initContainers"), *_children(spec, "containers")]
        found += [
            Sidecar(owner, (*_texts(container, "command"), *_texts(container, "args")))
            for container in containers
            if container.get("name") == CONTAINER
        ]
    if not found:
        seen = ", ".join(looked_at) or "nothing at all"
        raise NoSidecarError(f"no pod template has a container {CONTAINER}; looked at: {seen}")
    return found


def what_follows(before: StaticPodPath, after: StaticPodPath) -> list[str]:
    """What the change of `staticPodPath` means for the proxy on the pool's nodes."""
    if after.is_watched:
        until = f"a legacy static pod {CONTAINER} runs until its manifest {MANIFEST} is gone"
        return [f"the kubelet goes on watching {after}: {until}"]
    if not before.is_watched:
        return ["no folder of manifests is watched, as before: no static pod runs"]
    ends = "with the kubelet's next start every static pod ends"
    where = f"only where the DaemonSet {DAEMONSET} has the container {CONTAINER}"
    waits = "a sidecar with --wait-for-absent waits until the rendered MachineConfig drops it"
    keeps = "accepts the empty value and keeps its default: look into the rendered MachineConfig"
    return [
        f"{before} is no longer watched: {ends}, the legacy pod {CONTAINER} with them",
        f"node:9637 then answers {where}",
        f"the file {before}/{MANIFEST} does not go by itself: {waits}",
        f"an operator older than its exception for staticPodPath {keeps}",
    ]


def _unwrapped(objects: Iterable[Document]) -> Iterator[Document]:
    for one in objects:
        if one.get("kind") in _LIST_KINDS:
            yield from _children(one, "items")
        else:
            yield one


def _child(parent: Document, key: str) -> Document:
    value = parent.get(key)
    return value if isinstance(value, dict) else {}


def _children(parent: Document, key: str) -> list[Document]:
    return [item for item in _list(parent, key) if isinstance(item, dict)]


def _texts(parent: Document, key: str) -> list[str]:
    return [str(item) for item in _list(parent, key)]


def _list(parent: Document, key: str) -> list[Json]:
    value = parent.get(key)
    return value if isinstance(value, list) else []


# --- static pods ----------------------------------------------------------------------
# Facts about static pods → outcomes: the kubelet's setting, the folder, what the old pod left.

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
        if is_seen and one.pod in _EXPECTED[role] and copies[str(one.pod)] == 1:
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


# --- serving --------------------------------------------------------------------------
# Facts about the port → outcomes: who listens, who is let in, what lies behind.

_ID_LENGTH = 13  # as crictl shows it
# A DaemonSet's pod has five letters or digits behind its name. `oc debug daemonset/NAME` makes one
# named NAME-debug-..., with a copy of the container.
_DAEMON_POD = re.compile(rf"{NAMESPACE}/{DAEMONSET}-[a-z0-9]{{5}}")
_OWNER = f"DaemonSet {DAEMONSET}"
_NO_POD = "which pod it is: its cgroup names none, or does not show"
_LOGS = f"the log of the container {CONTAINER} on this node says why"
_REFUSED = {
    401: "the client CA lacks the credential's authority, or the token is bad or its review failed",
    403: "no static rule names the credential's user, and the API server does not allow it",
    502: "CRI-O's metrics port does not answer",
    504: "CRI-O's metrics port does not answer in time",
}


def listener_finding(facts: NodeFacts) -> Iterator[Outcome]:
    """Exactly one holder of the port, the sidecar's container, and not on loopback alone."""
    check, sockets, port = "listener", facts.listeners, facts.port
    if isinstance(sockets, NotSeen):
        yield _unseen(check, sockets.why)
        return
    if not sockets:
        yield Finding(
            check,
            Severity.ERROR,
            f"nobody listens on port {port}",
            "Prometheus cannot scrape this node's CRI-O: TargetDown fires",
            f"is the container {CONTAINER} there and past its start-up gate? {_LOGS}; run this "
            "with the node's network (hostNetwork)",
        )
        return
    if all(_is_loopback(one.address) for one in sockets):
        yield Finding(
            check,
            Severity.ERROR,
            f"only {_addresses(sockets)} is listened on",
            "Prometheus comes over the network",
            f"give the proxy --secure-listen-address=:{port}",
        )
    yield from _number(sockets, port)
    yield from _owners(sockets)


def anonymous_finding(facts: NodeFacts) -> Iterator[Outcome]:
    """A request without a credential gets 401."""
    check, answer = "anonymous", facts.anonymous
    if isinstance(answer, NotSeen):
        yield Unseen(check, answer.why)
    elif isinstance(answer, NoAnswer):
        yield _unanswered(check, facts.port, answer)
    elif answer.status == 401:  # noqa: PLR2004 - the status is its own name
        yield Passed(check, "401 without a credential")
    else:
        is_let_in = answer.status < 400  # noqa: PLR2004 - refusals begin there
        yield Finding(
            check,
            Severity.ERROR if is_let_in else Severity.WARNING,
            f"{answer.status} without a credential, instead of 401",
            "anybody on the network may read" if is_let_in else "this is not how the proxy answers",
            "see who listens; if it is the proxy: look for --ignore-paths in its arguments",
        )


def scrape_finding(facts: NodeFacts) -> Iterator[Outcome]:
    """A scrape with the given credential brings CRI-O's series."""
    check, answer = "scrape", facts.scrape
    if isinstance(answer, NotSeen):
        yield Unseen(check, answer.why)
    elif isinstance(answer, NoAnswer):
        yield _unanswered(check, facts.port, answer)
    elif answer.status != 200:  # noqa: PLR2004 - the status is its own name
        why = _REFUSED.get(answer.status, "this is not how the proxy answers an allowed scrape")
        yield Finding(
            check,
            Severity.ERROR,
            f"the scrape was answered {answer.status}",
            why,
            f"{_LOGS}; compare the credential's user with the rules of the ConfigMap {CONTAINER}",
        )
    elif not answer.series:
        yield Finding(
            check,
            Severity.ERROR,
            f"the scrape brought no {SERIES_PREFIX}* series",
            "what is served is not CRI-O's metrics, or CRI-O collects none",
            f"see who listens on port {facts.upstream_port}, and enable_metrics and "
            "metrics_collectors in the configuration of CRI-O",
        )
    else:
        yield Passed(check, f"{answer.series} {SERIES_PREFIX}* series")


def upstream_finding(facts: NodeFacts) -> Iterator[Outcome]:
    """What the proxy guards can't be reached past it."""
    check, sockets, port = "upstream", facts.upstream, facts.upstream_port
    if isinstance(sockets, NotSeen):
        yield Unseen(check, sockets.why)
    elif not sockets:
        yield Finding(
            check,
            Severity.ERROR,
            f"nobody listens on the upstream's port {port}",
            "the proxy answers allowed scrapes with 502",
            "is CRI-O running, with enable_metrics and metrics_port as the proxy's --upstream?",
        )
    elif not all(_is_loopback(one.address) for one in sockets):
        yield Finding(
            check,
            Severity.ERROR,
            f"the upstream listens on {_addresses(sockets)}, port {port}",
            "anybody on the network reads the metrics past the proxy",
            'set metrics_host = "127.0.0.1" in the configuration of CRI-O, and restart it',
        )
    else:
        holder = _holders(sockets) or "a process that does not show"
        yield Passed(check, f"{holder} on {_addresses(sockets)} only")


def _number(sockets: tuple[ListeningSocket, ...], port: int) -> Iterator[Outcome]:
    addresses = {one.address for one in sockets}
    holders = {key for one in sockets for key in _keys(one)}
    if len(addresses) < len(sockets) or len(holders) > 1:
        who = _holders(sockets) or "processes that do not show"
        yield Finding(
            "listener",
            Severity.ERROR,
            f"port {port} has several listeners: {who} on {_addresses(sockets)}",
            "the kernel deals scrapes out among them, so an old one may answer with old rules",
            "end the one that is not the sidecar's",
        )
    elif all(one.processes for one in sockets):
        yield Passed("listener", f"{_holders(sockets)} on {_addresses(sockets)}")
    elif any(one.is_all_in_sight for one in sockets):
        yield Finding(
            "listener",
            Severity.ERROR,
            f"no process of the node holds the socket on {_addresses(sockets)}, port {port}",
            f"only the container {CONTAINER} may, and it can be seen",
            "run this again; if it stays so, the kernel has it, or one process is handing it to "
            "another",
        )
    else:
        yield _unseen("listener", "who listens: run this as root with hostPID, or on the node")


def _owners(sockets: tuple[ListeningSocket, ...]) -> Iterator[Outcome]:
    """Whether each holder is the sidecar's container; what is said of several is said once."""
    processes = [process for one in sockets for process in one.processes]
    owners: dict[tuple[str, str], Process] = {}
    for one in processes:
        owners.setdefault((one.pod, one.container or one.cgroup), one)
    yield from (_owner(process) for _, process in sorted(owners.items()))
    if not processes and not any(one.is_all_in_sight for one in sockets):
        yield _unseen("listener-pod", _NO_POD)


def _owner(process: Process) -> Outcome:
    pod, name, check = process.pod, process.container_name, "listener-pod"
    shown_id = process.container[:_ID_LENGTH]
    if process.is_static or is_legacy_pod(pod):
        return _static(pod)
    if process.cgroup:
        return _stranger(
            f"{process} of {process.cgroup} holds the port", "the process is of no pod"
        )
    if not pod and not process.container:
        return _unseen(check, _NO_POD)
    if "/" in pod and not _DAEMON_POD.fullmatch(pod):
        return _stranger(f"the pod {pod} holds the port", f"it is no pod of the {_OWNER}")
    if isinstance(name, NotSeen):
        return _unseen(check, f"the name of container {shown_id}{_of(pod)}: {name.why}")
    if not name:
        which = f"container {shown_id}" if shown_id else "a process outside the containers"
        return _stranger(
            f"{which}{_of(pod)} holds the port", "the kubelet's logs name no such container"
        )
    if name != CONTAINER:
        return _stranger(
            f"the container {name} of pod {pod} holds the port",
            f"only the container {CONTAINER} of that pod may",
        )
    if "/" not in pod:
        return _unseen(check, f"the name of pod {pod}: its logs do not show")
    return Passed(check, f"{pod}, container {name} {shown_id}")


def _unseen(check: str, why: str) -> Unseen:
    """Who holds the port is what the audit is for."""
    return Unseen(check, why, is_needed=True)


def _of(pod: str) -> str:
    return f" of pod {pod}" if pod else ""


def _static(pod: str) -> Finding:
    is_legacy = is_legacy_pod(pod)
    return Finding(
        "listener-pod",
        Severity.ERROR,
        f"the {'legacy' if is_legacy else 'static'} pod {pod} holds the port",
        "the sidecar waits for it",
        "is its manifest gone? Then `crictl rmp --force` its sandbox"
        if is_legacy
        else "find its manifest in the kubelet's staticPodPath and move it out of the folder",
    )


def _stranger(what: str, why: str) -> Finding:
    return Finding(
        "listener-pod",
        Severity.ERROR,
        what,
        f"{why}; exactly one may hold it, {CONTAINER} of the {_OWNER}",
        "find out what it is; two owners of one port end in a node without metrics",
    )


def _unanswered(check: str, port: int, answer: NoAnswer) -> Finding:
    return Finding(
        check,
        Severity.ERROR,
        f"port {port} does not answer an HTTPS request: {answer.why}",
        "it is held, but not served as the proxy serves it",
        f"see who listens; {_LOGS}",
    )


def _keys(socket: ListeningSocket) -> set[str]:
    """Whose a socket is: the processes of one container are one, and those outside of any."""
    containers = {one.container for one in socket.processes if one.container}
    return containers or {f"pid {one.pid}" for one in socket.processes[:1]}


def _holders(sockets: tuple[ListeningSocket, ...]) -> str:
    return ", ".join(dict.fromkeys(str(one) for socket in sockets for one in socket.processes))


def _addresses(sockets: tuple[ListeningSocket, ...]) -> str:
    return ", ".join(sorted({one.address for one in sockets}))


def _is_loopback(address: str) -> bool:
    found = ipaddress.ip_address(address)
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return (mapped or found).is_loopback


# --- lifetimes ------------------------------------------------------------------------
# Facts about certificates → outcomes: whole, in time, and the one that the listener shows.

_DAY_SECONDS = 86400.0
# The kubelet renews its own long before (at 70 to 90 % of the lifetime).
_LEAST_LEFT = 0.1


def serving_pair_lifetime(facts: NodeFacts) -> Iterator[Outcome]:
    """The kubelet's serving pair is whole and in time, and is what the listener shows."""
    check, file = "serving-certificate", facts.serving
    if isinstance(file, NotSeen):
        yield Unseen(check, file.why)
        return
    to_do = "`oc get csr`: approve the node's kubelet-serving request, or see the kubelet's log"
    why = "the proxy serves with it and waits, or goes on with the one before, without it"
    if file.problem or not file.has_key:
        what = f"{file.path} {file.problem or 'holds no key'}"
        yield Finding(check, Severity.ERROR, what, why, to_do)
        return
    leaf = file.certificates[0]
    if trouble := _trouble(leaf, facts.now):
        yield Finding(check, *trouble, "clients refuse it once its time is over", to_do)
    else:
        yield Passed(check, _ages(leaf, facts.now))
    yield from _shown(facts, leaf)


def client_ca_lifetime(facts: NodeFacts) -> Iterator[Outcome]:
    """Of each authority in the client CA at least one certificate is in time."""
    check, file = "client-ca", facts.client_ca
    if isinstance(file, NotSeen):
        yield Unseen(check, file.why)
        return
    why = "client certificates of that authority are refused with 401, Prometheus' own among them"
    to_do = f"does the machine-config daemon still write {file.path}? See its log and `oc get mcp`"
    if file.problem:
        yield Finding(check, Severity.ERROR, f"{file.path} {file.problem}", why, to_do)
        return
    newest = _newest(file)
    troubled = [(one, found) for one in newest if (found := _trouble(one, facts.now))]
    for _, trouble in troubled:
        yield Finding(check, *trouble, why, to_do)
    if not troubled:
        first = min(newest, key=lambda one: one.not_after)
        yield Passed(check, f"authorities: {len(newest)}; first to end: {_ages(first, facts.now)}")


def _shown(facts: NodeFacts, leaf: Certificate) -> Iterator[Outcome]:
    check, answer = "served-certificate", facts.anonymous
    if not isinstance(answer, Answer):
        yield Unseen(check, f"the listener showed none: {answer.why}")
    elif answer.fingerprint == leaf.fingerprint:
        yield Passed(check, "the listener shows the one on disk")
    else:
        yield Finding(
            check,
            Severity.WARNING,
            "the listener shows another certificate than the one on disk",
            "it did not take the kubelet's new one, or it is somebody else",
            "ask again after --tls-reload-interval (1m); then see who listens, and its log",
        )


def _newest(file: CertificateFile) -> list[Certificate]:
    """The last to end of each authority; a signer's name ends in `@` and when it was made."""
    found: dict[str, Certificate] = {}
    for one in file.certificates:
        name = one.subject.partition("@")[0]
        if name not in found or one.not_after > found[name].not_after:
            found[name] = one
    return list(found.values())


def _trouble(certificate: Certificate, now: float) -> tuple[Severity, str] | None:
    """What is wrong with its time, if anything."""
    ages = _ages(certificate, now)
    if not certificate.not_before <= now <= certificate.not_after:
        return Severity.ERROR, ages
    lifetime = certificate.not_after - certificate.not_before
    if certificate.not_after - now < lifetime * _LEAST_LEFT:
        return Severity.WARNING, ages
    return None


def _ages(certificate: Certificate, now: float) -> str:
    begun, left = now - certificate.not_before, certificate.not_after - now
    age = f"{_days(begun)} old" if begun >= 0 else f"valid only in {_days(-begun)}"
    end = f"ends in {_days(left)}" if left >= 0 else f"expired {_days(-left)} ago"
    return f"{certificate.subject}: {age}, {end}"


def _days(seconds: float) -> str:
    return f"{seconds / _DAY_SECONDS:.1f} d"


# --- audit ----------------------------------------------------------------------------
# Facts about a node → findings: whether the old proxy is gone, the new one serves and guards.


def audit(facts: NodeFacts) -> list[Outcome]:
    """What each check came to, in the order in which one reads them."""
    role, how = role_of(facts)
    return [
        Passed("role", f"{role.value}: {how}") if role else Unseen("role", how),
        *kubelet_setting(facts, role),
        *manifest_folder(facts, role),
        *legacy_pod(facts),
        *leftovers(facts),
        *listener_finding(facts),
        *upstream_finding(facts),
        *anonymous_finding(facts),
        *scrape_finding(facts),
        *serving_pair_lifetime(facts),
        *client_ca_lifetime(facts),
    ]

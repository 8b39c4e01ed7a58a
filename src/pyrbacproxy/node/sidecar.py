"""The sidecar that replaces the legacy static pod: whether manifests have it, and what needs it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pyrbacproxy.node.documents import Document, Json
from pyrbacproxy.node.kubelet_settings import StaticPodPath

CONTAINER = "kube-rbac-proxy-crio"
DAEMONSET = "machine-config-daemon"
NAMESPACE = "openshift-machine-config-operator"
MANIFEST = "criometricsproxy.yaml"
# As `kubectl get` wraps several objects.
_LIST_KINDS = ("List", "DaemonSetList", "DeploymentList")


class NoSidecarError(Exception):
    """No object has the container; says which were looked at."""


@dataclass(frozen=True, slots=True)
class Sidecar:
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

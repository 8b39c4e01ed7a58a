"""Pods as a node's files show them: folders of logs and cgroups."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# The kubelet's cgroup of a pod, by either driver (systemd writes the UID with `_`); the UID of a
# static pod is 32 hex digits. A container's cgroup below it is its ID, after the runtime's name.
_STATIC_UID = re.compile(r"[0-9a-f]{32}")
_POD = re.compile(
    r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice)?"
    r"(?:/(?:[a-z-]+-)?([0-9a-f]{64})(?:\.scope)?)?"
)
# In a cgroup namespace of its own a container sees its neighbours in the pod beside itself.
_NEIGHBOUR = re.compile(r"(?:/\.\.)+/(?:[a-z-]+-)?([0-9a-f]{64})(?:\.scope)?(?:/|$)")
# Where the kubelet's root is, in cgroup v2 and v1, by driver systemd and cgroupfs.
_ROOTS = ("kubepods.slice", "kubepods", "systemd/kubepods.slice", "systemd/kubepods")


@dataclass(frozen=True, slots=True)
class LoggedPod:
    """A pod whose folder of logs is there."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class LoggedContainer:
    """A container whose log the kubelet has linked; `pod` is NAMESPACE/NAME."""

    name: str
    pod: str


@dataclass(frozen=True, slots=True)
class Cgroup:
    """What a process' cgroups say; `path` is the first one that says anything, "" for none."""

    uid: str = ""
    container: str = ""
    path: str = ""


def cgroup_of(text: str, *, is_whole_tree: bool) -> Cgroup:
    """The content of /proc/PID/cgroup, as it shows in the reader's own cgroup namespace.

    That namespace's root is "/" and, unless it has the whole tree, may be any place in it.
    """
    paths = [line.split(":", 2)[2] for line in text.splitlines() if line.count(":") > 1]
    telling = [path for path in paths if path.replace("/..", "").strip("/")]
    if is_whole_tree and not telling:
        telling = paths
    for path in telling:
        if found := pod_of(path):
            return Cgroup(*found, path)
        if neighbour := _NEIGHBOUR.match(path):
            return Cgroup("", neighbour[1], path)
    return Cgroup(path=telling[0]) if telling else Cgroup()


def pod_of(cgroup: str) -> tuple[str, str] | None:
    """The pod's UID and the container's ID ("" outside one) that a cgroup's path names."""
    match = _POD.search(cgroup)
    return (match[1].replace("_", "-"), match[2] or "") if match else None


def logged_container(container_logs: Path, container: str) -> LoggedContainer | None:
    """The container of that ID, by the folder `/var/log/containers`. Raises OSError.

    The kubelet links the log of each container there: POD_NAMESPACE_CONTAINER-ID.log. No part of it
    but the underscores may hold one. A name that was cut to what a file name may be long, 255
    bytes, has no whole ID and is not found.
    """
    end = f"-{container}.log"
    for link in container_logs.iterdir():
        parts = link.name.removesuffix(end).split("_")
        if link.name.endswith(end) and len(parts) == 3:  # noqa: PLR2004 - the three named above
            pod, namespace, name = parts
            return LoggedContainer(name, f"{namespace}/{pod}")
    return None


def is_static(uid: str) -> bool:
    """Whether the kubelet made the pod from a manifest of its own."""
    return bool(_STATIC_UID.fullmatch(uid))


def logged_pods(pod_logs: Path) -> list[LoggedPod]:
    """Each pod, NAMESPACE/NAME, of the folder `/var/log/pods`. Raises OSError."""
    return [pod for folder in sorted(pod_logs.iterdir()) if (pod := _logged(folder.name))]


def running_pods(cgroups: Path) -> set[str]:
    """The UIDs of pods that have a cgroup. Raises FileNotFoundError where no kubelet's root shows.

    A pod has one from the making of its sandbox until the kubelet has cleared it away.
    """
    roots = [cgroups / name for name in _ROOTS if (cgroups / name).is_dir()]
    if not roots:
        raise FileNotFoundError(f"{cgroups} shows no pods")
    return {found[0] for root in roots for name in _names(root) if (found := pod_of(name))}


def _names(root: Path) -> Iterator[str]:
    """Guaranteed pods lie in the root itself, the others one level below, by quality of service."""
    for pattern in ("*pod*", "*/*pod*"):
        yield from (path.name for path in root.glob(pattern))


def _logged(folder_name: str) -> LoggedPod | None:
    namespace, _, rest = folder_name.partition("_")
    name, _, uid = rest.rpartition("_")
    return LoggedPod(f"{namespace}/{name}", uid) if name else None

"""Reads a node's files, pods and listening sockets from /proc and the mounted root."""

import contextlib
import errno
import ipaddress
import os
import re
import stat
import struct
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from pyrbacproxy.node.facts import ListeningSocket, NotSeen, Process
from pyrbacproxy.values import Frozen

# --- host files -----------------------------------------------------------------------
#
# A node's files below the folder where its root is mounted: links lead where they lead there.
#
# The kubelet's link to its serving pair is absolute; followed from a pod, it would leave the mount.

# As many as Linux follows.
_MOST_LINKS = 40
_MOST_BYTES = 16 * 2**20


class HostFiles:
    """Reads by the node's own absolute paths. Every method raises OSError."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, path: str) -> bytes:
        """A regular file's content, of 16 MiB at most: nothing else may make us wait."""
        place = self.place(path)
        found = place.stat()
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        if found.st_size > _MOST_BYTES:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        return place.read_bytes()

    def names(self, path: str) -> list[str]:
        """What a folder holds, sorted."""
        return sorted(entry.name for entry in self.place(path).iterdir())

    def is_there(self, path: str) -> bool:
        """Whether something has that name, be it a link to nothing: only ENOENT is absence."""
        name = PurePosixPath(path)
        try:
            (self.place(str(name.parent)) / name.name).lstat()
        except FileNotFoundError:
            return False
        return True

    def is_folder(self, path: str) -> bool:
        """Whether a folder has that name."""
        try:
            return stat.S_ISDIR(self.place(path).stat().st_mode)
        except FileNotFoundError:
            return False

    def place(self, path: str) -> Path:
        """Where the path leads, as seen from here."""
        here, left, links = PurePosixPath("/"), _steps(path), 0
        while left:
            step = left.pop()
            if step == "..":
                here = here.parent
                continue
            target = self._link(here / step)
            if target is None:
                here /= step
                continue
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            here = PurePosixPath("/") if target.startswith("/") else here
            left += _steps(target)
        return self._on_mount(here)

    def _link(self, path: PurePosixPath) -> str | None:
        try:
            return str(self._on_mount(path).readlink())
        except OSError:
            # No link, or not readable: opening it tells which.
            return None

    def _on_mount(self, path: PurePosixPath) -> Path:
        return self._root / path.relative_to("/")


def _steps(path: str) -> list[str]:
    """The parts of a path, the first one last."""
    return [part for part in reversed(PurePosixPath(path).parts) if part != "/"]


# --- pods -----------------------------------------------------------------------------
# Pods as a node's files show them: folders of logs and cgroups.

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


class LoggedPod(Frozen):
    """A pod whose folder of logs is there."""

    name: str
    uid: str


class LoggedContainer(Frozen):
    """A container whose log the kubelet has linked; `pod` is NAMESPACE/NAME."""

    name: str
    pod: str


class Cgroup(Frozen):
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
    return [pod for folder in sorted(pod_logs.iterdir()) if (pod := _pods_logged(folder.name))]


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


def _pods_logged(folder_name: str) -> LoggedPod | None:
    namespace, _, rest = folder_name.partition("_")
    name, _, uid = rest.rpartition("_")
    return LoggedPod(f"{namespace}/{name}", uid) if name else None


# --- sockets --------------------------------------------------------------------------
#
# Who listens on a port of this node: process → container → pod, from /proc, as far as it shows.
#
# Another's descriptors are seen only by root of the same PID namespace (on a node: hostPID). A
# process is named by its command's name, never by its arguments, which may hold secrets.

PROC = Path("/proc")
POD_LOGS = Path("/var/log/pods")
CONTAINER_LOGS = Path("/var/log/containers")
# PROC_PID_INIT_INO of include/linux/proc_ns.h: the namespace in which every process shows.
_FIRST_PIDS = "pid:[4026531836]"
# PROC_CGROUP_INIT_INO there: the namespace whose root is the tree's.
_FIRST_CGROUPS = "cgroup:[4026531835]"
# include/net/tcp_states.h
_LISTEN = "0A"
_SOCKET = re.compile(r"socket:\[(\d+)\]")


def listening_sockets(
    port: int,
    *,
    proc: Path = PROC,
    pod_logs: Path = POD_LOGS,
    container_logs: Path = CONTAINER_LOGS,
) -> tuple[ListeningSocket, ...]:
    """All that listen on the port in this network namespace. Raises OSError without /proc."""
    found = _all_listening(port, proc)
    if not found:
        return ()
    holders, is_all_in_sight = _holders(set(found), proc)
    if is_all_in_sight and not all(map(holders.get, found)):
        # Closed since the first look, the socket has no holder by now.
        still = _all_listening(port, proc)
        found = {inode: one for inode, one in found.items() if inode in still or inode in holders}
    return tuple(
        ListeningSocket(
            address,
            port,
            tuple(
                _process(pid, proc, pod_logs, container_logs)
                for pid in sorted(holders.get(inode, ()))
            ),
            is_all_in_sight,
        )
        for inode, address in found.items()
    )


def holders_text(port: int, *, proc: Path = PROC, pod_logs: Path = POD_LOGS) -> str:
    """Who holds the port, in words."""
    try:
        sockets = listening_sockets(port, proc=proc, pod_logs=pod_logs)
    except OSError as error:
        return f"who holds it cannot be seen: {error.strerror}"
    if not sockets:
        return "nobody listens on it"
    names = dict.fromkeys(str(process) for one in sockets for process in one.processes)
    if not names:
        return "held by a process that cannot be seen from here"
    return "held by " + ", ".join(names)


def _all_listening(port: int, proc: Path) -> dict[int, str]:
    """Inode → address of every socket that listens on the port."""
    return {
        inode: address
        for table in ("tcp", "tcp6")
        for inode, address in _listening(proc / "net" / table, port)
    }


def _listening(table: Path, port: int) -> Iterator[tuple[int, str]]:
    """Inode and address of each listening socket in one of the kernel's tables."""
    try:
        lines = table.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        if table.name == "tcp6":  # a kernel without IPv6
            return
        raise
    for line in lines[1:]:
        try:
            _, local, _, state, *_, inode = line.split()[:10]
            address, _, port_text = local.partition(":")
            if state == _LISTEN and int(port_text, 16) == port:
                yield int(inode), _address(address)
        except (ValueError, struct.error):
            # No kernel writes such; of what else the table hides we know nothing.
            raise OSError(errno.EINVAL, f"{table.name} cannot be read") from None


def _address(text: str) -> str:
    """The kernel prints each 32-bit word of an address in its own byte order."""
    words = (int(text[start : start + 8], 16) for start in range(0, len(text), 8))
    return str(ipaddress.ip_address(b"".join(struct.pack("=I", word) for word in words)))


def _holders(inodes: set[int], proc: Path) -> tuple[dict[int, set[int]], bool]:
    """Each socket's processes, and whether every process of the node was looked at."""
    found: dict[int, set[int]] = {}
    is_all_in_sight = _target(proc / "1" / "ns" / "pid") == _FIRST_PIDS
    for folder in proc.iterdir():
        if not folder.name.isdigit():
            continue
        try:
            descriptors = list((folder / "fd").iterdir())
        except PermissionError:
            is_all_in_sight = False
        except OSError:
            continue  # It has ended meanwhile.
        else:
            for inode in inodes.intersection(_sockets_of(descriptors)):
                found.setdefault(inode, set()).add(int(folder.name))
    return found, is_all_in_sight


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""


def _sockets_of(descriptors: list[Path]) -> Iterator[int]:
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            if match := _SOCKET.fullmatch(str(descriptor.readlink())):
                yield int(match[1])


def _process(pid: int, proc: Path, pod_logs: Path, container_logs: Path) -> Process:
    # The port's holder chose the name, and it is shown on terminals.
    written = _text(proc / str(pid) / "comm").strip()
    command = "".join(letter if letter.isprintable() else "?" for letter in written)
    is_whole_tree = _target(proc / "self" / "ns" / "cgroup") == _FIRST_CGROUPS
    cgroup = cgroup_of(_text(proc / str(pid) / "cgroup"), is_whole_tree=is_whole_tree)
    if not cgroup.uid and not cgroup.container:
        return Process(pid, command, cgroup=cgroup.path)
    logged = _logged(cgroup.container, container_logs)
    pod = logged.pod if isinstance(logged, LoggedContainer) else ""
    return Process(
        pid,
        command,
        cgroup.container,
        pod or (_pod_name(cgroup.uid, pod_logs) or cgroup.uid if cgroup.uid else ""),
        logged.name if isinstance(logged, LoggedContainer) else logged or "",
        is_static(cgroup.uid),
    )


def _logged(container: str, container_logs: Path) -> LoggedContainer | NotSeen | None:
    """None where the folder is in sight and does not have the container."""
    if not container:
        return None
    try:
        return logged_container(container_logs, container)
    except OSError as error:
        return NotSeen(f"{CONTAINER_LOGS}: {error.strerror}")


def _pod_name(uid: str, pod_logs: Path) -> str:
    """NAMESPACE/NAME, from the folder of the pod's logs; "" where there is none to see."""
    try:
        return next((pod.name for pod in logged_pods(pod_logs) if pod.uid == uid), "")
    except OSError:
        return ""


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""

"""Who listens on a port of this node: process → container → pod, from /proc, as far as it shows.

Another's descriptors are seen only by root of the same PID namespace (on a node: hostPID). A
process is named by its command's name, never by its arguments, which may hold secrets.
"""

import contextlib
import errno
import ipaddress
import re
import struct
from collections.abc import Iterator
from pathlib import Path

from pyrbacproxy.node.facts import ListeningSocket, NotSeen, Process
from pyrbacproxy.node.pods import (
    LoggedContainer,
    cgroup_of,
    is_static,
    logged_container,
    logged_pods,
)

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
    # Whoever holds the port chose the name, and it is shown on terminals.
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

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

from pyrbacproxy.node.facts import ListeningSocket, Process
from pyrbacproxy.node.pods import logged_pods, pod_of

PROC = Path("/proc")
POD_LOGS = Path("/var/log/pods")
# include/net/tcp_states.h
_LISTEN = "0A"
_SOCKET = re.compile(r"socket:\[(\d+)\]")


def listening_sockets(
    port: int, *, proc: Path = PROC, pod_logs: Path = POD_LOGS
) -> tuple[ListeningSocket, ...]:
    """All that listen on the port in this network namespace. Raises OSError without /proc."""
    found = {
        inode: address
        for table in ("tcp", "tcp6")
        for inode, address in _listening(proc / "net" / table, port)
    }
    holders = _holders(set(found), proc) if found else {}
    return tuple(
        ListeningSocket(
            address,
            port,
            tuple(_process(pid, proc, pod_logs) for pid in sorted(holders.get(inode, ()))),
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


def _holders(inodes: set[int], proc: Path) -> dict[int, set[int]]:
    """Each socket's processes."""
    found: dict[int, set[int]] = {}
    for folder in proc.iterdir():
        if folder.name.isdigit():
            for inode in inodes.intersection(_sockets_of(folder)):
                found.setdefault(inode, set()).add(int(folder.name))
    return found


def _sockets_of(folder: Path) -> Iterator[int]:
    try:
        descriptors = list((folder / "fd").iterdir())
    except OSError:
        # Another user's, or gone meanwhile.
        return
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            if match := _SOCKET.fullmatch(str(descriptor.readlink())):
                yield int(match[1])


def _process(pid: int, proc: Path, pod_logs: Path) -> Process:
    # Whoever holds the port chose the name, and it is shown on terminals.
    written = _text(proc / str(pid) / "comm").strip()
    command = "".join(letter if letter.isprintable() else "?" for letter in written)
    found = pod_of(_text(proc / str(pid) / "cgroup"))
    if found is None:
        return Process(pid, command)
    uid, container = found
    return Process(pid, command, container, _pod_name(uid, pod_logs) or uid)


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

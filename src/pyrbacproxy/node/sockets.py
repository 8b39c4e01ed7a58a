"""Who listens on a port of this node: process → container → pod, from /proc, as far as it shows.

Another's descriptors are seen only by root of the same PID namespace (on a node: hostPID). A
process is named by its command's name, never by its arguments, which may hold secrets.
"""

import contextlib
import ipaddress
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
POD_LOGS = Path("/var/log/pods")
# include/net/tcp_states.h
_LISTEN = "0A"
_SOCKET = re.compile(r"socket:\[(\d+)\]")
# The kubelet's cgroup of a pod, by either driver (systemd writes the UID with `_`); the UID of a
# static pod is 32 hex digits. A container's cgroup below it is its ID, after the runtime's name.
_POD = re.compile(
    r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice)?"
    r"(?:/(?:[a-z-]+-)?([0-9a-f]{64})(?:\.scope)?)?"
)


@dataclass(frozen=True, slots=True)
class Process:
    """One process; `pod` is NAMESPACE/NAME or, where that does not show, the pod's UID, or ""."""

    pid: int
    command: str
    container: str = ""
    pod: str = ""

    def __str__(self) -> str:
        pod = f" of pod {self.pod}" if self.pod else ""
        return f"{self.command} (pid {self.pid}){pod}"


@dataclass(frozen=True, slots=True)
class ListeningSocket:
    """A listening TCP socket, and whose it is; no processes means that it does not show."""

    address: str
    port: int
    processes: tuple[Process, ...] = ()


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
        lines = table.read_text().splitlines()
    except FileNotFoundError:
        if table.name == "tcp6":  # a kernel without IPv6
            return
        raise
    for line in lines[1:]:
        fields = line.split()
        address, _, port_text = fields[1].partition(":")
        if fields[3] == _LISTEN and int(port_text, 16) == port:
            yield int(fields[9]), _address(address)


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
    command, cgroup = (_text(proc / str(pid) / name) for name in ("comm", "cgroup"))
    match = _POD.search(cgroup)
    if match is None:
        return Process(pid, command.strip())
    uid = match[1].replace("_", "-")
    return Process(pid, command.strip(), match[2] or "", _pod_name(uid, pod_logs) or uid)


def _pod_name(uid: str, pod_logs: Path) -> str:
    """NAMESPACE/NAME, from the folder of the pod's logs; "" where there is none to see."""
    try:
        names = [folder.name for folder in pod_logs.iterdir()]
    except OSError:
        return ""
    for name in names:
        namespace, _, rest = name.partition("_")
        pod, _, found = rest.rpartition("_")
        if found == uid:
            return f"{namespace}/{pod}"
    return ""


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""

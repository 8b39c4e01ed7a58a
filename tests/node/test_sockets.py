"""Who holds a port: against this machine, and against made-up /proc trees."""

import os
import socket
from pathlib import Path

import pytest

from pyrbacproxy.node.facts import ListeningSocket, NotSeen, Process
from pyrbacproxy.node.host import holders_text, listening_sockets
from pyrbacproxy.values import replace

HEADER = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  inode"
UID = "0b7b2a4c-1f3e-4d5a-8c9b-0123456789ab"
STATIC_UID = "0123456789abcdef0123456789abcdef"
CONTAINER = "ab" * 32
PORT = 9637
SYSTEMD = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod"


class FakeProc:
    """A /proc and a folder of pod logs."""

    def __init__(self, folder: Path) -> None:
        self.proc, self.pod_logs = folder / "proc", folder / "pods"
        self.container_logs = folder / "containers"
        (self.proc / "net").mkdir(parents=True)
        self.pod_logs.mkdir()
        self.container_logs.mkdir()
        self.table("tcp")

    def table(self, name: str, *entries: tuple[str, str, int]) -> None:
        rows = [
            f"   0: {address} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000"
            f"     0        0 {inode} 1 0000000000000000 100 0 0 10 0"
            for address, state, inode in entries
        ]
        (self.proc / "net" / name).write_text("\n".join((HEADER, *rows, "")))

    def process(self, pid: int, command: str, cgroup: str, *targets: str) -> None:
        folder = self.proc / str(pid)
        (folder / "fd").mkdir(parents=True)
        (folder / "comm").write_text(f"{command}\n")
        (folder / "cmdline").write_text("--token=secret")
        (folder / "cgroup").write_text(f"0::{cgroup}\n")
        for number, target in enumerate(targets):
            (folder / "fd" / str(number)).symlink_to(target)

    def namespace(self, process: str, name: str, inode: int) -> None:
        folder = self.proc / process / "ns"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(f"{name}:[{inode}]")

    def logs_container(self, pod: str, name: str, container: str = CONTAINER) -> None:
        """As the kubelet does, for a container that may be gone."""
        link = self.container_logs / f"{pod}_{name}-{container}.log"
        link.symlink_to("/var/log/pods/gone/0.log")

    def sockets(self) -> tuple[ListeningSocket, ...]:
        return listening_sockets(
            PORT, proc=self.proc, pod_logs=self.pod_logs, container_logs=self.container_logs
        )

    def text(self) -> str:
        return holders_text(PORT, proc=self.proc, pod_logs=self.pod_logs)


@pytest.fixture
def fake(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path)


@pytest.mark.parametrize(
    ("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]
)
def test_on_this_machine_we_find_ourselves(family: socket.AddressFamily, address: str) -> None:
    with socket.create_server((address, 0), family=family) as server:
        port = server.getsockname()[1]
        (found,) = listening_sockets(port)
        assert (found.address, found.port) == (address, port)
        assert [process.pid for process in found.processes] == [os.getpid()]
        assert f"(pid {os.getpid()})" in holders_text(port)
    assert holders_text(port) == "nobody listens on it"


@pytest.mark.parametrize(
    ("cgroup", "container", "pod"),
    [
        (f"/{SYSTEMD}{STATIC_UID}.slice/crio-{CONTAINER}.scope/container", CONTAINER, STATIC_UID),
        (f"/../crio-{CONTAINER}.scope", CONTAINER, ""),
        (f"/../../crio-{CONTAINER}.scope/container", CONTAINER, ""),
        ("/", "", ""),
        ("/../..", "", ""),
        (f"/{SYSTEMD}{UID.replace('-', '_')}.slice/crio-{CONTAINER}.scope", CONTAINER, UID),
        (f"/{SYSTEMD}{STATIC_UID}.slice/cri-containerd-{CONTAINER}.scope", CONTAINER, STATIC_UID),
        (f"/kubepods/burstable/pod{UID}/{CONTAINER}", CONTAINER, UID),
        (f"/../{SYSTEMD[16:]}{STATIC_UID}.slice/crio-{CONTAINER}.scope", CONTAINER, STATIC_UID),
        (f"/{SYSTEMD}{STATIC_UID}.slice", "", STATIC_UID),
        ("/system.slice/sshd.service", "", ""),
        ("/user.slice/podman.scope", "", ""),
    ],
)
def test_the_cgroup_tells_container_and_pod(
    fake: FakeProc, cgroup: str, container: str, pod: str
) -> None:
    fake.table("tcp6", ("0" * 32 + ":25A5", "0A", 77))
    fake.process(42, "kube-rbac-proxy", cgroup, "/dev/null", "socket:[77]")
    (found,) = fake.sockets()[0].processes
    assert (found.container, found.pod) == (container, pod)
    is_a_pods = bool(container or pod)
    is_told = is_a_pods or not cgroup.strip("/.")
    assert found.cgroup == ("" if is_told else cgroup)
    assert found.is_static is (pod == STATIC_UID)
    holder = replace(found, pid=42, command="kube-rbac-proxy")
    assert fake.sockets() == (ListeningSocket("::", PORT, (holder,)),)


# FR84


def test_fr84_the_containers_name_comes_from_the_link_to_its_log(fake: FakeProc) -> None:
    fake.table("tcp", ("0100007F:25A5", "0A", 77))
    uid = UID.replace("-", "_")
    fake.process(42, "x", f"/{SYSTEMD}{uid}.slice/crio-{CONTAINER}.scope", "socket:[77]")
    fake.logs_container("mcd-x_ns", "machine-config-daemon", "cd" * 32)
    (fake.container_logs / f"odd-{CONTAINER}.log").touch()
    (before,) = fake.sockets()[0].processes
    assert (before.container_name, before.pod) == ("", UID)
    fake.logs_container("mcd-x_ns", "kube-rbac-proxy-crio")
    (holder,) = fake.sockets()[0].processes
    assert (holder.container_name, holder.pod) == ("kube-rbac-proxy-crio", "ns/mcd-x")


def test_fr84_a_neighbours_name_and_pod_come_from_there_too(fake: FakeProc) -> None:
    fake.table("tcp", ("0100007F:25A5", "0A", 77))
    fake.process(42, "x", f"/../crio-{CONTAINER}.scope", "socket:[77]")
    fake.logs_container("mcd-x_ns", "kube-rbac-proxy-crio")
    (holder,) = fake.sockets()[0].processes
    assert (holder.container_name, holder.pod) == ("kube-rbac-proxy-crio", "ns/mcd-x")


def test_fr84_without_the_kubelets_links_names_are_not_seen(fake: FakeProc) -> None:
    fake.table("tcp", ("0100007F:25A5", "0A", 77))
    fake.process(42, "x", f"/{SYSTEMD}{STATIC_UID}.slice/crio-{CONTAINER}.scope", "socket:[77]")
    fake.container_logs.rmdir()
    (holder,) = fake.sockets()[0].processes
    why = "/var/log/containers: No such file or directory"
    assert holder.container_name == NotSeen(why)


def test_fr84_the_root_of_the_whole_tree_is_no_pods(fake: FakeProc) -> None:
    fake.table("tcp", ("0100007F:25A5", "0A", 77))
    fake.process(42, "x", "/", "socket:[77]")
    fake.namespace("self", "cgroup", 4026531835)
    (holder,) = fake.sockets()[0].processes
    assert holder.cgroup == "/"


@pytest.mark.parametrize(("inode", "is_first"), [(4026531836, True), (4026532000, False)])
def test_fr84_all_processes_are_in_sight_in_the_first_namespace_alone(
    fake: FakeProc, *, inode: int, is_first: bool
) -> None:
    fake.table("tcp", ("0100007F:25A5", "0A", 77))
    fake.process(1, "systemd", "/init.scope")
    fake.namespace("1", "pid", inode)
    assert fake.sockets() == (ListeningSocket("127.0.0.1", PORT, (), is_first),)


def test_the_pods_name_comes_from_the_folder_of_its_logs(fake: FakeProc) -> None:
    (fake.pod_logs / f"openshift_mco_{STATIC_UID}").mkdir()
    (fake.pod_logs / f"other_pod_{UID}").mkdir()
    fake.table("tcp", ("0100007F:25A5", "0A", 77))
    fake.process(42, "kube-rbac-proxy", f"/{SYSTEMD}{STATIC_UID}.slice", "socket:[77]")
    assert fake.sockets()[0].address == "127.0.0.1"
    assert fake.text() == "held by kube-rbac-proxy (pid 42) of pod openshift/mco"


def test_a_command_cannot_move_the_cursor(fake: FakeProc) -> None:
    fake.table("tcp", ("0100007F:25A5", "0A", 7))
    fake.process(42, "x\x1b[2J\ny", "/", "socket:[7]")
    assert fake.text() == "held by x?[2J?y (pid 42)"


@pytest.mark.parametrize(
    "line", ["", "   0: garbage", "   0: ZZ:25A5 00000000:0000 0A 0 0 0 0 0 7"]
)
def test_a_table_that_cannot_be_read_is_not_seen(fake: FakeProc, line: str) -> None:
    (fake.proc / "net" / "tcp").write_text(f"{HEADER}\n{line}\n")
    assert fake.text() == "who holds it cannot be seen: tcp cannot be read"


def test_only_listeners_on_the_port_count(fake: FakeProc) -> None:
    fake.table("tcp", ("0100007F:25A5", "01", 1), ("0100007F:25A6", "0A", 2))
    fake.process(42, "curl", "/", "socket:[1]", "socket:[2]")
    assert fake.sockets() == ()
    assert fake.text() == "nobody listens on it"


def test_all_holders_of_all_sockets_are_named_once(fake: FakeProc) -> None:
    fake.table("tcp", ("0100007F:25A5", "0A", 1))
    fake.table("tcp6", ("0" * 32 + ":25A5", "0A", 2))
    fake.process(7, "master", "/", "socket:[1]", "socket:[2]")
    fake.process(8, "worker", "/", "socket:[2]")
    assert fake.text() == "held by master (pid 7), worker (pid 8)"


def test_what_cannot_be_seen_says_so(fake: FakeProc) -> None:
    fake.table("tcp", ("00000000:25A5", "0A", 1))
    (fake.proc / "42").mkdir()
    assert fake.sockets() == (ListeningSocket("0.0.0.0", PORT),)
    assert fake.text() == "held by a process that cannot be seen from here"
    (fake.proc / "net" / "tcp").unlink()
    assert fake.text() == "who holds it cannot be seen: No such file or directory"


def test_a_process_that_ends_meanwhile_keeps_its_number(fake: FakeProc, tmp_path: Path) -> None:
    fake.table("tcp", ("00000000:25A5", "0A", 1))
    (fake.proc / "42" / "fd").mkdir(parents=True)
    (fake.proc / "42" / "fd" / "3").symlink_to("socket:[1]")
    assert fake.sockets() == (ListeningSocket("0.0.0.0", PORT, (Process(42, ""),)),)
    holder = listening_sockets(PORT, proc=fake.proc, pod_logs=tmp_path / "missing")[0].processes
    assert [process.pod for process in holder] == [""]

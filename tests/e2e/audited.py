"""A node to audit: real processes on real ports, and a made-up root and /proc around them."""

import datetime as dt
import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from pyrbacproxy.demo.pki import Authority
from tests.e2e.handover import MANIFESTS, RULES, SCRAPER
from tests.e2e.programs import Programs, free_port

NAMESPACE = "openshift-machine-config-operator"
DAEMON = "machine-config-daemon-x2x4x"
SIDECAR_UID = "0b7b2a4c-1f3e-4d5a-8c9b-0123456789ab"
LEGACY_UID = "0123456789abcdef0123456789abcdef"
SERVING = "var/lib/kubelet/pki/kubelet-server-2026.pem"
ETCD = "etcd-pod.yaml"
CONTROL_PLANE = {
    ETCD: ("openshift-etcd", "etcd"),
    "kube-apiserver-pod.yaml": ("openshift-kube-apiserver", "kube-apiserver"),
    "kube-controller-manager-pod.yaml": (
        "openshift-kube-controller-manager",
        "kube-controller-manager",
    ),
    "kube-scheduler-pod.yaml": ("openshift-kube-scheduler", "openshift-kube-scheduler"),
}
_CRICTL = """#!/bin/sh
for word; do if [ -e {folder}/$word.json ]; then cat {folder}/$word.json; fi; done
"""


@dataclass(frozen=True, slots=True)
class Serving:
    """A proxy that serves, and what is behind it."""

    port: int
    pid: int
    upstream_port: int
    upstream_pid: int


class Rack:
    """Starts proxies and upstreams, all with one authority."""

    def __init__(self, authority: Authority, programs: Programs) -> None:
        self.authority = authority
        # A proxy reads its files again: no other rack may write over them.
        name = programs.folder.name
        self.pair = authority.serving(f"audited-{name}")
        self.scraper = authority.client(f"scraper-{name}", SCRAPER)
        self.stranger = authority.client(f"stranger-{name}", "stranger")
        self._programs = programs
        self._rules = programs.folder / "rules.yaml"
        self._rules.write_text(RULES)

    async def start(self, *flags: str, host: str = "0.0.0.0") -> Serving:
        """A proxy in front of CRI-O's metrics; flags given here win."""
        module = (sys.executable, "-m")
        crio = self._programs.start("crio", *module, "pyrbacproxy.demo.crio", "--port=0")
        upstream = await crio.logged(r"^(127\.0\.0\.1:\d+)\n")
        port = free_port()
        proxy = self._programs.start(
            "proxy",
            *(*module, "pyrbacproxy"),
            f"--secure-listen-address={host}:{port}",
            f"--upstream=http://{upstream}/",
            f"--tls-cert-file={self.pair.combined_file}",
            f"--tls-private-key-file={self.pair.combined_file}",
            f"--client-ca-file={self.authority.certificate_file}",
            f"--config-file={self._rules}",
            *flags,
        )
        await proxy.logged(r"(Listening securely)")
        return Serving(port, proxy.pid, int(upstream.rpartition(":")[2]), crio.pid)

    async def serve_file(self, name: str, text: str) -> str:
        """The URL of a server that gives one file."""
        folder = self._programs.folder / f"files-{name}"
        folder.mkdir()
        (folder / name).write_text(text)
        port = free_port()
        words = ("-um", "http.server", "--bind=127.0.0.1", f"--directory={folder}", str(port))
        program = self._programs.start("files", sys.executable, *words)
        await program.logged(r"(Serving HTTP)")
        return f"http://127.0.0.1:{port}/"


class AuditedNode:
    """Its root and /proc lie in `folder`; made well, for a test to spoil."""

    def __init__(self, folder: Path, rack: Rack, serving: Serving) -> None:
        self.folder, self.rack, self.serving = folder, rack, serving
        self.credential = rack.scraper
        self.words: list[str] = []
        for name in (MANIFESTS, f"var/log/pods/{NAMESPACE}_{DAEMON}_{SIDECAR_UID}"):
            (self.root / name).mkdir(parents=True, exist_ok=True)
        self.names_the_container("kube-rbac-proxy-crio")
        self.put("etc/kubernetes/kubelet.conf", 'kind: KubeletConfiguration\nstaticPodPath: ""\n')
        self.put("etc/machine-config-daemon/currentconfig", "")
        self.put("etc/kubernetes/kubelet-ca.crt", self.rack.authority.certificate_file.read_text())
        self.put(SERVING, self.rack.pair.combined_file.read_text())
        (self.root / SERVING).with_name("kubelet-server-current.pem").symlink_to(f"/{SERVING}")
        (self.root / "sys/fs/cgroup/kubepods.slice").mkdir(parents=True)
        self.proc.mkdir()
        (self.proc / "net").symlink_to("/proc/net")
        self.sees(self.serving.pid, pod(SIDECAR_UID))
        self.sees(self.serving.upstream_pid, "/system.slice/crio.service")
        (self.folder / "crictl").write_text(_CRICTL.format(folder=self.folder))
        (self.folder / "crictl").chmod(0o755)
        self.runs([], [])

    @property
    def root(self) -> Path:
        """Where the host's root is."""
        return self.folder / "host"

    @property
    def proc(self) -> Path:
        """A /proc that shows real processes in made-up cgroups."""
        return self.folder / "proc"

    def put(self, path: str, text: str) -> None:
        """Write a file of the node."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def put_pod(self, file: str, namespace: str, name: str) -> None:
        """Write a manifest."""
        metadata = f"metadata: {{namespace: {namespace}, name: {name}}}"
        self.put(f"{MANIFESTS}/{file}", f"kind: Pod\n{metadata}\n")

    def becomes_a_master(self) -> None:
        """With the control plane's four pods."""
        self._runs_static_pods("master", CONTROL_PLANE)

    def becomes_an_arbiter(self) -> None:
        """With etcd alone."""
        self._runs_static_pods("arbiter", {ETCD: CONTROL_PLANE[ETCD]})

    def _runs_static_pods(self, role: str, pods: Mapping[str, tuple[str, str]]) -> None:
        for file, (namespace, name) in pods.items():
            self.put_pod(file, namespace, name)
        self.put(
            "etc/kubernetes/kubelet.conf",
            "kind: KubeletConfiguration\nstaticPodPath: /etc/kubernetes/manifests\n",
        )
        self.words.append(f"--role={role}")

    def names_the_container(self, name: str, pod: str = f"{DAEMON}_{NAMESPACE}") -> None:
        """As the kubelet links the log of the only container."""
        links = self.root / "var/log/containers"
        shutil.rmtree(links, ignore_errors=True)
        links.mkdir()
        (links / f"{pod}_{name}-{'ab' * 32}.log").symlink_to("/var/log/pods/0.log")

    def sees(self, pid: int, cgroup: str) -> None:
        """Show a real process in a made-up cgroup."""
        folder = self.proc / str(pid)
        folder.mkdir(exist_ok=True)
        for name in ("fd", "comm"):
            if not (folder / name).is_symlink():
                (folder / name).symlink_to(f"/proc/{pid}/{name}")
        (folder / "cgroup").write_text(f"0::{cgroup}\n")

    def runs(self, sandboxes: list[object], containers: list[object]) -> None:
        """What crictl tells."""
        (self.folder / "pods.json").write_text(json.dumps({"items": sandboxes}))
        (self.folder / "ps.json").write_text(json.dumps({"containers": containers}))

    def is_served_by(self, serving: Serving) -> None:
        """Another proxy than the one that all tests share."""
        self.serving = serving
        self.sees(serving.pid, pod(SIDECAR_UID))
        self.sees(serving.upstream_pid, "/system.slice/crio.service")

    def command_line(self) -> list[str]:
        """How to audit it; words of a test's own win."""
        return [
            f"--host-root={self.root}",
            f"--proc={self.proc}",
            f"--crictl={self.folder}/crictl",
            f"--port={self.serving.port}",
            f"--upstream-port={self.serving.upstream_port}",
            f"--client-certificate={self.credential.certificate_file}",
            f"--client-key={self.credential.key_file}",
            *self.words,
        ]


def pod(uid: str) -> str:
    """A container's cgroup in a pod, as the kubelet makes it with systemd."""
    return f"/kubepods.slice/kubepods-pod{uid.replace('-', '_')}.slice/crio-{'ab' * 32}.scope"


def expired_certificate(name: str) -> str:
    """A certificate whose time was over yesterday, and its key, PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=31))
        .not_valid_after(now - dt.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    text = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return (certificate.public_bytes(serialization.Encoding.PEM) + text).decode()

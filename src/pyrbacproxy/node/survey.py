"""Looks at a node for its audit: everything that `NodeFacts` holds, each thing or why not.

Only files, /proc, loopback and the container runtime's own socket are asked, never the API server.
"""

from dataclasses import dataclass
from pathlib import Path

from pyrbacproxy.node.certificates import certificate_file
from pyrbacproxy.node.documents import DocumentError, read_one
from pyrbacproxy.node.facts import (
    Asked,
    CertificateFile,
    ListeningSocket,
    Manifest,
    NodeFacts,
    NotSeen,
    Role,
)
from pyrbacproxy.node.host_files import HostFiles
from pyrbacproxy.node.kubelet_settings import StaticPodPath, static_pod_path
from pyrbacproxy.node.legacy import POD_LOGS, legacy_pod
from pyrbacproxy.node.manifests import manifests
from pyrbacproxy.node.scrape import Credential, ask, client_context
from pyrbacproxy.node.sockets import listening_sockets
from pyrbacproxy.node.static_pods import KUBELET_FILE, LEFTOVERS, MANIFESTS

_SERVING = "/var/lib/kubelet/pki/kubelet-server-current.pem"
_CLIENT_CA = "/etc/kubernetes/kubelet-ca.crt"
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - what is shown, not bound


@dataclass(frozen=True, slots=True)
class Scope:
    """Where to look and what with; `credential` is None to scrape without."""

    host_root: Path
    proc: Path
    port: int
    upstream_port: int
    crictl: str
    role: Role | None = None
    credential: Credential | None = None
    ca_file: str = ""


def survey(scope: Scope, now: float) -> NodeFacts:
    """All facts. Raises CredentialError."""
    files = HostFiles(scope.host_root)
    pod_path = _static_pod_path(files)
    listeners = _listeners(files, scope, scope.port)
    serving = _certificates(files, _SERVING)
    return NodeFacts(
        now=now,
        role=scope.role,
        port=scope.port,
        upstream_port=scope.upstream_port,
        static_pod_path=pod_path,
        manifests=_manifests(files, pod_path),
        legacy_pod=legacy_pod(files, scope.crictl),
        leftovers=_leftovers(files),
        listeners=listeners,
        upstream=_listeners(files, scope, scope.upstream_port),
        serving=serving,
        client_ca=_certificates(files, _CLIENT_CA),
        anonymous=_anonymous(listeners, scope),
        scrape=_scrape(listeners, scope, serving),
    )


def _static_pod_path(files: HostFiles) -> StaticPodPath | NotSeen:
    try:
        return static_pod_path(read_one(files.read(KUBELET_FILE), KUBELET_FILE), KUBELET_FILE)
    except OSError as error:
        return NotSeen(f"{KUBELET_FILE}: {error.strerror}")
    except DocumentError as error:
        return NotSeen(str(error))


def _manifests(
    files: HostFiles, pod_path: StaticPodPath | NotSeen
) -> tuple[Manifest, ...] | NotSeen:
    folders = {MANIFESTS}
    if isinstance(pod_path, StaticPodPath) and pod_path.written:
        folders.add(pod_path.written.rstrip("/"))
    found: list[Manifest] = []
    for folder in sorted(folders):
        try:
            found += manifests(files, folder)
        except FileNotFoundError:
            # Absence can only be seen where the node's files are: every node has this one.
            if not _has_node_files(files):
                return NotSeen(f"{folder}: neither it nor {KUBELET_FILE} is in sight")
        except OSError as error:
            return NotSeen(f"{folder}: {error.strerror}")
    return tuple(found)


def _has_node_files(files: HostFiles) -> bool:
    try:
        return files.is_there(KUBELET_FILE)
    except OSError:
        return False


def _leftovers(files: HostFiles) -> tuple[str, ...] | NotSeen:
    found = []
    for path in LEFTOVERS:
        try:
            if files.is_there(path):
                found.append(path)
        except OSError as error:
            return NotSeen(f"{path}: {error.strerror}")
    if not found and not _has_node_files(files):
        return NotSeen(f"{KUBELET_FILE} is not in sight, so no absence is")
    return tuple(found)


def _listeners(files: HostFiles, scope: Scope, port: int) -> tuple[ListeningSocket, ...] | NotSeen:
    try:
        pod_logs = files.place(POD_LOGS)
        return listening_sockets(port, proc=scope.proc, pod_logs=pod_logs)
    except OSError as error:
        return NotSeen(f"{scope.proc}/net: {error.strerror}")


def _certificates(files: HostFiles, path: str) -> CertificateFile | NotSeen:
    try:
        return certificate_file(files.read(path), path)
    except FileNotFoundError:
        folder = path.rpartition("/")[0]
        is_node = files.is_folder(folder) if path == _SERVING else _has_node_files(files)
        if is_node:
            return CertificateFile(path, problem="is not there")
        return NotSeen(f"{path} is not in sight, nor what is always beside it")
    except OSError as error:
        return NotSeen(f"{path}: {error.strerror}")


def _address(listeners: tuple[ListeningSocket, ...] | NotSeen) -> str | NotSeen:
    """Where to ask; on the node itself, so on loopback where the proxy listens everywhere."""
    if isinstance(listeners, NotSeen):
        return "127.0.0.1"
    if not listeners:
        return NotSeen("nobody listens")
    address = listeners[0].address
    return _LOOPBACK.get(address, address)


def _anonymous(listeners: tuple[ListeningSocket, ...] | NotSeen, scope: Scope) -> Asked:
    address = _address(listeners)
    if isinstance(address, NotSeen):
        return address
    return ask(address, scope.port, client_context())


def _scrape(
    listeners: tuple[ListeningSocket, ...] | NotSeen,
    scope: Scope,
    serving: CertificateFile | NotSeen,
) -> Asked:
    if scope.credential is None:
        return NotSeen("no credential: give --token-file or --client-certificate")
    # Also when nobody listens: what is wrong with the files shall be told.
    context = client_context(scope.credential, scope.ca_file)
    address = _address(listeners)
    if isinstance(address, NotSeen):
        return address
    known = ""
    if isinstance(serving, CertificateFile) and serving.certificates:
        known = serving.certificates[0].fingerprint
    return ask(address, scope.port, context, token=scope.credential.token, known_fingerprint=known)

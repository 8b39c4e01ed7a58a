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
    Leftovers,
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
from pyrbacproxy.node.sockets import CONTAINER_LOGS, listening_sockets
from pyrbacproxy.node.static_pods import DAEMON_FOLDER, KUBELET_FILE, LEFTOVERS, MANIFESTS

_PKI = "/var/lib/kubelet/pki"
_SERVING = f"{_PKI}/kubelet-server-current.pem"
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
    expects_no_static_pods: bool = False
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
        expects_no_static_pods=scope.expects_no_static_pods,
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
            # Of all folders only this one is in no image, so it is the node's if it is there.
            is_nodes_own = folder == MANIFESTS and files.is_folder(folder)
            if not is_nodes_own and (hidden := _hidden(files, folder)):
                return NotSeen(hidden)
            found += manifests(files, folder)
        except FileNotFoundError:
            continue
        except OSError as error:
            return NotSeen(f"{folder}: {error.strerror}")
    return tuple(found)


def _hidden(files: HostFiles, path: str) -> str:
    """Why the node's own file of that path, if it has one, can't be seen; "" when it can.

    A container shows some of the node's folders among its own. Each is known by what every node has
    in it, and no image: a path is absent only where that is in sight. Raises OSError.
    """
    if path.startswith(f"{KUBELET_FILE.rpartition('/')[0]}/"):
        is_seen, mark = files.is_there(KUBELET_FILE), KUBELET_FILE
    else:
        is_seen, mark = files.is_folder(DAEMON_FOLDER), DAEMON_FOLDER
    return "" if is_seen else f"{path}: not in sight, for {mark} is not"


def _leftovers(files: HostFiles) -> Leftovers:
    found, unseen = [], []
    for path in LEFTOVERS:
        try:
            if files.is_there(path):
                found.append(path)
            elif hidden := _hidden(files, path):
                unseen.append(hidden)
        except OSError as error:
            unseen.append(f"{path}: {error.strerror}")
    return Leftovers(tuple(found), tuple(unseen))


def _listeners(files: HostFiles, scope: Scope, port: int) -> tuple[ListeningSocket, ...] | NotSeen:
    try:
        pod_logs = files.place(POD_LOGS)
        container_logs = files.place(str(CONTAINER_LOGS))
        return listening_sockets(
            port, proc=scope.proc, pod_logs=pod_logs, container_logs=container_logs
        )
    except OSError as error:
        return NotSeen(f"{scope.proc}/net: {error.strerror}")


def _certificates(files: HostFiles, path: str) -> CertificateFile | NotSeen:
    try:
        return certificate_file(files.read(path), path)
    except FileNotFoundError:
        return _absent(files, path)
    except OSError as error:
        return NotSeen(f"{path}: {error.strerror}")


def _absent(files: HostFiles, path: str) -> CertificateFile | NotSeen:
    try:
        # The kubelet's folder of certificates is a mount of its own, and in no image.
        is_seen = files.is_folder(_PKI) if path == _SERVING else not _hidden(files, path)
    except OSError as error:
        return NotSeen(f"{path}: {error.strerror}")
    if is_seen:
        return CertificateFile(path, problem="is not there")
    return NotSeen(f"{path} is not in sight, nor what is always beside it")


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

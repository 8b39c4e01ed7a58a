"""Collects every fact that the audit needs, each with its value or why it can't be read."""

import shutil
import subprocess
from pathlib import Path

from pyrbacproxy.node.audit import DAEMON_FOLDER, KUBELET_FILE, LEFTOVERS, MANIFESTS, is_legacy_pod
from pyrbacproxy.node.documents import Document, DocumentError, Json, read_one
from pyrbacproxy.node.facts import (
    Asked,
    CertificateFile,
    Leftovers,
    LegacyPod,
    ListeningSocket,
    Manifest,
    NodeFacts,
    NotSeen,
    Role,
    StaticPodPath,
    static_pod_path,
)
from pyrbacproxy.node.host import (
    CONTAINER_LOGS,
    HostFiles,
    LoggedPod,
    is_static,
    listening_sockets,
    logged_pods,
    running_pods,
)
from pyrbacproxy.node.scrape import Credential, ask, certificate_file, client_context
from pyrbacproxy.values import Frozen

# --- manifests ------------------------------------------------------------------------
# The kubelet's folder of manifests → which pods it would run.


def manifests(files: HostFiles, path: str) -> list[Manifest]:
    """What the kubelet would run from the path, a folder or one file. Raises OSError.

    It takes every regular file whose name does not begin with a dot, whatever its ending.
    """
    try:
        names = files.names(path)
    except NotADirectoryError:
        if not files.place(path).is_file():
            raise
        return [found] if (found := _manifest(files, path)) else []
    paths = [f"{path.rstrip('/')}/{name}" for name in names if not name.startswith(".")]
    return [found for one in paths if (found := _manifest(files, one))]


def _manifest(files: HostFiles, path: str) -> Manifest | None:
    try:
        if files.is_folder(path):
            return None
        content = files.read(path)
    except FileNotFoundError:
        # Gone meanwhile, or a link to nothing: the kubelet runs neither.
        return None
    except OSError as error:
        return Manifest(path, NotSeen(f"{path}: {error.strerror}"))
    try:
        return Manifest(path, _pod(read_one(content, path)))
    except DocumentError:
        return Manifest(path, "")


def _pod(document: Document) -> str:
    metadata = document.get("metadata")
    if document.get("kind") != "Pod" or not isinstance(metadata, dict) or not metadata.get("name"):
        return ""
    return f"{metadata.get('namespace') or 'default'}/{metadata['name']}"


# --- legacy ---------------------------------------------------------------------------
# What is left of the legacy static pod: by the container runtime, else by logs and cgroups.

POD_LOGS = "/var/log/pods"
_CGROUPS = "/sys/fs/cgroup"
_SOCKET = "/run/crio/crio.sock"
_SECONDS = 10.0
_ID_LENGTH = 13  # as crictl shows it


class _RuntimeAwayError(Exception):
    """The container runtime could not be asked; says why."""


def legacy_pod(files: HostFiles, crictl: str) -> LegacyPod | NotSeen:
    """Every sandbox, container or trace of the pod, exited ones included."""
    try:
        return LegacyPod(_by_runtime(files, crictl), "the container runtime")
    except _RuntimeAwayError as error:
        away = str(error)
    try:
        logged = logged_pods(files.place(POD_LOGS))
    except OSError as error:
        return NotSeen(f"{away}; {POD_LOGS}: {error.strerror}")
    return _by_logs(files, logged, away)


def _by_runtime(files: HostFiles, crictl: str) -> tuple[str, ...]:
    program = shutil.which(crictl)
    if program is None:
        raise _RuntimeAwayError(f"the container runtime was not asked: {crictl} is not here")
    socket = files.place(_SOCKET)
    words = [program, f"--runtime-endpoint=unix://{socket}"] if socket.exists() else [program]
    sandboxes = _items(words, "items", "pods")
    containers = _items(words, "containers", "ps", "--all")
    found = [
        _part("sandbox", one)
        for one in sandboxes
        if _is_legacy(_child(one, "metadata"), "namespace", "name")
    ]
    prefix = "io.kubernetes.pod."
    found += [
        _part(f"container {_child(one, 'metadata').get('name')}", one)
        for one in containers
        if _is_legacy(_child(one, "labels"), f"{prefix}namespace", f"{prefix}name")
    ]
    return tuple(found)


def _items(words: list[str], key: str, *command: str) -> list[Document]:
    shown = f"crictl {command[0]}"
    try:
        done = subprocess.run(  # noqa: S603 - the program is root's choice, the words are ours
            [*words, *command, "--output=json"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=True,
        )
        items = read_one(done.stdout, shown).get(key)
    except subprocess.TimeoutExpired:
        raise _RuntimeAwayError(f"{shown} did not answer in {_SECONDS:.0f} s") from None
    except subprocess.CalledProcessError as error:
        last = (error.stderr.decode(errors="replace").strip().splitlines() or [""])[-1]
        raise _RuntimeAwayError(f"{shown} ended with {error.returncode}: {last}") from error
    except OSError as error:
        raise _RuntimeAwayError(f"{shown}: {error.strerror}") from error
    except DocumentError as error:
        raise _RuntimeAwayError(str(error)) from error
    if items is None:
        return []
    if not isinstance(items, list):
        raise _RuntimeAwayError(f"{shown}: its {key} are no list")
    return [item for item in items if isinstance(item, dict)]


def _is_legacy(names: Document, namespace: str, name: str) -> bool:
    return is_legacy_pod(f"{names.get(namespace)}/{names.get(name)}")


def _part(what: str, item: Document) -> str:
    state = str(item.get("state")).rpartition("_")[2].lower()
    return f"{what} {str(item.get('id'))[:_ID_LENGTH]} ({state})"


def _child(parent: Document, key: str) -> Document:
    value: Json = parent.get(key)
    return value if isinstance(value, dict) else {}


def _by_logs(files: HostFiles, logged: list[LoggedPod], away: str) -> LegacyPod:
    unseen = [away]
    sources = [POD_LOGS]
    running: set[str] = set()
    try:
        running = running_pods(files.place(_CGROUPS))
        sources.append("cgroups")
    except FileNotFoundError:
        unseen.append(f"{_CGROUPS} shows no pods: whether its cgroup is left does not show")
    except OSError as error:
        unseen.append(f"{_CGROUPS}: {error.strerror}")
    nameless = {uid for uid in running if is_static(uid)} - {pod.uid for pod in logged}
    unseen += [f"static pod {uid} runs, but has no logs that tell its name" for uid in nameless]
    parts = tuple(
        f"pod {pod.name} ({'running' if pod.uid in running else 'its logs are left'})"
        for pod in logged
        if is_legacy_pod(pod.name)
    )
    return LegacyPod(parts, " and ".join(sources), tuple(unseen))


# --- survey ---------------------------------------------------------------------------
#
# Looks at a node for its audit: everything that `NodeFacts` holds, each thing or why not.
#
# Only files, /proc, loopback and the container runtime's own socket are asked, never the API
# server.

_PKI = "/var/lib/kubelet/pki"
_SERVING = f"{_PKI}/kubelet-server-current.pem"
_CLIENT_CA = "/etc/kubernetes/kubelet-ca.crt"
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - what is shown, not bound


class Scope(Frozen):
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

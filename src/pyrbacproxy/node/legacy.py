"""What is left of the legacy static pod: by the container runtime, else by logs and cgroups."""

import shutil
import subprocess

from pyrbacproxy.node.documents import Document, DocumentError, Json, read_one
from pyrbacproxy.node.facts import LegacyPod, NotSeen
from pyrbacproxy.node.host_files import HostFiles
from pyrbacproxy.node.pods import LoggedPod, is_static, logged_pods, running_pods
from pyrbacproxy.node.static_pods import is_legacy_pod

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

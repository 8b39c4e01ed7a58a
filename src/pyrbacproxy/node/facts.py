"""Facts about a node and findings about them; what could not be read is `NotSeen`."""

from enum import Enum
from typing import TypeAlias

from pyrbacproxy.node.documents import Document, DocumentError, shown
from pyrbacproxy.values import Frozen

# --- kubelet settings -----------------------------------------------------------------
# What the kubelet's configuration file says about the folder of static pods.

STATIC_POD_PATH = "staticPodPath"


class StaticPodPath(Frozen):
    """`staticPodPath` as it is written: None when unset, "" when explicitly empty.

    The kubelet has no default for it: unset or empty, it watches no folder.
    """

    written: str | None

    @property
    def is_watched(self) -> bool:
        """Whether the kubelet runs the manifests of a folder."""
        return bool(self.written)

    def __str__(self) -> str:
        if self.written is None:
            return "unset"
        return self.written or "explicitly empty"


def static_pod_path(document: Document, file: str) -> StaticPodPath:
    """What a KubeletConfiguration says; null is unset. Raises DocumentError when it is no text."""
    written = document.get(STATIC_POD_PATH)
    if written is None or isinstance(written, str):
        return StaticPodPath(written)
    raise DocumentError(f"{file}: {STATIC_POD_PATH}: must be text, not {shown(written)}")


# --- facts ----------------------------------------------------------------------------
#
# What there is to know of a node for its audit; what could not be looked at is `NotSeen`.
#
# Paths are the node's own, wherever its file system is mounted. Times are seconds since the epoch.

METRICS_PATH = "/metrics"
SERIES_PREFIX = "container_runtime_crio_"


class Role(Enum):
    """Which machine-config pool's templates the node gets."""

    WORKER = "worker"
    MASTER = "master"
    ARBITER = "arbiter"


class NotSeen(Frozen):
    """Something could not be looked at, and why: it is neither well nor ill."""

    why: str


class Process(Frozen):
    """One process, and the container and pod that its cgroup leads to.

    `container` is an ID. `container_name` is "" where the kubelet's names are in sight and none is
    this container's. `pod` is NAMESPACE/NAME or, where that does not show, the pod's UID, or "".
    `cgroup` is the path in the kernel's tree when it is of no pod: a systemd unit's, for example.
    """

    pid: int
    command: str
    container: str = ""
    pod: str = ""
    container_name: str | NotSeen = NotSeen("the process is in no container")
    is_static: bool = False
    cgroup: str = ""

    def __str__(self) -> str:
        pod = f" of pod {self.pod}" if self.pod else ""
        return f"{self.command} (pid {self.pid}){pod}"


class ListeningSocket(Frozen):
    """A listening TCP socket, and whose it is.

    Without processes: they do not show, unless `is_all_in_sight`, which means that every process of
    the node was looked at and none of them has the socket.
    """

    address: str
    port: int
    processes: tuple[Process, ...] = ()
    is_all_in_sight: bool = False


class Manifest(Frozen):
    """A file that the kubelet would run; `pod` is NAMESPACE/NAME, "" when it holds no pod."""

    path: str
    pod: str | NotSeen


class LegacyPod(Frozen):
    """What is left of the legacy static pod, by which source, and what that source leaves open."""

    parts: tuple[str, ...]
    source: str
    unseen: tuple[str, ...] = ()


class Leftovers(Frozen):
    """The legacy pod's files that are left, and why others can't be told to be absent."""

    paths: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()


class Certificate(Frozen):
    """One certificate; the fingerprint is the SHA-256 of its DER, in hex."""

    subject: str
    not_before: float
    not_after: float
    fingerprint: str


class CertificateFile(Frozen):
    """A PEM file, leaf first if it is a pair; `problem` says why it holds nothing usable."""

    path: str
    certificates: tuple[Certificate, ...] = ()
    has_key: bool = False
    problem: str = ""


class Answer(Frozen):
    """What a request came to: status, fingerprint of the server's leaf, CRI-O series counted."""

    status: int
    fingerprint: str
    series: int = 0


class NoAnswer(Frozen):
    """A request that was sent and not answered, and why."""

    why: str


Asked: TypeAlias = Answer | NoAnswer | NotSeen


class NodeFacts(Frozen):
    """All of it, as it was at `now`. `role` is None when it was not named.

    `expects_no_static_pods`, which is asked for and not seen: workers shall have no static pods.
    """

    now: float
    role: Role | None
    expects_no_static_pods: bool
    port: int
    upstream_port: int
    static_pod_path: StaticPodPath | NotSeen
    manifests: tuple[Manifest, ...] | NotSeen
    legacy_pod: LegacyPod | NotSeen
    leftovers: Leftovers
    listeners: tuple[ListeningSocket, ...] | NotSeen
    upstream: tuple[ListeningSocket, ...] | NotSeen
    serving: CertificateFile | NotSeen
    client_ca: CertificateFile | NotSeen
    anonymous: Asked
    scrape: Asked


# --- findings -------------------------------------------------------------------------
# What a check comes to: it passed, it found something, or it could not be made.


class Severity(Enum):
    """An error breaks the scrape, the hand-over or the guard; a warning will, or hides one."""

    ERROR = "error"
    WARNING = "warning"


class Passed(Frozen):
    """A check that is well, and what was seen."""

    check: str
    what: str


class Unseen(Frozen):
    """A check that could not be made, and why; `is_needed` if no audit is clean without it."""

    check: str
    why: str
    is_needed: bool = False


class Finding(Frozen):
    """What is wrong, why that matters, and what to do about it."""

    check: str
    severity: Severity
    what: str
    why: str
    to_do: str


Outcome: TypeAlias = Passed | Unseen | Finding

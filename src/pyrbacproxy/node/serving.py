"""Facts about the port → outcomes: who listens, who is let in, what lies behind."""

import ipaddress
import re
from collections.abc import Iterator

from pyrbacproxy.node.facts import (
    SERIES_PREFIX,
    ListeningSocket,
    NoAnswer,
    NodeFacts,
    NotSeen,
    Process,
)
from pyrbacproxy.node.findings import Finding, Outcome, Passed, Severity, Unseen
from pyrbacproxy.node.sidecar import CONTAINER, DAEMONSET, NAMESPACE
from pyrbacproxy.node.static_pods import is_legacy_pod

_ID_LENGTH = 13  # as crictl shows it
# A DaemonSet's pod has five letters or digits behind its name. `oc debug daemonset/NAME` makes one
# named NAME-debug-..., with a copy of the container.
_DAEMON_POD = re.compile(rf"{NAMESPACE}/{DAEMONSET}-[a-z0-9]{{5}}")
_OWNER = f"DaemonSet {DAEMONSET}"
_NO_POD = "which pod it is: its cgroup names none, or does not show"
_LOGS = f"the log of the container {CONTAINER} on this node says why"
_REFUSED = {
    401: "the client CA lacks the credential's authority, or the token is bad or its review failed",
    403: "no static rule names the credential's user, and the API server does not allow it",
    502: "CRI-O's metrics port does not answer",
    504: "CRI-O's metrics port does not answer in time",
}


def listener(facts: NodeFacts) -> Iterator[Outcome]:
    """Exactly one holder of the port, the sidecar's container, and not on loopback alone."""
    check, sockets, port = "listener", facts.listeners, facts.port
    if isinstance(sockets, NotSeen):
        yield _unseen(check, sockets.why)
        return
    if not sockets:
        yield Finding(
            check,
            Severity.ERROR,
            f"nobody listens on port {port}",
            "Prometheus cannot scrape this node's CRI-O: TargetDown fires",
            f"is the container {CONTAINER} there and past its start-up gate? {_LOGS}; run this "
            "with the node's network (hostNetwork)",
        )
        return
    if all(_is_loopback(one.address) for one in sockets):
        yield Finding(
            check,
            Severity.ERROR,
            f"only {_addresses(sockets)} is listened on",
            "Prometheus comes over the network",
            f"give the proxy --secure-listen-address=:{port}",
        )
    yield from _number(sockets, port)
    yield from _owners(sockets)


def anonymous(facts: NodeFacts) -> Iterator[Outcome]:
    """A request without a credential gets 401."""
    check, answer = "anonymous", facts.anonymous
    if isinstance(answer, NotSeen):
        yield Unseen(check, answer.why)
    elif isinstance(answer, NoAnswer):
        yield _unanswered(check, facts.port, answer)
    elif answer.status == 401:  # noqa: PLR2004 - the status is its own name
        yield Passed(check, "401 without a credential")
    else:
        is_let_in = answer.status < 400  # noqa: PLR2004 - refusals begin there
        yield Finding(
            check,
            Severity.ERROR if is_let_in else Severity.WARNING,
            f"{answer.status} without a credential, instead of 401",
            "anybody on the network may read" if is_let_in else "this is not how the proxy answers",
            "see who listens; if it is the proxy: look for --ignore-paths in its arguments",
        )


def scrape(facts: NodeFacts) -> Iterator[Outcome]:
    """A scrape with the given credential brings CRI-O's series."""
    check, answer = "scrape", facts.scrape
    if isinstance(answer, NotSeen):
        yield Unseen(check, answer.why)
    elif isinstance(answer, NoAnswer):
        yield _unanswered(check, facts.port, answer)
    elif answer.status != 200:  # noqa: PLR2004 - the status is its own name
        why = _REFUSED.get(answer.status, "this is not how the proxy answers an allowed scrape")
        yield Finding(
            check,
            Severity.ERROR,
            f"the scrape was answered {answer.status}",
            why,
            f"{_LOGS}; compare the credential's user with the rules of the ConfigMap {CONTAINER}",
        )
    elif not answer.series:
        yield Finding(
            check,
            Severity.ERROR,
            f"the scrape brought no {SERIES_PREFIX}* series",
            "what is served is not CRI-O's metrics, or CRI-O collects none",
            f"see who listens on port {facts.upstream_port}, and enable_metrics and "
            "metrics_collectors in the configuration of CRI-O",
        )
    else:
        yield Passed(check, f"{answer.series} {SERIES_PREFIX}* series")


def upstream(facts: NodeFacts) -> Iterator[Outcome]:
    """What the proxy guards can't be reached past it."""
    check, sockets, port = "upstream", facts.upstream, facts.upstream_port
    if isinstance(sockets, NotSeen):
        yield Unseen(check, sockets.why)
    elif not sockets:
        yield Finding(
            check,
            Severity.ERROR,
            f"nobody listens on the upstream's port {port}",
            "the proxy answers allowed scrapes with 502",
            "is CRI-O running, with enable_metrics and metrics_port as the proxy's --upstream?",
        )
    elif not all(_is_loopback(one.address) for one in sockets):
        yield Finding(
            check,
            Severity.ERROR,
            f"the upstream listens on {_addresses(sockets)}, port {port}",
            "anybody on the network reads the metrics past the proxy",
            'set metrics_host = "127.0.0.1" in the configuration of CRI-O, and restart it',
        )
    else:
        holder = _holders(sockets) or "a process that does not show"
        yield Passed(check, f"{holder} on {_addresses(sockets)} only")


def _number(sockets: tuple[ListeningSocket, ...], port: int) -> Iterator[Outcome]:
    addresses = {one.address for one in sockets}
    holders = {key for one in sockets for key in _keys(one)}
    if len(addresses) < len(sockets) or len(holders) > 1:
        who = _holders(sockets) or "processes that do not show"
        yield Finding(
            "listener",
            Severity.ERROR,
            f"port {port} has several listeners: {who} on {_addresses(sockets)}",
            "the kernel deals scrapes out among them, so an old one may answer with old rules",
            "end the one that is not the sidecar's",
        )
    elif all(one.processes for one in sockets):
        yield Passed("listener", f"{_holders(sockets)} on {_addresses(sockets)}")
    elif any(one.is_all_in_sight for one in sockets):
        yield Finding(
            "listener",
            Severity.ERROR,
            f"no process of the node holds the socket on {_addresses(sockets)}, port {port}",
            f"only the container {CONTAINER} may, and it can be seen",
            "run this again; if it stays so, the kernel has it, or one process is handing it to "
            "another",
        )
    else:
        yield _unseen("listener", "who listens: run this as root with hostPID, or on the node")


def _owners(sockets: tuple[ListeningSocket, ...]) -> Iterator[Outcome]:
    """Whether each holder is the sidecar's container; what is said of several is said once."""
    processes = [process for one in sockets for process in one.processes]
    owners: dict[tuple[str, str], Process] = {}
    for one in processes:
        owners.setdefault((one.pod, one.container or one.cgroup), one)
    yield from (_owner(process) for _, process in sorted(owners.items()))
    if not processes and not any(one.is_all_in_sight for one in sockets):
        yield _unseen("listener-pod", _NO_POD)


def _owner(process: Process) -> Outcome:
    pod, name, check = process.pod, process.container_name, "listener-pod"
    shown_id = process.container[:_ID_LENGTH]
    if process.is_static or is_legacy_pod(pod):
        return _static(pod)
    if process.cgroup:
        return _stranger(
            f"{process} of {process.cgroup} holds the port", "the process is of no pod"
        )
    if not pod and not process.container:
        return _unseen(check, _NO_POD)
    if "/" in pod and not _DAEMON_POD.fullmatch(pod):
        return _stranger(f"the pod {pod} holds the port", f"it is no pod of the {_OWNER}")
    if isinstance(name, NotSeen):
        return _unseen(check, f"the name of container {shown_id}{_of(pod)}: {name.why}")
    if not name:
        which = f"container {shown_id}" if shown_id else "a process outside the containers"
        return _stranger(
            f"{which}{_of(pod)} holds the port", "the kubelet's logs name no such container"
        )
    if name != CONTAINER:
        return _stranger(
            f"the container {name} of pod {pod} holds the port",
            f"only the container {CONTAINER} of that pod may",
        )
    if "/" not in pod:
        return _unseen(check, f"the name of pod {pod}: its logs do not show")
    return Passed(check, f"{pod}, container {name} {shown_id}")


def _unseen(check: str, why: str) -> Unseen:
    """Who holds the port is what the audit is for."""
    return Unseen(check, why, is_needed=True)


def _of(pod: str) -> str:
    return f" of pod {pod}" if pod else ""


def _static(pod: str) -> Finding:
    is_legacy = is_legacy_pod(pod)
    return Finding(
        "listener-pod",
        Severity.ERROR,
        f"the {'legacy' if is_legacy else 'static'} pod {pod} holds the port",
        "the sidecar waits for it",
        "is its manifest gone? Then `crictl rmp --force` its sandbox"
        if is_legacy
        else "find its manifest in the kubelet's staticPodPath and move it out of the folder",
    )


def _stranger(what: str, why: str) -> Finding:
    return Finding(
        "listener-pod",
        Severity.ERROR,
        what,
        f"{why}; exactly one may hold it, {CONTAINER} of the {_OWNER}",
        "find out what it is; two owners of one port end in a node without metrics",
    )


def _unanswered(check: str, port: int, answer: NoAnswer) -> Finding:
    return Finding(
        check,
        Severity.ERROR,
        f"port {port} does not answer an HTTPS request: {answer.why}",
        "it is held, but not served as the proxy serves it",
        f"see who listens; {_LOGS}",
    )


def _keys(socket: ListeningSocket) -> set[str]:
    """Whose a socket is: the processes of one container are one, and those outside of any."""
    containers = {one.container for one in socket.processes if one.container}
    return containers or {f"pid {one.pid}" for one in socket.processes[:1]}


def _holders(sockets: tuple[ListeningSocket, ...]) -> str:
    return ", ".join(dict.fromkeys(str(one) for socket in sockets for one in socket.processes))


def _addresses(sockets: tuple[ListeningSocket, ...]) -> str:
    return ", ".join(sorted({one.address for one in sockets}))


def _is_loopback(address: str) -> bool:
    found = ipaddress.ip_address(address)
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return (mapped or found).is_loopback

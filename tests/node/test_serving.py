"""The port: who listens, what it answers, what lies behind it."""

import pytest

from pyrbacproxy.node.audit import (
    anonymous_finding,
    listener_finding,
    scrape_finding,
    upstream_finding,
)
from pyrbacproxy.node.facts import (
    Answer,
    Asked,
    Finding,
    ListeningSocket,
    NoAnswer,
    NotSeen,
    Process,
    Unseen,
)
from pyrbacproxy.values import replace
from tests.node.well import BLIND, CRIO, LEGACY, NAMESPACE, SIDECAR, SOCKET, WELL, told

Sockets = tuple[ListeningSocket, ...]
ME = f"pyrbacproxy (pid 42) of pod {SIDECAR.pod}"
ONE = ("listener", "ok", f"{ME} on ::")
POD = ("listener-pod", "ok", f"{SIDECAR.pod}, container kube-rbac-proxy-crio {'ab' * 6}a")
NO_POD = ("listener-pod", "not seen", "which pod it is: its cgroup names none, or does not show")
OLD = Process(9, "kube-rbac-proxy", "cd" * 32, LEGACY, "setup", is_static=True)
THEM = f"kube-rbac-proxy (pid 9) of pod {LEGACY}, {ME}"


def listening(*processes: Process, address: str = "0.0.0.0") -> ListeningSocket:
    return ListeningSocket(address, 9637, processes)


@pytest.mark.parametrize(
    ("sockets", "expected"),
    [
        pytest.param((SOCKET,), [ONE, POD], id="the sidecar"),
        pytest.param(
            (listening(SIDECAR), SOCKET),
            [("listener", "ok", f"{ME} on 0.0.0.0, ::"), POD],
            id="one socket for each family",
        ),
        pytest.param(
            (listening(SIDECAR, replace(SIDECAR, pid=43)),),
            [
                (
                    "listener",
                    "ok",
                    f"{ME}, pyrbacproxy (pid 43) of pod {SIDECAR.pod} on 0.0.0.0",
                ),
                POD,
            ],
            id="processes of one container",
        ),
        pytest.param(BLIND, [("listener", "not seen", "too dark")], id="out of sight"),
        pytest.param((), [("listener", "error", "nobody listens on port 9637")], id="nobody"),
        pytest.param(
            (listening(SIDECAR, address="::ffff:127.0.0.1"),),
            [
                ("listener", "error", "only ::ffff:127.0.0.1 is listened on"),
                ("listener", "ok", f"{ME} on ::ffff:127.0.0.1"),
                POD,
            ],
            id="on loopback alone",
        ),
        pytest.param(
            (listening(), SOCKET),
            [
                (
                    "listener",
                    "not seen",
                    "who listens: run this as root with hostPID, or on the node",
                ),
                POD,
            ],
            id="one of unknown owner",
        ),
        pytest.param(
            (listening(),),
            [
                (
                    "listener",
                    "not seen",
                    "who listens: run this as root with hostPID, or on the node",
                ),
                NO_POD,
            ],
            id="of unknown owner",
        ),
        pytest.param(
            (listening(Process(8, "python")),),
            [("listener", "ok", "python (pid 8) on 0.0.0.0"), NO_POD],
            id="a process of no pod",
        ),
        pytest.param(
            (listening(), listening()),
            [
                (
                    "listener",
                    "error",
                    "port 9637 has several listeners: processes that do not show on 0.0.0.0",
                ),
                NO_POD,
            ],
            id="two on one address",
        ),
        pytest.param(
            (listening(OLD), SOCKET),
            [
                (
                    "listener",
                    "error",
                    f"port 9637 has several listeners: {THEM} on 0.0.0.0, ::",
                ),
                ("listener-pod", "error", f"the legacy pod {LEGACY} holds the port"),
                POD,
            ],
            id="the legacy pod beside the sidecar",
        ),
        pytest.param(
            (listening(Process(8, "x", "ef" * 32, "ns/x")),),
            [
                ("listener", "ok", "x (pid 8) of pod ns/x on 0.0.0.0"),
                ("listener-pod", "error", "the pod ns/x holds the port"),
            ],
            id="another pod",
        ),
        pytest.param(
            (listening(replace(SIDECAR, pod="0123")),),
            [
                ("listener", "ok", "pyrbacproxy (pid 42) of pod 0123 on 0.0.0.0"),
                ("listener-pod", "not seen", "the name of pod 0123: its logs do not show"),
            ],
            id="a pod without a name",
        ),
    ],
)
def test_the_listener(sockets: Sockets | NotSeen, expected: list[tuple[str, str, str]]) -> None:
    assert told(list(listener_finding(replace(WELL, listeners=sockets)))) == expected


# FR84: exactly one holder, the sidecar's container.

DAEMON = SIDECAR.pod
UNIT = Process(8, "socat", cgroup="/system.slice/metrics.service")
HOLDERS = {
    "a systemd unit": (UNIT, "error", "socat (pid 8) of /system.slice/metrics.service holds"),
    "a process in the root cgroup": (Process(8, "x", cgroup="/"), "error", "x (pid 8) of / holds"),
    "a podman container": (
        Process(8, "x", cgroup=f"/machine.slice/libpod-{'ab' * 32}.scope"),
        *("error", "x (pid 8) of /machine.slice/libpod-"),
    ),
    "a static pod": (
        replace(SIDECAR, pod="ns/other-worker-0", is_static=True),
        *("error", "the static pod ns/other-worker-0 holds the port"),
    ),
    "a static pod of the daemon's name": (
        replace(SIDECAR, is_static=True),
        *("error", f"the static pod {DAEMON} holds the port"),
    ),
    "a static pod without a name": (
        replace(SIDECAR, pod="01" * 16, is_static=True, container_name=BLIND),
        *("error", f"the static pod {'01' * 16} holds the port"),
    ),
    "another container of the pod": (
        replace(SIDECAR, container_name="machine-config-daemon"),
        *("error", f"the container machine-config-daemon of pod {DAEMON} holds the port"),
    ),
    "a container whose name only begins so": (
        replace(SIDECAR, container_name="kube-rbac-proxy-crio-2"),
        *("error", f"the container kube-rbac-proxy-crio-2 of pod {DAEMON} holds the port"),
    ),
    "a copy for debugging": (
        replace(SIDECAR, pod=f"{NAMESPACE}/machine-config-daemon-debug-x2x4x"),
        *("error", f"the pod {NAMESPACE}/machine-config-daemon-debug-x2x4x holds the port"),
    ),
    "a pod of the daemon's name elsewhere": (
        replace(SIDECAR, pod="ns/machine-config-daemon-x2x4x"),
        *("error", "the pod ns/machine-config-daemon-x2x4x holds the port"),
    ),
    "a container without a name": (
        replace(SIDECAR, container_name=""),
        *("error", f"container {'ab' * 6}a of pod {DAEMON} holds the port"),
    ),
    "a container of a pod that does not show": (
        replace(SIDECAR, pod="", container_name=""),
        *("error", f"container {'ab' * 6}a holds the port"),
    ),
    "outside the pod's containers": (
        replace(SIDECAR, container="", container_name=""),
        *("error", f"a process outside the containers of pod {DAEMON} holds the port"),
    ),
    "names out of sight": (
        replace(SIDECAR, container_name=BLIND),
        *("not seen", f"the name of container {'ab' * 6}a of pod {DAEMON}: too dark"),
    ),
    "another pod, names out of sight": (
        replace(SIDECAR, pod="ns/x", container_name=BLIND),
        *("error", "the pod ns/x holds the port"),
    ),
    "a neighbour, names out of sight": (
        replace(SIDECAR, pod="", container_name=BLIND),
        *("not seen", f"the name of container {'ab' * 6}a: too dark"),
    ),
}


@pytest.mark.parametrize("name", HOLDERS)
def test_fr84_only_the_sidecars_container_may_hold_the_port(name: str) -> None:
    holder, status, text = HOLDERS[name]
    found = list(listener_finding(replace(WELL, listeners=(listening(holder),))))
    (about,) = [one for one in told(found) if one[0] == "listener-pod"]
    assert (about[1], about[2][: len(text)]) == (status, text)
    needed = [one.check for one in found if isinstance(one, Unseen) and one.is_needed]
    assert needed == (["listener-pod"] if status == "not seen" else [])


def test_fr84_every_holder_of_one_socket_is_told_once() -> None:
    both = listening(UNIT, replace(UNIT, pid=9), SIDECAR, address="::")
    found = told(list(listener_finding(replace(WELL, listeners=(both, listening(UNIT, SIDECAR))))))
    assert [status for check, status, _ in found if check == "listener-pod"] == ["error", "ok"]


def test_fr84_two_containers_with_one_socket_are_two_holders() -> None:
    other = replace(SIDECAR, container="cd" * 32, container_name="machine-config-daemon")
    found = told(list(listener_finding(replace(WELL, listeners=(listening(SIDECAR, other),)))))
    assert [status for _, status, _ in found] == ["error", "ok", "error"]


def test_fr84_a_socket_of_no_process_is_a_finding_where_all_are_in_sight() -> None:
    socket = ListeningSocket("0.0.0.0", 9637, (), is_all_in_sight=True)
    found = told(list(listener_finding(replace(WELL, listeners=(socket,)))))
    text = "no process of the node holds the socket on 0.0.0.0, port 9637"
    assert found == [("listener", "error", text)]


@pytest.mark.parametrize(
    ("answer", "status", "text"),
    [
        (BLIND, "not seen", "too dark"),
        (Answer(401, ""), "ok", "401 without a credential"),
        (Answer(200, ""), "error", "200 without a credential, instead of 401"),
        (Answer(404, ""), "warning", "404 without a credential, instead of 401"),
        (NoAnswer("gone"), "error", "port 9637 does not answer an HTTPS request: gone"),
    ],
)
def test_without_a_credential(answer: Asked, status: str, text: str) -> None:
    found = told(list(anonymous_finding(replace(WELL, anonymous=answer))))
    assert found == [("anonymous", status, text)]


@pytest.mark.parametrize(
    ("answer", "status", "text"),
    [
        (BLIND, "not seen", "too dark"),
        (Answer(200, "", 7), "ok", "7 container_runtime_crio_* series"),
        (Answer(200, ""), "error", "the scrape brought no container_runtime_crio_* series"),
        (Answer(403, "", 7), "error", "the scrape was answered 403"),
        (NoAnswer("gone"), "error", "port 9637 does not answer an HTTPS request: gone"),
    ],
)
def test_a_scrape(answer: Asked, status: str, text: str) -> None:
    assert told(list(scrape_finding(replace(WELL, scrape=answer)))) == [("scrape", status, text)]


@pytest.mark.parametrize("status", [401, 403, 418, 502, 504])
def test_each_refused_scrape_has_its_reason(status: int) -> None:
    (found,) = scrape_finding(replace(WELL, scrape=Answer(status, "")))
    assert isinstance(found, Finding)
    known = {401: "authority", 403: "no static rule", 418: "not how", 502: "not answer"}
    assert known.get(status, "in time") in found.why


@pytest.mark.parametrize(
    ("sockets", "status", "text"),
    [
        (BLIND, "not seen", "too dark"),
        ((), "error", "nobody listens on the upstream's port 9537"),
        ((listening(CRIO, address="127.0.0.1"),), "ok", "crio (pid 7) on 127.0.0.1 only"),
        ((listening(address="::1"),), "ok", "a process that does not show on ::1 only"),
        (
            (listening(CRIO, address="127.0.0.1"), listening(CRIO, address="10.0.0.4")),
            "error",
            "the upstream listens on 10.0.0.4, 127.0.0.1, port 9537",
        ),
    ],
)
def test_the_upstream(sockets: Sockets | NotSeen, status: str, text: str) -> None:
    found = told(list(upstream_finding(replace(WELL, upstream=sockets))))
    assert found == [("upstream", status, text)]

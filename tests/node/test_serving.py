"""The port: who listens, what it answers, what lies behind it."""

from dataclasses import replace

import pytest

from pyrbacproxy.node.facts import Answer, Asked, ListeningSocket, NoAnswer, NotSeen, Process
from pyrbacproxy.node.findings import Finding
from pyrbacproxy.node.serving import anonymous, listener, scrape, upstream
from tests.node.well import BLIND, CRIO, LEGACY, SIDECAR, SOCKET, WELL, told

Sockets = tuple[ListeningSocket, ...]
ME = f"pyrbacproxy (pid 42) of pod {SIDECAR.pod}"
ONE = ("listener", "ok", f"{ME} on ::")
POD = ("listener-pod", "ok", f"{SIDECAR.pod}, container {'ab' * 6}a")
NO_POD = ("listener-pod", "not seen", "which pod it is: its cgroup names none, or does not show")
OLD = Process(9, "kube-rbac-proxy", "cd" * 32, LEGACY)
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
                ("listener-pod", "warning", "the pod ns/x holds the port"),
            ],
            id="another pod",
        ),
        pytest.param(
            (listening(Process(8, "x", "", "0123")),),
            [
                ("listener", "ok", "x (pid 8) of pod 0123 on 0.0.0.0"),
                ("listener-pod", "not seen", "the name of pod 0123: its logs do not show"),
            ],
            id="a pod without a name",
        ),
    ],
)
def test_the_listener(sockets: Sockets | NotSeen, expected: list[tuple[str, str, str]]) -> None:
    assert told(list(listener(replace(WELL, listeners=sockets)))) == expected


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
    found = told(list(anonymous(replace(WELL, anonymous=answer))))
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
    assert told(list(scrape(replace(WELL, scrape=answer)))) == [("scrape", status, text)]


@pytest.mark.parametrize("status", [401, 403, 418, 502, 504])
def test_each_refused_scrape_has_its_reason(status: int) -> None:
    (found,) = scrape(replace(WELL, scrape=Answer(status, "")))
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
    found = told(list(upstream(replace(WELL, upstream=sockets))))
    assert found == [("upstream", status, text)]

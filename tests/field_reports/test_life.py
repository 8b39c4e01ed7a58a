"""Field reports of kind LIFE: stopping, taken ports, both address families."""

import contextlib
import signal
import socket
import threading
from pathlib import Path

import pytest

from tests.conformance.wire import free_port
from tests.field_reports.harness import Lab, Proxy, bearer, get
from tests.field_reports.http2 import http2, request
from tests.field_reports.servers import OK, Arrived, Upstream, user
from tests.field_reports.watching import catches, until

OPEN = "--ignore-paths=/*"
BIG = 64 << 20


# --- FR63: shutdown (D12) -------------------------------------------------------------


class Scene:
    """A proxy with five idle connections, one exchange under way, one client that reads nothing."""

    def __init__(self, lab: Lab, *flags: str) -> None:
        self.may_answer = threading.Event()
        self.upstream = lab.upstream
        lab.upstream.script = self._script
        self.proxy = lab.start(OPEN, *flags, is_own=True)
        self.idle = [self.proxy.connect() for _ in range(5)]
        for client in self.idle:
            client.send(get("/idle"))
            assert client.answer().status == 200
        self.busy, self.stalled = self.proxy.connect(), self.proxy.connect()
        self.busy.send(get("/busy"))
        self.stalled.send(get("/big"))
        self.stalled.read_until(b"\r\n\r\n")
        until(lambda: "/busy" in lab.upstream.targets, "request upstream")

    def close(self) -> None:
        self.may_answer.set()
        for client in (*self.idle, self.busy, self.stalled):
            client.connection.close()

    def signal(self, number: int) -> None:
        self.proxy.process.send_signal(number)

    def _script(self, request: Arrived) -> None:
        if request.target == "/big":
            request.send(f"HTTP/1.1 200 OK\r\nContent-Length: {BIG}\r\n\r\n".encode())
            for _ in range(BIG >> 18):
                request.send(bytes(1 << 18))
            return
        if request.target == "/busy":
            self.may_answer.wait(30)
        request.send(OK)


def is_refused(proxy: Proxy) -> bool:
    try:
        socket.create_connection(("127.0.0.1", proxy.port), 5).close()
    except OSError:
        return True
    return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_fr63_a_signal_drains_and_ends_within_the_grace(lab: Lab, number: signal.Signals) -> None:
    with contextlib.closing(Scene(lab, "--shutdown-grace-period=3s")) as scene:
        scene.signal(number)
        until(lambda: is_refused(scene.proxy), "end of accepting")
        for client in scene.idle:
            assert client.end() == b""
        assert scene.proxy.process.poll() is None, "the running exchange was not waited for"
        scene.may_answer.set()
        answer = scene.busy.answer()
        assert (answer.status, answer.body) == (200, b"upstream")
        assert answer.value("connection").lower() == "close"
        assert scene.busy.end() == b""
        assert scene.proxy.process.wait(30) == 0  # the stalled client is cut off


def test_fr63_an_exchange_beyond_the_grace_is_cut(lab: Lab) -> None:
    with contextlib.closing(Scene(lab, "--shutdown-grace-period=300ms")) as scene:
        scene.signal(signal.SIGTERM)
        assert scene.proxy.process.wait(30) == 0
        assert not scene.busy.end().startswith(b"HTTP/1.1 200")


def test_fr63_nothing_under_way_ends_at_once(lab: Lab) -> None:
    proxy = lab.start(OPEN, "--shutdown-grace-period=10m", is_own=True)
    with proxy.connect() as silent, proxy.connect(is_plain=True) as unshaken:
        proxy.process.send_signal(signal.SIGTERM)
        assert proxy.process.wait(30) == 0
        assert silent.end() == unshaken.end() == b""


def test_fr63_a_second_signal_ends_at_once(lab: Lab) -> None:
    with contextlib.closing(Scene(lab, "--shutdown-grace-period=10m")) as scene:
        scene.signal(signal.SIGTERM)
        until(lambda: is_refused(scene.proxy), "end of accepting")
        assert scene.proxy.process.poll() is None
        scene.signal(signal.SIGTERM)
        scene.proxy.process.wait(30)


def test_fr63_signals_are_caught_so_that_they_reach_pid_1(lab: Lab) -> None:
    """The kernel drops a signal to PID 1 that has no handler, so default actions won't do."""
    proxy = lab.start()
    assert catches(proxy.process.pid, signal.SIGTERM)
    assert catches(proxy.process.pid, signal.SIGINT)


# --- FR64: ports that cannot be had ---------------------------------------------------


@pytest.mark.parametrize(
    ("flag", "may_share"),
    [
        pytest.param("--secure-listen-address=127.0.0.1:{}", False, id="secure"),
        pytest.param("--secure-listen-address=127.0.0.1:{}", True, id="willing-to-share"),
        pytest.param("--insecure-listen-address=127.0.0.1:{}", False, id="insecure"),
        pytest.param("--proxy-endpoints-port={}", False, id="endpoints"),
    ],
)
def test_fr64_a_taken_port_ends_the_start(
    lab: Lab,
    flag: str,
    may_share: bool,  # noqa: FBT001
) -> None:
    """Not even with somebody who set SO_REUSEPORT is a port shared."""
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, may_share)
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ended = lab.run(flag.format(port))
    assert ended.code == 1
    assert f"127.0.0.1:{port}" in ended.err
    assert "in use" in ended.err


def test_fr64_an_address_that_the_host_lacks_ends_the_start(lab: Lab) -> None:
    port = free_port()
    ended = lab.run(f"--secure-listen-address=192.0.2.1:{port}")  # RFC 5737: nobody's
    assert ended.code == 1
    assert f"192.0.2.1:{port}" in ended.err


def test_fr64_a_second_copy_ends_and_the_first_goes_on(lab: Lab) -> None:
    first = lab.start(OPEN)
    ended = lab.run(OPEN, f"--secure-listen-address=127.0.0.1:{first.port}")
    assert ended.code == 1
    assert f"127.0.0.1:{first.port}" in ended.err
    for _ in range(10):
        assert first.ask(get()).status == 200


def test_fr64_both_problems_are_told_at_once(lab: Lab) -> None:
    with socket.create_server(("127.0.0.1", 0)) as one, contextlib.closing(Upstream()) as two:
        ports = [one.getsockname()[1], two.port]
        ended = lab.run(
            f"--secure-listen-address=127.0.0.1:{ports[0]}", f"--proxy-endpoints-port={ports[1]}"
        )
    assert ended.code == 1
    assert all(f"127.0.0.1:{port}" in ended.err for port in ports)


def test_fr64_a_port_is_free_again_right_after_the_end(lab: Lab) -> None:
    """Connections of the old process in TIME_WAIT don't hinder the next one."""
    port = free_port()
    for _ in range(2):
        proxy = lab.start(
            OPEN,
            f"--secure-listen-address=127.0.0.1:{port}",
            is_own=True,
            awaited=[("127.0.0.1", port)],
        )
        with proxy.connect(port=port) as client:
            client.send(get())
            assert client.answer().status == 200
            assert proxy.stop() == 0


# --- FR87: what comes late while the gate waits ---------------------------------------


def test_fr87_a_taken_endpoints_port_does_not_hold_up_the_secure_one(lab: Lab) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        pages = taken.getsockname()[1]
        proxy = lab.start(OPEN, "--wait-for-port", f"--proxy-endpoints-port={pages}", is_own=True)
        proxy.wait_for("Start-up gate: waiting for the endpoints port: cannot listen on ")
        assert proxy.ask(get()).status == 200
    proxy.wait_for(f"Listening securely on 127.0.0.1:{pages} for proxy endpoints")
    with proxy.connect(port=pages) as client:
        client.send(get("/healthz"))
        assert client.answer().status == 200
    assert proxy.stop() == 0


def test_fr87_a_signal_ends_the_wait_for_the_endpoints_port(lab: Lab) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        pages = taken.getsockname()[1]
        proxy = lab.start(OPEN, "--wait-for-port", f"--proxy-endpoints-port={pages}", is_own=True)
        assert proxy.stop() == 0


def test_fr87_a_missing_client_ca_keeps_the_gate_closed(lab: Lab, tmp_path: Path) -> None:
    ca, pages = tmp_path / "ca.crt", free_port()
    proxy = lab.start(
        *("--wait-for-port", f"--client-ca-file={ca}", f"--proxy-endpoints-port={pages}"),
        is_own=True,
        awaited=[("127.0.0.1", pages)],
        config={"authorization": {"static": [{"path": "/metrics", "user": {"name": "alice"}}]}},
    )
    with proxy.connect(port=pages) as client:
        client.send(get("/readyz?verbose"))
        shown = client.answer()
    assert shown.status == 200
    assert b"[+]startup-gate ok (waiting: client CA, " in shown.body
    assert is_refused(proxy)
    line = f"Start-up gate: waiting for the client CA: {ca}: cannot be read: "
    assert line in proxy.text()
    ca.write_bytes((lab.certificates / "client-ca.crt").read_bytes())
    proxy.wait_for("Start-up gate: open")
    until(lambda: not is_refused(proxy), "the secure port")
    assert proxy.ask(get(), "alice").status == 200


@pytest.mark.parametrize(
    ("content", "flags"),
    [
        pytest.param("half", ["--wait-for-port"], id="bad, with a gate"),
        pytest.param(None, [], id="missing, without a gate"),
    ],
)
def test_fr87_any_other_client_ca_fails_at_start_up(
    lab: Lab, tmp_path: Path, content: str | None, flags: list[str]
) -> None:
    ca = tmp_path / "ca.crt"
    if content is not None:
        ca.write_text(content)
    ended = lab.run(f"--client-ca-file={ca}", *flags)
    assert ended.code == 1
    assert f"--client-ca-file: {ca}: " in ended.err


# --- FR65: both address families ------------------------------------------------------


def serves(proxy: Proxy, host: str, port: int) -> bool:
    try:
        with proxy.connect(host=host, port=port) as client:
            client.send(get())
            return client.answer().status == 200
    except ConnectionRefusedError:
        return False


@pytest.mark.parametrize(
    ("address", "served"),
    [
        pytest.param("", ["127.0.0.1", "::1"], id="no-host"),
        pytest.param("[::]", ["127.0.0.1", "::1"], id="v6-any"),
        pytest.param("0.0.0.0", ["127.0.0.1", "::1"], id="v4-any"),
        pytest.param("[::1]", ["::1"], id="v6-loopback"),
        pytest.param("127.0.0.1", ["127.0.0.1"], id="v4-loopback"),
    ],
)
def test_fr65_an_address_is_served_in_its_families(
    lab: Lab, address: str, served: list[str]
) -> None:
    port = free_port()
    flag = f"--secure-listen-address={address}:{port}"
    proxy = lab.start(OPEN, flag, is_own=True, awaited=[(served[0], port)])
    assert [host for host in ("127.0.0.1", "::1") if serves(proxy, host, port)] == served


def test_fr65_the_endpoints_port_follows_the_secure_address(lab: Lab) -> None:
    endpoints = free_port()
    proxy = lab.start(
        OPEN,
        "--secure-listen-address=:${port}",
        f"--proxy-endpoints-port={endpoints}",
        is_own=True,
    )
    for host in ("127.0.0.1", "::1"):
        with proxy.connect(host=host, port=endpoints) as client:
            client.send(get("/healthz"))
            assert client.answer().body == b"ok"


def test_fr65_the_upstream_may_be_on_ipv6(lab: Lab) -> None:
    with contextlib.closing(Upstream(host="::1")) as upstream:
        proxy = lab.start(OPEN, f"--upstream=http://[::1]:{upstream.port}", is_own=True)
        assert proxy.ask(get("/six")).status == 200
        assert upstream.targets == ["/six"]


def test_fr65_an_ipv4_client_is_named_as_one(lab: Lab) -> None:
    """A dual-stack socket shows IPv4 peers as ::ffff:127.0.0.1; upstreams know only 127.0.0.1."""
    proxy = lab.start(OPEN, "--secure-listen-address=:${port}", is_own=True)
    assert proxy.ask(get()).status == 200
    assert lab.upstream.requests[0].message.values("x-forwarded-for") == ["127.0.0.1"]


# --- the program without docstrings and assertions, as image and binary run it --------


def test_the_program_serves_without_docstrings_and_assertions(lab: Lab) -> None:
    endpoints = free_port()
    proxy = lab.start(
        "--ignore-paths=/open",
        f"--proxy-endpoints-port={endpoints}",
        env={"PYTHONOPTIMIZE": "2"},
        is_own=True,
    )
    token = lab.token(user("alice", "g1"))
    assert proxy.ask(get("/open")).status == 200
    assert proxy.ask(get()).status == 401
    assert proxy.ask(get("/metrics", bearer(token))).status == 200
    assert proxy.ask(get("/metrics", bearer("other"))).status == 401
    assert lab.upstream.targets == ["/open", "/metrics"]
    for page in ("/healthz", "/readyz", "/metrics", "/statusz", "/flagz"):
        with proxy.connect(port=endpoints) as client:
            client.send(get(page, bearer(token)))
            assert client.answer().status == 200, page
    with http2(proxy) as client:
        assert client.ask(request("/open")).status == 200

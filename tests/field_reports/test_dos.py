"""Field reports of kind DOS: slow senders, no descriptors left, memory, HTTP/2 offers."""

import contextlib
import socket
import ssl
import struct
import time
from pathlib import Path

import pytest

from tests.field_reports.harness import Client, Lab, Proxy, client_context, get
from tests.field_reports.http2 import http2, request
from tests.field_reports.watching import cpu_seconds, memory_kib, open_files, until

OPEN = "--ignore-paths=/*"
PIECES = [b"GET / HTTP/1.1\r\n", b"Host: h\r\n", *[b"X-%d: y\r\n" % n for n in range(1000)]]


# --- FR58: slow senders (D12) ---------------------------------------------------------


def has_ended(client: Client) -> bool:
    """Whether the proxy has ended the connection, without waiting for it."""
    client.connection.settimeout(0.01)
    try:
        client.receive()
    except TimeoutError:
        return False
    return client.has_ended


def test_fr58_heads_that_dribble_are_cut_though_bytes_keep_coming(lab: Lab) -> None:
    proxy = lab.start(OPEN, "--read-header-timeout=1s", "--idle-timeout=10m", is_own=True)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(proxy.connect()) for _ in range(60)]
        alive = list(clients)
        for piece in PIECES:
            for client in alive:
                client.send(piece)
            alive = [client for client in alive if not has_ended(client)]
            assert proxy.ask(get("/other")).status == 200
            if not alive:
                break
        assert not alive, "a thousand header lines later the head was still awaited"
        assert all(client.received[:12] in (b"", b"HTTP/1.1 408") for client in clients)
    assert lab.upstream.targets.count("/") == 0


def test_fr58_a_handshake_that_stands_still_is_cut(lab: Lab) -> None:
    proxy = lab.start(OPEN, "--tls-handshake-timeout=1s", is_own=True)
    with proxy.connect(is_plain=True) as silent, proxy.connect(is_plain=True) as partial:
        partial.send(b"\x16\x03\x01\x02\x00\x01")
        assert silent.end() == b""
        partial.end()


@pytest.mark.parametrize("requests", [0, 1], ids=["unused", "used"])
def test_fr58_an_idle_connection_is_closed(lab: Lab, requests: int) -> None:
    limits = ["--idle-timeout=1s", "--read-header-timeout=2s"]
    with lab.start(OPEN, *limits).connect() as client:
        for _ in range(requests):
            client.send(get())
            assert client.answer().status == 200
        assert client.end() == b""


def test_fr58_a_body_may_dribble(lab: Lab) -> None:
    """Deadlines are for heads and idle connections; an authorized body takes what it takes."""
    limits = ["--read-header-timeout=500ms", "--idle-timeout=500ms"]
    with lab.start(OPEN, *limits).connect() as client:
        client.send(get("/slow", "Content-Length: 8", method="POST"))
        for byte in b"12345678":
            time.sleep(0.2)  # slowness is what is tried here
            client.send(bytes([byte]))
        assert client.answer().status == 200
    assert lab.upstream.requests[0].message.body == b"12345678"


# --- FR60: no descriptors left --------------------------------------------------------


def test_fr60_running_out_of_descriptors_pauses_and_recovers(lab: Lab) -> None:
    limited = ("sh", "-c", 'ulimit -n 64; exec "$@"', "sh")
    proxy = lab.start(OPEN, prefix=limited, is_own=True)
    assert proxy.ask(get()).status == 200
    pid = proxy.process.pid
    lines = len(proxy.text().splitlines())
    with contextlib.ExitStack() as stack:
        for _ in range(200):
            raw = socket.create_connection(("127.0.0.1", proxy.port), 30)
            stack.enter_context(raw)
        until(lambda: open_files(pid) >= 62, "use of all descriptors")
        cpu, begin = cpu_seconds(pid), time.monotonic()
        time.sleep(3)  # what it does meanwhile is under test
        cpu, seconds = cpu_seconds(pid) - cpu, time.monotonic() - begin
        assert cpu < seconds / 2, f"busy: {cpu} s of CPU in {seconds} s"
        assert len(proxy.text().splitlines()) - lines <= seconds + 5
    assert proxy.ask(get()).status == 200
    until(lambda: open_files(pid) < 40, "release of descriptors")
    assert proxy.process.poll() is None


# --- FR61: memory ---------------------------------------------------------------------


def complete(proxy: Proxy) -> None:
    assert proxy.ask(get()).status == 200


def aborted_in_the_handshake(proxy: Proxy) -> None:
    with proxy.connect(is_plain=True) as client:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        engine = client_context().wrap_bio(incoming, outgoing)
        with contextlib.suppress(ssl.SSLWantReadError):
            engine.do_handshake()
        client.send(outgoing.read())
        assert client.receive(), "the server's part of the handshake"


def reset_at_once(proxy: Proxy) -> None:
    raw = socket.create_connection(("127.0.0.1", proxy.port), 30)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    raw.close()


def reset_after_the_answer(proxy: Proxy) -> None:
    with proxy.connect() as client:
        client.send(get())
        assert client.answer().status == 200
        client.reset()


WAYS = [complete, aborted_in_the_handshake, reset_at_once, reset_after_the_answer]


def test_fr61_short_connections_leave_nothing_behind(lab: Lab) -> None:
    """A connection's TLS state is tens of KiB; a leak of one in ten would show."""
    proxy = lab.start(OPEN, is_own=True)
    pid = proxy.process.pid

    def rounds(count: int) -> None:
        for _ in range(count):
            for way in WAYS:
                way(proxy)

    rounds(60)
    files, before = open_files(pid), memory_kib(pid)
    rounds(200)
    until(lambda: open_files(pid) <= files + 2, "return to the old descriptors")
    grown = memory_kib(pid) - before
    assert grown < 2048, f"{grown} KiB for 800 connections"


def test_fr61_reloads_leave_nothing_behind(lab: Lab, tmp_path: Path) -> None:
    """A context is some 100 KiB; sixty reloads that keep theirs would show."""
    names = ["server", "api"]
    pairs = [(lab.certificates / f"{name}.pem").read_bytes() for name in names]
    file = tmp_path / "pair.pem"
    file.write_bytes(pairs[0])
    flags = [f"--tls-cert-file={file}", f"--tls-private-key-file={file}"]
    proxy = lab.start(OPEN, *flags, "--tls-reload-interval=20ms", is_own=True)
    pid = proxy.process.pid

    def served() -> bytes:
        with proxy.connect() as client:
            assert isinstance(client.connection, ssl.SSLSocket)
            return client.connection.getpeercert(binary_form=True) or b""

    def reloads(count: int) -> None:
        for number in range(1, count + 1):
            before = served()
            fresh = tmp_path / "fresh"
            fresh.write_bytes(pairs[number % 2])
            fresh.replace(file)
            until(lambda: served() != before, "new pair")  # noqa: B023 -- used at once

    reloads(10)
    files, before = open_files(pid), memory_kib(pid)
    reloads(60)
    assert memory_kib(pid) - before < 3072
    assert open_files(pid) <= files + 2


# --- FR62: HTTP/2 is offered as it should be ------------------------------------------


@pytest.mark.parametrize(
    "flags",
    [
        [],
        ["--http2-disable"],
        ["--http2-max-concurrent-streams=50"],
        ["--http2-max-size=1048576", "--http2-max-concurrent-streams=0"],
        ["--http2-max-size=1", "--http2-max-concurrent-streams=4294967295"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("offer", [["h2", "http/1.1"], ["http/1.1"], []], ids=str)
def test_fr62_http_1_1_is_agreed_on_and_works(lab: Lab, flags: list[str], offer: list[str]) -> None:
    context = client_context()
    if offer:
        context.set_alpn_protocols(offer)
    else:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with lab.start(OPEN, *flags).connect(tls=context) as client:
        assert isinstance(client.connection, ssl.SSLSocket)
        assert client.connection.selected_alpn_protocol() == ("http/1.1" if offer else None)
        client.send(get())
        assert client.answer().status == 200


def test_fr62_sizes_out_of_range_are_told_once(lab: Lab) -> None:
    proxy = lab.start(OPEN, "--http2-max-size=1", "--http2-max-concurrent-streams=50", is_own=True)
    told = [line for line in proxy.text().splitlines() if "--http2-max-size" in line]  # D19
    assert len(told) == 1


# --- D52: a flood of idle connections -------------------------------------------------


@pytest.mark.parametrize("what", ["tcp", "handshake", "tls", "half a head", "kept"])
def test_d52_a_flood_of_idle_connections_costs_no_scrape(lab: Lab, what: str) -> None:
    proxy = lab.start(OPEN, "--max-connections=50", is_own=True)
    with contextlib.ExitStack() as flood, proxy.connect() as old:
        old.send(get())
        assert old.answer().status == 200
        for _ in range(150):
            client = flood.enter_context(proxy.connect(is_plain=what in {"tcp", "handshake"}))
            client.send({"handshake": b"\x16\x03\x01", "half a head": b"GET "}.get(what, b""))
            if what == "kept":
                client.send(get())
                assert client.answer().status == 200
        old.send(get())
        assert old.answer().status == 200
        assert proxy.ask(get()).status == 200
        old.send(get())
        assert old.answer().status == 200
    assert proxy.text().count("unused ones are closed for new ones") == 1


def test_d52_an_idle_http2_connection_is_told_to_go(lab: Lab) -> None:
    proxy = lab.start(OPEN, "--max-connections=1", is_own=True)
    with http2(proxy) as connection:
        assert connection.ask(request()).status == 200
        assert proxy.ask(get()).status == 200
        assert connection.end() == 0

"""Field reports of kind STREAM: what passes between upstream and client, and how it ends."""

import contextlib
import gzip
import hashlib
import socket
import ssl
import threading
import time
from collections.abc import Callable

import pytest

from tests.conformance.wire import free_port
from tests.field_reports.harness import Client, Lab, Proxy, client_context, get, post
from tests.field_reports.servers import OK, Arrived
from tests.field_reports.watching import memory_kib, open_files, until

MIB = 1 << 20
OPEN = "--ignore-paths=/*"
LENGTH_100 = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
UNTIL_CLOSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nhello"


# --- FR50: a cut-off answer must not look complete ------------------------------------


@pytest.mark.parametrize(
    ("answer", "ending"),
    [
        pytest.param(LENGTH_100, Arrived.close, id="length-then-fin"),
        pytest.param(LENGTH_100, Arrived.reset, id="length-then-reset"),
        pytest.param(CHUNKED, Arrived.close, id="chunked-without-last-chunk"),
        pytest.param(CHUNKED, Arrived.reset, id="chunked-then-reset"),
        pytest.param(CHUNKED + b"a\r\nhel", Arrived.close, id="cut-inside-a-chunk"),
        pytest.param(UNTIL_CLOSE, Arrived.reset, id="until-close-then-reset"),
    ],
)
def test_fr50_a_truncated_answer_is_visibly_truncated(
    lab: Lab, answer: bytes, ending: Callable[[Arrived], None]
) -> None:
    proxy = lab.start(OPEN)
    with proxy.connect() as client:

        def send_then_end(request: Arrived) -> None:
            request.send(answer)
            until(lambda: b"hello" in client.received, "first part at the client")
            ending(request)

        lab.upstream.script = send_then_end
        client.send(get("/metrics"))
        ended = client.end()
    assert ended.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"hello" in ended
    assert not ended.endswith(b"0\r\n\r\n"), "the chunked body was ended as if it were whole"
    if b"Content-Length" in ended:
        assert len(ended.partition(b"\r\n\r\n")[2]) < 100
    else:
        assert b"transfer-encoding: chunked" in ended.lower()


def drain(connection: ssl.SSLSocket) -> None:
    """Read until the end that a close_notify makes."""
    while connection.recv(65536):
        pass


@pytest.mark.parametrize("answer", [LENGTH_100, CHUNKED], ids=["length", "chunked"])
def test_fr50_an_http_1_0_client_sees_the_connection_aborted(lab: Lab, answer: bytes) -> None:
    """Its answer may end with the connection, so only a missing close_notify tells."""

    def send_then_close(request: Arrived) -> None:
        request.send(answer)
        request.close()

    lab.upstream.script = send_then_close
    proxy = lab.start(OPEN)
    raw = socket.create_connection(("127.0.0.1", proxy.port), 30)
    with client_context().wrap_socket(raw, suppress_ragged_eofs=False) as connection:
        connection.sendall(b"GET /metrics HTTP/1.0\r\nHost: h\r\n\r\n")
        with pytest.raises(OSError):  # noqa: PT011 -- a reset or an end without close_notify
            drain(connection)


# --- FR51: clients that leave ---------------------------------------------------------


def stderr_lines(proxy: Proxy) -> int:
    return len(proxy.text().splitlines())


def settled(proxy: Proxy, files: int) -> None:
    """Descriptors are back where they were; a pooled upstream connection may stay."""
    until(lambda: open_files(proxy.process.pid) <= files + 2, "return to the old descriptors")


@pytest.mark.parametrize("is_reset", [False, True], ids=["close", "reset"])
@pytest.mark.parametrize("after", ["headers", "part-of-body"])
def test_fr51_work_for_a_client_that_left_ends(lab: Lab, after: str, is_reset: bool) -> None:  # noqa: FBT001
    rounds = 40
    ended = [0]

    def answer_without_end(request: Arrived) -> None:
        if after == "part-of-body":
            request.send(CHUNKED)
        while request.connection.recv(65536):
            pass
        ended[0] += 1
        request.close()

    proxy = lab.start(OPEN)
    assert proxy.ask(get("/warm")).status == 200
    lab.upstream.script = answer_without_end
    files, lines = open_files(proxy.process.pid), stderr_lines(proxy)
    for number in range(rounds):
        with proxy.connect() as client:
            client.send(get(f"/{number}"))
            if after == "part-of-body":
                client.read_until(b"hello")
            else:
                requests = lab.upstream.requests
                until(lambda: len(requests) > number + 1, "request upstream")  # noqa: B023 -- at once
            if is_reset:
                client.reset()
    until(lambda: ended[0] == rounds, "end of all upstream connections")
    settled(proxy, files)
    assert stderr_lines(proxy) - lines <= rounds


def test_fr51_probes_and_alerts_leave_no_trace(lab: Lab) -> None:
    rounds = 40
    proxy = lab.start(OPEN, is_own=True)
    assert proxy.ask(get("/warm")).status == 200
    files, lines = open_files(proxy.process.pid), stderr_lines(proxy)
    distrustful = ssl.create_default_context()
    for _ in range(rounds):
        proxy.connect(is_plain=True).connection.close()  # a TCP probe
        with proxy.connect(is_plain=True) as client:
            client.reset()
        with pytest.raises(ssl.SSLCertVerificationError):  # sends an alert
            proxy.connect(tls=distrustful)
    assert proxy.ask(get("/after")).status == 200
    settled(proxy, files)
    assert stderr_lines(proxy) - lines <= 3 * rounds
    assert not [line for line in proxy.text().splitlines()[lines:] if line.startswith("E")]


# --- FR52: content codings pass unchanged (D24) ---------------------------------------


def gzipped(text: bytes = b"metric 1\n" * 100) -> tuple[bytes, bytes]:
    """A compressed body, and the answer that carries it."""
    body = gzip.compress(text)
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n"
    return body, head.encode() + body


@pytest.mark.parametrize("lines", [["Accept-Encoding: gzip"], []], ids=["asked", "unasked"])
def test_fr52_a_compressed_answer_passes_unchanged(lab: Lab, lines: list[str]) -> None:
    body, lab.upstream.script = gzipped()
    answer = lab.start(OPEN).ask(get("/metrics", *lines))
    assert answer.body == body
    assert answer.value("content-encoding") == "gzip"
    assert answer.value("content-length") == str(len(body))
    assert lab.upstream.requests[0].message.values("accept-encoding") == ["gzip"] * len(lines)


def test_fr52_an_answer_without_content_type_gets_none(lab: Lab) -> None:
    lab.upstream.script = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>"
    answer = lab.start(OPEN).ask(get("/metrics"))
    assert (answer.body, answer.values("content-type")) == (b"<html>", [])


# --- FR54: answers without a body -----------------------------------------------------


@pytest.mark.parametrize(
    ("method", "answer", "length"),
    [
        pytest.param("HEAD", "200 OK\r\nContent-Length: 1234", "1234", id="head"),
        pytest.param("GET", "204 No Content\r\nContent-Length: 0", "", id="204"),
        pytest.param("GET", "304 Not Modified\r\nContent-Length: 77", None, id="304"),
    ],
)
def test_fr54_bodyless_answers_keep_the_connection_in_step(
    lab: Lab, method: str, answer: str, length: str | None
) -> None:
    proxy = lab.start(OPEN)
    with proxy.connect() as client:
        lab.upstream.script = f"HTTP/1.1 {answer}\r\n\r\n".encode()
        client.send(get("/first", method=method))
        first = client.answer(to_head=method == "HEAD")
        assert first.status == int(answer[:3])
        assert first.values("transfer-encoding") == []
        assert length is None or first.value("content-length") == length
        assert client.received == b""
        lab.upstream.script = OK
        client.send(get("/second"))
        second = client.answer()
    assert (second.status, second.body) == (200, b"upstream")
    assert lab.upstream.targets == ["/first", "/second"]


def test_fr54_pipelined_bodyless_answers_stay_apart(lab: Lab) -> None:
    lab.upstream.script = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"

    def answer(request: Arrived) -> None:
        body = b"" if request.message.start.startswith("HEAD") else b"body"
        request.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n" + body)

    lab.upstream.script = answer
    with lab.start(OPEN).connect() as client:
        client.send(get("/1", method="HEAD") + get("/2") + get("/3", method="HEAD") + get("/4"))
        bodies = [client.answer(to_head=is_head).body for is_head in (True, False) * 2]
    assert bodies == [b"", b"body", b"", b"body"]


# --- FR56: slow readers ---------------------------------------------------------------

PIECE = bytes(range(256)) * 1024  # 256 KiB
SIZE = 24 * MIB
BIG_DIGEST = hashlib.sha256(PIECE * (SIZE // len(PIECE))).hexdigest()


def pour(request: Arrived) -> None:
    request.send(f"HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n".encode())
    for _ in range(SIZE // len(PIECE)):
        request.send(PIECE)


def by_target(request: Arrived) -> None:
    if request.target == "/big":
        pour(request)
    else:
        request.read_body()
        request.send(OK)


def rest_of(client: Client) -> tuple[int, str]:
    """Read the answer to its end: how much body came, and its digest."""
    digest, size = hashlib.sha256(), 0
    client.read_until(b"\r\n\r\n")
    while size < SIZE and not client.has_ended:
        digest.update(client.received)
        size += len(client.received)
        client.received = b""
        if size < SIZE:
            client.receive()
    return size, digest.hexdigest()


def test_fr56_readers_that_stop_are_not_buffered(lab: Lab) -> None:
    """Ten readers of 24 MiB each stop after the head: 240 MiB that must not lie in the proxy."""
    readers = 10
    lab.upstream.script = by_target
    proxy = lab.start(OPEN, is_own=True)
    assert proxy.ask(get("/small")).status == 200
    before = memory_kib(proxy.process.pid)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(proxy.connect()) for _ in range(readers)]
        for client in clients:
            client.connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
            client.send(get("/big"))
        for client in clients:
            assert client.receive()
        for number in range(50):  # the others are unaffected, and buffers have time to fill
            assert proxy.ask(get(f"/small?{number}")).status == 200
            grown = memory_kib(proxy.process.pid) - before
            assert grown < readers * 1024 + 4096, f"{grown} KiB"
        assert rest_of(clients[0]) == (SIZE, BIG_DIGEST), "it must go on where it stood"


def test_fr56_a_stalled_writer_is_dropped_after_a_bound(lab: Lab) -> None:
    ended = threading.Event()

    def pour_until_cut(request: Arrived) -> None:
        try:
            pour(request)
        except OSError:
            ended.set()
            raise

    lab.upstream.script = pour_until_cut
    proxy = lab.start(OPEN, "--write-stall-timeout=1s", is_own=True)
    with proxy.connect() as client:
        client.send(get("/big"))
        client.read_until(b"\r\n\r\n")
        assert ended.wait(30), "the upstream is still held for a client that reads nothing"
        assert len(client.end()) < SIZE  # what was under way still comes


def test_fr56_a_slow_but_steady_reader_is_served_to_the_end(lab: Lab) -> None:
    lab.upstream.script = by_target
    proxy = lab.start(OPEN, "--write-stall-timeout=3s")
    with proxy.connect() as client:
        client.send(get("/big"))
        client.read_until(b"\r\n\r\n")
        size = len(client.received)
        started = time.monotonic()
        while size < SIZE:
            client.received = b""
            block = client.receive()
            assert block, f"cut off after {size} bytes"
            size += len(block)
            # About 6 MiB/s, so that the whole takes longer than the allowed stall.
            time.sleep(max(0, size / (6 * MIB) - (time.monotonic() - started)))


def test_fr56_a_slow_upstream_slows_the_client(lab: Lab) -> None:
    """The same towards the upstream: it reads nothing of a big request body at first."""
    may_read = threading.Event()

    def read_late(request: Arrived) -> None:
        may_read.wait(30)
        size = len(request.raw)
        while size < SIZE and (block := request.connection.recv(MIB)):
            size += len(block)
        request.send(OK)
        request.close()

    lab.upstream.script = read_late
    proxy = lab.start(OPEN, is_own=True)
    before = memory_kib(proxy.process.pid)
    with proxy.connect() as client:
        sender = threading.Thread(target=client.send, args=(post("/in", bytes(SIZE)),))
        sender.start()
        until(lambda: lab.upstream.requests, "request upstream")
        sender.join(1)
        assert sender.is_alive(), (
            "the client could send everything to an upstream that reads nothing"
        )
        assert memory_kib(proxy.process.pid) - before < 6 * 1024
        may_read.set()
        sender.join(30)
        assert client.answer().status == 200


# --- FR79: closing with unread bytes must not reset an answer away --------------------


def all_before_the_end(client: Client) -> bytes:
    """Everything until the proxy ends the connection in order. Raises ConnectionResetError."""
    while block := client.connection.recv(65536):
        client.received += block
    return client.received


@pytest.fixture(name="ports", scope="module")
def _ports() -> tuple[int, int]:
    return free_port(), free_port()


@pytest.fixture(name="listeners")
def _listeners(lab: Lab, ports: tuple[int, int]) -> Callable[[str], Client]:
    """Connects to the secure, insecure or endpoints listener of one proxy."""
    insecure, endpoints = ports
    proxy = lab.start(
        OPEN,
        f"--insecure-listen-address=127.0.0.1:{insecure}",
        f"--proxy-endpoints-port={endpoints}",
    )
    of = {"secure": proxy.port, "insecure": insecure, "endpoints": endpoints}
    return lambda name: proxy.connect(port=of[name], is_plain=name == "insecure")


@pytest.mark.parametrize("version", ["1.1", "1.0"])
@pytest.mark.parametrize("framing", ["Content-Length: 100", "Transfer-Encoding: chunked"])
@pytest.mark.parametrize(
    ("listener", "status"), [("secure", 400), ("insecure", 400), ("endpoints", 401)]
)
def test_fr79_a_client_that_ends_in_its_body_gets_an_answer(
    listeners: Callable[[str], Client], listener: str, status: int, framing: str, version: str
) -> None:
    if version == "1.0" and "chunked" in framing:
        status = 400  # RFC 9112 section 6.1
    with listeners(listener) as client:
        head = f"POST /x HTTP/{version}\r\nHost: h\r\n{framing}\r\n\r\n"
        client.send(head.encode() + b"3\r\nabc\r")
        client.half_close()
        assert all_before_the_end(client).split(b" ")[1] == b"%d" % status


@pytest.mark.parametrize("listener", ["secure", "insecure", "endpoints"])
def test_fr79_a_refused_body_that_still_comes_leaves_the_answer(
    listeners: Callable[[str], Client], listener: str
) -> None:
    with listeners(listener) as client:
        # An unclean path is redirected, and the body is too long to be read to its end.
        client.send(get("/a//b", "Content-Length: 100000000", method="POST") + bytes(100_000))
        client.send(bytes(100_000))
        status = 401 if listener == "endpoints" else 307
        assert all_before_the_end(client).startswith(b"HTTP/1.1 %d" % status)


@pytest.mark.parametrize("has_ended", [False, True])
def test_fr79_plain_http_with_a_body_on_the_tls_port_can_read_what_is_wrong(
    lab: Lab, *, has_ended: bool
) -> None:
    proxy = lab.start(OPEN)
    with proxy.connect(is_plain=True) as client:
        for size in (10, 100_000, 100_000):
            client.send(get("/x", "Content-Length: 200000", method="POST") + bytes(size))
        if has_ended:
            client.half_close()
        answer = all_before_the_end(client)
    assert answer.startswith(b"HTTP/1.0 400 ")
    assert b"Client sent an HTTP request to an HTTPS server" in answer


def test_fr79_an_upstream_that_leaves_a_tunnel_leaves_the_client_its_last_bytes(lab: Lab) -> None:
    def leave(request: Arrived) -> None:
        request.send(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nbye"
        )
        request.close()

    lab.upstream.script = leave
    proxy = lab.start(OPEN)
    with proxy.connect() as client:
        client.send(get("/x", "Connection: upgrade", "Upgrade: echo"))
        for _ in range(20):  # more than the upstream ever reads
            client.send(bytes(16_384))
        assert all_before_the_end(client).endswith(b"\r\n\r\nbye")

"""What the field reports of kind STREAM ask for, where the upstream speaks HTTP/2; and gRPC."""

import contextlib
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import grpc
import pytest
from h2.errors import ErrorCodes

from tests.field_reports.harness import Lab, Proxy, get, post, server_context
from tests.field_reports.http2_server import Asked, Http2Upstream, plain
from tests.field_reports.watching import memory_kib, until

OPEN = "--ignore-paths=/*,/*/*"
MIB = 1 << 20


@dataclass
class Both:
    """A proxy in front of an upstream that speaks HTTP/2 alone."""

    proxy: Proxy
    upstream: Http2Upstream


@pytest.fixture
def h2c(lab: Lab) -> Iterator[Both]:
    upstream = Http2Upstream()
    flags = (OPEN, f"--upstream=http://127.0.0.1:{upstream.port}", "--upstream-force-h2c")
    yield Both(lab.start(*flags, is_own=True), upstream)
    upstream.close()


def test_requests_and_answers_pass_whole(h2c: Both) -> None:
    with h2c.proxy.connect() as client:
        client.send(get("/a?b=c", "X-A: 1", "Connection: X-B", "X-B: 2", "TE: trailers"))
        answer = client.answer()
        assert (answer.status, answer.body, answer.complete) == (200, b"upstream", True)
        client.send(post("/p", b"payload"))
        assert client.answer().status == 200
        chunks = b"4\r\nsome\r\n5\r\n more\r\n0\r\nX-Sum: 9\r\n\r\n"
        client.send(get("/c", "Transfer-Encoding: chunked", "Trailer: X-Sum", method="POST"))
        client.send(chunks)
        assert client.answer().status == 200
    first, second, third = h2c.upstream.requests
    assert first.headers.pop("x-forwarded-for") == "127.0.0.1"
    assert first.headers == {
        ":method": "GET",
        ":scheme": "http",
        ":authority": "h",
        ":path": "/a?b=c",
        "x-a": "1",
        "te": "trailers",
    }
    assert second.body == b"payload"
    assert second.headers["content-length"] == "7"
    assert third.body == b"some more"
    assert third.trailers == [("x-sum", "9")]
    assert h2c.upstream.accepted == 1


def test_https_is_asked_what_it_speaks(lab: Lab) -> None:
    """With the system's roots, which are ours here."""
    tls = server_context(lab.certificates / "upstream")
    tls.set_alpn_protocols(["h2", "http/1.1"])
    upstream = Http2Upstream(tls)
    proxy = lab.start(
        OPEN,
        f"--upstream=https://127.0.0.1:{upstream.port}",
        env={"SSL_CERT_FILE": f"{lab.certificates}/server-ca.crt"},
        is_own=True,
    )
    with proxy.connect() as client:
        for number in range(3):
            client.send(get(f"/{number}"))
            assert client.answer().body == b"upstream"
    assert upstream.accepted == 1
    assert upstream.requests[0].headers[":scheme"] == "https"
    upstream.close()


def test_fr22_a_large_response_head_passes(h2c: Both) -> None:
    value = "x" * 16_384
    h2c.upstream.script = lambda request: request.answer(b"ok", ("x-large", value))
    answer = h2c.proxy.ask(get("/"))
    assert answer.value("x-large") == value


@pytest.mark.parametrize("length", [None, "100"])
def test_fr50_a_truncated_answer_is_visibly_truncated(h2c: Both, length: str | None) -> None:
    lines = [("content-length", length)] if length else []
    h2c.upstream.script = lambda request: request.answer(b"hello", *lines, ends=False)
    with h2c.proxy.connect() as client:
        client.send(get("/"))
        client.read_until(b"\r\n\r\n")
        until(lambda: b"hello" in client.received or client.receive(), "first part")
        request = h2c.upstream.requests[0]
        request.session.later(
            lambda: request.session.h2.reset_stream(request.id, ErrorCodes.INTERNAL_ERROR)
        )
        ended = client.end()
    assert b"hello" in ended
    assert not ended.endswith(b"0\r\n\r\n")
    h2c.upstream.script = plain
    assert h2c.proxy.ask(get("/after")).status == 200


def test_fr51_a_client_that_leaves_ends_its_stream_and_no_other(h2c: Both) -> None:
    h2c.upstream.script = lambda request: request.answer(b"hello", ends=False)
    with h2c.proxy.connect() as staying, h2c.proxy.connect() as leaving:
        for client in (staying, leaving):
            client.send(get("/"))
            client.read_until(b"hello")
        leaving.reset()
        until(lambda: h2c.upstream.resets, "reset")
        assert h2c.upstream.resets == [(3, int(ErrorCodes.CANCEL))]
        request = h2c.upstream.requests[0]
        request.session.later(request.end)
        staying.read_until(b"0\r\n\r\n")
    assert h2c.upstream.accepted == 1


def bodyless(request: Asked) -> None:
    status = request.target.removeprefix("/")
    lines = [("content-length", "77")] if status != "204" else []
    request.answer(b"", *lines, status=status)


@pytest.mark.parametrize(
    ("method", "status", "length"), [("HEAD", 200, "77"), ("GET", 204, ""), ("GET", 304, "77")]
)
def test_fr54_bodyless_answers_keep_the_connection_in_step(
    h2c: Both, method: str, status: int, length: str
) -> None:
    h2c.upstream.script = bodyless
    with h2c.proxy.connect() as client:
        for _ in range(2):
            client.send(get(f"/{status}", method=method))
            answer = client.answer(to_head=method == "HEAD")
            assert (answer.status, answer.value("content-length")) == (status, length)
            assert answer.value("transfer-encoding") == ""
            assert client.received == b""


def test_fr56_readers_that_stop_hold_neither_memory_nor_the_others(h2c: Both) -> None:
    """All are streams of one connection."""
    big = bytes(8 * MIB)

    def by_target(request: Asked) -> None:
        body = big if request.target == "/big" else b"small"
        request.answer(body, ("content-length", str(len(body))))

    h2c.upstream.script = by_target
    assert h2c.proxy.ask(get("/small")).body == b"small"
    before = memory_kib(h2c.proxy.process.pid)
    readers = 8
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(h2c.proxy.connect()) for _ in range(readers)]
        for client in clients:
            client.connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
            client.send(get("/big"))
        for client in clients:
            assert client.receive()
        for number in range(30):
            assert h2c.proxy.ask(get(f"/small?{number}")).body == b"small"
        assert memory_kib(h2c.proxy.process.pid) - before < readers * 1536 + 4096
        clients[0].read_until(b"\r\n\r\n")
        while len(clients[0].received) < len(big):
            assert clients[0].receive()
        assert clients[0].received == big
    assert h2c.upstream.accepted == 1


def test_fr56_an_upload_goes_as_fast_as_it_is_taken(h2c: Both) -> None:
    body = bytes(range(256)) * 4096 * 8
    with h2c.proxy.connect() as client:
        client.send(post("/in", body))
        assert client.answer().status == 200
    assert h2c.upstream.requests[0].body == body


def test_a_restarted_upstream_is_found_again(h2c: Both) -> None:
    for _ in range(3):
        assert h2c.proxy.ask(get("/")).status == 200
        h2c.upstream.drop_connections()
    assert h2c.proxy.ask(get("/")).status == 200


# --- gRPC -----------------------------------------------------------------------------


def frame(message: bytes) -> bytes:
    """A message as gRPC frames it: not compressed."""
    return b"\0" + len(message).to_bytes(4, "big") + message


def say(said: bytes, _context: object) -> bytes:
    return said


def count(said: bytes, _context: object) -> Iterator[bytes]:
    return (b"%d" % number for number in range(int(said)))


METHODS = {
    "Say": grpc.unary_unary_rpc_method_handler(say),
    "Count": grpc.unary_stream_rpc_method_handler(count),
}


@pytest.fixture
def grpc_proxy(lab: Lab) -> Iterator[Proxy]:
    server = grpc.server(ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("demo.Echo", METHODS),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield lab.start(OPEN, f"--upstream=http://127.0.0.1:{port}", "--upstream-force-h2c")
    server.stop(None).wait()


def call(method: str, message: bytes) -> bytes:
    lines = ("TE: trailers", "Content-Type: application/grpc")
    return post(f"/demo.Echo/{method}", frame(message), *lines)


def test_grpc_answers_through_the_proxy(grpc_proxy: Proxy) -> None:
    with grpc_proxy.connect() as client:
        for message in (b"hello", b"x" * 100_000, b""):
            client.send(call("Say", message))
            answer = client.answer()
            assert answer.status == 200
            assert answer.body == frame(message)
            assert ("grpc-status", "0") in answer.trailers
        client.send(call("Fail", b""))
        assert client.answer().value("grpc-status") == "12"


def test_grpc_streams_ten_thousand_messages_through_the_proxy(grpc_proxy: Proxy) -> None:
    number_of_them = 10_000
    with grpc_proxy.connect() as client:
        client.send(call("Count", b"%d" % number_of_them))
        # All of it, so that it is taken apart only once.
        while b"\r\ngrpc-status: " not in client.received:
            assert client.receive()
        answer = client.answer()
    assert answer.body == b"".join(frame(b"%d" % number) for number in range(number_of_them))
    assert ("grpc-status", "0") in answer.trailers

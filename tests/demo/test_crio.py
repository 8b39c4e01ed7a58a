"""The CRI-O-like upstream: its answers, and the process over loopback."""

import asyncio
import gzip
import signal
import sys

import pytest

from pyrbacproxy.demo.crio import Answers, CrioConnection, exposition

BODY = b"up 1\n"


class FakeTransport(asyncio.Transport):
    """Collects what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_closed = False
        self.is_aborted = False
        self.is_reading_paused = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_aborted = self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        self.is_reading_paused = True

    def resume_reading(self) -> None:
        self.is_reading_paused = False


def connected() -> tuple[CrioConnection, FakeTransport]:
    transport = FakeTransport()
    connection = CrioConnection(Answers(BODY, 0.0))
    connection.connection_made(transport)
    return connection, transport


PLAIN = (
    b"HTTP/1.1 200 OK\r\n"
    b"Content-Type: text/plain; version=0.0.4; charset=utf-8; escaping=underscores\r\n"
    b"Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n"
    b"Content-Length: 5\r\n\r\n"
)
MISSING = (
    b"HTTP/1.1 404 Not Found\r\n"
    b"Content-Type: text/plain; charset=utf-8\r\n"
    b"X-Content-Type-Options: nosniff\r\n"
    b"Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n"
    b"Content-Length: 19\r\n\r\n"
)
CLOSING = PLAIN[:-2] + b"Connection: close\r\n\r\n"
GET = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
DIALOGUES = {
    "scrape": (GET, PLAIN + BODY, False),
    "query": (b"GET /metrics?a=b HTTP/1.1\r\nHost: x\r\n\r\n", PLAIN + BODY, False),
    "HEAD": (b"HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n", PLAIN, False),
    "elsewhere": (b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n", MISSING + b"404 page not found\n", False),
    "pipelined": (GET + GET, 2 * (PLAIN + BODY), False),
    "body passed over": (
        b"POST /metrics HTTP/1.1\r\nContent-Length: 5\r\n\r\nGET x" + GET,
        2 * (PLAIN + BODY),
        False,
    ),
    "close": (b"GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n" + GET, CLOSING + BODY, True),
    "HTTP/1.0": (b"GET /metrics HTTP/1.0\r\n\r\n", CLOSING + BODY, True),
    "chunked": (
        b"POST /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        CLOSING + BODY,
        True,
    ),
    "no start line": (b"nonsense\r\n\r\n", b"", True),
}


@pytest.mark.parametrize(("sent", "answer", "closes"), DIALOGUES.values(), ids=DIALOGUES.keys())
def test_dialogue(sent: bytes, answer: bytes, *, closes: bool) -> None:
    connection, transport = connected()
    connection.data_received(sent)
    assert (transport.written, transport.is_closed) == (answer, closes)


@pytest.mark.parametrize(("sent", "answer", "closes"), DIALOGUES.values(), ids=DIALOGUES.keys())
def test_dialogue_byte_by_byte(sent: bytes, answer: bytes, *, closes: bool) -> None:
    connection, transport = connected()
    for index in range(len(sent)):
        connection.data_received(sent[index : index + 1])
    assert (transport.written, transport.is_closed) == (answer, closes)


def test_gzip_when_asked() -> None:
    connection, transport = connected()
    connection.data_received(b"GET /metrics HTTP/1.1\r\nAccept-Encoding: br, gzip\r\n\r\n")
    head, _, body = transport.written.partition(b"\r\n\r\n")
    assert b"\r\nContent-Encoding: gzip\r\n" in head
    assert gzip.decompress(body) == BODY


def test_a_head_without_an_end_is_cut_off() -> None:
    connection, transport = connected()
    connection.data_received(b"GET /" + b"x" * 70_000)
    assert transport.is_aborted


def test_a_client_that_does_not_read_is_not_read_from() -> None:
    connection, transport = connected()
    connection.pause_writing()
    assert transport.is_reading_paused
    connection.resume_writing()
    assert not transport.is_reading_paused


async def test_the_process_serves_and_stops() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pyrbacproxy.demo.crio", "--port=0", "--size=100000"),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout
        host, _, port = (await process.stdout.readline()).decode().strip().partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /metrics HTTP/1.0\r\n\r\n")
        answer = await reader.read()
        writer.close()
    finally:
        process.send_signal(signal.SIGTERM)
    assert answer.endswith(b"\r\n\r\n" + exposition(100_000))
    assert await process.wait() == 0

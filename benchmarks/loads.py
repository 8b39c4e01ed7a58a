"""Loads on a proxy, over loopback: wrk for figures, plain sockets for client certificates."""

import re
import socket
import ssl
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from benchmarks import api
from benchmarks.process import Program

CONNECTIONS = 16
_UNITS_MS = {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0}


@dataclass(frozen=True, slots=True)
class Load:
    """What one run of wrk saw, and the CPU time that the proxy took for it."""

    requests: int
    seconds: float
    cpu_seconds: float
    p50_ms: float
    p99_ms: float

    @property
    def per_cpu_second(self) -> float:
        """Requests per second of the proxy's own CPU time."""
        return self.requests / max(self.cpu_seconds, 0.01)


def wrk(program: Program, port: int, size: int, seconds: int) -> Load:
    """Run wrk with a bearer token: 16 connections, kept alive.

    Raises SystemExit when an answer was not a success.
    """
    before = program.cpu_seconds()
    # argv is ours, every part of it.
    command = ["wrk", "--threads=1", f"--connections={CONNECTIONS}", f"--duration={seconds}s"]
    command += ["--latency", "--timeout=20s", "--header", f"Authorization: Bearer {api.TOKEN}"]
    command.append(f"https://127.0.0.1:{port}/{size}")
    text = subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=seconds + 60
    ).stdout
    cpu_seconds = program.cpu_seconds() - before
    program.assert_alive()
    if "Non-2xx" in text or not (found := re.search(r"(\d+) requests in ([\d.]+)(\w+),", text)):
        raise SystemExit(f"wrk: {text}")
    return Load(
        int(found[1]),
        float(found[2]) * _UNITS_MS[found[3]] / 1000,
        cpu_seconds,
        _percentile_ms(text, 50),
        _percentile_ms(text, 99),
    )


def _percentile_ms(text: str, percent: int) -> float:
    found = re.search(rf"^ +{percent}% +([\d.]+)(\w+)", text, re.MULTILINE)
    return float(found[1]) * _UNITS_MS[found[2]] if found else 0.0


class Client:
    """One TLS connection that asks for files, with the context's certificate or with a token."""

    def __init__(self, port: int, context: ssl.SSLContext, token: str = "") -> None:
        connection = socket.create_connection(("127.0.0.1", port), 10)
        # As Go's clients and curl do. Else a small request waits behind the handshake's last flight
        # until the proxy acknowledges that: 40 ms, unless it has a session ticket to send.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = context.wrap_socket(connection, server_hostname="localhost")
        self._line = f"Authorization: Bearer {token}\r\n" if token else ""

    def get(self, size: int) -> None:
        """Ask for one file and read it whole. Raises OSError when the answer is no success."""
        head = f"GET /{size} HTTP/1.1\r\nHost: localhost\r\n{self._line}\r\n"
        self._socket.sendall(head.encode())
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._received()
        if not data.startswith(b"HTTP/1.1 200 "):
            raise OSError(data[:100].decode("latin-1"))
        left = size - len(data.partition(b"\r\n\r\n")[2])
        while left > 0:
            left -= len(self._received())

    def get_until(self, deadline: float, size: int) -> None:
        """Ask again and again until `deadline` (monotonic seconds)."""
        while time.monotonic() < deadline:
            self.get(size)

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def _received(self) -> bytes:
        data = self._socket.recv(262_144)
        if not data:
            raise OSError("the proxy closed the connection")
        return data


def fresh(program: Program, port: int, context: ssl.SSLContext, token: str, seconds: int) -> Load:
    """A new connection with a full handshake for each request, 16 at a time, no warming up.

    wrk resumes sessions where a proxy offers tickets; then it compares two different things.
    """
    before, begun = program.cpu_seconds(), time.monotonic()
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        work = [
            pool.submit(_fresh_until, begun + seconds, port, context, token)
            for _ in range(CONNECTIONS)
        ]
        delays = sorted(delay for each in work for delay in each.result())
    cpu_seconds = program.cpu_seconds() - before
    program.assert_alive()
    middle, last = delays[len(delays) // 2], delays[len(delays) * 99 // 100]
    return Load(len(delays), time.monotonic() - begun, cpu_seconds, middle, last)


def _fresh_until(deadline: float, port: int, context: ssl.SSLContext, token: str) -> list[float]:
    """How long each took, in ms."""
    delays = []
    while (begun := time.monotonic()) < deadline:
        client = Client(port, context, token)
        client.get(160)
        client.close()
        delays.append((time.monotonic() - begun) * 1000)
    return delays


def plain(port: int, context: ssl.SSLContext, size: int, seconds: int) -> None:
    """Load with a client certificate, which wrk can't: 16 connections, each in a thread."""
    clients = [Client(port, context) for _ in range(CONNECTIONS)]
    deadline = time.monotonic() + seconds
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        # The list raises what a thread raised.
        list(pool.map(lambda client: client.get_until(deadline, size), clients))
    for client in clients:
        client.close()

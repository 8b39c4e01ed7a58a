"""A CRI-O-like upstream on loopback, run as its own process.

`python -m pyrbacproxy.demo.crio --port 0 --size 100000` prints its address as its first line. It
answers from prebuilt bytes, so that a load measures the proxy and not it: /metrics as Go's promhttp
does, gzip when asked, and 404 for the rest. A request that brings a chunked body is answered and
its connection closed.
"""

import argparse
import asyncio
import gzip
import re
import signal
import sys
import time
from email.utils import formatdate

import uvloop

from pyrbacproxy.demo.crio_metrics import exposition

_TYPE = b"text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
_HEAD_LIMIT_BYTES = 64 * 1024
_GZIP = re.compile(rb"\r\naccept-encoding:[^\r\n]*\bgzip\b", re.IGNORECASE)
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:", re.IGNORECASE)
_CLOSE = re.compile(rb"\r\nconnection:[^\r\n]*\bclose\b", re.IGNORECASE)


class Answers:
    """The finished answers. Their heads are made anew every second, for the Date."""

    def __init__(self, body: bytes, now: float) -> None:
        self.plain_body = body
        self.gzip_body = gzip.compress(body, compresslevel=6, mtime=0)
        self.missing_body = b"404 page not found\n"
        self.refresh(now)

    def refresh(self, now: float) -> None:
        """Set the Date of the heads to `now` (seconds since the epoch)."""
        date = formatdate(now, usegmt=True).encode()
        start = b"HTTP/1.1 200 OK\r\nContent-Type: " + _TYPE
        self.plain_head = _head(start, self.plain_body, date)
        self.gzip_head = _head(start + b"\r\nContent-Encoding: gzip", self.gzip_body, date)
        missing = (
            b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain; charset=utf-8"
            b"\r\nX-Content-Type-Options: nosniff"
        )
        self.missing_head = _head(missing, self.missing_body, date)

    def answer(self, method: bytes, path: bytes, *, takes_gzip: bool) -> tuple[bytes, bytes]:
        """Head and body, which is empty for HEAD."""
        if path != b"/metrics":
            head, body = self.missing_head, self.missing_body
        elif takes_gzip:
            head, body = self.gzip_head, self.gzip_body
        else:
            head, body = self.plain_head, self.plain_body
        return head, (b"" if method == b"HEAD" else body)


class CrioConnection(asyncio.Protocol):
    """One connection: cut heads off what came in, skip bodies, answer in order."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._body_left_bytes = 0

    # uvloop's transports are no subclasses of asyncio's, so nothing can narrow the declared type.
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See `asyncio.Protocol`."""
        self._transport = transport

    def pause_writing(self) -> None:
        """A client that does not read gets no further request read."""
        if self._transport:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """The client reads again."""
        if self._transport:
            self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        self._buffer = self._buffer + data if self._buffer else data
        while self._transport and not self._transport.is_closing():
            if self._body_left_bytes:
                skipped = min(self._body_left_bytes, len(self._buffer))
                self._buffer = self._buffer[skipped:]
                self._body_left_bytes -= skipped
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0 or self._body_left_bytes:
                if len(self._buffer) > _HEAD_LIMIT_BYTES:
                    self._transport.abort()
                return
            head, self._buffer = self._buffer[:end], self._buffer[end + 4 :]
            self._serve(self._transport, head)

    def _serve(self, transport: asyncio.Transport, head: bytes) -> None:
        words = head.partition(b"\r\n")[0].split(b" ")
        if len(words) != len(("method", "target", "version")):
            transport.abort()
            return
        path, takes_gzip = words[1].partition(b"?")[0], bool(_GZIP.search(head))
        answer_head, body = self._answers.answer(words[0], path, takes_gzip=takes_gzip)
        ends = words[2] != b"HTTP/1.1" or bool(_CLOSE.search(head) or _CHUNKED.search(head))
        if ends:
            answer_head = answer_head[:-2] + b"Connection: close\r\n\r\n"
        # One write for what fits a segment or two; a large body is not copied behind its head.
        if len(body) < _HEAD_LIMIT_BYTES:
            transport.write(answer_head + body)
        else:
            transport.write(answer_head)
            transport.write(body)
        if ends:
            transport.close()
            return
        length = _LENGTH.search(head)
        self._body_left_bytes = int(length[1]) if length else 0


async def serve(port: int, size_bytes: int | None) -> None:
    """Serve on 127.0.0.1 until SIGINT or SIGTERM; port 0 takes a free one.

    Raises OSError when the port is taken.
    """
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, ended.set)
    answers = Answers(exposition(size_bytes), time.time())
    server = await loop.create_server(
        lambda: CrioConnection(answers), "127.0.0.1", port, backlog=1024
    )
    sys.stdout.write(f"127.0.0.1:{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    _keep_fresh(loop, answers)
    await ended.wait()
    server.close()


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(prog="python -m pyrbacproxy.demo.crio", description=__doc__)
    parser.add_argument("--port", type=int, default=9537, help="0 takes a free one")
    parser.add_argument("--size", type=int, help="size of the body in bytes, before gzip")
    options = parser.parse_args()
    if options.size is not None and options.size < 0:
        parser.error("--size: a size can't be negative")
    uvloop.run(serve(options.port, options.size))


def _keep_fresh(loop: asyncio.AbstractEventLoop, answers: Answers) -> None:
    answers.refresh(time.time())
    loop.call_later(1, _keep_fresh, loop, answers)


def _head(start: bytes, body: bytes, date: bytes) -> bytes:
    return b"%b\r\nDate: %b\r\nContent-Length: %d\r\n\r\n" % (start, date, len(body))


if __name__ == "__main__":
    main()

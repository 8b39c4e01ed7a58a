"""Stand-ins for the world, shared by the tests."""

import asyncio
import socket
from collections.abc import Callable, Iterable
from typing import TypeVar, cast

from pyrbacproxy.handler import Request
from pyrbacproxy.http1.head import Headers, RequestHead
from pyrbacproxy.http1.target import parse_target
from pyrbacproxy.model import Answer, Peer, Review, Reviewed

T = TypeVar("T")

# --- reviews ------------------------------------------------------------------------


def drive(steps: Reviewed[T], answers: Iterable[Answer] = ()) -> tuple[T, list[Review]]:
    """Run pure code to its end: its result, and what it asked. Every answer must be wanted."""
    waiting = list(answers)
    asked: list[Review] = []
    try:
        asked.append(next(steps))
        while True:
            asked.append(steps.send(waiting.pop(0)))
    except StopIteration as stop:
        assert not waiting, "an answer was not asked for"
        result: T = stop.value
        return result, asked


# --- requests -----------------------------------------------------------------------


def request(
    target: bytes = b"/metrics",
    *lines: tuple[bytes, bytes],
    method: bytes = b"GET",
    peer: Peer | None = None,
    received_at: float = 0.0,
    minor: int = 1,
) -> Request:
    """A request as the data plane would hand it to a handler."""
    return Request(
        head=RequestHead(method, target, Headers(lines), minor),
        target=parse_target(method, target),
        peer=peer or Peer("127.0.0.1"),
        received_at=received_at,
    )


# --- time and transports ------------------------------------------------------------


class ManualLoop:
    """As much of an event loop as timers need; its time goes on by `advance` alone."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.timers: list[ManualTimer] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], None]) -> "ManualTimer":
        timer = ManualTimer(self, when, callback)
        self.timers.append(timer)
        return timer

    def call_soon(self, callback: Callable[[], None]) -> "ManualTimer":
        return self.call_at(self.now, callback)

    def advance(self, seconds: float) -> None:
        """Let time pass, and fire what falls due meanwhile, in order."""
        until = self.now + seconds
        while due := [timer for timer in self.timers if timer.when <= until]:
            timer = min(due, key=lambda timer: timer.when)
            self.timers.remove(timer)
            self.now = max(self.now, timer.when)
            timer.callback()
        self.now = until

    def turn(self) -> None:
        """Do what was asked to be done soon, but not yet what that asks for."""
        for timer in [timer for timer in self.timers if timer.when <= self.now]:
            self.timers.remove(timer)
            timer.callback()

    def as_loop(self) -> asyncio.AbstractEventLoop:
        """Itself, for those who ask for the whole interface."""
        return cast("asyncio.AbstractEventLoop", self)


class ManualTimer:
    """A timer of a `ManualLoop`."""

    def __init__(self, loop: ManualLoop, when: float, callback: Callable[[], None]) -> None:
        self.loop = loop
        self.when = when
        self.callback = callback

    def cancel(self) -> None:
        if self in self.loop.timers:
            self.loop.timers.remove(self)


class TapeTransport(asyncio.Transport):
    """A transport that notes what is done with it. `pending_bytes` is what it claims to hold."""

    def __init__(self, peername: tuple[str, int] | None = ("127.0.0.1", 4711)) -> None:
        super().__init__({"peername": peername, "socket": self})
        self.written = b""
        self.done: list[str] = []
        self.pending_bytes = 0
        self.knows_eof = True
        self.family = socket.AF_INET
        self.protocol: asyncio.BaseProtocol | None = None
        self._is_closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def setsockopt(self, _: int, option: int, __: object) -> None:
        if option == socket.SO_LINGER:
            self.done.append("reset on close")
        elif option == socket.SO_KEEPALIVE:
            self.done.append("probe")

    def get_write_buffer_size(self) -> int:
        return self.pending_bytes

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def pause_reading(self) -> None:
        self.done.append("pause")

    def resume_reading(self) -> None:
        self.done.append("resume")

    def can_write_eof(self) -> bool:
        return self.knows_eof

    def write_eof(self) -> None:
        self.done.append("eof")

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self._is_closing = True
        self.done.append("close")

    def abort(self) -> None:
        self._is_closing = True
        self.done.append("abort")

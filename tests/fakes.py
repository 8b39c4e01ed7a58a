"""Stand-ins for the world, shared by the tests."""

from collections.abc import Iterable
from typing import TypeVar

from pyrbacproxy.handler import Request
from pyrbacproxy.http1.head import Headers, RequestHead
from pyrbacproxy.http1.target import parse_target
from pyrbacproxy.peer import Peer
from pyrbacproxy.reviews import Answer, Review, Reviewed

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

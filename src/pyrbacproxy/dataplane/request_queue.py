"""What a client has sent and nobody has taken yet: the parser's events, and its fault last.

The parser gives at most 16 requests at once and holds back what follows them, or what follows a
request for a tunnel; it goes on when all that it gave is taken.
"""

from collections.abc import Callable
from typing import TypeAlias

from pyrbacproxy.http1.errors import RemoteProtocolError
from pyrbacproxy.http1.parser import RequestEvent, RequestParser

Queued: TypeAlias = RequestEvent | RemoteProtocolError


class RequestQueue:
    """The events of one connection's requests."""

    __slots__ = ("_events", "_parser")

    def __init__(self, *, max_head_bytes: int) -> None:
        self._parser = RequestParser(max_head_bytes=max_head_bytes)
        # Short, and a list takes a tenth of a deque's memory in an idle connection.
        self._events: list[Queued] = []

    def __len__(self) -> int:
        return len(self._events)

    @property
    def is_idle(self) -> bool:
        """At a message's boundary, with nothing begun and nothing waiting."""
        return not self._events and self._parser.is_idle

    @property
    def has_more(self) -> bool:
        """Whether something waits, be it unparsed."""
        return bool(self._events) or self._parser.is_held

    @property
    def has_begun_head(self) -> bool:
        """Whether some bytes of a head are here, but not all."""
        return self._parser.has_begun_head

    def feed(self, data: bytes) -> bool:
        """Take bytes; false if they only wait behind others, so that no more should be read."""
        was_held = self._parser.is_held
        self._collect(lambda: self._parser.feed(data))
        return not was_held

    def refill(self) -> None:
        """Go on with what was held back, if nothing else waits."""
        if not self._events and self._parser.is_held:
            self._collect(self._parser.resume)

    def take(self) -> Queued:
        """The next event. Raises IndexError if there is none."""
        return self._events.pop(0)

    def take_rest(self) -> bytes:
        """The bytes behind a request for a tunnel, once all of that request is taken."""
        return self._parser.take_held()

    def clear(self) -> None:
        """Forget what waits."""
        self._events.clear()

    def _collect(self, parse: Callable[[], list[RequestEvent]]) -> None:
        if self._parser.fault is not None:
            return
        try:
            self._events.extend(parse())
        except RemoteProtocolError as fault:
            self._events.append(fault)
        else:
            if self._parser.fault is not None:
                self._events.append(self._parser.fault)

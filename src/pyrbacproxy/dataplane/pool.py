"""Idle upstream connections: check out, check in, what to close. Books only.

The newest idle connection is taken first: it is the least likely to have been closed by the
upstream meanwhile, and the older ones age until their idle time is over.
"""

from typing import Generic, TypeVar

C = TypeVar("C")


class Pool(Generic[C]):
    """At most `max_idle` connections that wait for an exchange, oldest first."""

    __slots__ = ("_idle", "_max_idle")

    def __init__(self, max_idle: int) -> None:
        self._idle: list[C] = []
        self._max_idle = max_idle

    def __len__(self) -> int:
        return len(self._idle)

    def check_out(self) -> C | None:
        """The connection used last, now the caller's; None when none is idle."""
        return self._idle.pop() if self._idle else None

    def check_in(self, connection: C) -> C | None:
        """Take a connection back; the one returned, if any, has no place and must be closed."""
        self._idle.append(connection)
        return self._idle.pop(0) if len(self._idle) > self._max_idle else None

    def discard(self, connection: C) -> None:
        """Forget a connection that is closed; one that is not idle is no fault."""
        if connection in self._idle:
            self._idle.remove(connection)

    def clear(self) -> list[C]:
        """Forget all; they must be closed."""
        idle, self._idle = self._idle, []
        return idle

"""What a client may make us do for nothing: frames that ask for no work, streams that it gives up.

Each such frame costs, time and useful work pay it back. A client that runs out of both is told to
calm down: pings, settings, priorities, window updates of a byte, empty DATA, CONTINUATION
(CVE-2019-9511 to 9518), resets in a hurry (CVE-2023-44487), and whatever makes us reset streams
(CVE-2025-8671).
"""

from collections.abc import Callable

_CAPACITY = 4000.0
_PER_SECOND = 100.0
# A SETTINGS frame may change the window of each stream.
_SETTINGS_COST = 10
_SETTING_BYTES = 6
# For each answer, and for each piece of a body that a client may take back windows for, as Go's
# does (`inflowMinRefresh`): the updates of stream and connection, and a ping to measure with. A
# small frame pays for what opened the window for it, and nothing else.
_USEFUL_WORK = 3
_USEFUL_BYTES = 1024
_PIECE_BYTES = 4096
_ABANDONED_PER_STREAM = 4


def settings_cost(payload: bytes) -> int:
    """What a SETTINGS frame costs: one of the largest size has 43,690 settings."""
    return _SETTINGS_COST + len(payload) // _SETTING_BYTES


class Budget:
    """One connection's account. `clock` tells monotonic seconds; it is asked rarely."""

    __slots__ = ("_abandoned", "_clock", "_left", "_max_abandoned", "_paid_at")

    def __init__(self, max_streams: int, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._left = _CAPACITY
        self._paid_at = clock()
        self._abandoned = 0
        self._max_abandoned = _ABANDONED_PER_STREAM * max_streams

    def spend(self, cost: int = 1) -> bool:
        """Pay for a frame; false if there is nothing left to pay with."""
        self._left -= cost
        if self._left < 0:
            now = self._clock()
            self._left = min(_CAPACITY, self._left + (now - self._paid_at) * _PER_SECOND)
            self._paid_at = now
        return self._left >= 0

    def moved(self, size: int) -> None:
        """So many bytes of a body went one way or the other."""
        if size:
            pieces = -(-size // _PIECE_BYTES)
            work = _USEFUL_WORK * pieces if size >= _USEFUL_BYTES else 1
            self._left = min(_CAPACITY, self._left + work)

    def answered(self) -> None:
        """A stream got its whole answer."""
        self._left = min(_CAPACITY, self._left + _USEFUL_WORK)
        if self._abandoned:
            self._abandoned -= 1

    def abandoned(self) -> bool:
        """A stream ended without its answer, whoever reset it; false if too many did."""
        self._abandoned += 1
        return self._abandoned <= self._max_abandoned

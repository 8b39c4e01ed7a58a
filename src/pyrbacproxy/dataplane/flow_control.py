"""Who is paused by whom: the reasons why one side is not being read. Books only.

Reading pauses with the first reason and goes on with the last, so that two parties that hold the
same side cannot release each other's hold.
"""

from enum import Enum, auto


class Reason(Enum):
    """Why a side is not read."""

    BODY_WAITS = auto()  # body bytes are here, but nobody to give them to yet
    UPSTREAM_FULL = auto()  # the upstream's write buffer is over its mark
    QUEUE = auto()  # pipelined requests wait for their turn


class Brake:
    """The `reasons` that hold one side."""

    __slots__ = ("reasons",)

    def __init__(self) -> None:
        self.reasons: frozenset[Reason] = frozenset()

    def hold(self, reason: Reason) -> bool:
        """Add a reason; true when it is the first, so that reading must pause now."""
        is_first = not self.reasons
        self.reasons |= {reason}
        return is_first

    def release(self, *reasons: Reason) -> bool:
        """Remove reasons; true when none is left but one was, so that reading may go on now."""
        if not self.reasons:
            return False
        self.reasons = self.reasons.difference(reasons)
        return not self.reasons

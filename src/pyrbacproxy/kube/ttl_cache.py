"""A bounded, expiring map; it is told the time.

What was used longest ago makes room. Looking something up never prolongs its life: an answer that
is asked for all the time still ends when its time is over (D14: "repeats don't extend it").
"""

from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class TtlCache(Generic[K, V]):
    """At most `capacity` values, each until its own instant (monotonic seconds, exclusive)."""

    def __init__(self, *, capacity: int) -> None:
        self._capacity = capacity
        self._entries: OrderedDict[K, tuple[V, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K, now: float) -> tuple[V, float] | None:
        """The value with the instant when it ends, or None. The stored pair itself: nothing is made
        on a hit.
        """
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry[1] <= now:
            del self._entries[key]
            return None
        self._entries.move_to_end(key)
        return entry

    def put(self, key: K, value: V, expires_at: float) -> None:
        """Remember `value` until `expires_at`, in place of what was there."""
        self._entries[key] = (value, expires_at)
        self._entries.move_to_end(key)
        if len(self._entries) > self._capacity:
            self._entries.popitem(last=False)

    def drop(self, key: K) -> None:
        """Forget what is there for `key`, if anything is."""
        self._entries.pop(key, None)

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()

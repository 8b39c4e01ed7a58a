"""A log handler that rations: so many lines of one kind a second, and how many more there were.

Who cannot be authenticated must not be able to fill a disk. A line is rationed when its record
names its kind, as in `extra={RATION: "upstream"}`; kinds are few, and never from the wire.
"""

import logging
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from typing import TextIO

RATION = "ration"
LINES_A_SECOND = 10


@dataclass(slots=True)
class _Kind:
    """One kind's lines in the second that began at a moment; the newest of them."""

    began_at: float
    newest: logging.LogRecord
    lines: int = 0

    def is_over(self, now: float) -> bool:
        """Whether the second is; a clock that was set back ends it too."""
        return not 0.0 <= now - self.began_at < 1.0


class FloodHandler(logging.StreamHandler[TextIO]):
    """Writes to a stream. What was left out is told before the next line, of whatever kind."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._kinds: dict[str, _Kind] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record, if its kind's ration allows it."""
        for told in tuple(self._overdue(record.created)):
            super().emit(told)
        if self._is_within_ration(record):
            super().emit(record)

    def _is_within_ration(self, record: logging.LogRecord) -> bool:
        name = getattr(record, RATION, None)
        if name is None:
            return True
        kind = self._kinds.setdefault(name, _Kind(record.created, record))
        kind.lines += 1
        kind.newest = record
        return kind.lines <= LINES_A_SECOND

    def _overdue(self, now: float) -> Iterator[logging.LogRecord]:
        """A line for each kind of which lines were left out in a second that is over."""
        for name, kind in tuple(self._kinds.items()):
            if not kind.is_over(now):
                continue
            del self._kinds[name]
            if kind.lines > LINES_A_SECOND:
                told = copy(kind.newest)
                told.msg = "Left out %d more lines like this within a second: %s"
                told.args, told.exc_info = (kind.lines - LINES_A_SECOND, name), None
                yield told

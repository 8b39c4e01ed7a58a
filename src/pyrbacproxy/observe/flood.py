"""A log handler that rations: so many lines of one kind a second, and how many more there were.

Who cannot be authenticated must not be able to fill a disk. A line is rationed when its record
names its kind, as in `extra={RATION: "upstream"}`; kinds are few, and never from the wire. Lines
that nobody reads are left out as well.
"""

import logging
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from typing import Protocol

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


class Stream(Protocol):
    """What lines are written to."""

    def write(self, text: str, /) -> object:
        """Write a line with its end."""
        ...


class FloodHandler(logging.StreamHandler[Stream]):
    """Writes to a stream that `is_ready`. What was left out is told before the next line, of
    whatever kind.
    """

    def __init__(self, stream: Stream, is_ready: Callable[[], bool] = lambda: True) -> None:
        super().__init__(stream)
        self._is_ready = is_ready
        self._kinds: dict[str, _Kind] = {}
        self._unread = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record, if its kind's ration allows it."""
        for told in tuple(self._overdue(record.created)):
            self._write(told)
        if self._is_within_ration(record):
            self._write(record)

    def _write(self, record: logging.LogRecord) -> None:
        try:
            is_ready = self._is_ready()
        except OSError:  # whoever read it is gone
            is_ready = False
        if not is_ready:
            self._unread += 1
            return
        if self._unread:
            text = "Left out %d lines: nobody read them"
            lines, self._unread = self._unread, 0
            super().emit(_about(record, text, lines))
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
                text = "Left out %d more lines like this within a second: %s"
                yield _about(kind.newest, text, kind.lines - LINES_A_SECOND, name)


def _about(record: logging.LogRecord, text: str, *values: object) -> logging.LogRecord:
    """A line that says this, from where the record comes from."""
    told = copy(record)
    told.msg, told.args, told.exc_info = text, values, None
    return told

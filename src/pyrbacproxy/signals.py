"""SIGINT and SIGTERM from the program's first line to its last: one handler, which never raises.

What a signal handler raises surfaces wherever the interpreter happens to be, and is dropped in a
weakref callback or a destructor (FR91); in the middle of the event loop's set-up it leaves half an
event loop (FR92). So one handler stays in place and acts by itself. This module imports almost
nothing: it comes before all others.
"""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

_NUMBERS = (signal.SIGINT, signal.SIGTERM)


class Signals:
    """What a signal does: exit with 0 at once while nothing is served; the first one after
    `serves` calls what that was given, the next exits with 1 at once (D12).
    """

    def __init__(self) -> None:
        self._first: Callable[[], object] | None = None
        self._second: Callable[[], object] | None = None
        self._has_called_first = False

    def catch(self) -> None:
        """Install the handler; for the main thread."""
        for number in _NUMBERS:
            signal.signal(number, self._caught)

    def serves(self, first: Callable[[], object], second: Callable[[], object]) -> None:
        """From now on there is something to end in order.

        Both are called within the handler: `first` only wakes the event loop, `second` logs.
        """
        self._second = second
        self._first = first

    def _caught(self, _number: int, _frame: FrameType | None) -> None:
        if self._first is None:
            # Without unwinding: nothing was begun that the kernel does not end.
            os._exit(0)
        if self._has_called_first:
            try:
                if self._second is not None:
                    self._second()
            finally:
                os._exit(1)
        self._has_called_first = True
        # The event loop is closed: the process ends as it is.
        with suppress(RuntimeError):
            self._first()

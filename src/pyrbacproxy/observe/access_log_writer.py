"""An observer of exchanges that has their lines written, in one go for each turn of the loop."""

import asyncio
import logging
from collections.abc import Callable

from pyrbacproxy.background import Activity
from pyrbacproxy.observe.access_log import line
from pyrbacproxy.observe.flood import RATION
from pyrbacproxy.observe.line_outlet import MOST_BYTES, LineOutlet
from pyrbacproxy.observe.logs import structured
from pyrbacproxy.record import ExchangeRecord

# What waits while stdout takes nothing: some hundred lines, so that a reader may be late.
_MOST_WAITING_BYTES = 256 * 1024
_RETRY_SECONDS = 0.1
_FULL = "nobody reads it"
# A reader that is too slow by a little makes us say both all the time.
_RATIONED = {RATION: "access log"}
_LOG = logging.getLogger(__name__)


class AccessLog:
    """The access log. Serving never waits for it: lines that cannot be written are dropped.

    `dropped` counts those. `wall_clock` tells seconds since the epoch. It owns the outlet.
    """

    def __init__(
        self,
        outlet: LineOutlet,
        loop: asyncio.AbstractEventLoop,
        wall_clock: Callable[[], float],
    ) -> None:
        self.dropped = 0
        self.activity = Activity("access log")
        self._outlet = outlet
        self._loop = loop
        self._wall_clock = wall_clock
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._next: asyncio.Handle | None = None
        self._dropped_before = 0
        self._is_closed = False

    def observe(self, record: ExchangeRecord) -> None:
        """Have the exchange's line written soon."""
        written = line(record, self._wall_clock())
        if self._is_closed or self._waiting_bytes + len(written) > _MOST_WAITING_BYTES:
            self._drop(1, _FULL)
            return
        self._waiting.append(written)
        self._waiting_bytes += len(written)
        if self._next is None:
            self._next = self._loop.call_soon(self._flush)

    def close(self) -> None:
        """Write what can be written at once; lines that come later are dropped."""
        if self._next is not None:
            self._next.cancel()
        self._flush()
        if self._next is not None:
            self._next.cancel()
            self._drop(len(self._waiting), _FULL)
        self._is_closed = True
        self._outlet.close()

    def _flush(self) -> None:
        self._next = None
        begin = 0
        try:
            while begin < len(self._waiting):
                end = self._end_of_group(begin)
                if not self._outlet.write(b"".join(self._waiting[begin:end])):
                    self._next = self._loop.call_later(_RETRY_SECONDS, self._flush)
                    break
                begin = end
            else:
                self._tell_of_recovery(begin)
        except OSError as error:
            self._drop(len(self._waiting) - begin, str(error.strerror))
            begin = len(self._waiting)
        except Exception as error:  # noqa: BLE001 - the lines wait for the next try
            self._next = self._loop.call_later(self.activity.failed(error), self._flush)
        else:
            self.activity.worked()
        self._waiting_bytes -= sum(map(len, self._waiting[:begin]))
        del self._waiting[:begin]

    def _end_of_group(self, begin: int) -> int:
        """Where the lines end that go out together."""
        size = 0
        for index in range(begin, len(self._waiting)):
            size += len(self._waiting[index])
            if size > MOST_BYTES:
                return index
        return len(self._waiting)

    def _drop(self, lines: int, reason: str) -> None:
        """Tell of the first alone: the metric counts them."""
        if self.dropped == self._dropped_before:
            words = structured("Access log lines are dropped", file=self._outlet.name, err=reason)
            _LOG.error("%s", words, extra=_RATIONED)
        self.dropped += lines

    def _tell_of_recovery(self, written: int) -> None:
        if written and self.dropped != self._dropped_before:
            lines, self._dropped_before = self.dropped - self._dropped_before, self.dropped
            name = self._outlet.name
            words = structured("Access log is written again", file=name, dropped=lines)
            _LOG.info("%s", words, extra=_RATIONED)

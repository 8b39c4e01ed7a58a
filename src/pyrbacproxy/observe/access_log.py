"""The access log: one JSON object per exchange to stdout or a file, without secrets."""

import asyncio
import json
import logging
import os
import re
import select
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache

from pyrbacproxy.background import Activity
from pyrbacproxy.model import ExchangeRecord
from pyrbacproxy.observe.logs import RATION, json_on_one_line, masked, structured, unwaiting
from pyrbacproxy.observe.metrics import UNDECIDED
from pyrbacproxy.regular_file import append_regular

# --- access log -----------------------------------------------------------------------
#
# One record, one line: an exchange as a JSON object for the access log, bounded, no secret in it.
#
# Whatever a client sends stays inside its string. Queries and headers are not in a record; what
# looks like a credential in a path or a name is masked.

# A line is shorter than this, and Linux writes as much to a pipe whole or not at all (pipe(7)).
MOST_BYTES = 4096
# Of single values, in bytes of JSON with the quotes; a service account's name has up to 339.
_PATH_BYTES = 2048
_NAME_BYTES = 512
_WORD_BYTES = 64
# JSON that some readers refuse (RFC 8259 section 8.2).
_UNPAIRED = re.compile(r"[\ud800-\udfff]")
# What one character takes at most: backslash, u and four digits.
_ESCAPE_BYTES = 6
_CUT = "\N{HORIZONTAL ELLIPSIS}"

_encode = json.JSONEncoder(ensure_ascii=False).encode


def line(record: ExchangeRecord, ended_at: float) -> bytes:
    """The line, with its end. `ended_at` is when the exchange was over, in seconds since the epoch.

    Times of steps that were not reached are null.
    """
    decided = record.decided
    if decided is None:
        outcome, user, identity, decision = UNDECIDED, "", "", ""
    else:
        outcome, user = decided.outcome.value, decided.user_name
        identity, decision = decided.identity_source, decided.decision_source
    waited_for = ",".join([_string(kind, _WORD_BYTES) for kind in record.waited_for])
    return (
        f'{{"time":"{_second(int(ended_at))}.{int(ended_at % 1 * 1000):03d}Z"'
        f',"peer":{_string(record.peer_address, _WORD_BYTES)}'
        f',"method":{_string(record.method, _WORD_BYTES)}'
        f',"path":{_string(record.path, _PATH_BYTES)}'
        f',"status":{record.status}'
        f',"user":{_string(user, _NAME_BYTES)}'
        f',"outcome":"{outcome}"'
        f',"identity_source":{_string(identity, _WORD_BYTES)}'
        f',"decision_source":{_string(decision, _WORD_BYTES)}'
        f',"waited_for":[{waited_for}]'
        f',"failure":{_string(record.failure or "", _WORD_BYTES)}'
        f',"received_bytes":{record.received_bytes}'
        f',"sent_bytes":{record.sent_bytes}'
        f',"decision_seconds":{_seconds(record.started_at, record.decided_at)}'
        f',"upstream_seconds":{_seconds(record.decided_at, record.upstream_answered_at)}'
        f',"total_seconds":{_seconds(record.started_at, record.ended_at)}}}\n'
    ).encode()


@lru_cache(maxsize=1)
def _second(instant: int) -> str:
    return datetime.fromtimestamp(instant, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _seconds(begun_at: float, ended_at: float) -> str:
    return f"{ended_at - begun_at:.6f}" if ended_at else "null"


def _string(text: str, most_bytes: int) -> str:
    """The text as a JSON string of at most that many bytes."""
    # Cut first, for what is remembered is bounded by it; twice as long, lest a mark that ends what
    # is to be masked is cut off.
    return _remembered(text[: 2 * most_bytes], most_bytes)


@lru_cache(maxsize=64)
def _remembered(text: str, most_bytes: int) -> str:
    """Remembered, because masking costs more than all else, and clients say the same again."""
    plain = _UNPAIRED.sub(_as_sent, masked(text))
    shown = _quoted(plain)
    around = len(f'"{_CUT}"'.encode())
    for kept in (most_bytes - around, (most_bytes - around) // _ESCAPE_BYTES):
        if len(shown.encode()) > most_bytes:
            shown = _quoted(plain[:kept] + _CUT)
    return shown


def _quoted(text: str) -> str:
    return json_on_one_line(_encode(text))


def _as_sent(found: re.Match[str]) -> str:
    """A byte that is no UTF-8 as the escape that it came as; of nobody's bytes, a mark for that."""
    byte = ord(found[0]) - 0xDC00
    return f"%{byte:02X}" if 0x80 <= byte <= 0xFF else "\N{REPLACEMENT CHARACTER}"  # noqa: PLR2004 - PEP 383


# --- line outlet ----------------------------------------------------------------------
# Where lines go without making us wait: stdout, or a file, opened anew once it was moved away.

STDOUT = "-"
# Known to be taken whole and at once by a pipe that is ready at all (pipe(7), poll(2)).
MOST_WAITING_BYTES = select.PIPE_BUF
_LOOK_SECONDS = 1.0
_MODE = 0o640
_LOG = logging.getLogger(__name__)


def open_outlet(path: str) -> "LineOutlet":
    """For `-` or a regular file's path. Raises OSError."""
    if path != STDOUT:
        return LineOutlet(append_regular(path, _MODE), path)
    if sys.__stdout__ is None:
        # Something else is in its place.
        raise OSError("stdout is closed")
    return LineOutlet(unwaiting(sys.stdout.fileno()))


class LineOutlet:
    """Writes to a descriptor, which it owns; to one of a file as long as that is found at `path`.

    A descriptor without a path stays as it is: whoever shares stdout with us would be surprised if
    it did not wait any more. `clock` tells monotonic seconds.
    """

    def __init__(
        self,
        descriptor: int,
        path: str = "",
        *,
        write: Callable[[int, bytes], int] = os.write,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = path or "stdout"
        self._path = path
        self._write = write
        self._clock = clock
        self._look_at = 0.0
        self._is_lost = False
        # Of a line that was begun when the disk was full.
        self._rest = b""
        self._use(descriptor)

    def write(self, lines: bytes) -> bool:
        """Write whole lines, together at most `MOST_BYTES`; False: not now, nothing was done.

        Raises OSError when they, or some of them, are lost.
        """
        if not self._ready.poll(0):
            return False
        self._look_for_file()
        left, self._rest = self._rest + lines, b""
        is_begun = left != lines
        try:
            while left:
                written = self._write(self._descriptor, left)
                is_begun = not left[:written].endswith(b"\n")
                left = left[written:]
        except OSError:
            if is_begun:
                line, end, _ = left.partition(b"\n")
                self._rest = line + end
            raise
        return True

    def close(self) -> None:
        """Close the descriptor; nothing may be written any more."""
        os.close(self._descriptor)

    def _use(self, descriptor: int) -> None:
        self._descriptor = descriptor
        # Not `selectors`: no system call for one look but poll itself.
        self._ready = select.poll()
        self._ready.register(descriptor, select.POLLOUT)

    def _look_for_file(self) -> None:
        """Open the file anew if it was rotated: at most once a second, for a look costs."""
        now = self._clock()
        if not self._path or now < self._look_at:
            return
        self._look_at = now + _LOOK_SECONDS
        if self._is_in_place():
            return
        try:
            descriptor = append_regular(self._path, _MODE)
        except OSError as error:
            self._tell_once(error)
            return
        self._is_lost = False
        self._rest = b""
        os.close(self._descriptor)
        self._use(descriptor)

    def _is_in_place(self) -> bool:
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(self._descriptor))  # noqa: PTH116 - beside fstat
        except OSError:
            return False

    def _tell_once(self, error: OSError) -> None:
        """Until it is found again the file that was moved away gets the lines."""
        if not self._is_lost:
            self._is_lost = True
            message = "Access log cannot be opened again; the old file is written on"
            _LOG.error("%s", structured(message, file=self.name, err=str(error.strerror)))


# --- access log writer ----------------------------------------------------------------
# An observer of exchanges that has their lines written, in one go for each turn of the loop.

# What waits while stdout takes nothing: some hundred lines, so that a reader may be late.
_MOST_WAITING_BYTES = 256 * 1024
_RETRY_SECONDS = 0.1
_FULL = "nobody reads it"
# A reader that is too slow by a little makes us say both all the time.
_RATIONED = {RATION: "access log"}


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
            if size > MOST_WAITING_BYTES:
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

"""Writes what is to be logged of an exchange: a refusal, its notes, a failed or slow upstream.

A refusal is one line (FR99): in the original's words where it has some, and then what an operator
needs to find the missing right or the wrong client. Each value is quoted as in JSON, so that no
name or path from the wire can look like another line or value; queries are in no record.

Whoever can reach us can have lines written, so refusals are rationed by kind and peer, and
everything that is always written by kind.
"""

import asyncio
import logging
import math
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pyrbacproxy.observe.flood import RATION
from pyrbacproxy.observe.logs import Structured, level_of
from pyrbacproxy.record import Decided, ExchangeRecord, Outcome

_LOG = logging.getLogger(__name__)
_REFUSING = 400
# One kind of one peer may have so many lines at once, and one more each second; others are counted,
# and the next line tells. Fewer than `flood` allows a kind, so that a peer leaves room for others.
_MOST_LINES = 5
_LINES_A_SECOND = 1.0
# Peers and kinds that are known at a time; the one that has been silent longest is forgotten.
_MOST_KNOWN = 1024
# How long the upstream's answer may take before the log says so, and how often that is looked at.
_LONG_SECONDS = 30.0
_LOOK_SECONDS = 3.0
_DECIDED_BY = {"static": "static rule", "review": "access review", "none": "no authorizer"}
# What a value may take; a path may have 64 KiB.
_LONGEST_VALUE = 512


@dataclass(slots=True)
class _Share:
    """What one kind and peer may still write; `seen_at` is in monotonic seconds."""

    seen_at: float
    lines: float = _MOST_LINES
    left_out: int = 0


class RefusalRation:
    """Decides which refusals are written; of bounded size."""

    def __init__(self) -> None:
        self._shares: OrderedDict[tuple[str, int, str], _Share] = OrderedDict()

    def __len__(self) -> int:
        return len(self._shares)

    def take(self, outcome: str, status: int, peer: str, now: float) -> int | None:
        """None if the line is to be left out, else how many were since the last one."""
        key = (outcome, status, peer)
        share = self._shares.get(key)
        if share is None:
            share = self._shares[key] = _Share(now)
            if len(self._shares) > _MOST_KNOWN:
                self._shares.popitem(last=False)
        else:
            self._shares.move_to_end(key)
            earned = max(0.0, now - share.seen_at) * _LINES_A_SECOND
            share.lines = min(_MOST_LINES, share.lines + earned)
            share.seen_at = now
        if share.lines < 1.0:
            share.left_out += 1
            return None
        share.lines -= 1.0
        left_out, share.left_out = share.left_out, 0
        return left_out


class DecisionLog:
    """Writes the lines of the exchanges of one listener, or of several.

    `verb_of` gives what Kubernetes calls a method.
    """

    def __init__(self, verb_of: Callable[[bytes], str]) -> None:
        self._verb_of = verb_of
        self._ration = RefusalRation()

    def observe(self, record: ExchangeRecord) -> None:
        """One line for a refusal, or for each note; free of secrets by their authors' care.

        An upstream that failed is told as the original tells it, in one line: without it a 502 is
        a riddle.
        """
        failure = record.failure
        if failure is not None and failure.reason:
            cause = f" ({record.cause})" if record.cause else ""
            _LOG.error("http: proxy error: %s%s", failure, cause, extra={RATION: "proxy error"})
        decided = record.decided
        if decided is None:
            return
        if decided.outcome is not Outcome.ALLOWED and not 0 < record.status < _REFUSING:
            self._refused(record, decided)
            return
        for note in decided.notes:
            level = logging.ERROR if note.is_error else level_of(note.level)
            rationed = {RATION: decided.outcome.value} if level >= logging.INFO else None
            _LOG.log(level, "%s", note.text, extra=rationed)

    def _refused(self, record: ExchangeRecord, decided: Decided) -> None:
        is_error = any(note.is_error for note in decided.notes)
        left_out = 0
        # Who asks for more gets all, as from the original.
        is_rationed = not _LOG.isEnabledFor(level_of(2))
        if is_rationed:
            kind = (decided.outcome, record.status, record.peer_address)
            taken = self._ration.take(*kind, record.ended_at)
            if taken is None:
                return
            left_out = taken
        verb = self._verb_of(record.method.encode()) if record.method else ""
        line = _refusal(record, decided, verb, left_out)
        rationed = {RATION: decided.outcome.value} if is_rationed or is_error else None
        _LOG.log(logging.ERROR if is_error else logging.INFO, "%s", line, extra=rationed)


class AnswerWatch:
    """Logs at `--v=2` each exchange whose upstream has not answered for 30 s (FR94).

    It looks at what runs every few seconds, so that no request pays for it, and not at all at a
    lower level. `awaiting` gives the exchanges that wait for an answer.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, awaiting: Callable[[], Iterable[ExchangeRecord]]
    ) -> None:
        self._loop = loop
        self._awaiting = awaiting
        # Since when each was seen waiting; the record keeps its id from being another's.
        self._seen: dict[int, tuple[ExchangeRecord, float]] = {}
        self._handle: asyncio.TimerHandle | None = None
        if _LOG.isEnabledFor(level_of(2)):
            self._look_later()

    def close(self) -> None:
        """Look no more."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _look_later(self) -> None:
        self._handle = self._loop.call_at(self._loop.time() + _LOOK_SECONDS, self._look)

    def _look(self) -> None:
        # First: a fault in this look must not end the looking.
        self._look_later()
        now = self._loop.time()
        seen: dict[int, tuple[ExchangeRecord, float]] = {}
        for record in self._awaiting():
            _, since = self._seen.get(id(record), (record, now))
            if now - since >= _LONG_SECONDS:
                self._tell(record)
                since = math.inf  # once
            seen[id(record)] = (record, since)
        self._seen = seen

    def _tell(self, record: ExchangeRecord) -> None:
        pairs = (
            ("peer", record.peer_address),
            ("user", "" if record.decided is None else record.decided.user_name),
            ("method", record.method),
            ("path", record.path),
        )
        text = f"the upstream has not answered for {_LONG_SECONDS:.0f} s; still waiting"
        shown = tuple((key, _cut(value, _LONGEST_VALUE)) for key, value in pairs if value)
        _LOG.log(level_of(2), "%s", Structured(text, shown, is_bare=True))


def _refusal(record: ExchangeRecord, decided: Decided, verb: str, left_out: int) -> Structured:
    words = " ".join(note.text for note in decided.notes) or "Refused"
    pairs: dict[str, str | int] = {
        "status": record.status,
        "peer": record.peer_address,
        "user": decided.user_name,
        "groups": ", ".join(decided.groups),
        "identity": decided.identity_source,
        "method": record.method,
        "verb": verb,
        "path": record.path,
        "asked": decided.asked,
        "decidedBy": _DECIDED_BY.get(decided.decision_source, ""),
        "leftOut": left_out,
    }
    shown = tuple((key, _short(value)) for key, value in pairs.items() if value)
    return Structured(_cut(words, 4 * _LONGEST_VALUE), shown, is_bare=True)


def _short(value: str | int) -> str | int:
    return _cut(value, _LONGEST_VALUE) if isinstance(value, str) else value


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}..."

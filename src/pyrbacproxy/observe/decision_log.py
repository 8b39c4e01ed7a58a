"""Writes what is to be logged of an exchange: its notes, each at its level, and a failed upstream.

Whoever can reach us can have them written, so those that are always written are rationed by
outcome.
"""

import logging

from pyrbacproxy.observe.flood import RATION
from pyrbacproxy.observe.logs import level_of
from pyrbacproxy.record import ExchangeRecord

_LOG = logging.getLogger(__name__)


def log_notes(record: ExchangeRecord) -> None:
    """One line for each note; its text is free of secrets by its author's care.

    An upstream that failed is told as the original tells it, in one line: without it a 502 is a
    riddle.
    """
    failure = record.failure
    if failure is not None and failure.reason:
        cause = f" ({record.cause})" if record.cause else ""
        _LOG.error("http: proxy error: %s%s", failure, cause, extra={RATION: "proxy error"})
    if record.decided is None:
        return
    for note in record.decided.notes:
        level = logging.ERROR if note.is_error else level_of(note.level)
        ration = {RATION: record.decided.outcome.value} if level >= logging.INFO else None
        _LOG.log(level, "%s", note.text, extra=ration)

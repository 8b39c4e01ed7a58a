"""Writes what pure code asked to be logged: the notes of one exchange, each at its level."""

import logging

from pyrbacproxy.observe.logs import level_of
from pyrbacproxy.record import ExchangeRecord

_LOG = logging.getLogger(__name__)


def log_notes(record: ExchangeRecord) -> None:
    """One line for each note; its text is free of secrets by its author's care."""
    if record.decided is None:
        return
    for note in record.decided.notes:
        _LOG.log(logging.ERROR if note.is_error else level_of(note.level), "%s", note.text)

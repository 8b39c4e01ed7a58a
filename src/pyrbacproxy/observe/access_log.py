"""One record, one line: an exchange as a JSON object for the access log, bounded, no secret in it.

Whatever a client sends stays inside its string. Queries and headers are not in a record; what looks
like a credential in a path or a name is masked.
"""

import json
import re
from datetime import UTC, datetime
from functools import lru_cache

from pyrbacproxy.observe.log_text import json_on_one_line, masked
from pyrbacproxy.observe.metrics import UNDECIDED
from pyrbacproxy.record import ExchangeRecord

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

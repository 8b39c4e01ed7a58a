"""`ExchangeRecord`: what happened in one exchange, handed to observers when it is over."""

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class Note:
    """One line for the log that pure code asks for; `level` as klog's -v (0 is always written)."""

    level: int
    text: str
    is_error: bool = False


class Outcome(Enum):
    """How an exchange was decided; the values are metric labels."""

    ALLOWED = "allowed"
    DENIED = "denied"
    UNAUTHENTICATED = "unauthenticated"
    REFUSED = "refused"  # other 3xx/4xx of our own: path, framing, redirect
    ERROR = "error"  # a review failed, or our own fault


@dataclass(slots=True)
class Decided:
    """Where a decision came from; "" where the step was not reached or did not ask.

    `identity_source` is "certificate", "token" or "none" (an ignored path);
    `decision_source` is "static", "review" or "none".
    """

    outcome: Outcome
    user_name: str = ""
    identity_source: str = ""
    decision_source: str = ""
    notes: tuple[Note, ...] = ()


@dataclass(slots=True)
class ExchangeRecord:
    """One request with its response. Instants are monotonic seconds, 0.0 when never reached.

    `status` is what the client got, 0 when it got no response head. `failure` is "" or a few plain
    words (upstream refused, client gone, truncated ...) without any text from the wire.
    """

    peer_address: str
    method: str
    path: str
    decided: Decided | None = None
    status: int = 0
    started_at: float = 0.0
    decided_at: float = 0.0
    upstream_answered_at: float = 0.0
    ended_at: float = 0.0
    received_bytes: int = 0
    sent_bytes: int = 0
    failure: str = ""

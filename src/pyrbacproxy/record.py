"""`ExchangeRecord`: what happened in one exchange, handed to observers when it is over."""

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Note:
    """One line for the log that pure code asks for; `level` as klog's -v (0 is always written)."""

    level: int
    text: str
    is_error: bool = False


class Outcome(StrEnum):
    """How an exchange was decided; the values are metric labels.

    A StrEnum, because its members are hashed in C: once a request.
    """

    ALLOWED = "allowed"
    DENIED = "denied"
    UNAUTHENTICATED = "unauthenticated"
    REFUSED = "refused"  # other 3xx/4xx of our own: path, framing, redirect
    ERROR = "error"  # a review failed, or our own fault


@dataclass(frozen=True, slots=True)
class PageShown:
    """A page about ourselves that was asked for: `resource` is "statusz" or "flagz".

    `group` and `version` are those of the object that was given, "" for text and for refusals.
    """

    resource: str
    group: str = ""
    version: str = ""


@dataclass(slots=True)
class Decided:
    """Where a decision came from; "" where the step was not reached or did not ask.

    `identity_source` is "certificate", "token", "oidc" or "none" (an ignored path);
    `decision_source` is "static", "review" or "none".
    """

    outcome: Outcome
    user_name: str = ""
    identity_source: str = ""
    decision_source: str = ""
    notes: tuple[Note, ...] = ()
    page: PageShown | None = None


@dataclass(slots=True)
class ExchangeRecord:
    """One request with its response. Instants are monotonic seconds, 0.0 when never reached.

    `status` is what the client got, 0 when it got no response head. `failure` is "" or a few plain
    words (upstream refused, client gone, truncated ...) without any text from the wire.
    `waited_for` names the kinds of review that the decision had to wait for; answers that were
    remembered are not among them.
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
    waited_for: tuple[str, ...] = ()

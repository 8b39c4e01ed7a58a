"""What one call to the API server came to when it brought no answer: worth another try, and when.

Only `kube.reviewer` looks at more than the reason; to everybody else it is a `ReviewFailed`.
"""

from dataclasses import dataclass
from enum import Enum

from pyrbacproxy.reviews import ReviewFailed


class Cause(Enum):
    """Why there is no answer: what it says of the API server (D15).

    `AWAY`: no connection to it, none that lasted for an answer, no answer in time, or a 5xx.
    `ANSWERED`: it is there, and what it said is no answer to the review. `NOT_ASKED`: the review
    did not reach it, and that says nothing of it: our own rate, no credential, somebody whose
    certificate can't be verified.
    """

    AWAY = "away"
    ANSWERED = "answered"
    NOT_ASKED = "not asked"


@dataclass(frozen=True, slots=True)
class FailedAttempt(ReviewFailed):
    """A call without an answer.

    `is_transient` says that the same call may well succeed shortly (reference 3.3.1 and 15.14: a
    connection reset, 500, 502, 504, 429, and whatever carries `Retry-After`); `retry_after_seconds`
    is what the server asked for, else 0.
    """

    is_transient: bool = False
    retry_after_seconds: float = 0.0
    cause: Cause = Cause.ANSWERED

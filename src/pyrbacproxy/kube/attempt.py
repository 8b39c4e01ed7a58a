"""What one call to the API server came to when it brought no answer: worth another try, and when.

Only `kube.reviewer` looks at more than the reason; to everybody else it is a `ReviewFailed`.
"""

from dataclasses import dataclass

from pyrbacproxy.reviews import ReviewFailed


@dataclass(frozen=True, slots=True)
class FailedAttempt(ReviewFailed):
    """A call without an answer.

    `is_transient` says that the same call may well succeed shortly (reference 3.3.1 and 15.14: a
    connection reset, 500, 502, 504, 429, and whatever carries `Retry-After`); `retry_after_seconds`
    is what the server asked for, else 0.
    """

    is_transient: bool = False
    retry_after_seconds: float = 0.0

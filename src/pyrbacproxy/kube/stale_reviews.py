"""Which positive answers may be used past their time, while the API server is away (D15).

The rule and its books alone: what is asked, and what is told to whom, is `kube.reviewer`'s.
"""

from collections.abc import Callable

from pyrbacproxy.kube.attempt import Cause, FailedAttempt
from pyrbacproxy.kube.token_expiry import expiry_of
from pyrbacproxy.kube.ttl_cache import TtlCache
from pyrbacproxy.reviews import Answer, Review, SubjectAccessReview, TokenReview

# So long after a try that failed nobody waits for another one.
RECENT_SECONDS = 5.0
# As many as are remembered. Accesses are a requester's to choose: they push out no token.
TOKEN_CAPACITY = 4096
ACCESS_CAPACITY = 8192


class StaleReviews:
    """Positive answers, kept for `period_seconds` beyond their time. Instants are monotonic
    seconds; keys are those of the answers' own cache.

    `trust` tells in whom we trust, by any value that changes with it (the client CA, the API server
    and its CA): an answer from another time of trust is none. `count` is told the kind of each
    review that was answered from here.
    """

    def __init__(
        self, period_seconds: float, *, trust: Callable[[], object], count: Callable[[str], None]
    ) -> None:
        self.period_seconds = period_seconds
        self.trust = trust
        self._count = count
        self._tokens: TtlCache[bytes, tuple[Answer, object]] = TtlCache(capacity=TOKEN_CAPACITY)
        self._accesses: TtlCache[SubjectAccessReview, tuple[Answer, object]] = TtlCache(
            capacity=ACCESS_CAPACITY
        )
        self._failed_at: float | None = None
        # Since the API server was last heard.
        self.uses = 0

    def keep(
        self, key: bytes | SubjectAccessReview, answer: Answer, expires_at: float, trust: object
    ) -> None:
        """A positive answer, whose time ends at `expires_at`; it was asked for under `trust`."""
        ends_at = expires_at + self.period_seconds
        if isinstance(key, bytes):
            self._tokens.put(key, (answer, trust), ends_at)
        else:
            self._accesses.put(key, (answer, trust), ends_at)

    def drop(self, key: bytes | SubjectAccessReview) -> None:
        """A newer answer is a refusal."""
        if isinstance(key, bytes):
            self._tokens.drop(key)
        else:
            self._accesses.drop(key)

    def clear(self) -> None:
        """Forget every answer."""
        self._tokens.clear()
        self._accesses.clear()

    def note(self, answer: Answer, now: float) -> int:
        """What a try came to. If the API server is heard again: how many answers were used
        meanwhile, else 0.
        """
        cause = answer.cause if isinstance(answer, FailedAttempt) else Cause.ANSWERED
        if cause is Cause.AWAY:
            self._failed_at = now
        elif cause is Cause.ANSWERED:
            self._failed_at = None
            uses, self.uses = self.uses, 0
            return uses
        return 0

    def is_away(self, now: float) -> bool:
        """Whether the last try, for whomever, failed so lately that nobody waits for another."""
        return self._failed_at is not None and now - self._failed_at < RECENT_SECONDS

    def use(
        self, key: bytes | SubjectAccessReview, review: Review, now: float, wall_now: float
    ) -> Answer | None:
        """The answer that may be used although its time is over; `wall_now` in seconds since the
        epoch.
        """
        held = (
            self._tokens.get(key, now) if isinstance(key, bytes) else self._accesses.get(key, now)
        )
        if held is None:
            return None
        answer, trust = held[0]
        if trust != self.trust() or _has_expired(review, wall_now):
            self.drop(key)
            return None
        self.uses += 1
        self._count(type(review).__name__)
        return answer


def _has_expired(review: Review, wall_now: float) -> bool:
    """Whether the token says so: judged anew, for a clock may have been set meanwhile."""
    if not isinstance(review, TokenReview):
        return False
    expiry = expiry_of(review.token.reveal())
    return expiry is not None and expiry <= wall_now

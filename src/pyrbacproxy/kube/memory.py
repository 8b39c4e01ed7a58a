"""Remembered review answers: expiry, bounds, and stale ones while the API server is away (D15)."""

import base64
import json
import math
from collections import OrderedDict
from collections.abc import Callable
from enum import Enum
from typing import Generic, TypeVar

from pyrbacproxy.model import (
    Answer,
    NonResourceAttributes,
    Review,
    ReviewFailed,
    SubjectAccessReview,
    SubjectAccessReviewAnswer,
    TokenReview,
    TokenReviewAnswer,
)
from pyrbacproxy.values import Frozen

# --- attempt --------------------------------------------------------------------------
#
# What one call to the API server came to when it brought no answer: worth another try, and when.
#
# Only `kube.reviewer` looks at more than the reason; to everybody else it is a `ReviewFailed`.


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


class FailedAttempt(ReviewFailed):
    """A call without an answer.

    `is_transient` says that the same call may well succeed shortly (reference 3.3.1 and 15.14: a
    connection reset, 500, 502, 504, 429, and whatever carries `Retry-After`); `retry_after_seconds`
    is what the server asked for, else 0.
    """

    is_transient: bool = False
    retry_after_seconds: float = 0.0
    cause: Cause = Cause.ANSWERED


# --- token expiry ---------------------------------------------------------------------
#
# When a bearer token says that it expires, if it is a JWT that says so.
#
# Nothing is verified here: the value only *shortens* how long the API server's word about the token
# is believed (D14).

# A token comes from a client: an unreasonable one is not worth decoding, its review is remembered
# as any other.
MAX_BYTES = 65536
_JWT_PARTS = 3


def expiry_of(token: str) -> float | None:
    """The token's `exp` (RFC 7519 §4.1.4, seconds since the epoch); None when it is no JWT or has
    none.
    """
    parts = token.split(".")
    if len(parts) != _JWT_PARTS or len(token) > MAX_BYTES:
        return None
    payload = parts[1]
    try:
        claims: object = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (ValueError, RecursionError):
        return None
    expiry: object = claims.get("exp") if isinstance(claims, dict) else None
    if isinstance(expiry, bool) or not isinstance(expiry, int | float):
        return None
    try:
        return float(expiry) if math.isfinite(expiry) else None
    except OverflowError:
        return None


# --- lifetimes ------------------------------------------------------------------------
# How long an answer to a review may be used (D14, reference 3.3.1, 3.6), and if it is a yes.

# What a requester makes long is not remembered: the reference's bound against filling the memory.
MAX_REMEMBERED_BYTES = 10_000
REFUSED_SECONDS = 10.0
REFUSED_WITH_ERROR_SECONDS = 2.0


class Lifetime(Frozen):
    """`seconds` are 0 or less when the answer may not be used again. `is_positive`: it lets
    somebody in.
    """

    seconds: float
    is_positive: bool


class Lifetimes(Frozen):
    """The configured times, in seconds; those of refused tokens are D14's."""

    token_seconds: float
    authorized_seconds: float
    unauthorized_seconds: float

    def of(self, review: Review, answer: Answer, now: float) -> Lifetime | None:
        """The answer's, at `now` (seconds since the epoch); None when nothing of it is kept."""
        match review, answer:
            case TokenReview(), TokenReviewAnswer():
                return self._of_token(review, answer, now)
            case SubjectAccessReview(), SubjectAccessReviewAnswer():
                return self._of_access(review, answer)
        return None

    def _of_token(self, review: TokenReview, answer: TokenReviewAnswer, now: float) -> Lifetime:
        if not _is_good(review, answer):
            seconds = REFUSED_WITH_ERROR_SECONDS if answer.error else REFUSED_SECONDS
            return Lifetime(seconds, is_positive=False)
        seconds = self.token_seconds
        if (expiry := expiry_of(review.token.reveal())) is not None:
            seconds = min(seconds, expiry - now)
        return Lifetime(seconds, is_positive=True)

    def _of_access(
        self, review: SubjectAccessReview, answer: SubjectAccessReviewAnswer
    ) -> Lifetime | None:
        if _requested_bytes(review) >= MAX_REMEMBERED_BYTES:
            return None
        if answer.allowed and not answer.denied:
            return Lifetime(self.authorized_seconds, is_positive=True)
        return Lifetime(self.unauthorized_seconds, is_positive=False)


def _is_good(review: TokenReview, answer: TokenReviewAnswer) -> bool:
    """Whether it lets anybody in: with a right audience if any was demanded (D29)."""
    demanded = review.audiences
    return answer.authenticated and (
        not demanded or not set(demanded).isdisjoint(answer.audiences or ())
    )


def _requested_bytes(review: SubjectAccessReview) -> int:
    """How long the strings are that the requester chooses."""
    action = review.action
    if isinstance(action, NonResourceAttributes):
        texts: tuple[str, ...] = (action.verb, action.path)
    else:
        texts = (
            *(action.verb, action.namespace, action.group, action.version),
            *(action.resource, action.subresource, action.name),
        )
    return sum(len(text.encode("utf-8", "surrogateescape")) for text in texts)


# --- ttl cache ------------------------------------------------------------------------
#
# A bounded, expiring map; callers give it the time.
#
# What was used longest ago makes room. Looking something up never prolongs its life: an answer that
# is asked for all the time still ends when its time is over (D14: "repeats don't extend it").

K = TypeVar("K")
V = TypeVar("V")


class TtlCache(Generic[K, V]):
    """At most `capacity` values, each until its own instant (monotonic seconds, exclusive)."""

    def __init__(self, *, capacity: int) -> None:
        self._capacity = capacity
        self._entries: OrderedDict[K, tuple[V, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K, now: float) -> tuple[V, float] | None:
        """The value with the instant when it ends, or None. The stored pair itself: nothing is made
        on a hit.
        """
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry[1] <= now:
            del self._entries[key]
            return None
        self._entries.move_to_end(key)
        return entry

    def put(self, key: K, value: V, expires_at: float) -> None:
        """Remember `value` until `expires_at`, in place of what was there."""
        self._entries[key] = (value, expires_at)
        self._entries.move_to_end(key)
        if len(self._entries) > self._capacity:
            self._entries.popitem(last=False)

    def drop(self, key: K) -> None:
        """Forget what is there for `key`, if anything is."""
        self._entries.pop(key, None)

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()


# --- stale reviews --------------------------------------------------------------------
#
# Which positive answers may be used past their time, while the API server is away (D15).
#
# The rule and its books alone: what is asked, and what is told to whom, is `kube.reviewer`'s.

# So long after a try that failed no request waits for another one.
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
        """Whether the last try, for whomever, failed so lately that none waits for another."""
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

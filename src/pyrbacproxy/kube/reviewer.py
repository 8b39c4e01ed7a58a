"""Answers reviews: from memory, by one shared call, or by asking the API server again."""

import asyncio
import hashlib
import logging
import math
import random
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Generic, Protocol, TypeAlias, TypeVar

from pyrbacproxy.kube.kubeconfig import KubeSettings
from pyrbacproxy.kube.memory import Cause, FailedAttempt, Lifetimes, TtlCache
from pyrbacproxy.model import (
    Answer,
    Review,
    Reviewed,
    ReviewFailed,
    SubjectAccessReview,
    TokenReview,
    TokenReviewAnswer,
)

if TYPE_CHECKING:
    from pyrbacproxy.kube.memory import StaleReviews


# --- no api server --------------------------------------------------------------------
# Stands in where no API server is configured (D20): every review fails.


class NoApiServer:
    """A `reviewer.Client`; apart from the real one, whose parts a proxy without it never needs."""

    async def review(
        self,
        _review: Review,
        _asker: str,
        *,
        is_preferred: bool,  # noqa: ARG002 -- the client's signature
        within_seconds: float,  # noqa: ARG002 -- likewise
    ) -> Answer:
        """A failure."""
        return ReviewFailed("no API server is configured")

    def warm(self) -> None:
        """Nothing to read."""

    async def close(self) -> None:
        """Nothing to close."""


# --- reviewer -------------------------------------------------------------------------
#
# The `Runner`: drive a `Reviewed[T]`; cache, single flight, retry.
#
# It knows nothing of what it is asked for. An answer at hand is given in the same call; otherwise
# the steps wait for a flight. A flight outlives those who wait for it: whoever asks next finds the
# answer. A token is never kept, only a hash of it under a key of this process.

_LOG = logging.getLogger(__name__)
_V2 = 20 - 2

T = TypeVar("T")
Key: TypeAlias = bytes | SubjectAccessReview
Held: TypeAlias = tuple[
    Answer, float
]  # until when (monotonic seconds), 0.0 if it may not be used again
# Judges a token itself: its answer, or None and then it calls what it was given.
JudgeTokens: TypeAlias = Callable[[TokenReview, Callable[[Answer, float], None]], Held | None]

TOKEN_CAPACITY = 4096
ACCESS_CAPACITY = 8192
# Longer than a positive answer holds and a scrape interval: who asks for it again then goes first.
GOOD_LATELY_SECONDS = 600.0

WHOLE_SECONDS = 8.0  # below Prometheus's usual scrape timeout of 10 s
# Five attempts in all, pauses as in the reference, each up to a fifth longer so that proxies don't
# march in step.
PAUSES_SECONDS = (0.5, 0.75, 1.125, 1.6875)
JITTER = 0.2

MAX_FLIGHTS = 4096
MAX_FLIGHTS_PER_ASKER = 512


class Client(Protocol):
    """Who is asked: `kube.api_client.ApiClient` or `kube.reviewer.NoApiServer`."""

    async def review(
        self, review: Review, asker: str, /, *, is_preferred: bool, within_seconds: float
    ) -> Answer:
        """One call's answer; never raises for what the other side does."""
        ...


class Reviewer:
    """Implements `handler.Runner`. With `judge_tokens` the API server is asked for accesses alone,
    and what becomes of a token is nobody's to remember here. With `stale`, what is kept there is
    the answer while the API server is away.
    """

    def __init__(
        self,
        client: Client,
        settings: KubeSettings,
        judge_tokens: JudgeTokens | None = None,
        stale: "StaleReviews | None" = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._lifetimes = Lifetimes(
            settings.token_seconds, settings.authorized_seconds, settings.unauthorized_seconds
        )
        self._judge_tokens = judge_tokens
        self._stale = stale
        self._clock = clock
        self._wall_clock = wall_clock
        self._sleep = sleep
        self._hash_key = secrets.token_bytes(32)
        self._good_tokens: TtlCache[bytes, Answer] = TtlCache(capacity=TOKEN_CAPACITY)
        self._bad_tokens: TtlCache[bytes, Answer] = TtlCache(capacity=TOKEN_CAPACITY)
        self._accesses: TtlCache[SubjectAccessReview, Answer] = TtlCache(capacity=ACCESS_CAPACITY)
        self._good_lately: TtlCache[bytes, None] = TtlCache(capacity=TOKEN_CAPACITY)
        # Those that can be joined: `drop_cached` takes them out while they are still in the air.
        self._flights: dict[Key, _Flight] = {}
        # Every one in the air: the loop itself holds tasks weakly.
        self._tasks: dict[_Flight, asyncio.Task[None]] = {}
        self._flights_of: Counter[str] = Counter()

    def run(
        self, steps: Reviewed[T], asker: str, done: Callable[[T, float, tuple[str, ...]], None]
    ) -> Callable[[], None]:
        """See `handler.Runner.run`."""
        run = _Run(self.ask, steps, asker, done)
        run.advance(None)
        return run.cancel

    def ask(self, review: Review, waiter: "_Waiter") -> Held | None:
        """The answer at hand, or None: then `waiter.resume` is called with it later."""
        now = self._clock()
        key: Key
        if isinstance(review, TokenReview):
            if self._judge_tokens is not None:
                return self._judge_tokens(review, waiter.resume)
            key = self._hashed(review)
            held = self._good_tokens.get(key, now) or self._bad_tokens.get(key, now)
        else:
            key = review
            held = self._accesses.get(review, now)
        if held is not None:
            return held
        if self._stale is not None and self._stale.is_away(now):
            return self._stale_at_once(key, review, waiter)
        return self._join_flight(key, review, waiter)

    def drop_cached(self) -> None:
        """Forget every answer; those on their way reach who waits for them and no cache."""
        for cache in (self._good_tokens, self._bad_tokens, self._accesses, self._good_lately):
            cache.clear()
        if self._stale is not None:
            self._stale.clear()
        for flight in self._flights.values():
            flight.is_remembered = False
        self._flights.clear()

    def close(self) -> None:
        """Give up what is in flight, silently."""
        for task in self._tasks.values():
            task.cancel()

    def _hashed(self, review: TokenReview) -> bytes:
        """A keyed hash of token and audiences: it can't be turned back nor used elsewhere."""
        token = review.token.reveal().encode("utf-8", "surrogateescape")
        # The length says where the token ends: no part of one passes for an audience.
        text = b"%d:%b%b" % (len(token), token, "\0".join(review.audiences).encode())
        # One call of BLAKE2's own keyed mode (RFC 7693 §2.9) is quicker than HMAC-SHA-256.
        return hashlib.blake2b(text, key=self._hash_key, digest_size=32).digest()

    def _stale_at_once(self, key: Key, review: Review, waiter: "_Waiter") -> Held | None:
        answer = self._stale_answer(key, review)
        if answer is None:
            return self._join_flight(key, review, waiter)
        # It asks again behind; if it may not now, the next one may.
        self._flight_for(key, review, waiter.asker)
        return answer, 0.0

    def _join_flight(self, key: Key, review: Review, waiter: "_Waiter") -> Held | None:
        flight = self._flight_for(key, review, waiter.asker)
        if flight is None:
            return ReviewFailed("too many reviews are under way"), 0.0
        flight.waiters.append(waiter)
        return None

    def _flight_for(self, key: Key, review: Review, asker: str) -> "_Flight | None":
        """The one in the air, else a new one; None when there are too many."""
        flight = self._flights.get(key)
        if flight is None:
            if len(self._tasks) >= MAX_FLIGHTS or self._flights_of[asker] >= MAX_FLIGHTS_PER_ASKER:
                return None
            trust = None if self._stale is None else self._stale.trust()
            flight = self._flights[key] = _Flight(key, review, asker, trust)
            self._flights_of[asker] += 1
            self._tasks[flight] = asyncio.create_task(self._fly(flight))
        return flight

    async def _fly(self, flight: "_Flight") -> None:
        """Get the answer, remember it, give it to all who wait."""
        try:
            answer = await self._answered(flight)
        except Exception as error:  # noqa: BLE001 -- our own fault, but those who wait must hear of it
            _report("a review broke", error)
            answer = ReviewFailed("the review broke")
        finally:
            self._leave_books(flight)
        usable_until = self._remember(flight, answer) if flight.is_remembered else 0.0
        flight.tell(answer, usable_until)

    async def _answered(self, flight: "_Flight") -> Answer:
        """The answer, after up to four more attempts while the failure may be a passing one."""
        ends_at = self._clock() + WHOLE_SECONDS
        answer = await self._attempt(flight, ends_at)
        for pause_seconds in PAUSES_SECONDS:
            if not isinstance(answer, FailedAttempt) or not answer.is_transient:
                break
            jitter = 1.0 + JITTER * random.random()  # noqa: S311 -- no secret
            seconds = max(pause_seconds * jitter, answer.retry_after_seconds)
            if self._clock() + seconds >= ends_at:
                break
            await self._sleep(seconds)
            answer = await self._attempt(flight, ends_at)
        return answer

    async def _attempt(self, flight: "_Flight", ends_at: float) -> Answer:
        # Who asks for an access is known already: as good as a token that was good lately.
        is_preferred = not isinstance(flight.key, bytes) or (
            self._good_lately.get(flight.key, self._clock()) is not None
        )
        answer = await self._client.review(
            flight.review,
            flight.asker,
            is_preferred=is_preferred,
            within_seconds=ends_at - self._clock(),
        )
        if self._stale is not None:
            self._note(flight, answer, self._stale)
        return answer

    def _note(self, flight: "_Flight", answer: Answer, stale: "StaleReviews") -> None:
        """Who waits gets the stale answer after one try that found the API server away; the flight
        goes on without them.
        """
        if uses := stale.note(answer, self._clock()):
            _LOG.info("The API server is heard again; stale reviews used meanwhile: %d", uses)
        if not isinstance(answer, FailedAttempt) or answer.cause is not Cause.AWAY:
            return
        while flight.waiters and (found := self._stale_answer(flight.key, flight.review)):
            flight.waiters.pop(0).resume(found, 0.0)

    def _stale_answer(self, key: Key, review: Review) -> Answer | None:
        stale = self._stale
        if stale is None:
            return None
        answer = stale.use(key, review, self._clock(), self._wall_clock())
        if answer is not None:
            if stale.uses == 1:
                _LOG.warning(
                    "The API server is away: positive reviews are used up to %gs past their time",
                    stale.period_seconds,
                )
            if _LOG.isEnabledFor(_V2):
                _LOG.log(_V2, "Stale %s used for %s", type(review).__name__, _name(review, answer))
        return answer

    def _leave_books(self, flight: "_Flight") -> None:
        del self._tasks[flight]
        if self._flights.get(flight.key) is flight:
            del self._flights[flight.key]
        self._flights_of[flight.asker] -= 1
        if not self._flights_of[flight.asker]:
            del self._flights_of[flight.asker]

    def _remember(self, flight: "_Flight", answer: Answer) -> float:
        """Put the answer into its cache; until when it may be used, 0.0: never again."""
        lifetime = self._lifetimes.of(flight.review, answer, self._wall_clock())
        if lifetime is None:
            return 0.0
        key, is_positive, now = flight.key, lifetime.is_positive, self._clock()
        expires_at = now + lifetime.seconds
        if self._stale is not None:
            if is_positive:
                self._stale.keep(key, answer, expires_at, flight.trust)
            else:
                self._stale.drop(key)
        if isinstance(key, bytes) and is_positive:
            self._good_lately.put(key, None, now + GOOD_LATELY_SECONDS)
        if lifetime.seconds <= 0:
            return 0.0
        if isinstance(key, bytes):
            (self._good_tokens if is_positive else self._bad_tokens).put(key, answer, expires_at)
        else:
            self._accesses.put(key, answer, expires_at)
        return expires_at


class _Waiter(Protocol):
    """Who waits for a flight."""

    asker: str

    def resume(self, answer: Answer, usable_until: float) -> None:
        """Take the answer; never raises."""
        ...


class _Flight:
    """A review under way. `asker` is who asked first: the call is on their account."""

    __slots__ = ("asker", "is_remembered", "key", "review", "trust", "waiters")

    def __init__(self, key: Key, review: Review, asker: str, trust: object) -> None:
        self.key = key
        self.review = review
        self.asker = asker
        self.trust = trust
        self.is_remembered = True
        self.waiters: list[_Waiter] = []

    def tell(self, answer: Answer, usable_until: float) -> None:
        """All who wait."""
        for waiter in self.waiters:
            waiter.resume(answer, usable_until)


class _Run(Generic[T]):
    """One generator on its way to its end."""

    __slots__ = (
        "_ask",
        "_done",
        "_is_cancelled",
        "_steps",
        "_usable_until",
        "_waited_for",
        "asker",
    )

    def __init__(
        self,
        ask: Callable[[Review, _Waiter], Held | None],
        steps: Reviewed[T],
        asker: str,
        done: Callable[[T, float, tuple[str, ...]], None],
    ) -> None:
        self._ask = ask
        self._steps = steps
        self._done = done
        self._usable_until = math.inf
        self._waited_for: tuple[str, ...] = ()
        self._is_cancelled = False
        self.asker = asker

    def advance(self, held: Held | None) -> None:
        """Send what was waited for (None: begin), then every answer that is at hand.

        What the steps raise propagates.
        """
        steps = self._steps
        try:
            while True:
                if held is None:
                    review = next(steps)
                else:
                    answer, usable_until = held
                    self._usable_until = min(self._usable_until, usable_until)
                    review = steps.send(answer)
                try:
                    held = self._ask(review, self)
                except Exception as error:  # noqa: BLE001 -- in doubt it is not answered
                    _report("a review broke", error)
                    held = ReviewFailed("the review broke"), 0.0
                if held is None:
                    self._waited_for += (type(review).__name__,)
                    return
        except StopIteration as stop:
            result = stop.value
        self._done(result, self._usable_until, self._waited_for)

    def resume(self, answer: Answer, usable_until: float) -> None:
        """Go on with the answer that was waited for."""
        if self._is_cancelled:
            return
        try:
            self.advance((answer, usable_until))
        except Exception as error:  # noqa: BLE001 -- its fault must not hinder others who wait
            _report("a handler broke", error)

    def cancel(self) -> None:
        """Don't call `done` any more."""
        self._is_cancelled = True
        self._steps.close()


def _name(review: Review, answer: Answer) -> str:
    """Whom it is about."""
    if isinstance(review, SubjectAccessReview):
        return review.user.name
    user = answer.user if isinstance(answer, TokenReviewAnswer) else None
    return user.name if user is not None else ""


def _report(what: str, error: Exception) -> None:
    asyncio.get_running_loop().call_exception_handler({"message": what, "exception": error})

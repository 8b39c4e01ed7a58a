import base64
import json

import pytest

from pyrbacproxy.kube import memory as module
from pyrbacproxy.kube.memory import Cause, FailedAttempt, StaleReviews
from pyrbacproxy.model import (
    Answer,
    BearerToken,
    NonResourceAttributes,
    Review,
    ReviewFailed,
    SubjectAccessReview,
    SubjectAccessReviewAnswer,
    TokenReview,
    TokenReviewAnswer,
    UserInfo,
)

# The wall's clock at the instant 0.
EPOCH = 1_000_000.0
ALICE = UserInfo("alice")
GOOD = TokenReviewAnswer(True, ALICE)
ALLOWED = SubjectAccessReviewAnswer(True)
AWAY = FailedAttempt("503", cause=Cause.AWAY)
TOKEN = TokenReview(BearerToken("t"))
ACCESS = SubjectAccessReview(ALICE, NonResourceAttributes("get", "/metrics"))
KEY = b"hash"


def expiring(seconds: float) -> TokenReview:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": EPOCH + seconds}).encode())
    return TokenReview(BearerToken(f"e30.{claims.decode().rstrip('=')}.c2ln"))


class World:
    def __init__(self, period_seconds: float = 60.0) -> None:
        self.trust = 1
        self.counted: list[str] = []
        self.stale = StaleReviews(
            period_seconds, trust=lambda: self.trust, count=self.counted.append
        )

    def keep(self, review: Review, expires_at: float) -> None:
        key, answer = _held(review)
        self.stale.keep(key, answer, expires_at, self.trust)

    def use(self, review: Review, now: float, wall_now: float | None = None) -> Answer | None:
        key, _ = _held(review)
        return self.stale.use(key, review, now, EPOCH + now if wall_now is None else wall_now)


def _held(review: Review) -> tuple[bytes | SubjectAccessReview, Answer]:
    return (KEY, GOOD) if isinstance(review, TokenReview) else (review, ALLOWED)


@pytest.mark.parametrize(
    ("review", "at", "is_used"),
    [
        pytest.param(TOKEN, 10.0, True, id="as its time ends"),
        pytest.param(TOKEN, 69.9, True, id="to the period's end"),
        pytest.param(TOKEN, 70.0, False, id="not beyond"),
        pytest.param(ACCESS, 69.9, True, id="an access"),
        pytest.param(ACCESS, 70.0, False, id="an access, not beyond"),
        pytest.param(expiring(30.0), 29.9, True, id="within the token's time"),
        pytest.param(expiring(30.0), 30.0, False, id="not past it"),
        pytest.param(expiring(500.0), 70.0, False, id="a long one, not beyond the period"),
    ],
)
def test_d15_how_long_an_answer_is_used(review: Review, at: float, is_used: bool) -> None:  # noqa: FBT001
    world = World()
    world.keep(review, 10.0)
    assert (world.use(review, at) is not None) == is_used
    assert world.counted == [type(review).__name__] * is_used


def test_a_clock_that_was_set_forward_ends_a_token() -> None:
    world = World()
    world.keep(expiring(3600.0), 10.0)
    assert world.use(expiring(3600.0), 20.0, wall_now=EPOCH + 3600.0) is None
    assert world.use(expiring(3600.0), 20.0) is None, "it does not come back"


def test_what_was_never_kept_is_not_used() -> None:
    assert World().use(TOKEN, 0.0) is None
    assert World().use(ACCESS, 0.0) is None


def test_using_does_not_prolong() -> None:
    world = World()
    world.keep(TOKEN, 10.0)
    for now in (20.0, 40.0, 69.0):
        assert world.use(TOKEN, now) is GOOD
    assert world.use(TOKEN, 70.0) is None


@pytest.mark.parametrize("review", [TOKEN, ACCESS])
def test_d15_a_refusal_drops_it(review: Review) -> None:
    world = World()
    world.keep(TOKEN, 10.0)
    world.keep(ACCESS, 10.0)
    world.stale.drop(_held(review)[0])
    assert [each for each in (TOKEN, ACCESS) if world.use(each, 20.0) is None] == [review]


def test_d15_a_reload_drops_all() -> None:
    world = World()
    world.keep(TOKEN, 10.0)
    world.keep(ACCESS, 10.0)
    world.stale.clear()
    assert [world.use(TOKEN, 20.0), world.use(ACCESS, 20.0)] == [None, None]


@pytest.mark.parametrize("review", [TOKEN, ACCESS])
def test_d15_a_change_of_trust_drops_it_for_good(review: Review) -> None:
    world = World()
    world.keep(review, 10.0)
    world.trust = 2
    assert world.use(review, 20.0) is None
    world.trust = 1
    assert world.use(review, 20.0) is None


def test_an_answer_asked_for_under_the_old_trust_is_none() -> None:
    world = World()
    world.stale.keep(KEY, GOOD, 10.0, 0)
    assert world.use(TOKEN, 20.0) is None


def test_accesses_push_out_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ACCESS_CAPACITY", 2)
    world = World()
    world.keep(TOKEN, 10.0)
    reviews = [
        SubjectAccessReview(ALICE, NonResourceAttributes("get", f"/{number}"))
        for number in range(3)
    ]
    for review in reviews:
        world.keep(review, 10.0)
    assert world.use(TOKEN, 20.0) is GOOD
    assert [world.use(review, 20.0) for review in reviews] == [None, ALLOWED, ALLOWED]


# --- whether it is away -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("answers", "is_away"),
    [
        pytest.param([], False, id="no try yet"),
        pytest.param([AWAY], True, id="away"),
        pytest.param([AWAY, GOOD], False, id="back"),
        pytest.param([AWAY, TokenReviewAnswer(False)], False, id="back with a refusal"),
        pytest.param([AWAY, FailedAttempt("403")], False, id="403: it is there"),
        pytest.param([AWAY, ReviewFailed("no JSON")], False, id="nonsense: somebody is there"),
        pytest.param([FailedAttempt("429")], False, id="429"),
        pytest.param(
            [AWAY, FailedAttempt("rate", cause=Cause.NOT_ASKED)], True, id="our own rate: unknown"
        ),
        pytest.param([FailedAttempt("rate", cause=Cause.NOT_ASKED)], False, id="our own rate"),
    ],
)
def test_d15_what_tries_say(answers: list[Answer], is_away: bool) -> None:  # noqa: FBT001
    stale = World().stale
    for answer in answers:
        stale.note(answer, 100.0)
    assert stale.is_away(100.0) == is_away


def test_d15_nobody_waits_for_a_try_within_five_seconds_of_a_failed_one() -> None:
    stale = World().stale
    stale.note(AWAY, 100.0)
    assert [stale.is_away(now) for now in (104.9, 105.0)] == [True, False]
    stale.note(AWAY, 106.0)
    assert stale.is_away(110.9)


def test_uses_are_told_when_it_is_heard_again() -> None:
    world = World()
    world.keep(TOKEN, 10.0)
    assert world.stale.note(AWAY, 20.0) == 0
    world.use(TOKEN, 20.0)
    world.use(TOKEN, 21.0)
    assert world.stale.uses == 2
    assert [world.stale.note(answer, 22.0) for answer in (GOOD, GOOD)] == [2, 0]

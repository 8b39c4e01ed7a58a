import asyncio
import base64
import json
import logging
import math
from collections.abc import Callable
from typing import Any

import pytest

from pyrbacproxy.handler import Runner
from pyrbacproxy.kube import reviewer as module
from pyrbacproxy.kube.kubeconfig import KubeSettings
from pyrbacproxy.kube.memory import Cause, FailedAttempt, StaleReviews
from pyrbacproxy.kube.reviewer import Reviewer
from pyrbacproxy.model import (
    Answer,
    BearerToken,
    NonResourceAttributes,
    ResourceAttributes,
    Review,
    Reviewed,
    ReviewFailed,
    SubjectAccessReview,
    SubjectAccessReviewAnswer,
    TokenReview,
    TokenReviewAnswer,
    UserInfo,
)

ALICE = UserInfo("alice")
GOOD = TokenReviewAnswer(True, ALICE)
REFUSED = TokenReviewAnswer(False)
REFUSED_WITH_ERROR = TokenReviewAnswer(False, error="token is malformed")
ALLOWED = SubjectAccessReviewAnswer(True)
NOT_ALLOWED = SubjectAccessReviewAnswer(False)
PASSING = FailedAttempt("the API server answered 500", is_transient=True)
LASTING = FailedAttempt("the API server answered 503")


def token(text: str = "t", *audiences: str) -> TokenReview:
    return TokenReview(BearerToken(text), audiences)


def access(path: str = "/metrics", user: UserInfo = ALICE) -> SubjectAccessReview:
    return SubjectAccessReview(user, NonResourceAttributes("get", path))


class FakeClient:
    """Answers from a list, or with `answer`; while `gate` is shut, calls stay in the air."""

    def __init__(self, answer: Answer = GOOD) -> None:
        self.answer = answer
        self.answers: list[Answer] = []
        self.asked: list[tuple[Review, str]] = []
        self.preferred: list[bool] = []
        self.seconds: list[float] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def review(
        self, review: Review, asker: str, /, *, is_preferred: bool, within_seconds: float
    ) -> Answer:
        self.asked.append((review, asker))
        self.preferred.append(is_preferred)
        self.seconds.append(within_seconds)
        await self.gate.wait()
        return self.answers.pop(0) if self.answers else self.answer


class World:
    """A reviewer with a clock that only `pass_time` and the reviewer's own pauses move."""

    def __init__(self, answer: Answer = GOOD, **settings: Any) -> None:
        self.now = 1000.0
        self.pauses: list[float] = []
        self.client = FakeClient(answer)
        self.trust = 1
        self.counted: list[str] = []
        period = settings.get("stale_seconds")
        self.reviewer = Reviewer(
            self.client,
            KubeSettings(**settings),
            stale=StaleReviews(period, trust=lambda: self.trust, count=self.counted.append)
            if period
            else None,
            clock=lambda: self.now,
            wall_clock=lambda: self.now + 1_000_000.0,
            sleep=self.sleep,
        )

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)

    def start(self, *reviews: Review, asker: str = "10.0.0.1") -> "Question":
        question = Question()
        question.cancel = self.reviewer.run(steps(*reviews), asker, question.done)
        return question

    async def ask(self, *reviews: Review, asker: str = "10.0.0.1") -> tuple[list[Answer], float]:
        """The answers and how much longer they may be used."""
        question = self.start(*reviews, asker=asker)
        await question.is_over.wait()
        assert question.result is not None
        answers, usable_until = question.result
        return answers, usable_until - self.now

    def calls(self) -> int:
        return len(self.client.asked)


class Question:
    def __init__(self) -> None:
        self.result: tuple[list[Answer], float] | None = None
        self.waited_for: tuple[str, ...] = ()
        self.is_over = asyncio.Event()
        self.cancel: Callable[[], None] = lambda: None

    def done(self, answers: list[Answer], usable_until: float, waited_for: tuple[str, ...]) -> None:
        assert self.result is None
        self.waited_for = waited_for
        self.result = (answers, usable_until)
        self.is_over.set()


def steps(*reviews: Review) -> Reviewed[list[Answer]]:
    answers: list[Answer] = []
    for review in reviews:
        answer = yield review
        answers.append(answer)
    return answers


async def in_the_air() -> None:
    """Let everything run that can."""
    for _ in range(5):
        await asyncio.sleep(0)


# --- the seam -----------------------------------------------------------------------


async def test_who_asks_hears_which_answers_had_to_be_waited_for() -> None:
    world = World()
    first = world.start(token())
    await first.is_over.wait()
    assert first.waited_for == ("TokenReview",)
    world.client.answer = ALLOWED
    second = world.start(token(), access())
    await second.is_over.wait()
    assert second.waited_for == ("SubjectAccessReview",)
    assert world.start(token(), access()).waited_for == ()


async def test_it_is_the_data_plane_s_runner() -> None:
    runner: Runner = World().reviewer
    assert runner


async def test_steps_that_ask_nothing_end_in_the_same_call() -> None:
    assert World().start().result == ([], math.inf)


async def test_an_answer_not_at_hand_comes_later() -> None:
    world = World()
    question = world.start(token())
    assert question.result is None
    await question.is_over.wait()
    assert question.result == ([GOOD], world.now + 120.0)


async def test_answers_at_hand_come_in_the_same_call_with_the_shortest_life() -> None:
    world = World()
    await world.ask(token())
    world.now += 10.0
    world.client.answer = NOT_ALLOWED
    await world.ask(access())
    world.now += 10.0
    assert world.start(token(), access()).result == ([GOOD, NOT_ALLOWED], world.now + 20.0)


async def test_cancelled_steps_hear_nothing_and_their_answer_is_kept() -> None:
    world = World()
    world.client.gate.clear()
    question = world.start(token())
    await in_the_air()
    question.cancel()
    world.client.gate.set()
    await in_the_air()
    assert question.result is None
    assert world.start(token()).result is not None
    assert world.calls() == 1


async def test_what_steps_raise_at_once_reaches_the_caller() -> None:
    def broken() -> Reviewed[int]:
        yield from ()
        raise LookupError

    with pytest.raises(LookupError):
        World().reviewer.run(broken(), "10.0.0.1", lambda *_: None)


async def test_what_steps_raise_later_is_reported_and_hinders_nobody() -> None:
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))

    def broken() -> Reviewed[int]:
        yield token()
        raise LookupError

    world = World()
    world.reviewer.run(broken(), "10.0.0.1", lambda *_: None)
    answers, _ = await world.ask(token())
    assert answers == [GOOD]
    assert [type(context["exception"]) for context in reported] == [LookupError]


async def test_a_client_that_breaks_is_reported_and_fails_the_review() -> None:
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    world = World()
    del world.client.gate
    answers, left = await world.ask(token())
    assert isinstance(answers[0], ReviewFailed)
    assert left < 0
    assert [type(context["exception"]) for context in reported] == [AttributeError]


# --- how long answers hold ----------------------------------------------------------


@pytest.mark.parametrize(
    ("review", "answer", "seconds"),
    [
        pytest.param(token(), GOOD, 120.0, id="token"),
        pytest.param(token(), REFUSED, 10.0, id="refused token"),
        pytest.param(token(), REFUSED_WITH_ERROR, 2.0, id="token in error"),
        pytest.param(
            token("t", "a"), TokenReviewAnswer(True, ALICE, ("a", "b")), 120.0, id="right audience"
        ),
        pytest.param(
            token("t", "a"), TokenReviewAnswer(True, ALICE, ("b",)), 10.0, id="wrong audience"
        ),
        pytest.param(token("t", "a"), GOOD, 10.0, id="absent audience (D29)"),
        pytest.param(access(), ALLOWED, 300.0, id="allowed"),
        pytest.param(access(), NOT_ALLOWED, 30.0, id="not allowed"),
        pytest.param(
            access(), SubjectAccessReviewAnswer(True, denied=True), 30.0, id="allowed and denied"
        ),
    ],
)
async def test_fr35_an_answer_holds_for_its_time_and_asking_does_not_prolong(
    review: Review, answer: Answer, seconds: float
) -> None:
    world = World(answer)
    assert await world.ask(review) == ([answer], seconds)
    world.now += seconds - 0.5
    assert await world.ask(review) == ([answer], 0.5)
    assert world.calls() == 1
    world.now += 0.5
    assert await world.ask(review) == ([answer], seconds)
    assert world.calls() == 2


async def test_times_come_from_the_settings() -> None:
    world = World(token_seconds=7.0, authorized_seconds=8.0, unauthorized_seconds=9.0)
    world.client.answers = [GOOD, ALLOWED, NOT_ALLOWED]
    lives = [(await world.ask(review))[1] for review in (token(), access("/a"), access("/b"))]
    assert lives == [7.0, 8.0, 9.0]


async def test_no_time_means_nothing_is_kept() -> None:
    world = World(token_seconds=0.0)
    _, left = await world.ask(token())
    assert left < 0
    await world.ask(token())
    assert world.calls() == 2


@pytest.mark.parametrize("failure", [LASTING, ReviewFailed("no JSON")])
@pytest.mark.parametrize("review", [token(), access()])
async def test_fr35_failures_are_never_kept(review: Review, failure: Answer) -> None:
    world = World(failure)
    answers, left = await world.ask(review)
    assert answers == [failure]
    assert left < 0
    world.client.answer = GOOD if isinstance(review, TokenReview) else ALLOWED
    world.now += 1.0
    assert (await world.ask(review))[0] == [world.client.answer]


async def test_fr35_a_refused_token_that_becomes_good_is_let_in_within_ten_seconds() -> None:
    world = World(REFUSED)
    await world.ask(token())
    world.client.answer = GOOD
    world.now += 10.0
    assert (await world.ask(token()))[0] == [GOOD]


async def test_fr35_a_revoked_token_is_found_out_within_two_minutes() -> None:
    world = World(GOOD)
    await world.ask(token())
    world.client.answer = REFUSED
    world.now += 120.0
    assert (await world.ask(token()))[0] == [REFUSED]


def jwt(expiry: float) -> str:
    payload = base64.urlsafe_b64encode(json.dumps({"exp": expiry}).encode()).decode().rstrip("=")
    return f"e30.{payload}.c2ln"


@pytest.mark.parametrize(("left", "held"), [(30.0, 30.0), (500.0, 120.0)])
async def test_fr35_a_good_answer_ends_with_its_token(left: float, held: float) -> None:
    world = World()
    assert await world.ask(token(jwt(1_001_000.0 + left))) == ([GOOD], held)


async def test_a_token_that_says_it_has_expired_is_not_kept() -> None:
    world = World()
    await world.ask(token(jwt(1_000_999.0)))
    await world.ask(token(jwt(1_000_999.0)))
    assert world.calls() == 2


@pytest.mark.parametrize(
    ("action", "calls"),
    [
        pytest.param(NonResourceAttributes("get", "/" + "x" * 9995), 1, id="9999 bytes"),
        pytest.param(NonResourceAttributes("get", "/" + "x" * 9996), 2, id="10000 bytes"),
        pytest.param(
            NonResourceAttributes("get", "/" + "\u00e9" * 5000), 2, id="bytes, not letters"
        ),
        pytest.param(NonResourceAttributes("get", "/\udcff"), 1, id="no UTF-8"),
        pytest.param(
            ResourceAttributes("get", "n" * 3000, "g", "v", "r" * 4000, "s", "m" * 2990),
            1,
            id="resource",
        ),
        pytest.param(
            ResourceAttributes("get", "n" * 3000, "g", "v", "r" * 4000, "s", "m" * 2994),
            2,
            id="long resource",
        ),
    ],
)
async def test_what_a_requester_makes_long_is_not_kept(
    action: NonResourceAttributes | ResourceAttributes, calls: int
) -> None:
    world = World(ALLOWED)
    for _ in range(2):
        await world.ask(SubjectAccessReview(ALICE, action))
    assert world.calls() == calls


async def test_another_user_path_token_or_audience_is_another_question() -> None:
    world = World(ALLOWED)
    for review in (
        access(),
        access("/other"),
        access(user=UserInfo("alice", extra=(("k", ("v",)),))),
    ):
        await world.ask(review)
    world.client.answer = GOOD
    for question in (token("t"), token("u"), token("t", "a"), token("t", "b"), token("t\0a")):
        await world.ask(question)
    assert world.calls() == 8


async def test_bad_tokens_do_not_push_out_good_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TOKEN_CAPACITY", 4)
    world = World()
    await world.ask(token("good"))
    world.client.answer = REFUSED
    for number in range(20):
        await world.ask(token(f"bad-{number}"))
    assert world.start(token("good")).result is not None


async def test_drop_cached_forgets_everything() -> None:
    world = World()
    world.client.answers = [GOOD, REFUSED, ALLOWED]
    reviews = (token("good"), token("bad"), access())
    await world.ask(*reviews)
    world.reviewer.drop_cached()
    assert world.start(*reviews).result is None


async def test_what_was_under_way_before_a_drop_is_given_but_not_kept() -> None:
    world = World()
    world.client.gate.clear()
    before = world.start(token())
    await in_the_air()
    world.reviewer.drop_cached()
    after = world.start(token())
    world.client.gate.set()
    await after.is_over.wait()
    assert before.result == ([GOOD], 0.0)
    assert after.result == ([GOOD], world.now + 120.0)
    assert world.calls() == 2


async def test_no_token_is_kept() -> None:
    world = World()
    await world.ask(token("s3cret-token"))
    held = [world.reviewer._good_tokens, world.reviewer._good_lately, world.reviewer._flights]
    assert "s3cret" not in repr(
        [vars(part) if hasattr(part, "_entries") else part for part in held]
    )
    other = World()
    assert other.reviewer._hashed(token("t")) != world.reviewer._hashed(token("t"))


# --- single flight ------------------------------------------------------------------


async def test_who_asks_the_same_meanwhile_shares_the_call() -> None:
    world = World()
    world.client.gate.clear()
    questions = [world.start(token(), asker=f"10.0.0.{number}") for number in range(5)]
    await in_the_air()
    world.client.gate.set()
    for question in questions:
        await question.is_over.wait()
    assert world.calls() == 1
    assert {str(question.result) for question in questions} == {str(questions[0].result)}


async def test_a_flight_outlives_its_first_asker() -> None:
    world = World()
    world.client.gate.clear()
    first, second = world.start(token()), world.start(token())
    await in_the_air()
    first.cancel()
    world.client.gate.set()
    await second.is_over.wait()
    assert first.result is None
    assert world.calls() == 1


async def test_flights_are_bounded_in_all_and_for_each_asker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_FLIGHTS", 3)
    monkeypatch.setattr(module, "MAX_FLIGHTS_PER_ASKER", 2)
    world = World()
    world.client.gate.clear()
    flying = [world.start(token(str(number)), asker="10.0.0.1") for number in range(2)]
    refused = world.start(token("2"), asker="10.0.0.1")
    flying.append(world.start(token("3"), asker="10.0.0.2"))
    refused_too = world.start(token("4"), asker="10.0.0.3")
    joined = world.start(token("0"), asker="10.0.0.1")
    for question in (refused, refused_too):
        assert question.result == ([ReviewFailed("too many reviews are under way")], 0.0)
    world.client.gate.set()
    for question in (*flying, joined):
        await question.is_over.wait()
        assert question.result == ([GOOD], world.now + 120.0)
    assert (await world.ask(token("2"), asker="10.0.0.1"))[0] == [GOOD]
    assert not world.reviewer._flights_of


async def test_close_gives_up_what_is_in_the_air() -> None:
    world = World()
    world.client.gate.clear()
    question = world.start(token())
    await in_the_air()
    world.reviewer.close()
    await in_the_air()
    assert question.result is None
    assert not world.reviewer._tasks
    assert not world.reviewer._flights


# --- retries ------------------------------------------------------------------------


async def test_a_passing_failure_is_tried_five_times_with_growing_pauses() -> None:
    world = World(PASSING)
    assert (await world.ask(token()))[0] == [PASSING]
    assert world.calls() == 5
    for pause, least in zip(world.pauses, (0.5, 0.75, 1.125, 1.6875), strict=True):
        assert least <= pause <= least * 1.2


async def test_a_retry_that_succeeds_is_the_answer() -> None:
    world = World()
    world.client.answers = [PASSING, GOOD]
    answers, left = await world.ask(token())
    assert answers == [GOOD]
    assert left == pytest.approx(120.0)
    assert world.calls() == 2


async def test_a_lasting_failure_is_not_tried_again() -> None:
    world = World(LASTING)
    await world.ask(token())
    assert world.calls() == 1


async def test_the_server_may_ask_for_a_longer_pause() -> None:
    world = World()
    world.client.answers = [FailedAttempt("429", is_transient=True, retry_after_seconds=3.0), GOOD]
    await world.ask(token())
    assert world.pauses == [3.0]


async def test_nobody_waits_past_the_whole_call_s_deadline() -> None:
    world = World(FailedAttempt("429", is_transient=True, retry_after_seconds=8.0))
    await world.ask(token())
    assert world.pauses == []
    assert world.calls() == 1


async def test_each_attempt_gets_what_is_left_of_the_deadline() -> None:
    world = World()
    world.client.answers = [PASSING, PASSING, GOOD]
    await world.ask(token())
    assert world.client.seconds[0] == 8.0
    first, second = world.pauses
    assert world.client.seconds[1:] == pytest.approx([8.0 - first, 8.0 - first - second])


# --- who goes first -----------------------------------------------------------------


async def test_the_asker_s_address_travels() -> None:
    world = World()
    await world.ask(token(), asker="10.9.8.7")
    assert world.client.asked[0][1] == "10.9.8.7"


async def test_d14_tokens_that_were_good_lately_and_accesses_go_first() -> None:
    world = World()
    world.client.answers = [GOOD, ALLOWED, GOOD, GOOD]
    await world.ask(token())
    await world.ask(access())
    world.now += 200.0
    await world.ask(token())
    world.now += 601.0
    await world.ask(token())
    assert world.client.preferred == [False, True, True, False]


# --- tokens that are judged elsewhere ----------------------------------------------------


class Judge:
    """Judges tokens at once, or when it is told to."""

    def __init__(self, *, is_slow: bool = False) -> None:
        self.asked: list[str] = []
        self.waiting: list[Callable[[Answer, float], None]] = []
        self._is_slow = is_slow

    def judge(
        self, review: TokenReview, resume: Callable[[Answer, float], None]
    ) -> tuple[Answer, float] | None:
        self.asked.append(review.token.reveal())
        if self._is_slow:
            self.waiting.append(resume)
            return None
        return GOOD, 0.0


async def test_a_judge_of_tokens_is_asked_each_time_and_the_api_server_for_accesses_alone() -> None:
    client, judge = FakeClient(ALLOWED), Judge()
    reviewer = Reviewer(client, KubeSettings(), judge_tokens=judge.judge)
    for _ in range(2):
        question = Question()
        reviewer.run(steps(token("a"), access()), "10.0.0.1", question.done)
        await question.is_over.wait()
        # What rests on its word is never used again.
        assert question.result == ([GOOD, ALLOWED], 0.0)
    assert judge.asked == ["a", "a"]
    assert [review for review, _ in client.asked] == [access()]


async def test_a_judge_of_tokens_may_take_its_time() -> None:
    judge = Judge(is_slow=True)
    reviewer = Reviewer(FakeClient(), KubeSettings(), judge_tokens=judge.judge)
    question, left = Question(), Question()
    reviewer.run(steps(token("a")), "10.0.0.1", question.done)
    reviewer.run(steps(token("b")), "10.0.0.1", left.done)()
    assert question.result is None
    for resume in judge.waiting:
        resume(REFUSED, 0.0)
    assert question.result == ([REFUSED], 0.0)
    assert question.waited_for == ("TokenReview",)
    assert left.result is None


async def test_d38_a_judge_that_breaks_refuses() -> None:
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))

    def judge(*_: object) -> None:
        raise KeyError("unforeseen")

    question = Question()
    reviewer = Reviewer(FakeClient(), KubeSettings(), judge_tokens=judge)
    reviewer.run(steps(token("a")), "10.0.0.1", question.done)
    assert question.result == ([ReviewFailed("the review broke")], 0.0)
    assert [type(context["exception"]) for context in reported] == [KeyError]


# --- D15: the API server is away ------------------------------------------------------------

AWAY = FailedAttempt("the API server answered 503", cause=Cause.AWAY)
AWAY_FOR_A_MOMENT = FailedAttempt("500", is_transient=True, cause=Cause.AWAY)


async def outlived(answer: Answer = AWAY, *reviews: Review, **settings: Any) -> World:
    """A world whose good answers have just ended, and whose API server answers so since."""
    world = World(**{"stale_seconds": 600.0} | settings)
    for review in reviews or (token(), access()):
        world.client.answer = GOOD if isinstance(review, TokenReview) else ALLOWED
        await world.ask(review)
    world.now += 300.0
    world.client.answer = answer
    world.client.asked.clear()
    return world


async def settled(world: World) -> None:
    """Wait for what runs behind."""
    await asyncio.gather(*world.reviewer._tasks.values())


async def test_d15_who_waits_gets_the_old_yes_after_one_try_and_never_keeps_it() -> None:
    world = await outlived()
    question = world.start(token(), access())
    await question.is_over.wait()
    assert question.result == ([GOOD, ALLOWED], 0.0)
    # The second one was not waited for: the API server had just been found away.
    assert question.waited_for == ("TokenReview",)
    await settled(world)
    assert [review for review, _ in world.client.asked] == [token(), access()]
    assert world.counted == ["TokenReview", "SubjectAccessReview"]


async def test_d15_by_default_nothing_is_stale() -> None:
    world = await outlived(AWAY, token(), stale_seconds=0.0)
    assert (await world.ask(token()))[0] == [AWAY]
    world.now += 1.0
    assert world.start(token()).result is None


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(FailedAttempt("401"), id="401"),
        pytest.param(FailedAttempt("403"), id="403"),
        pytest.param(FailedAttempt("429", retry_after_seconds=9.0, is_transient=True), id="429"),
        pytest.param(FailedAttempt("own rate", cause=Cause.NOT_ASKED), id="our own rate"),
        pytest.param(ReviewFailed("no JSON"), id="nonsense"),
    ],
)
@pytest.mark.parametrize("review", [token(), access()])
async def test_d15_nothing_else_is_a_reason(review: Review, answer: Answer) -> None:
    world = await outlived(answer)
    assert (await world.ask(review))[0] == [answer]
    assert world.counted == []


@pytest.mark.parametrize("review", [token(), access()])
async def test_d15_a_refusal_ends_it(review: Review) -> None:
    refusal: Answer = REFUSED if isinstance(review, TokenReview) else NOT_ALLOWED
    world = await outlived(refusal)
    assert (await world.ask(review))[0] == [refusal]
    world.now += 30.0
    world.client.answer = AWAY
    assert (await world.ask(review))[0] == [AWAY]


async def test_d15_refusals_are_never_stale() -> None:
    world = World(REFUSED, stale_seconds=600.0)
    await world.ask(token())
    world.client.answer = NOT_ALLOWED
    await world.ask(access())
    world.now += 30.0
    world.client.answer = AWAY
    assert (await world.ask(token(), access()))[0] == [AWAY, AWAY]


@pytest.mark.parametrize(("since", "expected"), [(599.0, GOOD), (601.0, AWAY)])
async def test_d15_the_period_begins_when_its_time_ends(since: float, expected: Answer) -> None:
    world = await outlived(AWAY, token())
    world.now += since - 180.0
    assert (await world.ask(token()))[0] == [expected]


@pytest.mark.parametrize(("left", "expected"), [(301.0, GOOD), (300.0, AWAY)])
async def test_d15_never_past_a_token_s_own_end(left: float, expected: Answer) -> None:
    review = token(jwt(1_001_000.0 + left))
    world = await outlived(AWAY, review)
    assert (await world.ask(review))[0] == [expected]


async def test_d15_without_any_time_of_its_own_an_answer_is_stale_at_once() -> None:
    world = World(stale_seconds=60.0, token_seconds=0.0)
    await world.ask(token())
    world.client.answer = AWAY
    assert (await world.ask(token()))[0] == [GOOD]
    world.now += 60.0
    assert (await world.ask(token()))[0] == [AWAY]


async def test_d15_a_recent_failure_answers_at_once_and_one_retry_runs_behind() -> None:
    world = await outlived()
    await world.ask(token())
    world.client.gate.clear()
    world.now += 4.9
    questions = [world.start(token()) for _ in range(3)]
    assert [question.result for question in questions] == [([GOOD], 0.0)] * 3
    assert {question.waited_for for question in questions} == {()}
    await in_the_air()
    assert world.calls() == 2
    world.client.answer = REFUSED
    world.client.gate.set()
    await settled(world)
    assert world.start(token()).result == ([REFUSED], world.now + 10.0)


async def test_d15_later_somebody_waits_for_a_try_again() -> None:
    world = await outlived()
    await world.ask(token())
    world.now += 5.0
    question = world.start(token())
    assert question.result is None
    await question.is_over.wait()
    assert question.result == ([GOOD], 0.0)


async def test_d15_all_who_wait_are_served_and_the_tries_go_on_behind() -> None:
    world = await outlived(AWAY_FOR_A_MOMENT)
    questions = [world.start(token()) for _ in range(3)]
    for question in questions:
        await question.is_over.wait()
    assert [question.result for question in questions] == [([GOOD], 0.0)] * 3
    world.client.answer = GOOD
    await settled(world)
    assert world.calls() == 2
    assert world.start(token()).result == ([GOOD], world.now + 120.0)


async def test_d15_what_was_never_good_waits_for_its_own_tries() -> None:
    world = await outlived(AWAY_FOR_A_MOMENT)
    await world.ask(token())
    assert (await world.ask(token("other")))[0] == [AWAY_FOR_A_MOMENT]


async def test_d15_too_many_reviews_hinder_no_stale_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = await outlived()
    await world.ask(token())
    monkeypatch.setattr(module, "MAX_FLIGHTS", 0)
    assert world.start(token()).result == ([GOOD], 0.0)
    assert world.calls() == 1


async def test_d15_a_reload_or_another_trust_drops_it() -> None:
    world = await outlived()
    world.reviewer.drop_cached()
    assert (await world.ask(token()))[0] == [AWAY]
    world = await outlived()
    world.trust = 2
    assert (await world.ask(token()))[0] == [AWAY]


async def test_d15_an_answer_on_its_way_while_the_trust_changed_is_not_stale_later() -> None:
    world = World(stale_seconds=600.0)
    world.client.gate.clear()
    question = world.start(token())
    await in_the_air()
    world.trust = 2
    world.client.gate.set()
    await question.is_over.wait()
    world.now += 120.0
    world.client.answer = AWAY
    assert (await world.ask(token()))[0] == [AWAY]


async def test_d15_begin_and_end_are_logged_once_and_each_use_at_v2(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(18, logger=module.__name__)
    world = await outlived()
    await world.ask(token(), access())
    await settled(world)
    world.client.answer = GOOD
    await world.ask(token("other"))
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (
            logging.WARNING,
            "The API server is away: positive reviews are used up to 600s past their time",
        ),
        (18, "Stale TokenReview used for alice"),
        (18, "Stale SubjectAccessReview used for alice"),
        (logging.INFO, "The API server is heard again; stale reviews used meanwhile: 2"),
    ]

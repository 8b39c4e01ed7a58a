"""Who answers in the API server's stead, and when an answer has to wait."""

from collections.abc import Callable

import pytest

from pyrbacproxy.model import Answer, BearerToken, TokenReview, TokenReviewAnswer, UserInfo
from pyrbacproxy.oidc import tokens as verifier
from pyrbacproxy.oidc.tokens import NEVER_AGAIN, KeySet, Verifier
from tests.oidc.parties import NOW, SETTINGS, claims, keys, signed

ALICE = TokenReviewAnswer(authenticated=True, user=UserInfo("alice"))
UNKNOWN = TokenReviewAnswer(authenticated=False, error="signed by an unknown key")


class Source:
    """Keys, and who waits for newer ones."""

    def __init__(self, known: KeySet | None, *, is_willing: bool = True) -> None:
        self.keys = known
        self.is_willing = is_willing
        self.waiting: list[Callable[[], None]] = []

    def newer_keys(self, then: Callable[[], None]) -> bool:
        if self.is_willing:
            self.waiting.append(then)
        return self.is_willing


class Asker:
    """Asks a verifier; the time stands until it is changed."""

    def __init__(self, source: Source) -> None:
        self.now = NOW
        self.late: list[tuple[Answer, float]] = []
        self._verifier = Verifier(SETTINGS, source, lambda: self.now)

    def ask(self, token: str) -> tuple[Answer, float] | None:
        review = TokenReview(BearerToken(token))
        return self._verifier.ask(review, lambda *told: self.late.append(told))


def test_an_answer_is_given_at_once_and_never_remembered() -> None:
    asker = Asker(Source(keys("rsa-1")))
    assert asker.ask(signed(claims())) == (ALICE, NEVER_AGAIN)
    asker.now = NOW + 60
    expired = TokenReviewAnswer(authenticated=False, error="expired")
    assert asker.ask(signed(claims())) == (expired, NEVER_AGAIN)
    assert asker.late == []


def test_every_token_fails_until_there_are_keys() -> None:
    source = Source(None)
    refused = TokenReviewAnswer(authenticated=False, error="the issuer's keys are not known yet")
    assert Asker(source).ask(signed(claims())) == (refused, NEVER_AGAIN)
    assert source.waiting == []


def test_an_unknown_key_waits_for_newer_ones() -> None:
    source = Source(keys("rsa-1"))
    asker = Asker(source)
    assert asker.ask(signed(claims(), "rsa-2")) is None
    assert asker.late == []
    source.keys = keys("rsa-2")
    source.waiting.pop()()
    assert asker.late == [(ALICE, NEVER_AGAIN)]


def test_one_that_stays_unknown_waits_once() -> None:
    source = Source(keys("rsa-1"))
    asker = Asker(source)
    assert asker.ask(signed(claims(), "rsa-2")) is None
    source.waiting.pop()()
    assert asker.late == [(UNKNOWN, NEVER_AGAIN)]
    assert source.waiting == []


def test_by_the_same_keys_nothing_is_looked_at_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source(keys("rsa-1"))
    asker = Asker(source)
    assert asker.ask(signed(claims(), "rsa-2")) is None
    monkeypatch.delattr(verifier, "judge")
    source.waiting.pop()()
    assert asker.late == [(UNKNOWN, NEVER_AGAIN)]


def test_the_time_is_judged_when_the_wait_is_over() -> None:
    source = Source(keys("rsa-1"))
    asker = Asker(source)
    assert asker.ask(signed(claims(), "rsa-2")) is None
    source.keys, asker.now = keys("rsa-2"), NOW + 60
    source.waiting.pop()()
    assert [answer for answer, _ in asker.late] == [
        TokenReviewAnswer(authenticated=False, error="expired")
    ]


def test_without_newer_keys_to_come_nobody_waits() -> None:
    asker = Asker(Source(keys("rsa-1"), is_willing=False))
    assert asker.ask(signed(claims(), "rsa-2")) == (UNKNOWN, NEVER_AGAIN)


def test_a_forged_signature_of_a_known_key_never_waits() -> None:
    source = Source(keys("rsa-1"))
    forged = signed(claims(), "rsa-2", kid="rsa-1")
    answer = TokenReviewAnswer(authenticated=False, error="bad signature")
    assert Asker(source).ask(forged) == (answer, NEVER_AGAIN)
    assert source.waiting == []

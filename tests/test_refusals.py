"""The answers 401, 403 and 500: what the client learns, and what only the log does."""

import pytest

from pyrbacproxy.access import not_allowed, note, refused, unauthenticated
from pyrbacproxy.authn.authenticators import Rejected
from pyrbacproxy.authz.attributes import Attributes
from pyrbacproxy.authz.authorizers import Decision, Kind
from pyrbacproxy.http1.head import text
from pyrbacproxy.model import (
    Decided,
    NonResourceAttributes,
    Note,
    Outcome,
    ResourceAttributes,
    ReviewFailed,
    UserInfo,
)

PODS = Attributes(UserInfo("carol"), ResourceAttributes("get", "ns", "", "v1", "pods", "log", "n"))
ASKED = "get v1/pods/log namespace ns name n"


def decided() -> Decided:
    return Decided(Outcome.REFUSED, "carol", "token")


def test_fr99_a_refusal_may_say_why_to_the_log() -> None:
    answer = refused(text(404, "no\n"), "no pattern matches")
    assert answer.decided == Decided(
        Outcome.REFUSED, notes=(Note(0, "Refused: no pattern matches"),)
    )


def test_fr99_a_path_that_was_asked_for_is_named() -> None:
    asked = Attributes(UserInfo("carol"), NonResourceAttributes("get", "/metrics"))
    answer = not_allowed(asked, Decision(Kind.NO_OPINION), decided())
    assert answer.decided.asked == "get /metrics"


def test_refused() -> None:
    answer = refused(text(400, "no\n"))
    assert (answer.response, answer.decided) == (text(400, "no\n"), Decided(Outcome.REFUSED))


@pytest.mark.parametrize(
    ("rejected", "notes"),
    [
        # FR99
        (None, (Note(0, "Unauthorized: the request has no credential"),)),
        (
            Rejected("expired"),
            (
                Note(
                    0, "Unable to authenticate the request due to an error: expired", is_error=True
                ),
            ),
        ),
    ],
)
def test_dec_d26_unauthenticated(rejected: Rejected | None, notes: tuple[Note, ...]) -> None:
    answer = unauthenticated(rejected)
    assert answer.response.status == 401
    assert answer.response.body == b"Unauthorized\n"
    assert dict(answer.response.headers) == {
        b"Content-Type": b"text/plain; charset=utf-8",
        b"X-Content-Type-Options": b"nosniff",
        b"WWW-Authenticate": b"Bearer",
    }
    assert answer.decided == Decided(Outcome.UNAUTHENTICATED, notes=notes)


@pytest.mark.parametrize("kind", [Kind.DENY, Kind.NO_OPINION])
def test_k_u21_forbidden(kind: Kind) -> None:
    answer = not_allowed(PODS, Decision(kind, "no rule", "review"), decided())
    said = "Forbidden (user=carol, verb=get, resource=pods, subresource=log)"
    assert (answer.response.status, answer.response.body) == (403, f"{said}\n".encode())
    notes = (Note(2, f'{said}. Reason: "no rule".'),)
    assert answer.decided == Decided(Outcome.DENIED, "carol", "token", "review", notes, asked=ASKED)


def test_k_u20_failed() -> None:
    answer = not_allowed(PODS, ReviewFailed("API server away"), decided())
    said = "Authorization error (user=carol, verb=get, resource=pods, subresource=log)"
    assert (answer.response.status, answer.response.body) == (500, f"{said}\n".encode())
    notes = (Note(0, f"{said}: API server away", is_error=True),)
    assert answer.decided == Decided(Outcome.ERROR, "carol", "token", "review", notes, asked=ASKED)


def test_words_of_ones_own_replace_the_usual_ones() -> None:
    for judgement, start in (
        (Decision(Kind.DENY), "Forbidden"),
        (ReviewFailed("away"), "Authorization error"),
    ):
        answer = not_allowed(PODS, judgement, decided(), words="(two were tried)")
        assert answer.response.body == f"{start} (two were tried)\n".encode()


def test_names_from_the_wire_break_neither_answer_nor_log() -> None:
    odd = Attributes(UserInfo("a\r\nb\udcff"), NonResourceAttributes("get", "/"))
    answer = not_allowed(odd, Decision(Kind.NO_OPINION), decided())
    assert answer.response.body == b"Forbidden (user=a\r\nb?, verb=get, resource=, subresource=)\n"
    assert answer.decided.notes[0].text.startswith("'Forbidden (user=a\\r\\nb\\udcff, ")
    assert note(2, "caf\u00e9").text == "caf\u00e9"

import logging

import pytest

from pyrbacproxy.authz.attributes import verb_of
from pyrbacproxy.model import Decided, ExchangeRecord, Failure, Note, Outcome
from pyrbacproxy.observe.logs import RATION, AnswerWatch, DecisionLog, RefusalRation
from tests.fakes import ManualLoop


def _record(*notes: Note, outcome: Outcome = Outcome.ALLOWED) -> ExchangeRecord:
    decided = Decided(outcome, notes=notes)
    return ExchangeRecord(peer_address="192.0.2.1", method="GET", path="/", decided=decided)


def test_each_note_is_written_at_its_level(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(1):
        DecisionLog(verb_of).observe(
            _record(Note(0, "who"), Note(2, "why"), Note(0, "broken", is_error=True))
        )
    lines = [(record.levelno, record.getMessage()) for record in caplog.records]
    assert lines == [(logging.INFO, "who"), (18, "why"), (logging.ERROR, "broken")]


def test_a_percent_sign_in_a_note_is_text(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(1):
        DecisionLog(verb_of).observe(_record(Note(0, "path /%s")))
    assert caplog.records[0].getMessage() == "path /%s"


def test_an_exchange_that_was_not_decided_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(1):
        DecisionLog(verb_of).observe(
            ExchangeRecord(peer_address="192.0.2.1", method="GET", path="/")
        )
    assert not caplog.records


@pytest.mark.parametrize(
    ("failure", "cause", "lines"),
    [
        (None, "", []),
        (Failure.CLIENT_GONE, "", []),
        (Failure.BROKE_HTTP, "", ["http: proxy error: upstream broke HTTP"]),
        # FR80
        (Failure.NO_UPGRADE, "", ["http: proxy error: no upgrade over HTTP/2"]),
        # FR82
        (
            Failure.NOT_TRUSTED,
            "up.test:1: why",
            ["http: proxy error: upstream's certificate not trusted (up.test:1: why)"],
        ),
    ],
)
def test_a_failed_upstream_is_one_line_as_in_the_original(
    caplog: pytest.LogCaptureFixture, failure: Failure | None, cause: str, lines: list[str]
) -> None:
    record = ExchangeRecord("192.0.2.1", "GET", "/", failure=failure, cause=cause)
    with caplog.at_level(logging.INFO):
        DecisionLog(verb_of).observe(record)
    assert [record.getMessage() for record in caplog.records] == lines
    assert all(getattr(record, RATION, None) == "proxy error" for record in caplog.records)


def test_what_is_always_written_is_rationed_by_outcome(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(1):
        DecisionLog(verb_of).observe(
            _record(Note(0, "a", is_error=True), Note(0, "b"), Note(2, "c"))
        )
    assert [getattr(line, RATION, None) for line in caplog.records] == ["allowed"] * 2 + [None]


# --- FR99: refusals -------------------------------------------------------------------


def _denied(path: str = "/metrics", **more: object) -> ExchangeRecord:
    decided = Decided(
        Outcome.DENIED,
        "carol",
        "token",
        "review",
        (Note(2, 'Forbidden (user=carol). Reason: "no".'),),
        groups=("g1", "g2"),
        asked="get /metrics",
    )
    record = ExchangeRecord("192.0.2.1", "GET", path, decided=decided, status=403)
    for key, value in more.items():
        setattr(record, key, value)
    return record


def _lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_fr99_a_refusal_is_one_line_at_the_default_level(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        DecisionLog(verb_of).observe(_denied())
    expected = (
        'Forbidden (user=carol). Reason: "no". status=403 peer="192.0.2.1" user="carol" '
        'groups="g1, g2" identity="token" method="GET" verb="get" path="/metrics" '
        'asked="get /metrics" decidedBy="access review"'
    )
    assert _lines(caplog) == [expected]


def test_fr99_who_asks_for_more_gets_every_refusal(caplog: pytest.LogCaptureFixture) -> None:
    log = DecisionLog(verb_of)
    with caplog.at_level(18):
        for _ in range(20):
            log.observe(_denied())
    assert len(caplog.records) == 20


def test_fr99_a_value_is_neither_another_line_nor_another_value(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO):
        DecisionLog(verb_of).observe(_denied('/a" status=200 user="root"\nI1201 forged'))
        DecisionLog(verb_of).observe(_denied("/" + "x" * 65_000))
    forged, long = _lines(caplog)
    assert "\\n" in forged
    assert 'path="/a\\" status=200 user=\\"root\\"' in forged
    assert len(long) < 1000


def test_fr99_one_peer_s_refusals_leave_room_for_another_s(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = DecisionLog(verb_of)
    with caplog.at_level(logging.INFO):
        for _ in range(50):
            log.observe(_denied())
        log.observe(_denied(peer_address="192.0.2.2"))
        log.observe(_denied(ended_at=11.0))
    *first, other, later = _lines(caplog)
    assert len(first) == 5
    assert 'peer="192.0.2.2"' in other
    assert later.endswith(" leftOut=45")


def test_fr99_the_ration_forgets_who_was_silent_longest() -> None:
    ration = RefusalRation()
    for number in range(5000):
        assert ration.take("denied", 403, f"10.0.{number // 256}.{number % 256}", 0.0) == 0
        assert ration.take("denied", 403, "192.0.2.1", 0.0) == (0 if number < 5 else None)
    assert len(ration) == 1024


@pytest.mark.parametrize("status", [307, 0])
def test_fr99_a_redirect_is_no_refusal_a_reset_stream_is(
    caplog: pytest.LogCaptureFixture, status: int
) -> None:
    decided = Decided(Outcome.REFUSED, notes=())
    with caplog.at_level(logging.INFO):
        DecisionLog(verb_of).observe(
            ExchangeRecord("192.0.2.1", "", "", decided=decided, status=status)
        )
    assert len(caplog.records) == (status == 0)


# --- FR94: an upstream that does not answer --------------------------------------------


def test_fr94_a_long_wait_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    loop = ManualLoop()
    slow = ExchangeRecord("192.0.2.1", "GET", "/slow")
    quick = [slow, ExchangeRecord("192.0.2.1", "GET", "/quick")]
    with caplog.at_level(18):
        watch = AnswerWatch(loop.as_loop(), lambda: quick)
        for _ in range(9):
            loop.advance(3)
        quick.pop()
        for _ in range(30):
            loop.advance(3)
    assert _lines(caplog) == [
        (
            "the upstream has not answered for 30 s; still waiting "
            'peer="192.0.2.1" method="GET" path="/slow"'
        )
    ]
    watch.close()
    assert loop.timers == []


def test_fr94_below_that_level_nothing_is_looked_at(caplog: pytest.LogCaptureFixture) -> None:
    loop = ManualLoop()
    with caplog.at_level(logging.INFO):
        AnswerWatch(loop.as_loop(), list)
    assert loop.timers == []

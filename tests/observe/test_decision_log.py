import logging

import pytest

from pyrbacproxy.observe.decision_log import log_notes
from pyrbacproxy.observe.flood import RATION
from pyrbacproxy.record import Decided, ExchangeRecord, Failure, Note, Outcome


def _record(*notes: Note) -> ExchangeRecord:
    decided = Decided(Outcome.DENIED, notes=notes)
    return ExchangeRecord(peer_address="192.0.2.1", method="GET", path="/", decided=decided)


def test_each_note_is_written_at_its_level(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(1):
        log_notes(_record(Note(0, "who"), Note(2, "why"), Note(0, "broken", is_error=True)))
    lines = [(record.levelno, record.getMessage()) for record in caplog.records]
    assert lines == [(logging.INFO, "who"), (18, "why"), (logging.ERROR, "broken")]


def test_a_percent_sign_in_a_note_is_text(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(1):
        log_notes(_record(Note(0, "path /%s")))
    assert caplog.records[0].getMessage() == "path /%s"


def test_an_exchange_that_was_not_decided_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(1):
        log_notes(ExchangeRecord(peer_address="192.0.2.1", method="GET", path="/"))
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
        log_notes(record)
    assert [record.getMessage() for record in caplog.records] == lines
    assert all(getattr(record, RATION, None) == "proxy error" for record in caplog.records)


def test_what_is_always_written_is_rationed_by_outcome(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(1):
        log_notes(_record(Note(0, "a", is_error=True), Note(0, "b"), Note(2, "c")))
    assert [getattr(record, RATION, None) for record in caplog.records] == ["denied"] * 2 + [None]

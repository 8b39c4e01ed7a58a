"""What happened in one exchange starts as nothing and is filled in."""

from pyrbacproxy.model import Decided, ExchangeRecord, Note, Outcome


def test_a_record_begins_with_nothing_reached() -> None:
    record = ExchangeRecord("192.0.2.1", "GET", "/metrics")
    assert record.decided is None
    assert (record.status, record.failure) == (0, None)
    instants = (record.started_at, record.decided_at, record.upstream_answered_at, record.ended_at)
    assert instants == (0.0, 0.0, 0.0, 0.0)
    record.decided = Decided(Outcome.DENIED, "alice", "token", "review", (Note(2, "why"),))
    assert record.decided.notes[0].text == "why"


def test_outcomes_are_few_and_fit_for_labels() -> None:
    labels = sorted(outcome.value for outcome in Outcome)
    assert labels == ["allowed", "denied", "error", "refused", "unauthenticated"]

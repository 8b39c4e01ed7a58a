"""What one exchange adds, which names failures have, and that nothing of the wire is a label."""

import pytest

from pyrbacproxy.model import Decided, ExchangeRecord, Failure, Outcome, PageShown
from pyrbacproxy.observe.metrics import LATENCY_BOUNDS, Histogram, Metrics

TOKEN = Decided(Outcome.ALLOWED, "alice", "token", "review")
BOTH = ("TokenReview", "SubjectAccessReview")


def record(decided: Decided | None, status: int = 200, **fields: object) -> ExchangeRecord:
    made = ExchangeRecord("192.0.2.1", "GET", "/metrics", decided, status)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def counted(*records: ExchangeRecord) -> Metrics:
    metrics = Metrics()
    for each in records:
        metrics.observe(each)
    return metrics


def nonzero(counts: dict[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}


def test_a_value_on_a_bound_belongs_below_it() -> None:
    histogram = Histogram((0.1, 1.0))
    for value in (0.1, 0.2, 1.0, 1.5):
        histogram.add(value)
    assert histogram.counts == [1, 2, 1]
    assert histogram.total == pytest.approx(2.8)


def test_requests_are_counted_by_outcome_and_class_of_the_status() -> None:
    metrics = counted(
        *(record(Decided(outcome), 403) for outcome in Outcome),
        record(Decided(Outcome.ALLOWED), 0),
        record(None, 400),
    )
    assert {counts[4] for counts in metrics.requests.values()} == {1}
    assert set(metrics.requests) == {*Outcome, "undecided"}
    assert metrics.requests["allowed"][0] == 1


@pytest.mark.parametrize(
    ("decided", "waited_for", "authentication", "authorization"),
    [
        (Decided(Outcome.ALLOWED, "a", "certificate", "static"), (), "certificate", "static"),
        (TOKEN, BOTH, "token_review", "subject_access_review"),
        (TOKEN, BOTH[:1], "token_review", "cache"),
        (TOKEN, BOTH[1:], "token_cache", "subject_access_review"),
        (TOKEN, (), "token_cache", "cache"),
        (Decided(Outcome.DENIED, "a", "token", "review"), (), "token_cache", "cache"),
        (Decided(Outcome.ALLOWED, "a", "oidc", "static"), BOTH[:1], "oidc", "static"),
        (Decided(Outcome.ALLOWED, "", "none", "none"), (), "none", "none"),
        # Nobody decided: the review failed.
        (Decided(Outcome.ERROR, "a", "certificate", "review"), BOTH[1:], "certificate", ""),
        (Decided(Outcome.UNAUTHENTICATED), BOTH[:1], "", ""),
    ],
)
def test_who_said_who_it_is_and_who_decided(
    decided: Decided, waited_for: tuple[str, ...], authentication: str, authorization: str
) -> None:
    metrics = counted(record(decided, waited_for=waited_for))
    assert nonzero(metrics.authentications) == ({authentication: 1} if authentication else {})
    assert nonzero(metrics.authorizations) == ({authorization: 1} if authorization else {})


def test_times_and_bytes_are_added_up() -> None:
    metrics = counted(
        record(
            TOKEN,
            started_at=10.0,
            decided_at=10.5,
            upstream_answered_at=10.75,
            ended_at=12.0,
            received_bytes=3,
            sent_bytes=160,
        ),
        record(Decided(Outcome.DENIED), 403, started_at=20.0, decided_at=20.0, ended_at=20.0),
    )
    assert (metrics.request_seconds.total, sum(metrics.request_seconds.counts)) == (2.0, 2)
    assert (metrics.upstream_seconds.total, sum(metrics.upstream_seconds.counts)) == (0.25, 1)
    assert (metrics.received_bytes, metrics.sent_bytes) == (3, 160)
    assert metrics.request_seconds.bounds == LATENCY_BOUNDS


@pytest.mark.parametrize("failure", Failure)
def test_each_failure_of_the_upstream_has_a_label_of_its_own(failure: Failure) -> None:
    metrics = counted(record(TOKEN, 502, failure=failure))
    is_client_s = failure.startswith(("client", "malformed", "cut"))
    assert nonzero(metrics.upstream_failures) == ({} if is_client_s else {failure.reason: 1})
    assert metrics.client_aborts == (failure is Failure.CLIENT_GONE)


def test_no_two_failures_share_words_or_label() -> None:
    labels = [failure.reason for failure in Failure if failure.reason]
    assert len(set(labels)) == len(labels) == len(Metrics().upstream_failures)


def test_reviews_are_timed_and_their_failures_counted() -> None:
    metrics = Metrics()
    metrics.reviewed("TokenReview", 0.5, is_answered=True)
    metrics.reviewed("TokenReview", 0.25, is_answered=False)
    assert metrics.review_seconds["TokenReview"].total == 0.75
    assert metrics.review_failures == {"TokenReview": 1, "SubjectAccessReview": 0}


def test_d15_stale_reviews_are_counted() -> None:
    metrics = Metrics()
    metrics.used_stale("SubjectAccessReview")
    assert metrics.stale_reviews == {"TokenReview": 0, "SubjectAccessReview": 1}


def test_handshakes_are_counted_by_version_or_failure() -> None:
    metrics = Metrics()
    for told in (("TLSv1.3", ""), ("TLSv1.3", ""), ("TLSv9", ""), ("", "timeout")):
        metrics.observe_handshake(*told)
    assert nonzero(metrics.handshakes) == {"TLSv1.3": 2, "TLSv9": 1}
    assert nonzero(metrics.handshake_failures) == {"timeout": 1}


def test_z_g8_pages_are_counted_by_what_was_given() -> None:
    def page(shown: PageShown | None, method: str = "GET", status: int = 200) -> ExchangeRecord:
        decided = Decided(Outcome.ALLOWED, page=shown)
        made = record(decided, status, started_at=1.0, ended_at=1.5)
        made.method = method
        return made

    beta = PageShown("statusz", "config.k8s.io", "v1beta1")
    metrics = Metrics()
    for each in (
        page(PageShown("statusz")),
        page(PageShown("statusz"), "HEAD"),
        page(PageShown("statusz"), status=406),
        page(beta),
        page(PageShown("flagz"), "POST", 405),
        page(PageShown("flagz"), "BREW", 405),
        page(None),
        record(None),
    ):
        metrics.observe_page(each)
    assert metrics.pages == {
        ("statusz", "GET", "", "", 200): 2,
        ("statusz", "GET", "", "", 406): 1,
        ("statusz", "GET", "config.k8s.io", "v1beta1", 200): 1,
        ("flagz", "POST", "", "", 405): 1,
        ("flagz", "other", "", "", 405): 1,
    }
    assert metrics.page_seconds["statusz", "GET", "", ""].total == 1.5
    assert sum(metrics.page_seconds["statusz", "GET", "config.k8s.io", "v1beta1"].counts) == 1


def test_the_life_of_a_tunnel_is_no_latency_but_its_bytes_count() -> None:
    metrics = counted(
        record(
            TOKEN,
            101,
            started_at=1.0,
            decided_at=1.5,
            upstream_answered_at=2.0,
            ended_at=9000.0,
            received_bytes=3,
            sent_bytes=4,
        )
    )
    assert metrics.request_seconds.total == 1.0
    assert metrics.upstream_seconds.total == 0.5
    assert metrics.requests["allowed"][1] == 1
    assert (metrics.received_bytes, metrics.sent_bytes) == (3, 4)

"""The numbers behind `/metrics`: counted in preallocated slots, one exchange after the other.

A request costs additions to plain ints and floats, nothing else; names, labels and text are made
at each scrape (`observe.exposition`). No label holds a user, a path or a token, so that no client
who asks can add a series.
"""

from bisect import bisect_left

from pyrbacproxy.model import ExchangeRecord, Failure, Outcome

# Seconds; up to the longest time that a client waits.
LATENCY_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
# Seconds in which nothing else runs: a healthy loop is below the first.
LAG_BOUNDS = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0)
# Those of Kubernetes' apiserver_request_duration_seconds.
PAGE_BOUNDS = (
    *(0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0),
    *(10.0, 15.0, 20.0, 30.0, 45.0, 60.0),
)

# Ended by the client, or by a broken body, before anything was decided.
UNDECIDED = "undecided"
_SWITCHED = 101
_TOKEN_REVIEW = "TokenReview"  # noqa: S105 - a kind
_ACCESS_REVIEW = "SubjectAccessReview"
# Methods that are counted under their name.
_VERBS = frozenset(("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE"))


class Histogram:
    """How many observations fell into which bucket, and their sum; the last bucket is unbounded."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """Count one; a value on a bound belongs below it."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class Metrics:
    """Every number that something counts; gauges are looked up at each scrape.

    `requests` holds for each outcome the counts by the status' first digit, 0 for no response head.
    `pages` is keyed by resource, verb, group, version, status; `page_seconds` by the first four.
    """

    __slots__ = (
        "authentications",
        "authorizations",
        "client_aborts",
        "handshake_failures",
        "handshakes",
        "loop_lag",
        "page_seconds",
        "pages",
        "received_bytes",
        "request_seconds",
        "requests",
        "review_failures",
        "review_seconds",
        "sent_bytes",
        "stale_reviews",
        "upstream_failures",
        "upstream_seconds",
    )

    def __init__(self) -> None:
        self.requests: dict[str, list[int]] = {
            outcome: [0] * 10 for outcome in (*Outcome, UNDECIDED)
        }
        self.authentications = dict.fromkeys(
            ("certificate", "token_cache", "token_review", "oidc", "none"), 0
        )
        self.authorizations = dict.fromkeys(("static", "cache", "subject_access_review", "none"), 0)
        self.request_seconds = Histogram(LATENCY_BOUNDS)
        self.upstream_seconds = Histogram(LATENCY_BOUNDS)
        self.upstream_failures = {failure.reason: 0 for failure in Failure if failure.reason}
        self.client_aborts = 0
        self.received_bytes = 0
        self.sent_bytes = 0
        self.review_seconds = {
            kind: Histogram(LATENCY_BOUNDS) for kind in (_TOKEN_REVIEW, _ACCESS_REVIEW)
        }
        self.review_failures = dict.fromkeys(self.review_seconds, 0)
        self.stale_reviews = dict.fromkeys(self.review_seconds, 0)
        self.handshakes = dict.fromkeys(("TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"), 0)
        self.handshake_failures = dict.fromkeys(
            ("tls_error", "plain_http", "timeout", "connection_lost"), 0
        )
        self.loop_lag = Histogram(LAG_BOUNDS)
        self.pages: dict[tuple[str, str, str, str, int], int] = {}
        self.page_seconds: dict[tuple[str, str, str, str], Histogram] = {}

    def observe(self, record: ExchangeRecord) -> None:
        """Count one exchange with the upstream's side; once for each, on the request path."""
        decided = record.decided
        if decided is None:
            self.requests[UNDECIDED][record.status // 100] += 1
        else:
            outcome = decided.outcome
            self.requests[outcome][record.status // 100] += 1
            source = decided.identity_source
            if source:
                if source == "token":
                    waited = _TOKEN_REVIEW in record.waited_for
                    source = "token_review" if waited else "token_cache"
                self.authentications[source] += 1
            source = decided.decision_source
            if source and outcome is not Outcome.ERROR:
                if source == "review":
                    waited = _ACCESS_REVIEW in record.waited_for
                    source = "subject_access_review" if waited else "cache"
                self.authorizations[source] += 1
        # How long a tunnel lives is no latency: it counts up to its 101.
        ended_at = record.upstream_answered_at if record.status == _SWITCHED else record.ended_at
        self.request_seconds.add(ended_at - record.started_at)
        if record.upstream_answered_at:
            self.upstream_seconds.add(record.upstream_answered_at - record.decided_at)
        self.received_bytes += record.received_bytes
        self.sent_bytes += record.sent_bytes
        if record.failure is not None:
            self._failed(record.failure)

    def observe_page(self, record: ExchangeRecord) -> None:
        """Count one exchange of the endpoints port, if a page that is counted was asked for."""
        page = None if record.decided is None else record.decided.page
        if page is None:
            return
        verb = "GET" if record.method == "HEAD" else record.method
        asked = (
            page.resource,
            verb if verb in _VERBS else "other",
            page.group,
            page.version,
        )
        key = (*asked, record.status)
        self.pages[key] = self.pages.get(key, 0) + 1
        if asked not in self.page_seconds:
            self.page_seconds[asked] = Histogram(PAGE_BOUNDS)
        self.page_seconds[asked].add(record.ended_at - record.started_at)

    def reviewed(self, kind: str, seconds: float, *, is_answered: bool) -> None:
        """One call to the API server; `kind` is the review's."""
        self.review_seconds[kind].add(seconds)
        if not is_answered:
            self.review_failures[kind] += 1

    def used_stale(self, kind: str) -> None:
        """An answer was used past its time; `kind` is the review's."""
        self.stale_reviews[kind] += 1

    def observe_handshake(self, version: str, failure: str) -> None:
        """A TLS handshake with a client is over: a version, or a failure, else ""."""
        if failure:
            self.handshake_failures[failure] += 1
        else:
            self.handshakes[version] = self.handshakes.get(version, 0) + 1

    def _failed(self, failure: Failure) -> None:
        if failure is Failure.CLIENT_GONE:
            self.client_aborts += 1
        elif failure.reason:
            self.upstream_failures[failure.reason] += 1

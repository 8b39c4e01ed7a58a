"""A record's line: what it tells, and that it is one line of JSON whatever a client sends."""

import json
import select

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrbacproxy.model import Decided, ExchangeRecord, Failure, Outcome
from pyrbacproxy.observe.access_log import MOST_BYTES, line

NOON = 1767268800.0
JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl"
WHOLE = ExchangeRecord(
    "192.0.2.7",
    "GET",
    "/metrics",
    Decided(Outcome.ALLOWED, "alice", "token", "review"),
    status=200,
    started_at=10.0,
    decided_at=10.0125,
    upstream_answered_at=10.5,
    ended_at=11.0,
    received_bytes=3,
    sent_bytes=160,
    waited_for=("TokenReview", "SubjectAccessReview"),
)
EARLY = ExchangeRecord("192.0.2.7", "GET", "/x", started_at=1.0, ended_at=1.25)


def told(record: ExchangeRecord, ended_at: float = NOON) -> dict[str, object]:
    written = line(record, ended_at)
    assert written.endswith(b"\n")
    found = json.loads(written)
    assert isinstance(found, dict)
    return found


def path_as_told(path: str) -> object:
    return told(ExchangeRecord("192.0.2.7", "GET", path))["path"]


def test_a_whole_line_byte_for_byte() -> None:
    assert line(WHOLE, NOON + 0.0456) == (
        b'{"time":"2026-01-01T12:00:00.045Z","peer":"192.0.2.7","method":"GET","path":"/metrics",'
        b'"status":200,"user":"alice","outcome":"allowed","identity_source":"token",'
        b'"decision_source":"review","waited_for":["TokenReview","SubjectAccessReview"],'
        b'"failure":"","received_bytes":3,"sent_bytes":160,"decision_seconds":0.012500,'
        b'"upstream_seconds":0.487500,"total_seconds":1.000000}\n'
    )


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        pytest.param(
            EARLY,
            {"outcome": "undecided", "user": "", "status": 0, "decision_seconds": None},
            id="the client left before the decision",
        ),
        pytest.param(
            ExchangeRecord(
                *("192.0.2.7", "GET", "/x", Decided(Outcome.UNAUTHENTICATED), 401, 1.0, 1.5),
                ended_at=1.75,
            ),
            {
                "outcome": "unauthenticated",
                "status": 401,
                "decision_seconds": 0.5,
                "upstream_seconds": None,
                "total_seconds": 0.75,
            },
            id="nobody",
        ),
        pytest.param(
            ExchangeRecord(
                *("192.0.2.7", "", "", Decided(Outcome.REFUSED), 400, 1.0),
                ended_at=1.0,
                failure=Failure.MALFORMED_REQUEST,
            ),
            {"method": "", "path": "", "failure": "malformed request", "total_seconds": 0.0},
            id="no request at all",
        ),
    ],
)
def test_what_was_not_reached_is_empty_or_null(
    record: ExchangeRecord, expected: dict[str, object]
) -> None:
    found = told(record)
    assert {key: found[key] for key in expected} == expected


@pytest.mark.parametrize(
    ("instant", "text"),
    [
        (0.0, "1970-01-01T00:00:00.000Z"),
        (NOON + 0.9999, "2026-01-01T12:00:00.999Z"),
        (NOON + 1.0, "2026-01-01T12:00:01.000Z"),
    ],
)
def test_the_time_is_utc_with_milliseconds(instant: float, text: str) -> None:
    assert told(WHOLE, instant)["time"] == text


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        pytest.param('/a"b\\c', '/a"b\\c', id="quote and backslash"),
        pytest.param("/grüße/日本", "/grüße/日本", id="letters"),
        pytest.param("/a\n{}", "/a\n{}", id="line break"),
        pytest.param("/\udcff\udc80", "/%FF%80", id="bytes that are no UTF-8"),
        pytest.param("/\ud800", "/\ufffd", id="half of a pair"),
        pytest.param(f"/hook/{JWT}/x", "/hook/<masked>/x", id="a JWT"),
        pytest.param("/x?token=secret", "/x?token=<masked>", id="a query in disguise"),
        pytest.param("/" + "x" * 2045, "/" + "x" * 2045, id="as long as may be"),
        pytest.param("/" + "x" * 2046, "/" + "x" * 2042 + "…", id="too long"),
        pytest.param("/" + "\x01" * 2046, "/" + "\x01" * 339 + "…", id="too long once escaped"),
        pytest.param(
            "/" + "/" * 2030 + JWT, "/" + "/" * 2030 + "<masked>", id="a JWT where it would be cut"
        ),
    ],
)
def test_a_path_as_it_is_told(path: str, shown: str) -> None:
    assert path_as_told(path) == shown


@pytest.mark.parametrize(
    "odd", ["\n", "\r", "\x1b[2J", "\x7f", "\x9b", "\x85", "\u2028", "\u202e", "\u2066", "\udc9b"]
)
def test_nothing_odd_is_left_as_it_is(odd: str) -> None:
    record = ExchangeRecord(odd, odd, "/" + odd, Decided(Outcome.DENIED, odd, odd, odd))
    record.cause = odd
    record.waited_for = (odd,)
    written = line(record, NOON).decode()
    assert odd not in written[:-1]
    assert written[:-1].isprintable()


TEXT = st.text(st.characters(), max_size=5000)
COUNT = st.integers(0, 1 << 63)
INSTANT = st.floats(0, 1e9)
RECORDS = st.builds(
    ExchangeRecord,
    *(TEXT, TEXT, TEXT),
    decided=st.none() | st.builds(Decided, st.sampled_from(Outcome), TEXT, TEXT, TEXT),
    status=st.integers(0, 999),
    **dict.fromkeys(("started_at", "decided_at", "upstream_answered_at", "ended_at"), INSTANT),
    **dict.fromkeys(("received_bytes", "sent_bytes"), COUNT),
    failure=st.none() | st.sampled_from(Failure),
    cause=TEXT,
    waited_for=st.lists(TEXT, max_size=2).map(tuple),
)


@given(RECORDS, st.floats(0, 4e9))
def test_whatever_the_record_holds_it_is_one_line_of_json(
    record: ExchangeRecord, ended_at: float
) -> None:
    written = line(record, ended_at)
    assert len(written) <= MOST_BYTES
    assert len(written.decode().splitlines()) == 1
    found = told(record, ended_at)
    assert list(found) == list(told(WHOLE))
    assert found["status"] == record.status


def test_a_pipe_takes_a_line_whole() -> None:
    assert MOST_BYTES <= select.PIPE_BUF


def test_all_of_a_record_is_told() -> None:
    """Whoever adds a field decides whether the log tells it; a cause is for the proxy's own log."""
    assert {*ExchangeRecord.__match_args__} - {"cause"} == {
        *("peer_address", "method", "path", "decided", "status", "failure", "waited_for"),
        *("started_at", "decided_at", "upstream_answered_at", "ended_at"),
        *("received_bytes", "sent_bytes"),
    }

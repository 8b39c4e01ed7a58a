import pytest

from pyrbacproxy.http1.framing import CHUNKED, UNTIL_CLOSE, Framing, Kind
from pyrbacproxy.http1.parser import ChunkedBody, CountedBody, UntilCloseBody, body_of


@pytest.mark.parametrize(
    ("framing", "kind"),
    [
        (Framing(Kind.LENGTH, 3), CountedBody),
        (CHUNKED, ChunkedBody),
        (UNTIL_CLOSE, UntilCloseBody),
    ],
)
def test_each_framing_has_its_reader(framing: Framing, kind: type) -> None:
    assert isinstance(body_of(framing), kind)


def test_a_counted_body_ends_at_its_length() -> None:
    body = CountedBody(7)
    assert body.feed(b"abc", 0) == (b"abc", 3)
    assert not body.is_complete
    assert body.feed(b"..defgnext", 2) == (b"defg", 6)
    assert body.is_complete
    assert body.fault is None
    assert len(body.trailers) == 0


def test_a_whole_read_is_handed_through_without_a_copy() -> None:
    data = b"x" * 65_536
    assert CountedBody(1_000_000).feed(data, 0)[0] is data
    assert UntilCloseBody().feed(data, 0)[0] is data


def test_a_body_until_close_never_ends_by_itself() -> None:
    body = UntilCloseBody()
    assert body.feed(b"..abc", 2) == (b"abc", 5)
    assert not body.is_complete
    assert body.fault is None
    assert len(body.trailers) == 0

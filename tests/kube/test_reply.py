from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrbacproxy.http1.head import RemoteProtocolError
from pyrbacproxy.kube.api_client import Reply, ReplyReader

CREATED = b"HTTP/1.1 201 Created\r\n"
KEPT = Reply(201, "", b"{}", keeps_connection=True)
LAST = Reply(201, "", b"{}", keeps_connection=False)
LIMIT = 100

WHOLE: dict[str, tuple[bytes, Reply]] = {
    "counted": (CREATED + b"Content-Length: 2\r\n\r\n{}", KEPT),
    "chunked": (
        CREATED + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\nA: b\r\n\r\n",
        KEPT,
    ),
    "behind interim answers": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nRetry-After: 9\r\n\r\n"
        + CREATED
        + b"Content-Length: 2\r\n\r\n{}",
        KEPT,
    ),
    "the server's last": (CREATED + b"Connection: close\r\nContent-Length: 2\r\n\r\n{}", LAST),
    "HTTP/1.0": (b"HTTP/1.0 201 Created\r\nContent-Length: 2\r\n\r\n{}", LAST),
    "bytes behind it": (CREATED + b"Content-Length: 2\r\n\r\n{}HTTP/1.1 ", LAST),
    "no body": (
        b"HTTP/1.1 204 No Content\r\n\r\n",
        Reply(204, "", b"", keeps_connection=True),
    ),
    "retry later": (
        b"HTTP/1.1 429 Slow\r\nRetry-After: 3\r\nContent-Length: 0\r\n\r\n",
        Reply(429, "3", b"", keeps_connection=True),
    ),
    "another protocol": (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        Reply(101, "", b"", keeps_connection=False),
    ),
    "as long as allowed": (
        CREATED + b"Content-Length: 100\r\n\r\n" + b"x" * 100,
        Reply(201, "", b"x" * 100, keeps_connection=True),
    ),
    "longer than allowed": (
        CREATED + b"Content-Length: 999\r\n\r\n" + b"x" * 101,
        Reply(201, "", b"x" * 101, keeps_connection=False),
    ),
}


def reader() -> ReplyReader:
    return ReplyReader(max_body_bytes=LIMIT)


@pytest.mark.parametrize("case", WHOLE)
def test_a_whole_answer(case: str) -> None:
    data, reply = WHOLE[case]
    assert reader().feed(data) == reply


@given(case=st.sampled_from(sorted(WHOLE)), cuts=st.lists(st.integers(1, 200)))
def test_pieces_change_nothing(case: str, cuts: list[int]) -> None:
    data, reply = WHOLE[case]
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    reading = reader()
    replies = []
    for start, stop in pairwise(edges):
        replies.append(reading.feed(data[start:stop]))
        if replies[-1] is not None:
            break
    final = replies.pop()
    assert final is not None
    assert (final.status, final.retry_after, final.body) == (
        reply.status,
        reply.retry_after,
        reply.body,
    )
    assert set(replies) <= {None}


def test_an_answer_may_end_with_the_connection() -> None:
    reading = reader()
    assert reading.feed(CREATED + b"\r\n{") is None
    assert reading.feed(b"}") is None
    assert reading.feed_eof() == LAST


def test_whether_anything_came() -> None:
    reading = reader()
    assert not reading.has_begun
    reading.feed(b"H")
    assert reading.has_begun


@pytest.mark.parametrize(
    "cut",
    [
        b"HTTP/1.1 201 Cre",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        CREATED + b"Content-Length: 20\r\n\r\n{}",
        CREATED + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
    ],
    ids=["head", "interim", "counted", "chunked"],
)
def test_a_cut_answer_is_a_fault(cut: bytes) -> None:
    reading = reader()
    assert reading.feed(cut) is None
    with pytest.raises(RemoteProtocolError):
        reading.feed_eof()


@pytest.mark.parametrize(
    "data",
    [
        b"s3cret\r\n\r\n",
        CREATED + b"A: " + b"x" * 70_000 + b"\r\n\r\n",
        CREATED + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
        CREATED + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\nno size\r\n",
    ],
    ids=["no HTTP", "a long head", "two lengths", "a bad chunk behind a good one"],
)
def test_what_is_no_answer_is_a_fault(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        reader().feed(data)


def test_a_reply_does_not_show_its_body() -> None:
    assert "s3cret" not in repr(Reply(200, "", b"s3cret", keeps_connection=True))

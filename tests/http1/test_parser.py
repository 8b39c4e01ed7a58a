"""Invariants: however a stream is cut into reads, the same events come out; a remembered head means
what a fresh one means; whatever arrives, only RemoteProtocolError comes out.
"""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrbacproxy.http1.framing import CHUNKED, NO_BODY, UNTIL_CLOSE, Framing, Kind
from pyrbacproxy.http1.head import Headers, RemoteProtocolError
from pyrbacproxy.http1.parser import (
    END,
    End,
    InterimReceived,
    KnownResponses,
    RequestEvent,
    RequestParser,
    RequestReceived,
    ResponseEvent,
    ResponseParser,
    ResponseReceived,
    Trailers,
)
from pyrbacproxy.http1.target import Form

GET = b"GET /a?b HTTP/1.1\r\nHost: h\r\n\r\n"
POST = b"POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc"
CHUNKS = (
    b"POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3\r\ndef\r\n0\r\nX-Sum: 1\r\n\r\n"
)
UPGRADE = b"GET /u HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def bytewise(data: bytes) -> list[bytes]:
    return [data[i : i + 1] for i in range(len(data))]


def joined(events: Sequence[RequestEvent | ResponseEvent]) -> list[RequestEvent | ResponseEvent]:
    """The events with neighbouring body data put together: how it was cut means nothing."""
    whole: list[RequestEvent | ResponseEvent] = []
    for event in events:
        last = whole[-1] if whole else None
        if isinstance(event, bytes) and isinstance(last, bytes):
            whole[-1] = last + event
        else:
            whole.append(event)
    return whole


def requests(
    pieces: list[bytes], limit: int = 65_536
) -> tuple[list[RequestEvent | ResponseEvent], RemoteProtocolError | None]:
    parser = RequestParser(max_head_bytes=limit)
    events: list[RequestEvent] = []
    try:
        for piece in pieces:
            events += parser.feed(piece)
            while parser.is_held:
                events += parser.resume()
    except RemoteProtocolError as fault:
        return joined(events), fault
    return joined(events), parser.fault


def responses(
    pieces: list[bytes], method: bytes = b"GET", known: KnownResponses | None = None
) -> tuple[list[RequestEvent | ResponseEvent], RemoteProtocolError | None, bytes]:
    parser = ResponseParser(request_method=method, max_head_bytes=65_536, known=known)
    events: list[ResponseEvent] = []
    try:
        for piece in pieces:
            events += parser.feed(piece)
        events += parser.feed_eof()
    except RemoteProtocolError as fault:
        return joined(events), fault, parser.leftover
    return joined(events), None, parser.leftover


def shape(events: Sequence[RequestEvent | ResponseEvent]) -> list[object]:
    """Events without their heads: targets, statuses, data, trailers, ends."""
    shapes: list[object] = []
    for event in events:
        if isinstance(event, RequestReceived):
            shapes.append(event.head.target)
        elif isinstance(event, ResponseReceived | InterimReceived):
            shapes.append(event.head.status)
        elif isinstance(event, Trailers):
            shapes.append(list(event.headers))
        else:
            shapes.append(event)
    return shapes


def refusal(head: bytes, limit: int = 65_536) -> int:
    """The status that a request is refused with; whole or byte by byte, nothing of it is told."""
    events, fault = requests([head], limit)
    assert events == []
    assert fault is not None
    events, again = requests(bytewise(head), limit)
    assert events == []
    assert again is not None
    return fault.status


# --- requests ---------------------------------------------------------------------------


def test_a_request_is_taken_apart() -> None:
    events, fault = requests([GET])
    assert fault is None
    received = events[0]
    assert isinstance(received, RequestReceived)
    assert received.head.method == b"GET"
    assert received.head.minor == 1
    assert received.head.headers == Headers([(b"Host", b"h")])
    assert received.target.form is Form.ORIGIN
    assert received.target.raw_query == b"b"
    assert received.framing == NO_BODY
    assert received.raw == GET
    assert events[1:] == [END]


STREAMS = [
    pytest.param(GET, [b"/a?b", END], id="no body"),
    pytest.param(POST, [b"/p", b"abc", END], id="length"),
    pytest.param(CHUNKS, [b"/c", b"def", [(b"X-Sum", b"1")], END], id="chunked with trailers"),
    pytest.param(
        POST + CHUNKS + GET,
        [b"/p", b"abc", END, b"/c", b"def", [(b"X-Sum", b"1")], END, b"/a?b", END],
        id="pipelined",
    ),
    pytest.param(b"\r\n" + GET, [b"/a?b", END], id="an empty line before"),
    pytest.param(POST + b"\r\n" + GET, [b"/p", b"abc", END, b"/a?b", END], id="and between"),
    pytest.param(
        b"POST /z HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n" + GET,
        [b"/z", END, b"/a?b", END],
        id="length zero",
    ),
    pytest.param(b"GET /o HTTP/1.0\r\n\r\n", [b"/o", END], id="HTTP/1.0 without Host"),
    pytest.param(
        UPGRADE.replace(b"\r\n\r\n", b"\r\nContent-Length: 52\r\n\r\n") + (GET + GET)[:52] + GET,
        [b"/u", (GET + GET)[:52], END, b"/a?b", END],
        id="the body of an upgrade is no request",
    ),
    pytest.param(
        b"GET / HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\n\r\n", [b"/", END], id="expectation"
    ),
    pytest.param(
        b"GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n" + GET,
        [b"/", END, b"/a?b", END],
        id="h2c is no upgrade",
    ),
]


@pytest.mark.parametrize(("stream", "expected"), STREAMS)
def test_streams_of_requests(stream: bytes, expected: list[object]) -> None:
    for pieces in ([stream], bytewise(stream), [stream[:40], stream[40:]]):
        events, fault = requests(pieces)
        assert fault is None
        assert shape(events) == expected


HEAD = b"GET / HTTP/1.1\r\nHost: h\r\n%s\r\n\r\n"


@pytest.mark.parametrize(
    ("head", "status"),
    [
        pytest.param(b"this is not HTTP\r\n\r\n", 400, id="garbage"),
        pytest.param(b"\r\n\r\n\r\n", 400, id="nothing but line ends"),
        pytest.param(b"\r\n\r\n" + GET, 400, id="two empty lines before"),
        pytest.param(b"\n\n" + GET, 400, id="bare LF before"),
        pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, id="HTTP/2 preface"),
        pytest.param(b"BREW / HTTP/1.1\r\nHost: h\r\n\r\n", 501, id="unknown method"),
        pytest.param(HEAD % b"broken", 400, id="no colon"),
        pytest.param(b"GET / HTTP/1.1\nHost: h\nX-A: 1\n\n\r", 400, id="bare LF, no blank line"),
        pytest.param(b"GET / HTTP/1.1\nHost: h\n\n" + GET, 400, id="bare LF before a request"),
        pytest.param(HEAD % b"A: b\n\n" + GET, 400, id="head ended by bare LF"),
        pytest.param(HEAD % b"Expect: banana", 417, id="expectation"),
        pytest.param(GET[:-2] + b"A:\r\n" * 500 + b"\r\n", 431, id="too many lines"),
    ],
)
def test_refused_requests(head: bytes, status: int) -> None:
    assert refusal(head) == status


@pytest.mark.parametrize("is_cut", [False, True])
def test_the_head_limit_from_both_sides(*, is_cut: bool) -> None:
    pieces = bytewise(GET) if is_cut else [GET]
    assert requests(pieces, len(GET))[1] is None
    fault = requests(pieces, len(GET) - 1)[1]
    assert fault is not None
    assert fault.status == 431


def test_an_endless_head_is_refused_at_the_limit() -> None:
    parser = RequestParser(max_head_bytes=100)
    assert parser.feed(b"GET /" + b"x" * 94) == []
    with pytest.raises(RemoteProtocolError) as caught:
        parser.feed(b"x")
    assert caught.value.status == 431


def test_each_request_has_the_limit_to_itself() -> None:
    assert shape(requests([GET * 3], len(GET))[0]) == [b"/a?b", END] * 3


def test_events_before_a_fault_are_delivered_first() -> None:
    parser = RequestParser(max_head_bytes=1000)
    events = parser.feed(POST + b"GET / HTTP/1.1\r\nbroken\r\n\r\n" + GET)
    assert shape(events) == [b"/p", b"abc", END]
    fault = parser.fault
    assert fault is not None
    for _ in range(2):
        with pytest.raises(RemoteProtocolError) as caught:
            parser.feed(GET)
        assert caught.value is fault


def test_bad_chunks_are_a_fault_behind_the_head_and_the_data_before_them() -> None:
    parser = RequestParser(max_head_bytes=1000)
    head, _, _ = CHUNKS.partition(b"3\r\n")
    assert shape(parser.feed(head + b"1\r\na\r\nzz\r\n")) == [b"/c", b"a"]
    assert parser.fault is not None
    assert parser.fault.status == 400
    with pytest.raises(RemoteProtocolError):
        parser.resume()


def test_a_malformed_trailer_ends_the_message_badly() -> None:
    parser = RequestParser(max_head_bytes=1000)
    assert shape(parser.feed(CHUNKS.replace(b"X-Sum: 1", b"X Sum: 1"))) == [b"/c", b"def"]
    assert parser.fault is not None


def test_what_waits_and_what_is_idle() -> None:
    parser = RequestParser(max_head_bytes=1000)
    assert (parser.is_idle, parser.has_begun_head) == (True, False)
    parser.feed(GET[:5])
    assert (parser.is_idle, parser.has_begun_head) == (False, True)
    parser.feed(GET[5:])
    assert (parser.is_idle, parser.has_begun_head) == (True, False)
    parser.feed(POST[:-1])
    assert (parser.is_idle, parser.has_begun_head) == (False, False)
    parser.feed(POST[-1:])
    assert (parser.is_idle, parser.has_begun_head) == (True, False)


def test_sixteen_requests_at_once_and_then_a_breath() -> None:
    parser = RequestParser(max_head_bytes=1000)
    assert len(parser.feed(GET * 16)) == 32
    assert not parser.is_held
    assert len(parser.feed(GET * 17)) == 32
    assert parser.is_held
    assert not parser.is_idle
    assert parser.feed(POST[:-1]) == []
    assert shape(parser.resume()) == [b"/a?b", END, b"/p", b"ab"]
    assert not parser.is_held
    assert shape(parser.feed(b"c")) == [b"c", END]


def test_the_sixteenth_request_gets_its_body() -> None:
    parser = RequestParser(max_head_bytes=1000)
    events = parser.feed(GET * 15 + POST[:-1])
    assert shape(events)[-2:] == [b"/p", b"ab"]
    assert not parser.is_held
    assert shape(parser.feed(b"c" + GET)) == [b"c", END, b"/a?b", END]


@pytest.mark.parametrize("head", [UPGRADE, b"CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n"])
def test_what_follows_a_request_for_a_tunnel_is_held_for_it(head: bytes) -> None:
    parser = RequestParser(max_head_bytes=1000)
    events = parser.feed(head + b"early")
    assert len(events) == 2
    assert events[-1] is END
    received = events[0]
    assert isinstance(received, RequestReceived)
    assert received.may_switch
    assert parser.is_held
    assert parser.feed(b"er") == []
    assert parser.take_held() == b"earlyer"
    assert not parser.is_held


def test_a_tunnel_that_is_not_made_goes_on_with_requests() -> None:
    parser = RequestParser(max_head_bytes=1000)
    parser.feed(UPGRADE + GET)
    assert shape(parser.resume()) == [b"/a?b", END]
    assert parser.is_idle


def test_the_body_of_an_upgrade_comes_before_the_tunnel() -> None:
    parser = RequestParser(max_head_bytes=1000)
    head = UPGRADE.replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n")
    assert shape(parser.feed(head + b"1\r\na\r\n")) == [b"/u", b"a"]
    assert not parser.is_held
    assert shape(parser.feed(b"0\r\n\r\n\r\ntunnel")) == [END]
    assert parser.take_held() == b"\r\ntunnel"


def test_a_known_body_is_handed_through_without_a_copy() -> None:
    parser = RequestParser(max_head_bytes=1000)
    parser.feed(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n")
    data = b"x" * 65_536
    assert parser.feed(data)[0] is data


def test_a_byte_identical_head_is_remembered() -> None:
    parser = RequestParser(max_head_bytes=10_000)
    first = parser.feed(GET)[0]
    assert parser.feed(GET)[0] is first
    other = parser.feed(GET.replace(b"/a", b"/x"))[0]
    assert shape([other]) == [b"/x?b"]
    assert parser.feed(GET)[0] == first


def test_a_remembered_head_frames_its_own_body_anew() -> None:
    assert shape(requests([POST + POST + CHUNKS + CHUNKS])[0]) == [
        *[b"/p", b"abc", END] * 2,
        *[b"/c", b"def", [(b"X-Sum", b"1")], END] * 2,
    ]


def test_a_long_head_is_not_remembered() -> None:
    parser = RequestParser(max_head_bytes=10_000)
    longest = GET[:-2] + b"A: " + b"x" * (4096 - len(GET) - 5) + b"\r\n\r\n"
    assert len(longest) == 4096
    assert parser.feed(longest)[0] is parser.feed(longest)[0]
    longer = longest.replace(b"A: ", b"A: x")
    assert parser.feed(longer)[0] is not parser.feed(longer)[0]


def test_no_token_is_shown() -> None:
    received = RequestParser(max_head_bytes=1000).feed(HEAD % b"Authorization: Bearer geheim")[0]
    assert "geheim" not in repr(received)


FRAGMENTS = st.sampled_from(
    [
        GET,
        POST,
        CHUNKS,
        UPGRADE,
        b"GET / HTTP/1.1\r\n",
        b"POST /x HTTP/1.0\r\n",
        b"Host: h\r\n",
        b"Content-Length: 3\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Connection: upgrade\r\nUpgrade: h2c\r\n",
        b"\r\n",
        b"\n",
        b"\r",
        b" ",
        b"abc",
        b"3\r\nabc\r\n",
        b"0\r\n\r\n",
        b"\0",
        b"\xff",
    ]
)
CUTS = st.lists(st.integers(0, 200), max_size=6)


def cut(stream: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(min(edge, len(stream)) for edge in cuts), len(stream)]
    return [stream[a:b] for a, b in pairwise(edges)]


@given(st.lists(FRAGMENTS, max_size=10).map(b"".join), CUTS)
def test_cuts_do_not_matter_to_requests(stream: bytes, cuts: list[int]) -> None:
    whole, fault = requests([stream])
    pieces, fault_of_pieces = requests(cut(stream, cuts))
    assert pieces == whole
    assert (fault is None) == (fault_of_pieces is None)


@given(st.lists(FRAGMENTS, max_size=8).map(b"".join))
def test_a_remembering_parser_reads_as_a_fresh_one(stream: bytes) -> None:
    expected, _ = requests([stream])
    parser = RequestParser(max_head_bytes=65_536)
    for head in (GET, UPGRADE):
        parser.feed(head)
        parser.take_held()
        events: list[RequestEvent] = []
        try:
            events += parser.feed(stream)
            while parser.is_held:
                events += parser.resume()
        except RemoteProtocolError:
            pass
        assert joined(events) == expected
        parser = RequestParser(max_head_bytes=65_536)


# --- responses --------------------------------------------------------------------------


def test_a_response_is_taken_apart() -> None:
    events, fault, leftover = responses([OK])
    assert fault is None
    received = events[0]
    assert isinstance(received, ResponseReceived)
    assert (received.head.status, received.head.reason, received.head.minor) == (200, b"OK", 1)
    assert received.head.headers == Headers([(b"Content-Length", b"2")])
    assert received.framing == Framing(Kind.LENGTH, 2)
    assert received.raw == OK[:-2]
    assert events[1:] == [b"ok", END]
    assert leftover == b""


@pytest.mark.parametrize(
    ("method", "stream", "expected", "leftover"),
    [
        pytest.param(b"GET", OK, [200, b"ok", END], b"", id="length"),
        pytest.param(b"GET", OK + OK, [200, b"ok", END], OK, id="stray bytes"),
        pytest.param(
            b"HEAD",
            b"HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\nstray",
            [200, END],
            b"stray",
            id="HEAD with a length",
        ),
        pytest.param(
            b"GET",
            b"HTTP/1.1 204 No Content\r\nContent-Length: 4\r\n\r\nbody",
            [204, END],
            b"body",
            id="body on 204",
        ),
        pytest.param(
            b"GET",
            b"HTTP/1.1 304 Not Modified\r\nContent-Length: 77\r\n\r\n",
            [304, END],
            b"",
            id="304",
        ),
        pytest.param(
            b"GET",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"5\r\nhello\r\n6;ext=1\r\n world\r\n0\r\nX-Late: yes\r\n\r\n" + OK,
            [200, b"hello world", [(b"X-Late", b"yes")], END],
            OK,
            id="chunked, trailers, stray bytes",
        ),
        pytest.param(
            b"GET",
            b"HTTP/1.1 200 OK\r\n\r\nuntil\r\n\r\nend",
            [200, b"until\r\n\r\nend", END],
            b"",
            id="until close",
        ),
        pytest.param(b"GET", b"HTTP/1.0 200 OK\r\n\r\nold", [200, b"old", END], b"", id="HTTP/1.0"),
        pytest.param(
            b"GET", b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", [200, END], b"", id="no reason"
        ),
        pytest.param(
            b"GET",
            b"HTTP/1.1 999 Beyond \xe9\r\nContent-Length: 0\r\n\r\n",
            [999, END],
            b"",
            id="odd",
        ),
        pytest.param(
            b"GET",
            b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early\r\nLink: a\r\n\r\n" + OK,
            [102, 103, 200, b"ok", END],
            b"",
            id="interim",
        ),
        pytest.param(
            b"GET",
            b"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n\r\nraw",
            [101, END],
            b"\r\nraw",
            id="tunnel",
        ),
    ],
)
def test_streams_of_responses(
    method: bytes, stream: bytes, expected: list[object], leftover: bytes
) -> None:
    known: KnownResponses = {}
    for pieces in ([stream], bytewise(stream), [stream], [stream[:30], stream[30:]]):
        events, fault, rest = responses(pieces, method, known)
        assert fault is None
        assert shape(events) == expected
        assert rest == leftover


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        pytest.param(b"", [], id="nothing"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Type: text", [], id="cut head"),
        pytest.param(OK[:-1], [200, b"o"], id="cut body"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\npartial\r\n",
            [200, b"partial"],
            id="cut between chunks",
        ),
        pytest.param(b"HTTP/1.1 103 Early\r\n\r\n", [103], id="cut behind an interim response"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n",
            [200, b"hello"],
            id="bad chunk",
        ),
        pytest.param(b"this is not HTTP at all\r\n\r\n", [], id="garbage"),
        pytest.param(b"HTTP/3.7 200 OK\r\n\r\n", [], id="version"),
        pytest.param(b"HTTP/1.1 2x0 OK\r\n\r\n", [], id="status"),
        pytest.param(b"HTTP/1.1 20 OK\r\n\r\n", [], id="short status"),
        pytest.param(b"HTTP/1.1 099 OK\r\n\r\n", [], id="status below 100"),
        pytest.param(b"HTTP/1.1 200 O\0K\r\n\r\n", [], id="NUL in the reason"),
        pytest.param(b"RTSP/1.0 200 OK\r\n\r\n", [], id="RTSP"),
        pytest.param(b"\r\nHTTP/1.1 200 OK\r\n\r\n", [], id="empty line before"),
        pytest.param(b"HTTP/1.1 200 OK\nContent-Length: 0\n\n", [], id="bare LF"),
        pytest.param(b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", [], id="no colon"),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: brotli\r\n\r\nok", [], id="coding"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok", [], id="lengths"
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
            [],
            id="both",
        ),
    ],
)
def test_broken_responses(stream: bytes, expected: list[object]) -> None:
    for pieces in ([stream], bytewise(stream)):
        events, fault, _ = responses(pieces)
        assert fault is not None
        assert shape(events) == expected


def test_a_response_parser_stays_at_its_fault() -> None:
    parser = ResponseParser(request_method=b"GET", max_head_bytes=1000)
    assert shape(parser.feed(b"HTTP/1.1 103 Early\r\n\r\nbroken\r\n\r\n")) == [103]
    with pytest.raises(RemoteProtocolError):
        parser.feed(OK)
    with pytest.raises(RemoteProtocolError):
        parser.feed_eof()


@pytest.mark.parametrize(("limit", "is_refused"), [(len(OK) - 2, False), (len(OK) - 3, True)])
@pytest.mark.parametrize("is_cut", [False, True])
def test_the_head_limit_of_responses_from_both_sides(
    *, limit: int, is_refused: bool, is_cut: bool
) -> None:
    parser = ResponseParser(request_method=b"GET", max_head_bytes=limit)
    faults = 0
    for piece in bytewise(OK) if is_cut else [OK]:
        try:
            parser.feed(piece)
        except RemoteProtocolError:
            faults = 1
    assert faults == is_refused


def test_known_heads_are_shared_but_not_with_head_requests() -> None:
    known: KnownResponses = {}
    first = responses([OK], b"GET", known)[0]
    assert list(known) == [OK[:-2]]
    assert responses([OK], b"POST", known)[0][0] is first[0]
    assert shape(responses([OK[:-2]], b"HEAD", known)[0]) == [200, END]
    assert shape(responses([OK], b"GET", known)[0]) == [200, b"ok", END]


def test_an_answer_to_head_is_not_remembered() -> None:
    known: KnownResponses = {}
    responses([OK[:-2]], b"HEAD", known)
    assert known == {}


def test_interim_and_long_heads_are_not_remembered() -> None:
    known: KnownResponses = {}
    start = b"HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 204 No Content\r\nA: "
    longest = start + b"x" * (4096 + 22 - len(start) - 4) + b"\r\n\r\n"
    responses([longest], b"GET", known)
    assert [len(raw) for raw in known] == [4096]
    known.clear()
    responses([longest.replace(b"A: ", b"A: x")], b"GET", known)
    assert known == {}


def test_few_heads_are_remembered() -> None:
    known: KnownResponses = {}
    for number in range(64):
        responses([b"HTTP/1.1 204 %d\r\n\r\n" % number], b"GET", known)
    assert len(known) == 64
    responses([b"HTTP/1.1 204 x\r\n\r\n"], b"GET", known)
    assert len(known) == 1


RESPONSE_FRAGMENTS = st.sampled_from(
    [
        OK,
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.0 304 X\r\n",
        b"HTTP/1.1 103 Early\r\n\r\n",
        b"Content-Length: 3\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"\r\n",
        b"\n",
        b"abc",
        b"3\r\nabc\r\n",
        b"0\r\nA: b\r\n\r\n",
        b"\0",
    ]
)


@given(
    st.lists(RESPONSE_FRAGMENTS, max_size=8).map(b"".join), CUTS, st.sampled_from([b"GET", b"HEAD"])
)
def test_cuts_do_not_matter_to_responses(stream: bytes, cuts: list[int], method: bytes) -> None:
    known: KnownResponses = {}
    whole, fault, leftover = responses([stream], method)
    for _ in range(2):
        pieces, fault_of_pieces, rest = responses(cut(stream, cuts), method, known)
        assert pieces == whole
        assert rest == leftover
        assert (fault is None) == (fault_of_pieces is None)


def test_names_of_framings_are_used_as_they_are() -> None:
    received = responses([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"])[0][0]
    assert isinstance(received, ResponseReceived)
    assert received.framing is CHUNKED
    endless = responses([b"HTTP/1.1 200 OK\r\n\r\n"])[0][0]
    assert isinstance(endless, ResponseReceived)
    assert endless.framing is UNTIL_CLOSE
    assert END is End.END

"""The field reports of kinds FRAME, HDR, PATH and STREAM once more, with a client on HTTP/2.

What is refused there must be refused here too: a head that comes in frames becomes a head of
lines for the upstream, and must not become two.
"""

import socket
from collections.abc import Callable

import pytest
from h2.errors import ErrorCodes
from hyperframe.frame import HeadersFrame, RstStreamFrame

from tests.field_reports.harness import Lab
from tests.field_reports.http2 import Header, http2, request
from tests.field_reports.servers import OK, Arrived, user
from tests.field_reports.watching import until

OPEN = "--ignore-paths=/*"
ON = "--auth-header-fields-enabled"
OTHER = request("/other")
MIB = 1024 * 1024


def without(name: str) -> list[Header]:
    return [header for header in request() if header[0] != name]


# --- heads that are refused -----------------------------------------------------------

BAD_FIELDS: list[Header] = [
    *(("x-a", "b\r\nX-Injected: 1"), ("x-a", "b\nX-Injected: 1"), ("x-a", "b\0c"), ("x-a", "b\r")),
    *(("x-a\r\nX-Injected", "1"), ("x a", "1"), ("x-a:", "1"), ("", "1"), ("x\0a", "1")),
    ("X-Upper", "1"),
    *(("connection", "close"), ("connection", "x-remote-user"), ("keep-alive", "timeout=5")),
    *(("proxy-connection", "keep-alive"), ("upgrade", "websocket"), ("upgrade", "h2c")),
    *(("transfer-encoding", "chunked"), ("transfer-encoding", "identity"), ("te", "gzip")),
    *(("content-length", "+3"), ("content-length", "3, 4"), ("content-length", "x")),
    *((":status", "200"), (":unknown", "1"), (":path", "/second"), (":method", "POST")),
]
BAD_HEADS = {
    **{f"{name}: {value}"[:40]: [*request(), (name, value)] for name, value in BAD_FIELDS},
    "two lengths": [*request(), ("content-length", "3"), ("content-length", "4")],
    **{f"no {name}": without(name) for name in (":method", ":path", ":scheme")},
    "a field before the path": [*without(":path"), ("x-a", "1"), (":path", "/")],
    **{
        f"path {path!r}": request(path)
        for path in (
            "",
            "metrics",
            "/a b",
            "/a\r\nX-Injected: 1",
            "/a HTTP/1.1\r\n\r\nGET /b",
            "/\0",
        )
    },
    **{
        f"method {method!r}": request(method=method)
        for method in ("", "GE T", "GET / HTTP/1.1\r\nX-Injected: 1\r\n", "G\0T")
    },
    **{
        f"authority {name!r}": [*without(":authority"), (":authority", name)]
        for name in ("h\r\nX-Injected: 1", "h h", "user@h", "h/path", "h\0")
    },
}


@pytest.mark.parametrize("head", BAD_HEADS.values(), ids=BAD_HEADS)
def test_fr13_a_bad_head_is_refused_and_never_forwarded(lab: Lab, head: list[Header]) -> None:
    proxy = lab.start(OPEN)
    with http2(proxy) as connection:
        answer = connection.ask(head)
        assert answer.status in {0, 400, 501}
        assert answer.status or answer.reset or connection.goaway
    with http2(proxy) as connection:
        assert connection.ask(OTHER).status == 200
    assert lab.upstream.targets == ["/other"]
    assert b"Injected" not in lab.upstream.raw


@pytest.mark.parametrize(
    "body", [(b"12",), (b"1234",), (b"12", b"34"), ()], ids=["short", "long", "pieces", "none"]
)
def test_fr09_a_body_that_differs_from_its_length_is_no_request(
    lab: Lab, body: tuple[bytes, ...]
) -> None:
    with http2(lab.start(OPEN)) as connection:
        head = request("/bad", ("content-length", "3"), method="POST")
        stream = connection.open(head, is_whole=not body)
        for number, block in enumerate(body, 1):
            connection.data(stream, block, is_last=number == len(body))
        answer = connection.answer(stream)
        assert answer.reset is ErrorCodes.PROTOCOL_ERROR or answer.status == 400
        assert connection.ask(OTHER).status == 200
    assert all(not arrived.message.complete for arrived in lab.upstream.requests[:-1])


def test_fr06_one_host_reaches_the_upstream(lab: Lab) -> None:
    """RFC 9113, 8.3.1: what `:authority` says is what counts."""
    with http2(lab.start(OPEN)) as connection:
        answer = connection.ask(request("/a", ("host", "other")))
    hosts = [arrived.message.values("host") for arrived in lab.upstream.requests]
    assert hosts == ([["h"]] if answer.status == 200 else [])


@pytest.mark.parametrize("more", [[], [(":path", "/"), (":scheme", "https")]], ids=["bare", "path"])
def test_dec_d32_connect_is_never_a_tunnel(lab: Lab, more: list[Header]) -> None:
    head = [(":method", "CONNECT"), (":authority", "127.0.0.1:1"), *more]
    with http2(lab.start(), certificate="alice") as connection:
        answer = connection.answer(connection.open(head, is_whole=False))
        assert answer.status in {400, 405} or answer.reset is ErrorCodes.PROTOCOL_ERROR
    assert lab.upstream.requests == []


def test_no_websocket_by_extended_connect(lab: Lab) -> None:
    """RFC 8441 is not offered (reference 6.4)."""
    head = request("/socket", (":protocol", "websocket"), method="CONNECT")
    with http2(lab.start(OPEN)) as connection:
        answer = connection.answer(connection.open(head, is_whole=False))
        assert answer.status in {0, 400, 405, 502}
        assert connection.settings.get(8, 0) == 0
    assert lab.upstream.requests == []


# --- paths ----------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/public/%2e%2e/metrics", "/public/..%2fmetrics"])
def test_fr01_an_ambiguous_path_is_refused(lab: Lab, path: str) -> None:
    with http2(lab.start("--ignore-paths=/public/*,/public/*/*")) as connection:
        assert connection.ask(request(path)).status in {400, 401}
    assert lab.upstream.requests == []


@pytest.mark.parametrize("path", ["//metrics", "/public/../metrics", "/./metrics"])
def test_fr03_an_unclean_path_is_redirected_to_the_clean_one(lab: Lab, path: str) -> None:
    with http2(lab.start("--ignore-paths=/public/*")) as connection:
        answer = connection.ask(request(path))
    assert answer.status == 307
    assert dict(answer.headers)["location"] == "/metrics"
    assert lab.upstream.requests == []


# --- who it is ------------------------------------------------------------------------


def test_each_stream_is_asked_about(lab: Lab) -> None:
    """The connection is one; the callers behind it need not be."""
    proxy = lab.start(ON)
    alice, bob = lab.token(user("alice", "g1")), lab.token(user("bob", "g2"))
    with http2(proxy) as connection:
        streams = [
            connection.open(request("/metrics", *more))
            for more in (
                [("authorization", f"Bearer {alice}")],
                [],
                [("authorization", f"Bearer {bob}")],
                [("authorization", "Bearer wrong")],
            )
        ]
        assert [connection.answer(number).status for number in streams] == [200, 401, 200, 401]
    names = [arrived.message.values("x-remote-user") for arrived in lab.upstream.requests]
    assert sorted(names) == [["alice"], ["bob"]]
    assert all(not arrived.message.values("authorization") for arrived in lab.upstream.requests)


def test_a_client_certificate_counts_for_every_stream(lab: Lab) -> None:
    with http2(lab.start(ON), certificate="alice") as connection:
        for _ in range(3):
            assert connection.ask(request("/metrics")).status == 200
    seen = {tuple(arrived.message.values("x-remote-groups")) for arrived in lab.upstream.requests}
    assert seen == {("g1|g2|system:authenticated",)}


def test_fr18_no_forged_identity_reaches_the_upstream(lab: Lab) -> None:
    forged = [
        *(("x-remote-user", "admin"), ("x_remote_user", "admin"), ("x-remote-groups", "a")),
        *(("x-remote-extra-a", "b"), ("authorization", "Bearer secret"), ("x-remote", "kept")),
    ]
    with http2(lab.start(OPEN)) as connection:
        assert connection.ask(request("/a", *forged)).status == 200
    (arrived,) = lab.upstream.requests
    names = {line.partition(":")[0].lower() for line in arrived.lines}
    assert names == {"host", "x-forwarded-for", "x-remote"}


def test_dec_d35_trailers_are_relayed_without_identity(lab: Lab) -> None:
    with http2(lab.start(OPEN)) as connection:
        stream = connection.open(request("/a", method="POST"), is_whole=False)
        connection.data(stream, b"body", is_last=False)
        trailers = [("x-checksum", "1"), ("x-remote-user", "admin"), ("authorization", "Bearer s")]
        block = connection.block(trailers)
        connection.send(HeadersFrame(stream, block, flags=["END_HEADERS", "END_STREAM"]))
        assert connection.answer(stream).status == 200
    (arrived,) = lab.upstream.requests
    assert arrived.message.body == b"body"
    assert [(name.lower(), value) for name, value in arrived.message.trailers] == [
        ("x-checksum", "1")
    ]


@pytest.mark.parametrize(
    "name", [":path", "connection", "transfer-encoding", "content-length", "host", "x-a\r\nb"]
)
def test_dec_d35_trailers_are_no_place_for_framing(lab: Lab, name: str) -> None:
    with http2(lab.start(OPEN)) as connection:
        stream = connection.open(request("/a", method="POST"), is_whole=False)
        connection.data(stream, b"body", is_last=False)
        block = connection.block([(name, "1")])
        connection.send(HeadersFrame(stream, block, flags=["END_HEADERS", "END_STREAM"]))
        answer = connection.answer(stream)
        assert answer.status in {0, 200, 400}
    for arrived in lab.upstream.requests:
        assert arrived.message.trailers == []
        assert answer.status == 200 or not arrived.message.complete


# --- sizes ----------------------------------------------------------------------------


def test_fr22_a_big_head_passes(lab: Lab) -> None:
    token = lab.token(user("alice"))
    fields = [(f"x-field-{number}", "v" * 900) for number in range(200)]
    head = request("/big", ("authorization", f"Bearer {token}"), *fields)
    with http2(lab.start()) as connection:
        assert connection.ask(head).status == 200
    # What another test's client gave up may come late.
    (arrived,) = [one for one in lab.upstream.requests if one.target == "/big"]
    assert [arrived.message.values(name) for name, _ in fields] == [["v" * 900]] * 200


@pytest.mark.parametrize(
    "fields",
    [[("x-field", "v" * 2 * MIB)], [(f"x-field-{number}", "v" * 1000) for number in range(3000)]],
    ids=["one field", "many fields"],
)
def test_fr22_the_head_has_a_bound(lab: Lab, fields: list[Header]) -> None:
    proxy = lab.start(OPEN)
    with http2(proxy) as connection:
        answer = connection.ask(request("/large", *fields))
        # Where so much more comes than is swallowed, the reset may overtake the last word.
        assert answer.status == 431 or answer.reset or connection.has_ended
    with http2(proxy) as connection:
        assert connection.ask(OTHER).status == 200
    assert lab.upstream.targets == ["/other"]


# --- answers --------------------------------------------------------------------------


def test_what_belongs_to_one_hop_stays_there(lab: Lab) -> None:
    lab.upstream.script = (
        b"HTTP/1.1 200 Fine\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\n"
        b"X-Kept: A, b\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n"
        b"3\r\nabc\r\n0\r\nX-Sum: 6\r\n\r\n"
    )
    with http2(lab.start(OPEN)) as connection:
        answer = connection.ask(request("/a"))
    names = [name for name, _ in answer.headers]
    assert (answer.status, answer.body, answer.is_ended) == (200, b"abc", True)
    assert not {"connection", "x-hop", "keep-alive", "transfer-encoding"} & set(names)
    assert dict(answer.headers)["x-kept"] == "A, b"
    assert names[-1] == "x-sum"
    assert names == [name.lower() for name in names]


HEAD_ONLY = {
    "HEAD": ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n", 200, "1234"),
    "204": ("GET", b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", 204, None),
    "304": ("GET", b"HTTP/1.1 304 Not Modified\r\n\r\n", 304, None),
}


@pytest.mark.parametrize("case", HEAD_ONLY.values(), ids=HEAD_ONLY)
def test_fr54_bodyless_answers_end_their_stream(
    lab: Lab, case: tuple[str, bytes, int, str | None]
) -> None:
    method, script, status, length = case
    lab.upstream.script = script
    with http2(lab.start(OPEN)) as connection:
        answer = connection.ask(request("/a", method=method))
        assert (answer.status, answer.body, answer.reset) == (status, b"", None)
        assert dict(answer.headers).get("content-length") == length
        lab.upstream.script = OK
        assert connection.ask(OTHER).body == b"upstream"


TRUNCATED = {
    "length": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
    "chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n",
}


@pytest.mark.parametrize("script", TRUNCATED.values(), ids=TRUNCATED)
@pytest.mark.parametrize("ending", [Arrived.close, Arrived.reset], ids=["close", "reset"])
def test_fr50_a_truncated_answer_is_a_reset_stream(
    lab: Lab, script: bytes, ending: Callable[[Arrived], None]
) -> None:
    def cut(arrived: Arrived) -> None:
        arrived.send(script)
        ending(arrived)

    lab.upstream.script = cut
    with http2(lab.start(OPEN)) as connection:
        answer = connection.ask(request("/a"))
        assert answer.reset not in {None, ErrorCodes.NO_ERROR}
        lab.upstream.script = OK
        assert connection.ask(OTHER).status == 200


def test_fr51_a_cancelled_stream_ends_the_work_for_it(lab: Lab) -> None:
    ended: list[bytes] = []

    def endless(arrived: Arrived) -> None:
        arrived.send(b"HTTP/1.1 200 OK\r\n\r\nbegun")
        try:
            ended.append(arrived.connection.recv(1))
        except OSError:
            ended.append(b"")

    lab.upstream.script = endless
    with http2(lab.start(OPEN)) as connection:
        stream = connection.open(request("/a"))
        while stream not in connection.streams or not connection.streams[stream].body:
            connection.read()
        connection.send(RstStreamFrame(stream, error_code=ErrorCodes.CANCEL))
        until(lambda: ended, "end of the upstream's work")
        assert ended == [b""]
        lab.upstream.script = OK
        assert connection.ask(OTHER).status == 200


def test_fr15_a_refused_body_does_not_disturb_other_streams(lab: Lab) -> None:
    with http2(lab.start("--ignore-paths=/other")) as connection:
        refused = connection.open(request("/a", method="POST"), is_whole=False)
        assert connection.answer(refused).status == 401
        for _ in range(100):
            connection.data(refused, bytes(10_000), is_last=False)
            assert connection.ask(OTHER).status == 200
            if connection.streams[refused].reset is not None:
                break
    assert set(lab.upstream.targets) == {"/other"}


def test_fr16_an_early_answer_is_relayed(lab: Lab) -> None:
    """The client's body has not come yet when the upstream says that it is too large."""

    def early(arrived: Arrived) -> None:
        arrived.send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")
        arrived.close()

    lab.upstream.script = early
    with http2(lab.start(OPEN)) as connection:
        stream = connection.open(request("/a", method="POST"), is_whole=False)
        answer = connection.answer(stream)
        assert (answer.status, answer.body) == (413, b"big")
        lab.upstream.script = OK
        assert connection.ask(OTHER).status == 200


# --- life -----------------------------------------------------------------------------


def test_fr63_a_drain_lets_streams_end_and_takes_no_more(lab: Lab) -> None:
    release = socket.socketpair()

    def slow(arrived: Arrived) -> None:
        arrived.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nha")
        release[0].recv(1)
        arrived.send(b"lf")

    lab.upstream.script = slow
    proxy = lab.start(OPEN, is_own=True)
    with http2(proxy) as connection:
        stream = connection.open(request("/slow"))
        until(lambda: lab.upstream.requests, "request at the upstream")
        proxy.process.terminate()
        while connection.goaway is None and not connection.has_ended:
            connection.read()
        assert connection.goaway is ErrorCodes.NO_ERROR
        release[1].send(b"x")
        answer = connection.answer(stream)
        assert (answer.body, answer.reset) == (b"half", None)
        connection.end()
    assert proxy.process.wait(30) == 0
    for end in release:
        end.close()

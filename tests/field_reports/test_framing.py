"""Field reports of kind FRAME: where a request ends is never in doubt, or it is refused."""

import time

import pytest

from tests.field_reports.harness import Client, Lab, bearer, get, post
from tests.field_reports.servers import DENIED, OK, PATIENCE_SECONDS, Arrived, refused, user

SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n"
CHUNKED = "Transfer-Encoding: chunked"


def refusal(lab: Lab, data: bytes) -> int:
    """The status of the only answer to these bytes, after which the connection must end."""
    with lab.start("--ignore-paths=/*").connect() as client:
        client.send(data)
        answer = client.answer()
        assert answer.complete
        assert client.end() == b"", "more than one answer"
    return answer.status


def head(*lines: bytes, start: bytes = b"POST /x HTTP/1.1") -> bytes:
    """A head with `Host: h` and these lines."""
    return b"\r\n".join([start, b"Host: h", *lines, b"", b""])


# --- FR09, FR10, DEC-D28, DEC-D31: lengths ---------------------------------------------


@pytest.mark.parametrize(
    "lines",
    [
        (b"Content-Length: 4", b"Transfer-Encoding: chunked"),
        (b"Transfer-Encoding: chunked", b"Content-Length: 4"),
        (b"Transfer-Encoding: chunked", b"Content-Length: 0"),
        (b"content-length: 39", b"transfer-encoding: CHUNKED"),
    ],
    ids=["length first", "coding first", "length zero", "other case"],
)
def test_fr09_both_framings_are_refused(lab: Lab, lines: tuple[bytes, ...]) -> None:
    assert refusal(lab, head(*lines) + b"0\r\n\r\n" + SMUGGLED) == 400
    assert lab.upstream.raw == b""


@pytest.mark.parametrize(
    "lines",
    [
        (b"Content-Length: 2", b"Content-Length: 3"),
        (b"Content-Length: 2", b"Content-Length: 2"),
        (b"Content-Length: 2, 2",),
        (b"Content-Length: +2",),
        (b"Content-Length: -1",),
        (b"Content-Length: 0x2",),
        (b"Content-Length: 2 2",),
        (b"Content-Length:",),
        (b"Content-Length: 99999999999999999999999",),
        (b"Content-Length: \xb2",),
        (b"Content-Length : 2",),
        (b"Content-Length\t: 2",),
        (b"Content_Length: 2", b"Content-Length: 2", b"Content-Length: 2"),
        (b"Transfer-Encoding : chunked",),
    ],
    ids=lambda lines: b"+".join(lines).decode("latin-1"),
)
def test_fr10_odd_lengths_are_refused(lab: Lab, lines: tuple[bytes, ...]) -> None:
    assert refusal(lab, head(*lines) + b"ab" + SMUGGLED) == 400
    assert lab.upstream.raw == b""


@pytest.mark.parametrize(
    "lines",
    [
        (b"Transfer-Encoding: xchunked",),
        (b"Transfer-Encoding: gzip, chunked",),
        (b"Transfer-Encoding: chunked, chunked",),
        (b"Transfer-Encoding: chunked, identity",),
        (b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"),
        (b"Transfer-Encoding: identity",),
        (b"Transfer-Encoding:",),
        (b"Transfer-Encoding: \x0bchunked",),
        (b'Transfer-Encoding: chunked;q="x"',),
    ],
    ids=lambda lines: b"+".join(lines).decode("latin-1"),
)
def test_fr10_unknown_codings_are_refused(lab: Lab, lines: tuple[bytes, ...]) -> None:
    assert refusal(lab, head(*lines) + b"0\r\n\r\n" + SMUGGLED) in {400, 501}
    assert lab.upstream.raw == b""


def test_fr10_chunked_on_http_1_0_is_refused(lab: Lab) -> None:
    data = head(b"Transfer-Encoding: chunked", start=b"POST /x HTTP/1.0")
    assert refusal(lab, data + b"0\r\n\r\n" + SMUGGLED) == 400
    assert lab.upstream.raw == b""


# --- FR11, DEC-D30: chunks -------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b"2\nab\r\n0\r\n\r\n",
        b"2;\nxx\r\nab\r\n0\r\n\r\n",
        b"2;a=b\nc\r\nab\r\n0\r\n\r\n",
        b"2\r\nab\n0\r\n\r\n",
        b"2\r\nab\r\n0\n\r\n",
        b"2\r\nabc\r\n0\r\n\r\n",
        b"0x2\r\nab\r\n0\r\n\r\n",
        b"+2\r\nab\r\n0\r\n\r\n",
        b"-2\r\nab\r\n0\r\n\r\n",
        b" 2\r\nab\r\n0\r\n\r\n",
        b"\r\n2\r\nab\r\n0\r\n\r\n",
        b"fffffffffffffffff\r\nab\r\n0\r\n\r\n",
        b"2\rab\r\n0\r\n\r\n",
        b"2;a=\x00\r\nab\r\n0\r\n\r\n",
        b"2\r\nab\r\n0\r\nbad trailer\r\n\r\n",
        b"2\r\nab\r\n0\r\nX : a\r\n\r\n",
        b"2\r\nab\r\n0\r\n X: a\r\n\r\n",
    ],
    ids=lambda body: repr(body)[2:-1],
)
def test_fr11_bad_chunks_are_refused_and_never_copied(lab: Lab, body: bytes) -> None:
    assert refusal(lab, head(CHUNKED.encode()) + body + SMUGGLED) == 400
    assert not any(request.message.complete for request in lab.upstream.requests)
    sent = lab.upstream.raw.partition(b"\r\n\r\n")[2]
    assert sent in (b"", b"2\r\nab\r\n")
    assert b"smuggled" not in lab.upstream.raw


def test_fr11_chunk_extensions_are_not_copied_through(lab: Lab) -> None:
    proxy = lab.start("--ignore-paths=/*")
    body = b'2;a=b;c="d"\r\nab\r\n000003\r\ncde\r\n0;e=f\r\n\r\n'
    assert proxy.ask(get("/x", CHUNKED, method="POST") + body).status == 200
    assert lab.upstream.requests[0].message.body == b"abcde"
    assert b"a=b" not in lab.upstream.raw
    assert b"e=f" not in lab.upstream.raw


def test_fr11_a_slow_request_in_single_bytes_is_the_same_request(lab: Lab) -> None:
    proxy = lab.start("--ignore-paths=/*")
    with proxy.connect() as client:
        for byte in get("/x", CHUNKED, method="POST") + b"3\r\nabc\r\n0\r\n\r\n":
            client.send(bytes([byte]))
        assert client.answer().status == 200
    assert lab.upstream.requests[0].message.body == b"abc"


# --- FR13, DEC-D31: odd bytes ----------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"GET /m HTTP/1.1\r\nHost: h\r\nX-A: a\r\n b\r\n\r\n",
        b"GET /m HTTP/1.1\r\nHost: h\r\nX-A: a\r\n\tb\r\n\r\n",
        b"GET /m HTTP/1.1\r\n X: a\r\nHost: h\r\n\r\n",
        b"GET /m HTTP/1.1\r\nHost: h\r\n: x\r\n\r\n",
        b"GET /m HTTP/1.1\r\nHost: h\r\nX A: b\r\n\r\n",
        b"GET /m HTTP/1.1\r\nHost: h\r\nX\xffA: b\r\n\r\n",
        b"GET /m HTTP/1.1\r\nHost: h\r\nX-A\r\n\r\n",
        b"GET /m HTTP/1.1\r\nHost: h\r\nX-A: a\x00b\r\n\r\n",
        b"GET /m HTTP/1.1\r\nHost: h\r\nX-A: a\rb\r\n\r\n",
        b"GET /m HTTP/1.1\r\nHost: h\r\nX-A: a\x0bb\r\n\r\n",
        b"GET /m HTTP/1.1\r\nHost: h\r\nX-A: a\x7fb\r\n\r\n",
        b"GET /m HTTP/1.1\nHost: h\n\n",
        b"GET /m HTTP/1.1\r\nHost: h\nX-A: b\r\n\r\n",
        b"GET /m HTTP/1.1\r\nHost: h\r\nX-A: b\r\n\n",
        b"GET /m\xc3\xa9 HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET /m?\xc3\xa9 HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET /m\x00 HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET /m\x01 HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET  /m HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET /m  HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET\t/m HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET /m HTTP/1.2\r\nHost: h\r\n\r\n",
        b"GET /m HTTP/1.10\r\nHost: h\r\n\r\n",
        b"GET /m\r\n\r\n",
        b"GET /m HTPP/1.1\r\nHost: h\r\n\r\n",
    ],
    ids=lambda data: repr(data)[2:-1],
)
def test_fr13_odd_bytes_are_refused(lab: Lab, data: bytes) -> None:
    assert refusal(lab, data) == 400
    assert lab.upstream.raw == b""


@pytest.mark.parametrize(
    ("start", "statuses"),
    [
        (b"GET /m HTTP/2.0", {505}),
        (b"GET /m HTTP/3.1", {505}),
        (b"BREW /m HTTP/1.1", {501}),
        (b"get /m HTTP/1.1", {501}),
        (b"DESCRIBE /m HTTP/1.1", {501}),
        (b"\xc3\xa9 /m HTTP/1.1", {400, 501}),
        (b" /m HTTP/1.1", {400, 501}),
    ],
    ids=["http 2", "http 3", "unknown", "lower case", "rtsp", "no token", "no method"],
)
def test_dec_d31_other_versions_and_methods_are_refused(
    lab: Lab, start: bytes, statuses: set[int]
) -> None:
    assert refusal(lab, head(start=start)) in statuses
    assert lab.upstream.raw == b""


def test_fr13_obs_text_passes_unchanged(lab: Lab) -> None:
    proxy = lab.start("--ignore-paths=/*")
    assert proxy.ask(get("/m", "X-A: a\xff\xfeb")).status == 200
    assert b"a\xff\xfeb\r\n" in lab.upstream.raw


@pytest.mark.parametrize(
    "data", [bytes(range(256)), b"\x16\x03\x01", b"\x80\x2e\x01", b"\xff" * 99]
)
def test_fr13_noise_gets_an_answer_or_an_end(lab: Lab, data: bytes) -> None:
    with lab.start("--ignore-paths=/*").connect() as client:
        client.send(data + b"\r\n\r\n")
        assert client.answer().status in {400, 501, 505}
        assert client.end() == b""
    assert lab.upstream.raw == b""


# --- FR15: bodies of refused requests --------------------------------------------------


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_fr15_the_body_of_a_refused_request_is_not_a_request(lab: Lab, framing: str) -> None:
    proxy = lab.start()
    bad, good = lab.token(refused()), lab.token(user("alice"))
    body = get("/metrics", bearer(good))
    request = post("/x", body, bearer(bad))
    if framing == "chunked":
        chunk = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
        request = get("/x", CHUNKED, bearer(bad), method="POST") + chunk
    with proxy.connect() as client:
        client.send(request + get("/next", bearer(bad), "Connection: close"))
        assert client.answer().status == 401
        rest = client.end()
    assert rest == b"" or rest.count(b"HTTP/1.1 401") == rest.count(b"HTTP/1.1") == 1
    assert lab.upstream.raw == b""
    assert lab.api.token_reviews(good) == []


@pytest.mark.parametrize(
    "lines",
    [("Content-Length: 10000000000",), (CHUNKED,)],
    ids=["ten gigabytes", "endless chunks"],
)
def test_fr15_a_refused_body_is_not_read_for_ever(lab: Lab, lines: tuple[str, ...]) -> None:
    proxy = lab.start()
    with proxy.connect() as client:
        client.send(get("/x", bearer(lab.token(refused())), *lines, method="POST"))
        assert client.answer().status == 401
        if lines == (CHUNKED,):
            flood(client)
        assert client.end() == b""
    assert lab.upstream.raw == b""


def flood(client: Client) -> None:
    """Send chunks until the proxy ends the connection; it may read on for a while."""
    block = b"10000\r\n" + bytes(65536) + b"\r\n"
    patience_ends = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < patience_ends:
        try:
            client.connection.sendall(block)
        except OSError:
            return
    raise AssertionError("the proxy reads on")


# --- FR16: Expect ----------------------------------------------------------------------


BODY = bytes(10_000_000)
EXPECT = ("Expect: 100-continue", f"Content-Length: {len(BODY)}")


def test_fr16_a_refused_caller_gets_no_go_ahead(lab: Lab) -> None:
    proxy = lab.start()
    with proxy.connect() as client:
        client.send(get("/x", bearer(lab.token(refused())), *EXPECT, method="POST"))
        assert client.answer().status == 401
        assert client.end() == b""
    assert lab.upstream.raw == b""


def test_fr16_a_caller_who_may_not_gets_no_go_ahead(lab: Lab) -> None:
    proxy = lab.start()
    lab.api.on_access = lambda _: DENIED
    with proxy.connect() as client:
        client.send(get("/x", bearer(lab.token(user("alice"))), *EXPECT, method="POST"))
        assert client.answer().status == 403
    assert lab.upstream.raw == b""


def go_ahead(request: Arrived) -> None:
    request.send(b"HTTP/1.1 100 Continue\r\n\r\n")
    request.read_body()
    request.send(OK)


def take_it(request: Arrived) -> None:
    request.read_body()
    request.send(OK)


@pytest.mark.parametrize("script", [go_ahead, take_it], ids=["upstream says 100", "silent"])
def test_fr16_a_good_caller_gets_the_go_ahead(lab: Lab, script: object) -> None:
    proxy = lab.start()
    assert callable(script)
    lab.upstream.script = script
    with proxy.connect() as client:
        client.send(get("/x", bearer(lab.token(user("alice"))), *EXPECT, method="POST"))
        assert client.answer().status == 100
        assert len(lab.api.access_reviews()) == 1
        client.send(BODY)
        assert client.final_answer().status == 200
    assert len(lab.upstream.requests[0].message.body) == len(BODY)


def test_fr16_a_body_that_does_not_wait_needs_no_go_ahead(lab: Lab) -> None:
    proxy = lab.start()
    data = post("/x", b"abc", bearer(lab.token(user("alice"))), "Expect: 100-continue")
    with proxy.connect() as client:
        client.send(data)
        assert client.final_answer().status == 200
    assert lab.upstream.requests[0].message.body == b"abc"


def test_fr16_another_expectation_fails(lab: Lab) -> None:
    proxy = lab.start()
    with proxy.connect() as client:
        client.send(post("/x", b"abc", bearer(lab.token(user("alice"))), "Expect: banana"))
        assert client.answer().status == 417
        assert client.end() == b""
    assert lab.upstream.raw == b""


def too_large(request: Arrived) -> None:
    request.send(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig")
    request.close()


def test_fr16_an_early_refusal_of_the_upstream_is_relayed(lab: Lab) -> None:
    proxy = lab.start()
    lab.upstream.script = too_large
    with proxy.connect() as client:
        client.send(get("/x", bearer(lab.token(user("alice"))), *EXPECT, method="POST"))
        answer = client.answer()
        assert (answer.status, answer.body) == (413, b"big")
        assert client.end() == b""
    assert lab.upstream.requests[0].message.body == b""

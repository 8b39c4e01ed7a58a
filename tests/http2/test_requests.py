import pytest

from pyrbacproxy.http2.limits import Code
from pyrbacproxy.http2.server import Requests
from pyrbacproxy.model import Peer
from tests.http2.talk import Talk
from tests.proxy.dialogue import UNAUTHORIZED


def test_a_request_is_put_to_the_decisions() -> None:
    talk = Talk()
    first, second = talk.ask(b"/x?a=1"), talk.ask(b"/deny")
    assert talk.upstream().take() == b"GET /x?a=1 HTTP/1.1\r\nHost: h\r\n\r\n"
    assert talk.client.statuses == {second: [401]}
    assert talk.client.bodies == {second: UNAUTHORIZED.response.body}
    talk.answer()
    assert talk.client.statuses[first] == [200]
    assert talk.client.bodies[first] == b"ok"
    assert talk.client.ended == {first, second}
    assert talk.records == [(401, None), (200, None)]


@pytest.mark.parametrize("path", [b"/x", b"/" + b"x" * 10_000])
def test_a_head_that_comes_again_means_the_same(path: bytes) -> None:
    """The same fields may be whole or not; the last ones are remembered if they are."""
    talk = Talk()
    for _ in range(3):
        talk.ask(path)
        assert b"chunked" not in talk.upstream().take()
        number = talk.ask(path, body=b"abc")
        talk.client.h2.end_stream(number)
        talk.exchange()
        assert b"chunked" in talk.upstream().take()
        talk.ask(b"/y")
        assert talk.upstream().take().startswith(b"GET /y ")


def test_a_stream_begins_as_it_was_opened() -> None:
    talk = Talk()
    requests = Requests(
        talk.world.services, lambda: Peer("192.0.2.1"), window=10, loop=talk.loop.as_loop()
    )
    stream = requests.stream(talk.connection._streams, 7, is_whole=True)
    assert (stream.number, stream.has_whole_request) == (7, True)


def test_what_was_decided_before_is_used_again() -> None:
    talk = Talk()
    for _ in range(3):
        talk.ask()
        talk.answer()
    assert talk.records == [(200, None)] * 3
    assert len(talk.world.services.memory._kept) == 1


@pytest.mark.parametrize(
    ("lines", "method", "status"),
    [
        ([(b"connection", b"close")], b"GET", 400),
        ([(b"te", b"gzip")], b"HEAD", 400),
        ([(b"host", b"other")], b"GET", 400),
        ([], b"BREW", 501),
        ([(b"a", b"b")] * 501, b"GET", 431),
    ],
)
def test_refusals(lines: list[tuple[bytes, bytes]], method: bytes, status: int) -> None:
    talk = Talk()
    number = talk.ask(b"/x", *lines, method=method)
    assert talk.client.statuses == {number: [status]}
    assert (number in talk.client.bodies) is (method != b"HEAD")
    assert talk.records == [(status, "malformed request")]
    assert talk.client.ended == {number}
    talk.ask()
    assert len(talk.connector.users) == 1


def test_a_refused_request_is_not_listened_to_any_more() -> None:
    talk = Talk()
    number = talk.ask(b"/x", (b"connection", b"close"), method=b"POST", body=b"")
    assert talk.client.resets == {number: Code.NO_ERROR}


@pytest.mark.parametrize(
    "lines",
    [
        [(b"x", b"1\r\nX-Injected: 1")],
        [(b"X-A", b"1")],
        [(b"content-length", b"3")],
    ],
)
def test_a_malformed_head_resets_its_stream(lines: list[tuple[bytes, bytes]]) -> None:
    talk = Talk()
    number = talk.ask(b"/x", *lines)
    assert talk.client.resets == {number: Code.PROTOCOL_ERROR}
    assert talk.records == [(0, "malformed request")]
    assert talk.client.goaways == []
    assert talk.connector.users == []
    talk.ask()
    assert len(talk.connector.users) == 1


def test_the_handler_s_faults_are_a_500() -> None:
    talk = Talk()
    number = talk.ask(b"/break")
    assert talk.client.statuses == {number: [500]}

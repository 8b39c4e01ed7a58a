"""What a client's frames do; that they are paid for is in `test_connection`, flood by flood."""

import pytest

from pyrbacproxy.http2.codec import Budget, Engine
from pyrbacproxy.http2.frames import DATA, GOAWAY, HEADERS, PING, RST_STREAM, WINDOW_UPDATE, Frame
from pyrbacproxy.http2.limits import Code, ConnectionFaultError, Http2Limits
from pyrbacproxy.http2.server import Intake, OpenStreams, Requests
from pyrbacproxy.model import Peer
from tests.fakes import ManualLoop
from tests.http2.talk import head
from tests.proxy.dialogue import SideTape, World
from tests.proxy.test_http1_connection import Users

WHOLE = 0x5


class Taking:
    """An intake of two streams over tapes."""

    def __init__(self) -> None:
        loop = ManualLoop()
        world, limits = World(clock=loop.time), Http2Limits(2, 16_384, 65_535, 65_535)
        self.upstreams = Users()
        world.services.connector = self.upstreams
        self.engine = Engine(limits, max_header_bytes=10_000)
        budget = Budget(limits.streams, loop.time)
        self.streams = OpenStreams(
            self.engine, SideTape(), budget, loop=loop.as_loop(), turned=lambda: None
        )
        requests = Requests(
            world.services, lambda: Peer("192.0.2.1"), window=65_535, loop=loop.as_loop()
        )
        self.intake = Intake(self.engine, self.streams, budget, requests, most=2)
        self.records = world.records
        self.engine.outgoing()


def test_a_stream_is_opened_fed_and_reset() -> None:
    taking = Taking()
    assert not taking.intake.take(head(1, method=b"POST", flags=0x4))
    assert len(taking.streams) == 1
    taking.intake.take(Frame(DATA, 0, 1, b"abc"))
    upstream = taking.upstreams.upstreams[0]
    assert upstream.take().endswith(b"\r\n\r\nabc")
    taking.intake.take(Frame(RST_STREAM, 0, 1, bytes(4)))
    assert upstream.done == ["close"]
    assert len(taking.streams) == 0


def test_it_tells_when_a_window_opens() -> None:
    taking = Taking()
    assert taking.intake.take(Frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\1"))
    assert not taking.intake.take(Frame(PING, 0, 0, bytes(8)))


@pytest.mark.parametrize("is_refusing", [True, False])
def test_a_stream_too_many_or_too_late_is_refused(*, is_refusing: bool) -> None:
    taking = Taking()
    for number in (1, 3):
        taking.intake.take(head(number))
    taking.intake.is_refusing = is_refusing
    taking.engine.outgoing()
    taking.intake.take(head(5))
    assert taking.engine.outgoing() == bytes(
        Frame(RST_STREAM, 0, 5, Code.REFUSED_STREAM.to_bytes(4))
    )
    assert len(taking.upstreams.users) == 2


def test_what_is_refused_because_we_leave_is_not_held_against_the_client() -> None:
    taking = Taking()
    taking.intake.is_refusing = True
    for number in range(1, 101, 2):
        taking.intake.take(head(number))
    taking.intake.is_refusing = False
    for number in (101, 103):
        taking.intake.take(head(number))
    for number in range(105, 121, 2):
        taking.intake.take(head(number))
    with pytest.raises(ConnectionFaultError) as fault:
        taking.intake.take(head(121))
    assert fault.value.code == Code.ENHANCE_YOUR_CALM


def test_a_goodbye_is_noted() -> None:
    taking = Taking()
    taking.intake.take(Frame(GOAWAY, 0, 0, bytes(8)))
    assert taking.intake.is_over


def test_frames_for_streams_that_are_over_do_nothing() -> None:
    taking = Taking()
    taking.intake.take(head(1, path=b"/deny"))
    for frame in (Frame(RST_STREAM, 0, 1, bytes(4)), Frame(HEADERS, WHOLE, 3, b"\x82")):
        taking.intake.take(frame)
    assert len(taking.streams) == 0

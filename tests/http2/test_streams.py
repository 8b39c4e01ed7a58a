"""What the streams of one connection share: its window, its write buffer, its turns."""

from pyrbacproxy.http2.frames import Frame
from pyrbacproxy.http2.limits import Code
from pyrbacproxy.http2.server import OpenStreams
from pyrbacproxy.proxy.exchange import UpstreamUser
from tests.http2.talk import OK, STREAM, Talk, request
from tests.proxy.dialogue import UpstreamTape, received
from tests.proxy.test_http1_connection import Users


def test_streams_take_turns_when_the_connection_s_window_opens() -> None:
    talk = Talk(window=1_000_000)
    talk.client.takes = False
    numbers = [talk.ask() for _ in range(3)]
    for index in range(3):
        talk.answer(index, STREAM, bytes(50_000), ends=False)
    assert [len(talk.client.bodies.get(number, b"")) for number in numbers] == [50_000, 15_535, 0]
    talk.client.h2.increment_flow_control_window(49_152)
    talk.exchange()
    got = [len(talk.client.bodies.get(number, b"")) for number in numbers]
    assert sum(got) == 65_535 + 49_152
    assert min(got) >= 16_384


def test_a_full_write_buffer_makes_streams_wait() -> None:
    talk = Talk(window=1_000_000)
    number = talk.ask()
    talk.connection.pause_writing()
    talk.answer(-1, STREAM, bytes(50_000), ends=False)
    assert number not in talk.client.bodies
    assert talk.upstream().done == ["pause"]
    talk.connection.resume_writing()
    talk.exchange()
    assert len(talk.client.bodies[number]) == 50_000
    assert talk.upstream().done == ["pause", "resume"]


def test_a_buffer_that_fills_while_streams_are_sent_stops_them() -> None:
    talk = Talk(window=1_000_000)
    number = talk.ask()
    talk.connection.pause_writing()
    talk.answer(-1, STREAM, bytes(50_000), ends=False)
    write = talk.transport.write

    def fill(*pieces: bytes | memoryview) -> None:
        write(*pieces)
        talk.connection.pause_writing()

    talk.transport.write = fill  # type: ignore[method-assign] # a socket that takes one frame
    talk.connection.resume_writing()
    talk.listen()
    assert len(talk.client.bodies[number]) == 16_384


def test_what_was_gathered_is_written_when_it_is_much() -> None:
    talk = Talk().exchange()
    number = talk.ask()
    streams = talk.connection._streams
    streams.send_head(number, [(b":status", b"200"), (b"a", b"x" * 60_000)], ends=False)
    assert not streams.is_overfull
    streams.flush()
    assert talk.transport.sent == b""
    streams.send_head(number, [(b"b", b"x" * 10_000)], ends=True)
    streams.flush()
    assert len(talk.transport.sent) > 70_000
    assert not streams.is_overfull
    talk.connection.pause_writing()
    assert streams.is_overfull


class Queue(Users):
    """Gives the second upstream when the first is let go."""

    def connect(self, user: UpstreamUser, *, is_fresh: bool) -> None:
        if self.users:
            self.users.append(user)
            return
        super().connect(user, is_fresh=is_fresh)
        self.upstreams[0].close = self.give  # type: ignore[method-assign] # to go on at once

    def give(self) -> None:
        if self.users[1].wants_upstream:
            self.upstreams.append(UpstreamTape())
            self.users[1].upstream_ready(self.upstreams[-1])


def test_the_end_of_all_is_none_s_chance() -> None:
    """What one stream leaves to the next comes too late: the connection is broken."""
    talk = Talk(window=1_000_000)
    talk.connector = talk.world.services.connector = Queue()
    talk.ask()
    number = talk.ask(method=b"POST", body=bytes(16_384))
    for _ in range(9):
        talk.client.h2.send_data(number, bytes(16_384))
        talk.exchange()
    talk.raw(Frame(0, 0, 0, b"no stream"))
    assert talk.client.goaways == [Code.PROTOCOL_ERROR]
    assert talk.records == [(0, "client gone")] * 2
    assert len(talk.connector.upstreams) == 1


def test_what_one_turn_brings_goes_out_in_one_write() -> None:
    """Refusals of what one read asks for, and the answers of whichever upstreams have answered."""
    talk = Talk()
    numbers = [talk.ask() for _ in range(5)]
    written: list[bytes] = []
    talk.transport.write = lambda *pieces: written.append(b"".join(pieces))  # type: ignore[method-assign] # to look
    for user in talk.connector.users:
        user.response(received(OK))
        user.response_side.body(b"ok")
        user.response_ended()
    for _ in range(5):
        numbers.append(talk.client.h2.get_next_available_stream_id())
        talk.client.h2.send_headers(numbers[-1], request(b"/deny"), end_stream=True)
    talk.connection.data_received(talk.client.h2.data_to_send())
    assert written == []
    talk.loop.turn()
    assert len(written) == 1
    talk.client.hear(written[0])
    assert talk.client.ended == set(numbers)


def test_the_end_of_all_is_told_to_each() -> None:
    talk = Talk()
    for _ in range(3):
        talk.ask()
    assert isinstance(talk.connection._streams, OpenStreams)
    assert len(talk.connection._streams) == 3
    talk.connection.connection_lost()
    assert talk.records == [(0, "client gone")] * 3
    assert [upstream.done for upstream in talk.connector.upstreams] == [["close"]] * 3
    assert len(talk.connection._streams) == 0
    assert talk.client.resets == {}

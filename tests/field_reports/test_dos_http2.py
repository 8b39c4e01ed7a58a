"""Field report FR62 and its kin: what one HTTP/2 connection must not do to all the others.

While a flood runs, another client is served; afterwards the proxy has kept nothing of it. Where a
limit is crossed the connection ends. The limits are those of the reference (5.4).
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import pytest
from h2.errors import ErrorCodes
from h2.settings import SettingCodes
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from tests.field_reports.harness import Lab, Proxy, get
from tests.field_reports.http2 import PREFACE, Http2, http2, negotiated, request
from tests.field_reports.servers import Arrived
from tests.field_reports.watching import memory_kib, open_files, until

OPEN = "--ignore-paths=/*"
# Frames that go out before the test looks whether the proxy is still there.
BURST = 500
GROWTH_KIB = 24 * 1024
LARGE = 2 * 1024 * 1024
LONG = 64 * 1024 * 1024
STREAMS = 100

# GET https://h/ as a block that leaves the table alone.
HEAD = b"\x82\x84\x87\x01\x01h"

Flood = Callable[[Http2], Iterator[Frame]]


# --- floods ---------------------------------------------------------------------------


def rapid_resets(connection: Http2) -> Iterator[Frame]:
    """CVE-2023-44487: streams that are taken back as soon as they are opened."""
    for _ in range(20_000):
        number, frames = connection.head(request("/reset"))
        yield from frames
        yield RstStreamFrame(number, error_code=ErrorCodes.CANCEL)


def resets_that_the_proxy_makes(connection: Http2) -> Iterator[Frame]:
    """CVE-2025-8671: the client breaks a rule so that we reset the stream."""
    for _ in range(20_000):
        number, frames = connection.head(request("/reset"))
        yield from frames
        yield WindowUpdateFrame(number, window_increment=2**31 - 1)


def continuations(_connection: Http2) -> Iterator[Frame]:
    """CVE-2024-27316: a head without an end."""
    yield HeadersFrame(1, HEAD)
    # Not indexed, a name of one letter and a value of 16,000.
    field = b"\x00\x01a\x7f" + bytes([0x81, 0x7C]) + b"v" * 16000
    for _ in range(5000):
        yield ContinuationFrame(1, field)


def empty_continuations(_connection: Http2) -> Iterator[Frame]:
    yield HeadersFrame(1, HEAD)
    for _ in range(50_000):
        yield ContinuationFrame(1, b"")


def settings(_connection: Http2) -> Iterator[Frame]:
    """CVE-2019-9515: each must be acknowledged."""
    for number in range(50_000):
        yield SettingsFrame(settings={SettingCodes.HEADER_TABLE_SIZE: number % 4096})


def pings(_connection: Http2) -> Iterator[Frame]:
    """CVE-2019-9512: each must be answered."""
    for number in range(100_000):
        yield PingFrame(opaque_data=number.to_bytes(8))


def empty_data(connection: Http2) -> Iterator[Frame]:
    """CVE-2019-9518: frames that cost no window."""
    number, frames = connection.head(request("/data", method="POST"), is_whole=False)
    yield from frames
    for _ in range(50_000):
        yield DataFrame(number, b"")


def padding(connection: Http2) -> Iterator[Frame]:
    """DATA frames of nothing but padding."""
    number, frames = connection.head(request("/data", method="POST"), is_whole=False)
    yield from frames
    for _ in range(200):
        yield DataFrame(number, b"", pad_length=255, flags=["PADDED"])


def priorities(_connection: Http2) -> Iterator[Frame]:
    """CVE-2019-9513: a tree that is turned round and round."""
    for number in range(50_000):
        yield PriorityFrame(number * 2 + 1, depends_on=number * 2 + 3, stream_weight=7)


def window_updates(_connection: Http2) -> Iterator[Frame]:
    for _ in range(50_000):
        yield WindowUpdateFrame(0, window_increment=1)


def header_bombs(connection: Http2) -> Iterator[Frame]:
    """CVE-2016-6581: a field of 4 KB in the table, named 16,000 times by one byte each."""
    # Indexed: afterwards it is number 62, the newest of the table.
    field = b"\x40\x01a\x7f" + bytes([0xA1, 0x1E]) + b"v" * 4000
    for _ in range(50):
        number = connection.next_stream()
        yield HeadersFrame(number, HEAD + field, flags=["END_STREAM"])
        yield ContinuationFrame(number, b"\xbe" * 16000, flags=["END_HEADERS"])


FLOODS: dict[str, Flood] = {
    "rapid resets": rapid_resets,
    "resets that the proxy makes": resets_that_the_proxy_makes,
    "continuations": continuations,
    "empty continuations": empty_continuations,
    "settings": settings,
    "pings": pings,
    "empty data": empty_data,
    "padding": padding,
    "priorities": priorities,
    "window updates": window_updates,
    "header bombs": header_bombs,
}
# The others may go on until the client is tired of it.
STOPPED = {
    "rapid resets",
    "resets that the proxy makes",
    "continuations",
    "empty continuations",
    "empty data",
    "header bombs",
}


@pytest.mark.parametrize("name", FLOODS)
def test_fr62_a_flood_is_borne(lab: Lab, name: str) -> None:
    proxy = lab.start(OPEN, is_own=True)
    with borne(proxy), http2(proxy) as connection:
        for burst in bursts(FLOODS[name](connection)):
            is_taken = connection.pour(burst)
            connection.read_what_is_there()
            if connection.has_ended or not is_taken:
                break
            assert proxy.ask(get("/other")).status == 200
        if name in STOPPED:
            # The proxy's own words may be lost: it ends a connection that is still sent to.
            assert connection.end() is not ErrorCodes.NO_ERROR
    assert lab.upstream.targets.count("/reset") < 5000


@pytest.mark.parametrize("name", ["settings", "pings", "rapid resets"])
def test_fr62_a_flood_by_a_client_that_reads_nothing_is_borne(lab: Lab, name: str) -> None:
    proxy = lab.start(OPEN, is_own=True)
    with borne(proxy), http2(proxy) as connection:
        for burst in bursts(FLOODS[name](connection)):
            if not connection.pour(burst):
                break
        assert proxy.ask(get("/other")).status == 200


def bursts(frames: Iterable[Frame]) -> Iterator[list[Frame]]:
    """The frames, so many at a time."""
    rest = iter(frames)
    while burst := list(islice(rest, BURST)):
        yield burst


@contextlib.contextmanager
def borne(proxy: Proxy) -> Iterator[None]:
    """What happens inside takes little memory, and others are served during and after it."""
    assert proxy.ask(get("/other")).status == 200
    before = memory_kib(proxy.process.pid)
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: check_memory(proxy, before))
        yield
    assert proxy.ask(get("/other")).status == 200


# --- windows --------------------------------------------------------------------------


def test_fr62_streams_without_a_window_hold_little(lab: Lab) -> None:
    """The client asks for 200 MB and takes none; the upstream waits, not our memory."""
    lab.upstream.script = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % LARGE + bytes(LARGE)
    proxy = lab.start(OPEN, "--write-stall-timeout=3s", is_own=True)
    assert len(proxy.ask(get()).body) == LARGE
    pid = proxy.process.pid
    before, files = memory_kib(pid), open_files(pid)
    with http2(proxy, {SettingCodes.INITIAL_WINDOW_SIZE: 0}) as connection:
        opened = [connection.open(request(f"/{number}")) for number in range(STREAMS)]
        until(lambda: len(lab.upstream.requests) > STREAMS, "all requests at the upstream")
        assert len(proxy.ask(get("/other")).body) == LARGE
        check_memory(proxy, before)
        for number in opened:
            assert connection.answer(number).body == b""
    until(lambda: open_files(pid) <= files + 2, "end of what stalled")


def test_fr62_a_window_that_opens_by_single_bytes(lab: Lab) -> None:
    """CVE-2019-9511: each byte in a frame of its own; the client gets it so, or is sent away."""
    lab.upstream.script = b"HTTP/1.1 200 OK\r\nContent-Length: 20000\r\n\r\n" + bytes(20000)
    proxy = lab.start(OPEN, is_own=True)
    with borne(proxy), http2(proxy, {SettingCodes.INITIAL_WINDOW_SIZE: 0}) as connection:
        number = connection.open(request())
        for _ in range(20000):
            connection.widen(number, 1)
            connection.read_what_is_there()
        answer = connection.answer(number)
        assert len(answer.body) == 20000 or connection.goaway is ErrorCodes.ENHANCE_YOUR_CALM


def test_an_answer_that_waits_for_a_window_does_not_hold_its_upstream(lab: Lab) -> None:
    """It came whole, so the connection behind it is free, though it was not to be read."""
    waiting = 40_000
    lab.upstream.script = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % waiting + bytes(
        waiting
    )
    proxy = lab.start(OPEN, is_own=True)
    with http2(proxy, {SettingCodes.INITIAL_WINDOW_SIZE: 0}) as connection:
        number = connection.open(request())
        while not connection.at(number).headers:
            connection.read()
        for _ in range(5):
            assert len(proxy.ask(get("/other")).body) == waiting
        connection.widen(number, waiting)
        assert len(connection.answer(number).body) == waiting


def test_a_long_download_with_many_small_windows_is_no_flood(lab: Lab) -> None:
    """Go's client gives back what it has read by 4 KiB, to the stream and to the connection."""
    lab.upstream.script = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % LONG + bytes(LONG)
    with http2(lab.start(OPEN)) as connection:
        answer = connection.at(connection.open(request()))
        got = returned = seen = 0
        while not connection.has_ended and not answer.is_ended:
            connection.read()
            got += sum(map(len, answer.blocks[seen:]))
            seen = len(answer.blocks)
            for _ in range((got - returned) // 4096):
                connection.widen(0, 4096)
                connection.widen(1, 4096)
                returned += 4096
        assert connection.goaway is None
        assert (answer.status, got) == (200, LONG)


def check_memory(proxy: Proxy, before_kib: int) -> None:
    grown = memory_kib(proxy.process.pid) - before_kib
    assert grown < GROWTH_KIB, f"{grown} KiB more"


# --- streams --------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [100, 7])
def test_fr62_no_more_streams_than_were_promised(lab: Lab, limit: int) -> None:
    def wait(arrived: Arrived) -> None:
        arrived.connection.recv(1)

    lab.upstream.script = wait
    proxy = lab.start(OPEN, f"--http2-max-concurrent-streams={limit}", is_own=True)
    with http2(proxy) as connection:
        for _ in range(limit):
            connection.open(request("/held"))
        until(lambda: len(lab.upstream.requests) == limit, "upstream requests")
        more = [connection.answer(connection.open(request("/more"))) for _ in range(5)]
        assert connection.settings[SettingCodes.MAX_CONCURRENT_STREAMS] == limit
        refused = {answer.reset for answer in more} == {ErrorCodes.REFUSED_STREAM}
        assert refused or connection.goaway is ErrorCodes.PROTOCOL_ERROR
        assert "/more" not in lab.upstream.targets
    lab.upstream.drop_connections()


# --- slowness -------------------------------------------------------------------------


def test_fr58_a_head_that_dribbles_over_http_2_is_cut(lab: Lab) -> None:
    proxy = lab.start(OPEN, "--read-header-timeout=1s", "--idle-timeout=10m", is_own=True)
    with http2(proxy) as connection:
        number = connection.next_stream()
        connection.send(HeadersFrame(number, connection.block(request())))
        connection.end()
    assert lab.upstream.requests == []


@pytest.mark.parametrize("requests", [0, 1], ids=["unused", "used"])
def test_fr58_an_idle_http_2_connection_is_closed(lab: Lab, requests: int) -> None:
    proxy = lab.start(OPEN, "--idle-timeout=1s", "--read-header-timeout=2s")
    with http2(proxy) as connection:
        for _ in range(requests):
            assert connection.ask(request()).status == 200
        assert connection.end() is ErrorCodes.NO_ERROR


def test_fr58_silence_instead_of_the_preface_is_cut(lab: Lab) -> None:
    proxy = lab.start(OPEN, "--idle-timeout=1s", "--read-header-timeout=2s")
    with negotiated(proxy) as silent, negotiated(proxy) as partial:
        partial.send(PREFACE[:10])
        silent.end()
        partial.end()


# --- broken frames --------------------------------------------------------------------


def raw(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    return len(body).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + body


DATA, HEADERS, SETTINGS, PUSH, PING, WINDOW, CONTINUATION = 0, 1, 4, 5, 6, 8, 9
BROKEN = {
    "data on stream 0": raw(DATA, 0, 0, b"x"),
    "data on an idle stream": raw(DATA, 0, 1, b"x"),
    "headers on stream 0": raw(HEADERS, 5, 0, b"\x82"),
    "headers on an even stream": raw(HEADERS, 5, 2, b"\x82\x84\x87"),
    "no header block": raw(HEADERS, 5, 1, b"\xff\xff\xff\xff\xff\xff\xff\xff"),
    "a table index that is not there": raw(HEADERS, 5, 1, b"\xfe"),
    "a continuation of nothing": raw(CONTINUATION, 4, 1, b"\x82"),
    "a ping within a head": raw(HEADERS, 1, 1, b"\x82") + raw(PING, 0, 0, bytes(8)),
    "a promise": raw(PUSH, 4, 1, (2).to_bytes(4) + b"\x82"),
    "a short ping": raw(PING, 0, 0, bytes(7)),
    "a ping on a stream": raw(PING, 0, 1, bytes(8)),
    "settings on a stream": raw(SETTINGS, 0, 1, b""),
    "half a setting": raw(SETTINGS, 0, 0, bytes(5)),
    "an acknowledgement with settings": raw(SETTINGS, 1, 0, bytes(6)),
    "a window beyond the largest": raw(SETTINGS, 0, 0, (4).to_bytes(2) + b"\xff" * 4),
    "a frame size below the smallest": raw(SETTINGS, 0, 0, (5).to_bytes(2) + bytes(4)),
    "a window that grows by nothing": raw(WINDOW, 0, 0, bytes(4)),
    "a window that overflows": raw(WINDOW, 0, 0, b"\x7f\xff\xff\xff") * 2,
    "a frame larger than allowed": b"\xff\xff\xff" + bytes([DATA, 0]) + bytes(4) + bytes(70000),
    "padding longer than the frame": raw(HEADERS, 0x0D, 1, b"\xff\x82"),
    "HTTP/1.1 after the preface": b"GET / HTTP/1.1\r\nHost: h\r\n\r\n" * 10,
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_a_broken_frame_ends_its_connection_and_no_other(lab: Lab, broken: bytes) -> None:
    proxy = lab.start(OPEN)
    with http2(proxy) as other, http2(proxy) as connection:
        connection.client.send(broken)
        said = connection.end()
        assert said is not ErrorCodes.NO_ERROR
        assert other.ask(request("/other")).status == 200
    assert lab.upstream.targets == ["/other"]


@pytest.mark.parametrize(
    "preface",
    [b"\0" * 24, PREFACE[:-1] + b"X", b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"],
    ids=["zeros", "last byte", "HTTP/1.1"],
)
def test_a_broken_preface_ends_the_connection(lab: Lab, preface: bytes) -> None:
    proxy = lab.start(OPEN)
    with negotiated(proxy) as client:
        client.send(preface)
        client.end()
    assert lab.upstream.requests == []
    assert proxy.ask(get("/alive")).status == 200

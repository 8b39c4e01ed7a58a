"""Over real sockets of this machine."""

import asyncio
import contextlib
import errno
import resource
import socket
from collections.abc import AsyncIterator, Callable

import pytest

from pyrbacproxy.model import ExchangeRecord, Failure
from pyrbacproxy.proxy import listener as heap
from pyrbacproxy.proxy import listener as listener_module
from pyrbacproxy.proxy.exchange import Limits, Use
from pyrbacproxy.proxy.listener import Listener, bind
from pyrbacproxy.proxy.transport import ClientTransport

SECONDS = 10.0


class Echo:
    """A connection handler that says hello; `drain` closes it if it is `idle`.

    It is new until it has heard something, then idle, but busy while the last it heard is "busy".
    """

    def __init__(self, transport: ClientTransport, *, is_idle: bool) -> None:
        self.transport = transport
        self.is_idle = is_idle
        self.use = Use.NEW
        transport.write(b"hello")

    def announce_close(self) -> None:
        self.transport.write(b"goodbye")

    def awaiting(self) -> list[ExchangeRecord]:
        return []

    def data_received(self, data: bytes) -> None:
        self.use = Use.BUSY if data == b"busy" else Use.IDLE
        self.transport.write(data)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, failure: Failure | None = None) -> None:
        pass

    def pause_writing(self) -> None:
        pass

    def resume_writing(self) -> None:
        pass

    def drain(self) -> None:
        if self.is_idle:
            self.transport.close()


def serving(
    sockets: list[socket.socket], limits: Limits | None = None, *, is_idle: bool = True
) -> Listener:
    limits = limits or Limits()
    loop = asyncio.get_running_loop()

    def make(on_closed: Callable[[ClientTransport], None]) -> ClientTransport:
        return ClientTransport(
            lambda transport: Echo(transport, is_idle=is_idle),
            limits=limits,
            loop=loop,
            on_closed=on_closed,
        )

    listener = Listener(sockets, make, limits)
    listener.start()
    return listener


def port_of(sockets: list[socket.socket]) -> int:
    return int(sockets[0].getsockname()[1])


@contextlib.asynccontextmanager
async def visitor(host: str, port: int) -> AsyncIterator[asyncio.StreamReader]:
    """A client, for as long as it takes."""
    async with asyncio.timeout(SECONDS):
        reader, writer = await asyncio.open_connection(host, port)
        try:
            yield reader
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


async def is_greeted(reader: asyncio.StreamReader) -> bool:
    return await reader.readexactly(5) == b"hello"


async def settled(condition: Callable[[], bool]) -> bool:
    """Let the loop turn until it holds; the visitor's own time is the limit."""
    while not condition():  # noqa: ASYNC110 - nothing here tells when the kernel is done
        await asyncio.sleep(0.01)
    return True


@pytest.mark.parametrize("host", ["", "::", "0.0.0.0"])
async def test_every_address_is_one_socket_for_both_families(host: str) -> None:
    sockets = bind(host, 0)
    assert len(sockets) == 1
    listener = serving(sockets)
    for address in ("127.0.0.1", "::1"):
        async with visitor(address, port_of(sockets)) as reader:
            assert await is_greeted(reader)
    listener.abort()


@pytest.mark.parametrize(
    ("host", "family"),
    [("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6), ("localhost", socket.AF_INET)],
)
async def test_an_address_is_bound_alone(host: str, family: int) -> None:
    sockets = bind(host, 0)
    assert [bound.family for bound in sockets] == [family]
    listener = serving(sockets)
    async with visitor(host, port_of(sockets)) as reader:
        assert await is_greeted(reader)
    listener.abort()


@pytest.mark.parametrize("host", ["", "127.0.0.1", "::1"])
def test_a_port_is_never_shared(host: str) -> None:
    [first] = bind(host, 0)
    with (
        first,
        pytest.raises(OSError, match=rf"cannot listen on .*:{port_of([first])}: ") as caught,
    ):
        bind(host, port_of([first]))
    assert caught.value.errno == errno.EADDRINUSE


@pytest.mark.parametrize("host", ["192.0.2.1", "no such host"])
def test_an_address_that_is_not_ours_is_named(host: str) -> None:
    with pytest.raises(OSError, match=f"cannot listen on {host}:1234: "):
        bind(host, 1234)


async def test_an_ipv4_address_may_be_written_as_ipv6() -> None:
    sockets = bind("::ffff:127.0.0.1", 0)
    listener = serving(sockets)
    async with visitor("127.0.0.1", port_of(sockets)) as reader:
        assert await is_greeted(reader)
    listener.abort()


@pytest.mark.parametrize("host", ["", "::", "0.0.0.0"])
def test_a_host_without_ipv6_listens_on_ipv4(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bound: list[int] = []
    real = listener_module._listen

    def listen(family: int, address: tuple[object, ...]) -> socket.socket:
        bound.append(family)
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "no")
        return real(family, address)

    monkeypatch.setattr(listener_module, "_listen", listen)
    [only] = bind(host, 0)
    with only:
        assert only.family == socket.AF_INET
    assert bound == [socket.AF_INET6, socket.AF_INET]


class Guest:
    """A client at one of this machine's addresses; "ask" and "busy" are answered with the same."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def ask(self, words: bytes) -> None:
        self.writer.write(words)
        assert await self.reader.readexactly(len(words)) == words

    async def rest(self) -> bytes:
        return await self.reader.read()


class Guests(contextlib.AsyncExitStack):
    """Clients of a listener with a limit, all gone at the end."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.sockets = bind("127.0.0.1", 0)
        self.listener = serving(self.sockets, Limits(max_connections=most))
        self.callback(self.listener.abort)

    async def come(self, address: str = "127.0.0.1", words: bytes = b"") -> Guest:
        guest = await self.knock(address)
        assert await guest.reader.readexactly(5) == b"hello"
        if words:
            await guest.ask(words)
        return guest

    async def knock(self, address: str = "127.0.0.1") -> Guest:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port_of(self.sockets), local_addr=(address, 0)
        )
        self.callback(writer.close)
        return Guest(reader, writer)


async def test_accepting_pauses_while_all_connections_are_busy() -> None:
    async with asyncio.timeout(SECONDS), Guests(2) as guests:
        first, _second = [await guests.come(words=b"busy") for _ in range(2)]
        third = await guests.knock()
        assert await settled(lambda: not guests.listener._is_accepting)
        assert guests.listener.connections == 2
        first.writer.close()
        assert await third.reader.readexactly(5) == b"hello"
        assert guests.listener.accepted == 3


async def test_d52_a_connection_that_becomes_idle_makes_way_for_one_that_waits() -> None:
    async with asyncio.timeout(SECONDS), Guests(2) as guests:
        first, second = [await guests.come(words=b"busy") for _ in range(2)]
        third = await guests.knock()
        assert await settled(lambda: not guests.listener._is_accepting)
        await second.ask(b"done")
        assert await third.reader.readexactly(5) == b"hello"
        assert await second.rest() == b"goodbye"
        await first.ask(b"still here")


async def test_d52_the_oldest_that_has_asked_for_nothing_makes_way_first(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with asyncio.timeout(SECONDS), Guests(4) as guests:
        kept = await guests.come(words=b"ask")
        busy = await guests.come(words=b"busy")
        new = [await guests.come() for _ in range(2)]
        new += [await guests.come() for _ in range(2)]
        assert [await guest.rest() for guest in new[:2]] == [b"goodbye"] * 2
        for guest in (kept, busy, *new[2:]):
            await guest.ask(b"ask")
        await busy.ask(b"busy")
        [line] = [record.getMessage() for record in caplog.records]
        assert line.startswith("4 connections, as many as --max-connections allows")


async def test_d52_then_the_newest_idle_one_of_the_address_that_holds_most_makes_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listener_module, "_LOOK_SECONDS_EACH", 0.0)
    async with asyncio.timeout(SECONDS), Guests(6) as guests:
        scraper = await guests.come("127.0.0.9", b"ask")
        few = [await guests.come("127.0.0.2", b"ask") for _ in range(2)]
        many = [await guests.come("127.0.0.3", b"ask") for _ in range(3)]
        newcomer = await guests.come("127.0.0.4", b"ask")
        assert await many[2].rest() == b"goodbye"
        # Two addresses hold two each now: the one that came last is as good as the other.
        await guests.come("127.0.0.4", b"busy")
        assert await many[1].rest() == b"goodbye"
        for guest in (scraper, newcomer, *few, many[0]):
            await guest.ask(b"ask")


async def test_d52_bytes_that_are_not_read_yet_keep_a_connection() -> None:
    async with asyncio.timeout(SECONDS), Guests(2) as guests:
        kept, other = [await guests.come(words=b"ask") for _ in range(2)]
        transport = next(iter(guests.listener._connections))
        transport.pause_reading()
        other.writer.write(b"busy")
        await other.reader.readexactly(4)
        kept.writer.write(b"request")
        third = await guests.knock()
        assert await settled(lambda: not guests.listener._is_accepting)
        transport.resume_reading()
        assert await kept.reader.readexactly(7) == b"request"
        assert await third.reader.readexactly(5) == b"hello"


async def test_d52_who_does_not_go_when_told_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_module, "_MOST_LEAVING", 1)
    async with asyncio.timeout(SECONDS), Guests(1) as guests:
        await guests.come()
        transport = next(iter(guests.listener._connections))
        monkeypatch.setattr(transport, "evict", lambda: None)
        await guests.come()
        await guests.come(words=b"ask")
        assert guests.listener.connections == 1


async def test_d52_all_connections_are_looked_at_no_more_often_than_is_good(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However many come, for each look goes over all that are open."""
    monkeypatch.setattr(listener_module, "_LOOK_SECONDS_EACH", 0.001)
    looks: list[Listener] = []
    choose = Listener._choose

    def look(listener: Listener) -> list[ClientTransport]:
        looks.append(listener)
        return choose(listener)

    monkeypatch.setattr(Listener, "_choose", look)
    async with asyncio.timeout(SECONDS), Guests(50) as guests:
        for _ in range(50):
            await guests.come(words=b"ask")
        clock = asyncio.get_running_loop().time
        began_at = clock()
        for _ in range(200):
            await guests.come(words=b"ask")
        assert 0 < len(looks) <= 2 + (clock() - began_at) / 0.05
        assert guests.listener.connections <= 51


async def test_out_of_descriptors_is_one_line_and_no_spin(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(listener_module, "_PAUSE_SECONDS", 0.05)
    sockets = bind("127.0.0.1", 0)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with visitor("127.0.0.1", port_of(sockets)) as reader:
        with socket.socket() as spare:
            # From here on no descriptor above the spare one can be had.
            resource.setrlimit(resource.RLIMIT_NOFILE, (spare.fileno() + 1, hard))
            try:
                listener = serving(sockets)
                assert await settled(lambda: bool(caplog.records))
                assert not listener._is_accepting
                listener.start()
                assert not listener._is_accepting
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert "cannot accept connections for now" in caplog.text
        assert await is_greeted(reader)
    listener.abort()


async def test_a_connection_that_closes_ends_the_wait_for_descriptors(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sockets = bind("127.0.0.1", 0)
    listener = serving(sockets)
    async with visitor("127.0.0.1", port_of(sockets)) as reader:
        assert await is_greeted(reader)
        for _ in range(2):
            listener._accept_failed(OSError(errno.EMFILE, "too many"))
        assert len(caplog.records) == 1, "one line a second"
        assert not listener._is_accepting
    assert await settled(lambda: listener._is_accepting)
    listener.abort()


async def test_a_listener_that_waits_for_descriptors_can_be_stopped() -> None:
    listener = serving(bind("127.0.0.1", 0))
    listener._accept_failed(OSError(errno.EMFILE, "too many"))
    listener.stop_accepting()
    assert listener._retry is None
    listener.start()
    assert not listener._is_accepting


async def test_a_connection_that_was_gone_at_once_is_no_matter() -> None:
    listener = serving(bind("127.0.0.1", 0))
    listener._accept_failed(OSError(errno.ECONNABORTED, "gone"))
    assert listener._is_accepting
    listener.abort()


async def test_draining_closes_what_is_idle_and_nobody_else_comes_in() -> None:
    sockets = bind("127.0.0.1", 0)
    port = port_of(sockets)
    listener = serving(sockets)
    async with visitor("127.0.0.1", port) as reader:
        assert await is_greeted(reader)
        await listener.drain(SECONDS)
        assert await reader.read() == b""
    assert listener.connections == 0
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
    listener.start()
    await listener.drain(SECONDS)


async def test_what_is_left_at_the_grace_period_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    sockets = bind("127.0.0.1", 0)
    listener = serving(sockets, is_idle=False)
    async with visitor("127.0.0.1", port_of(sockets)) as reader:
        assert await is_greeted(reader)
        await listener.drain(0.01)
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
    assert "1 connections are cut" in caplog.text


async def test_a_connection_accepted_while_the_drain_began_is_drained_too() -> None:
    sockets = bind("127.0.0.1", 0)
    async with visitor("127.0.0.1", port_of(sockets)) as reader:
        listener = serving(sockets)
        listener._accept(sockets[0])
        assert listener.connections == 1
        await listener.drain(SECONDS)
        assert listener.connections == 0
        assert await reader.read() in (b"", b"hello")


async def test_what_closed_connections_leave_is_given_back_when_it_is_quiet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trimmed = asyncio.Event()
    monkeypatch.setattr(heap, "trim", trimmed.set)
    sockets = bind("127.0.0.1", 0)
    listener = serving(sockets)
    async with visitor("127.0.0.1", port_of(sockets)) as reader:
        assert await reader.read(5) == b"hello"
        assert not trimmed.is_set()
    async with asyncio.timeout(SECONDS):
        await trimmed.wait()
    await listener.drain(SECONDS)


async def test_d52_a_flood_from_one_address_never_reaches_the_kept_one_of_another() -> None:
    async with asyncio.timeout(SECONDS), Guests(10) as guests:
        kept = await guests.come(words=b"ask")
        for _ in range(200):
            await guests.come("127.0.0.2", b"ask")
        await kept.ask(b"ask")

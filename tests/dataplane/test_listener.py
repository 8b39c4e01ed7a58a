"""Over real sockets of this machine."""

import asyncio
import contextlib
import errno
import resource
import socket
from collections.abc import AsyncIterator, Callable

import pytest

from pyrbacproxy import heap
from pyrbacproxy.dataplane import listener as listener_module
from pyrbacproxy.dataplane.client_transport import ClientTransport
from pyrbacproxy.dataplane.limits import Limits
from pyrbacproxy.dataplane.listener import Listener, bind
from pyrbacproxy.record import Failure

SECONDS = 10.0


class Echo:
    """An inner side that says hello; `drain` closes it if it is `idle`."""

    def __init__(self, transport: ClientTransport, *, is_idle: bool) -> None:
        self.transport = transport
        self.is_idle = is_idle
        transport.write(b"hello")

    def data_received(self, data: bytes) -> None:
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


async def test_accepting_pauses_at_the_limit() -> None:
    sockets = bind("127.0.0.1", 0)
    port = port_of(sockets)
    listener = serving(sockets, Limits(max_connections=2))
    async with visitor("127.0.0.1", port) as second, contextlib.AsyncExitStack() as others:
        first = await others.enter_async_context(visitor("127.0.0.1", port))
        assert await is_greeted(first)
        assert await is_greeted(second)
        async with visitor("127.0.0.1", port) as third:
            assert await settled(lambda: not listener._is_accepting)
            assert listener.connections == 2
            await others.aclose()
            assert await is_greeted(third)
            assert listener.accepted == 3
    listener.abort()


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

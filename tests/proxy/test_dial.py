"""Against an upstream and an egress proxy of this machine; the ways themselves: `egress_dial`."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import uvloop

from pyrbacproxy.egress import ProxyAddress
from pyrbacproxy.model import Failure
from pyrbacproxy.proxy.connector import DialError, Dialler
from pyrbacproxy.proxy.exchange import Limits
from pyrbacproxy.proxy.upstream_http1 import loss
from tests.egress_world import HELLO, OTHER_CA, SECONDS, Talker, serving, trusting, world
from tests.test_lookup import Resolver


def dialler(
    port: int,
    *,
    is_tls: bool,
    connect_seconds: float = SECONDS,
    proxy: ProxyAddress | None = None,
    host: str = "localhost",
) -> Dialler:
    return Dialler(
        Limits(connect_seconds=connect_seconds),
        is_tls=is_tls,
        host=host,
        port=port,
        proxy=proxy,
        context=trusting if is_tls else None,
    )


async def heard(dialler: Dialler) -> bytes:
    talker = Talker()
    async with asyncio.timeout(SECONDS):
        await dialler.dial(talker)
        answer = await talker.answer
    assert talker.transport is not None
    talker.transport.abort()
    return answer


@pytest.mark.parametrize("is_tls", [False, True])
async def test_an_upstream_with_and_without_tls(*, is_tls: bool) -> None:
    async with world(is_tls=is_tls) as made:
        assert await heard(dialler(made.server_port, is_tls=is_tls)) == HELLO


async def test_the_proxy_of_the_settings_is_taken() -> None:
    async with world(is_tls=True) as made:
        proxy = ProxyAddress("http", "127.0.0.1", made.proxy_port, "Basic eA==")
        assert await heard(dialler(1, is_tls=True, proxy=proxy)) == HELLO
        assert len(made.asked) == 1


async def test_the_context_is_the_one_of_the_moment() -> None:
    contexts = [trusting(), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)]
    async with world(is_tls=True) as made:
        limits = Limits(connect_seconds=SECONDS)
        to_upstream = Dialler(
            limits,
            is_tls=True,
            host="localhost",
            port=made.server_port,
            proxy=None,
            context=lambda: contexts.pop(0),
        )
        assert await heard(to_upstream) == HELLO
        with pytest.raises(DialError, match="certificate not trusted"):
            await heard(to_upstream)


@pytest.mark.parametrize(
    ("host", "socket_path", "address"),
    [
        pytest.param("a.test", "", "a.test:1", id="name"),
        pytest.param("::1", "", "[::1]:1", id="IPv6"),
        pytest.param("a.test", "/run/a.sock", "/run/a.sock", id="unix socket"),
    ],
)
def test_the_address_as_the_log_tells_it(host: str, socket_path: str, address: str) -> None:
    made = Dialler(
        Limits(),
        is_tls=False,
        host=host,
        port=1,
        proxy=None,
        context=None,
        socket_path=socket_path,
    )
    assert made.address == address


async def test_dialling_ends_in_time() -> None:
    async with world(is_tls=True) as made:
        made.answer = b""
        proxy = ProxyAddress("http", "127.0.0.1", made.proxy_port)
        with pytest.raises(DialError, match="no connection within"):
            await heard(dialler(1, is_tls=True, connect_seconds=0.05, proxy=proxy))


async def test_https_without_a_context_is_refused() -> None:
    with pytest.raises(OSError, match="no TLS context"):
        await Dialler(Limits(), is_tls=True, host="::1", port=1, proxy=None, context=None).dial(
            Talker()
        )


async def test_dec_n10_a_unix_socket(tmp_path: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"heard " + await reader.read(100))
        writer.close()

    path = str(tmp_path / "x.sock")
    to_upstream = Dialler(
        Limits(connect_seconds=SECONDS),
        is_tls=False,
        host="",
        port=0,
        proxy=None,
        context=None,
        socket_path=path,
    )
    async with await asyncio.start_unix_server(answer, path):
        assert await heard(to_upstream) == HELLO
    # Python 3.13 removes the socket's file.
    with pytest.raises(DialError, match=f"{path}: (Connection refused|No such file or directory)"):
        await to_upstream.dial(Talker())


@pytest.mark.parametrize("proxy", [None, ProxyAddress("http", "a.test", 3128)])
async def test_fr48_a_look_up_that_hangs_is_the_only_one(
    proxy: ProxyAddress | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy's name is looked up where there is one; the server's is the proxy's business."""
    resolver = Resolver()
    monkeypatch.setattr(socket, "getaddrinfo", resolver)
    to_upstream = Dialler(
        Limits(connect_seconds=0.01),
        is_tls=False,
        host="a.test" if proxy is None else "b.test",
        port=80,
        proxy=proxy,
        context=None,
    )
    for _ in range(3):
        with pytest.raises(DialError, match="no connection within"):
            await to_upstream.dial(Talker())
    resolver.gate.set()
    assert resolver.begun.wait(SECONDS)
    assert resolver.asked == ["a.test"]
    assert resolver.threads[0].daemon


# --- FR82, FR100: why there is no connection --------------------------------------------


@contextlib.asynccontextmanager
async def answering(answer: bytes, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A server that says this to the first bytes, and closes; its port."""
    tasks = set[asyncio.Task[None] | None]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())
        await reader.read(65_536)
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    async with server:
        yield server.sockets[0].getsockname()[1]
        if running := {task for task in tasks if task is not None}:
            await asyncio.wait(running)


ALERT = b"\x15\x03\x03\x00\x02\x02"  # fatal; its number follows (RFC 8446 §6)


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize(
    ("answer", "failure", "cause"),
    [
        pytest.param(
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            Failure.TLS_FAILED,
            "TLS: wrong version number: does the upstream speak plain HTTP?",
            id="plain HTTP",
        ),
        pytest.param(
            ALERT + bytes((70,)),
            Failure.TLS_FAILED,
            "TLS: no TLS version in common: 1.2 is the lowest that is used",
            id="version",
        ),
        pytest.param(
            ALERT + bytes((40,)),
            Failure.TLS_FAILED,
            "TLS: the upstream refused the handshake: no cipher suite in common, or it wants a "
            "client certificate",
            id="handshake failure",
        ),
        pytest.param(
            ALERT + bytes((42,)),
            Failure.TLS_FAILED,
            "TLS: the upstream refused our client certificate",
            id="bad certificate",
        ),
        pytest.param(
            ALERT + bytes((80,)),
            Failure.TLS_FAILED,
            "TLS: tlsv1 alert internal error",
            id="an alert without words of ours",
        ),
        pytest.param(b"", Failure.NO_CONNECTION, "the upstream closed the connection", id="end"),
    ],
)
def test_fr100_a_failed_handshake_is_told_in_words(
    new_loop: Callable[[], asyncio.AbstractEventLoop], answer: bytes, failure: Failure, cause: str
) -> None:
    async def dialled() -> tuple[DialError, int]:
        async with answering(answer) as port:
            with pytest.raises(DialError) as raised:
                await heard(dialler(port, is_tls=True))
        return raised.value, port

    with asyncio.Runner(loop_factory=new_loop) as runner:
        error, port = runner.run(dialled())
    assert error.failure is failure
    assert error.cause == f"localhost:{port}: {cause}"


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_fr82_a_certificate_that_is_not_trusted_is_told_in_words(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def dialled() -> tuple[DialError, int]:
        async with answering(b"", serving(OTHER_CA)) as port:
            with pytest.raises(DialError) as raised:
                await heard(dialler(port, is_tls=True))
        return raised.value, port

    with asyncio.Runner(loop_factory=new_loop) as runner:
        error, port = runner.run(dialled())
    assert error.failure is Failure.NOT_TRUSTED
    words = "certificate not trusted: unable to get local issuer certificate"
    assert error.cause == f"localhost:{port}: {words}"


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_nobody_listens(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def dialled(port: int) -> DialError:
        with pytest.raises(DialError) as raised:
            await heard(dialler(port, is_tls=False, host="127.0.0.1"))
        return raised.value

    with socket.socket() as closed, asyncio.Runner(loop_factory=new_loop) as runner:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        error = runner.run(dialled(port))
    assert error.failure is Failure.REFUSED
    assert error.cause == f"127.0.0.1:{port}: Connection refused"


@pytest.mark.parametrize(
    ("host", "cause"),
    [
        ("a.test", "a.test:1: the name cannot be looked up: Name or service not known"),
        ("\u00e9" * 64, "\u00e9" * 64 + ":1: the name cannot be looked up: it is no name for DNS"),
    ],
)
async def test_fr100_a_name_that_is_not_found_is_told_in_words(
    monkeypatch: pytest.MonkeyPatch, host: str, cause: str
) -> None:
    def nowhere(name: object, *_: object, **__: object) -> None:
        if isinstance(name, str):
            name.encode("idna")
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", nowhere)
    with pytest.raises(DialError) as raised:
        await dialler(1, is_tls=True, host=host).dial(Talker())
    assert raised.value.failure is Failure.NAME_NOT_FOUND
    assert raised.value.cause == cause


async def test_a_tunnel_that_is_refused_is_told_with_the_proxy_s_address() -> None:
    async with world(is_tls=True) as made:
        made.answer = b"HTTP/1.1 403 Forbidden\r\n\r\n"
        proxy = ProxyAddress("http", "127.0.0.1", made.proxy_port)
        with pytest.raises(DialError) as raised:
            await heard(dialler(443, is_tls=True, proxy=proxy))
    assert raised.value.failure is Failure.TUNNEL_REFUSED
    assert raised.value.cause == (
        f"localhost:443 through the egress proxy 127.0.0.1:{made.proxy_port}: "
        "the egress proxy refused the tunnel with 403"
    )


def test_fr100_an_upstream_may_refuse_our_certificate_after_the_handshake() -> None:
    """As TLS 1.3 has it."""
    error = ssl.SSLError(1, "")
    error.reason = "TLSV13_ALERT_CERTIFICATE_REQUIRED"
    words = "TLS: the upstream wants a client certificate"
    assert loss(error) == (Failure.TLS_FAILED, words)
    assert loss(None) == (Failure.CLOSED_EARLY, "")
    assert loss(ConnectionResetError()) == (Failure.CONNECTION_LOST, "")

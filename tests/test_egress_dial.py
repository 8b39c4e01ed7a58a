"""Against servers and egress proxies of this machine."""

import asyncio
import ssl

import pytest

from pyrbacproxy.dialing import Route, TunnelRefusedError, dial
from pyrbacproxy.egress import ProxyAddress
from tests.egress_world import CA, HELLO, OTHER_CA, SECONDS, Talker, serving, trusting, world


async def heard(route: Route, *, is_tls: bool) -> bytes:
    talker = Talker()
    async with asyncio.timeout(SECONDS):
        await dial(route, talker, context=trusting() if is_tls else None, handshake_seconds=SECONDS)
        answer = await talker.answer
    assert talker.transport is not None
    talker.transport.abort()
    return answer


@pytest.mark.parametrize("is_tls", [False, True])
async def test_straight(*, is_tls: bool) -> None:
    async with world(is_tls=is_tls) as made:
        assert await heard(Route("localhost", made.server_port), is_tls=is_tls) == HELLO


async def test_a_certificate_for_another_name_is_refused() -> None:
    async with world(is_tls=True) as made:
        with pytest.raises(ssl.SSLCertVerificationError):
            await heard(Route("127.0.0.1", made.server_port), is_tls=True)


async def test_the_root_s_dot_is_no_part_of_a_name() -> None:
    async with world(is_tls=True) as made:
        proxy = ProxyAddress("http", "127.0.0.1", made.proxy_port)
        assert await heard(Route("localhost.", 1, proxy), is_tls=True) == HELLO


@pytest.mark.parametrize("is_tunnelled", [False, True])
async def test_the_certificate_may_name_another_than_the_host(*, is_tunnelled: bool) -> None:
    async with world(is_tls=True) as made:
        proxy = ProxyAddress("http", "127.0.0.1", made.proxy_port) if is_tunnelled else None
        route = Route("127.0.0.1", made.server_port, proxy, server_name="localhost")
        assert await heard(route, is_tls=True) == HELLO


async def test_d34_a_plain_server_behind_a_proxy_is_the_proxy_s_business() -> None:
    async with world(is_tls=False) as made:
        proxy = ProxyAddress("http", "127.0.0.1", made.server_port)
        assert await heard(Route("api.test", 1, proxy), is_tls=False) == HELLO


@pytest.mark.parametrize(
    ("host", "spelled"), [("localhost", "localhost"), ("::1", "[::1]")], ids=["name", "IPv6"]
)
async def test_d34_a_server_with_tls_is_asked_for_by_name(host: str, spelled: str) -> None:
    async with world(is_tls=True) as made:
        made.answer = b"HTTP/1.1 403 Forbidden\r\n\r\n"
        proxy = ProxyAddress("http", "127.0.0.1", made.proxy_port, "Basic eA==")
        with pytest.raises(OSError, match="refused the tunnel"):
            await heard(Route(host, 6443, proxy), is_tls=True)
        assert made.asked == [
            f"CONNECT {spelled}:6443 HTTP/1.1\r\nHost: {spelled}:6443\r\n"
            "Proxy-Authorization: Basic eA==\r\n\r\n".encode()
        ]


async def test_d34_tls_goes_through_the_tunnel_unseen() -> None:
    async with world(is_tls=True) as made:
        proxy = ProxyAddress("http", "127.0.0.1", made.proxy_port)
        assert await heard(Route("localhost", 6443, proxy), is_tls=True) == HELLO
        assert b"Proxy-Authorization" not in made.asked[0]


async def test_d34_a_proxy_may_have_tls_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    # The system's roots: another authority than the server's.
    made_with: list[ssl.SSLContext] = []

    def load(context: ssl.SSLContext) -> None:
        made_with.append(context)
        OTHER_CA.configure_trust(context)

    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", load)
    async with world(is_tls=True, proxy_context=serving(OTHER_CA)) as made:
        proxy = ProxyAddress("https", "localhost", made.proxy_port)
        assert await heard(Route("localhost", 6443, proxy), is_tls=True) == HELLO
    async with world(is_tls=True, proxy_context=serving(CA)) as made:
        proxy = ProxyAddress("https", "localhost", made.proxy_port)
        with pytest.raises(ssl.SSLCertVerificationError):
            await heard(Route("localhost", 6443, proxy), is_tls=True)
    assert made_with
    assert not any(context.verify_flags & ssl.VERIFY_X509_STRICT for context in made_with)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        pytest.param(b"HTTP/1.1 407 Pay\r\n\r\n", "refused the tunnel with 407", id="refused"),
        pytest.param(b"nonsense\r\n\r\n", "refused the tunnel", id="nonsense"),
        pytest.param(
            b"HTTP/1.1 %b no\r\n\r\n" % (b"9" * 9000), "refused the tunnel$", id="a long number"
        ),
        pytest.param(b"HTTP/1.1 407", "closed", id="cut"),
        pytest.param(b"x" * 20_000, "too long", id="endless"),
    ],
)
async def test_a_tunnel_that_is_refused(answer: bytes, reason: str) -> None:
    async with world(is_tls=True) as made:
        made.answer = answer
        proxy = ProxyAddress("http", "127.0.0.1", made.proxy_port)
        with pytest.raises(OSError, match=reason):
            await heard(Route("localhost", 1, proxy), is_tls=True)


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        pytest.param(b"HTTP/1.1 502 Bad Gateway\r\n\r\n", 502, id="status"),
        pytest.param(b"HTTP/1.1 many\r\n\r\n", 0, id="no number"),
        pytest.param(b"nonsense\r\n\r\n", 0, id="nonsense"),
    ],
)
async def test_a_refused_tunnel_tells_the_status(answer: bytes, status: int) -> None:
    async with world(is_tls=True) as made:
        made.answer = answer
        proxy = ProxyAddress("http", "127.0.0.1", made.proxy_port)
        with pytest.raises(TunnelRefusedError) as refused:
            await heard(Route("localhost", 1, proxy), is_tls=True)
    assert refused.value.status == status


async def test_who_gives_up_leaves_nothing_open() -> None:
    async with world(is_tls=True) as made:
        made.answer = b""
        proxy = ProxyAddress("http", "127.0.0.1", made.proxy_port)
        dialling = asyncio.create_task(heard(Route("localhost", 1, proxy), is_tls=True))
        async with asyncio.timeout(SECONDS):
            while not made.asked:  # noqa: ASYNC110 -- the proxy tells by values, not by events
                await asyncio.sleep(0.001)
            dialling.cancel()
            await made.is_left.wait()

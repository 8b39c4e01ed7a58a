"""One document from an issuer, and all that may stand in its way."""

import asyncio
import socket
import ssl
from collections.abc import Callable

import pytest
from aiohttp import web

from pyrbacproxy.egress import EgressProxies, ProxyAddress
from pyrbacproxy.http1.head import Headers
from pyrbacproxy.oidc import issuer as module
from pyrbacproxy.oidc.issuer import MAX_BODY_BYTES, MAX_REDIRECTS, Fetched, FetchError, fetch
from tests.egress_world import world
from tests.oidc.parties import PATIENCE_SECONDS, Provider
from tests.test_lookup import Resolver


async def got(issuer: Provider, path: str, context: ssl.SSLContext) -> Fetched:
    url = issuer.issuer + path
    return await fetch(url, context=context, proxies=EgressProxies())


async def failure(
    url: str, context: ssl.SSLContext, within_seconds: float = PATIENCE_SECONDS
) -> str:
    with pytest.raises(FetchError) as raised:
        await fetch(url, context=context, proxies=EgressProxies(), within_seconds=within_seconds)
    return str(raised.value)


def to(
    location: str, status: int = 302, *, at: str = "/start"
) -> Callable[[web.Request], web.StreamResponse | None]:
    def respond(request: web.Request) -> web.StreamResponse | None:
        if request.path != at:
            return None
        return web.Response(status=status, headers={"Location": location})

    return respond


async def test_a_document_comes_with_its_headers(
    issuer: Provider, trusting: ssl.SSLContext
) -> None:
    seen: list[web.Request] = []
    issuer.respond = seen.append
    issuer.headers = {"Cache-Control": "max-age=7"}
    fetched = await got(issuer, "/keys?a=b%20c d", trusting)
    assert fetched.status == 200
    assert fetched.body.startswith(b'{"keys": [')
    assert fetched.headers.get(b"cache-control") == b"max-age=7"
    assert seen[0].raw_path == "/keys?a=b%20c%20d"
    assert seen[0].headers["Host"] == f"localhost:{issuer.port}"
    assert seen[0].headers["Accept-Encoding"] == "identity"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("location", ["/keys", "{issuer}/keys"])
async def test_a_redirect_within_https_is_followed(
    issuer: Provider, trusting: ssl.SSLContext, location: str, status: int
) -> None:
    issuer.respond = to(location.format(issuer=issuer.issuer), status)
    assert (await got(issuer, "/start", trusting)).body.startswith(b'{"keys": [')
    assert issuer.asked == ["/start", "/keys"]


@pytest.mark.parametrize("location", ["http://localhost:{port}/keys", "file:///etc/passwd"])
async def test_a_redirect_to_anything_else_is_not(
    issuer: Provider, trusting: ssl.SSLContext, location: str
) -> None:
    issuer.respond = to(location.format(port=issuer.port))
    said = await failure(issuer.issuer + "/start", trusting)
    assert said == "a redirect leads away from https"
    assert issuer.asked == ["/start"]


async def test_redirects_come_to_an_end(issuer: Provider, trusting: ssl.SSLContext) -> None:
    issuer.respond = to("/start")
    assert await failure(issuer.issuer + "/start", trusting) == "too many redirects"
    assert len(issuer.asked) == MAX_REDIRECTS + 1


@pytest.mark.parametrize("status", [204, 302, 304, 401, 404, 500, 503])
async def test_any_other_status_is_no_document(
    issuer: Provider, trusting: ssl.SSLContext, status: int
) -> None:
    issuer.respond = lambda _: web.Response(status=status)
    assert await failure(issuer.issuer, trusting) == f"the answer is {status}"


async def test_a_compressed_answer_is_not_read(issuer: Provider, trusting: ssl.SSLContext) -> None:
    issuer.respond = lambda _: web.Response(headers={"Content-Encoding": "gzip"}, body=b"x")
    assert await failure(issuer.issuer, trusting) == "the answer is compressed, unasked"


async def test_an_answer_has_its_bound(issuer: Provider, trusting: ssl.SSLContext) -> None:
    issuer.respond = lambda _: web.Response(body=b"a" * MAX_BODY_BYTES)
    assert len((await got(issuer, "/", trusting)).body) == MAX_BODY_BYTES
    issuer.respond = lambda _: web.Response(body=b"a" * (MAX_BODY_BYTES + 1))
    assert "too large" in await failure(issuer.issuer, trusting)


async def test_a_stranger_is_not_believed(issuer: Provider) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    said = await failure(issuer.issuer, context)
    assert said.startswith("cannot be reached: ")
    assert "certificate" in said


async def test_a_certificate_for_another_name_is_not(
    issuer: Provider, trusting: ssl.SSLContext
) -> None:
    assert "cannot be reached" in await failure(f"https://127.0.0.1:{issuer.port}", trusting)


async def test_nobody_there_is_told(issuer: Provider, trusting: ssl.SSLContext) -> None:
    issuer.close()
    assert "cannot be reached" in await failure(issuer.issuer, trusting)


@pytest.mark.parametrize(
    "url",
    ["https://", "https://a..b/", "https://h:port/", f"https://{'a' * 64}.test/", "https://[::1/"],
)
async def test_an_address_that_is_none_is_told(url: str, trusting: ssl.SSLContext) -> None:
    assert "cannot be" in await failure(url, trusting)


async def test_an_answer_has_its_time(issuer: Provider, trusting: ssl.SSLContext) -> None:
    issuer.gate.clear()
    said = await failure(issuer.issuer + "/keys", trusting, within_seconds=0.05)
    assert said == "no answer within 0.05 s"


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"", "cut"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", "cut"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "no HTTP/1.1"),
        (b"gibberish\r\n\r\n", "no HTTP/1.1"),
    ],
)
async def test_half_an_answer_is_none(
    sent: bytes, said: str, trusting: ssl.SSLContext, issuer: Provider
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(sent)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=issuer.context)
    async with server:
        port = server.sockets[0].getsockname()[1]
        assert said in await failure(f"https://localhost:{port}", trusting)


async def test_an_answer_may_end_with_its_connection(
    trusting: ssl.SSLContext, issuer: Provider
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\nall")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=issuer.context)
    async with server:
        url = f"https://localhost:{server.sockets[0].getsockname()[1]}"
        fetched = await fetch(url, context=trusting, proxies=EgressProxies())
    assert fetched.body == b"all"


async def test_d34_the_egress_proxy_is_used(issuer: Provider, trusting: ssl.SSLContext) -> None:
    async with world(is_tls=False) as egress:
        egress.server_port = issuer.port
        proxies = EgressProxies(https=ProxyAddress("http", "127.0.0.1", egress.proxy_port))
        url = "https://issuer.test/keys"
        fetched = await fetch(url, context=trusting, proxies=proxies)
        assert fetched.body.startswith(b'{"keys": [')
        assert egress.asked[0].startswith(b"CONNECT issuer.test:443 HTTP/1.1\r\n")


def test_the_bounds_are_those_that_were_decided() -> None:
    assert (module.WHOLE_SECONDS, MAX_BODY_BYTES) == (30.0, 1 << 20)


def test_an_answer_shows_no_content() -> None:
    assert "secret" not in repr(Fetched(200, Headers(), b"secret"))


async def test_fr48_no_look_up_that_hangs_keeps_the_program_from_its_end(
    trusting: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolver = Resolver()
    monkeypatch.setattr(socket, "getaddrinfo", resolver)
    await failure("https://a.test/keys", trusting, within_seconds=0.01)
    resolver.gate.set()
    assert resolver.begun.wait(PATIENCE_SECONDS)
    assert resolver.threads[0].daemon

"""A service that listens on a unix socket alone (N10): requests, a tunnel, its restart."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from pyrbacproxy.demo.pki import Authority, client_context
from tests.e2e.cluster import READER_ACCOUNT, Cluster
from tests.e2e.proxy import Proxies

pytestmark = pytest.mark.e2e


async def answer(request: web.Request) -> web.StreamResponse:
    if "Upgrade" not in request.headers:
        return web.Response(text=f"served for {request.host}")
    tunnel = web.WebSocketResponse()
    await tunnel.prepare(request)
    async for message in tunnel:
        await tunnel.send_str(message.data[::-1])
    return tunnel


@asynccontextmanager
async def service(path: Path) -> AsyncIterator[None]:
    application = web.Application()
    application.router.add_get("/metrics", answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.UnixSite(runner, path).start()
    try:
        yield
    finally:
        await runner.cleanup()


async def test_dec_n10_a_unix_socket_is_an_upstream(
    tmp_path: Path, proxies: Proxies, cluster: Cluster, authority: Authority
) -> None:
    path = tmp_path / "x.sock"
    token = await cluster.token(READER_ACCOUNT)
    proxy = await proxies.start(f"unix://{path}")
    async with service(path):
        assert await proxy.get() == (401, "Unauthorized\n")
        assert await proxy.get(token=token) == (200, f"served for {proxy.address}")
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.ws_connect(f"{proxy.url}/metrics", ssl=client_context(authority)) as tunnel,
        ):
            await tunnel.send_str("abc")
            assert await tunnel.receive_str() == "cba"
    assert (await proxy.get(token=token))[0] == 502
    path.unlink(missing_ok=True)
    async with service(path):
        assert (await proxy.get(token=token))[0] == 200

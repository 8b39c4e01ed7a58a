"""An upstream in the test's own process that sends bodies back, which nginx can't."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web


async def echo(request: web.Request) -> web.StreamResponse:
    """The request's body, block by block as it comes."""
    response = web.StreamResponse()
    await response.prepare(request)
    async for block in request.content.iter_any():
        await response.write(block)
    return response


@asynccontextmanager
async def echoing() -> AsyncIterator[str]:
    """Serve it on loopback; the URL of its root."""
    application = web.Application()
    application.router.add_post("/posted", echo)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    finally:
        await runner.cleanup()

"""An API server on loopback that does as it is told, and the files that lead to it."""

import asyncio
import json
import os
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from pyrbacproxy.demo.pki import Authority, Pair
from pyrbacproxy.kube.kubeconfig import KubeSettings
from pyrbacproxy.model import (
    BearerToken,
    NonResourceAttributes,
    SubjectAccessReview,
    TokenReview,
    UserInfo,
)

TOKEN = TokenReview(BearerToken("cl1ent.s3cret"))
ACCESS = SubjectAccessReview(UserInfo("alice"), NonResourceAttributes("get", "/metrics"))


class ApiStub:
    """Answers reviews; `accepts` judges the caller, `respond` may answer instead."""

    def __init__(self) -> None:
        self.url = ""
        self.reviews: list[dict[str, Any]] = []
        self.authorizations: list[str] = []
        self.certificates: list[str] = []
        self.peers: list[tuple[str, int]] = []
        self.headers: list[dict[str, str]] = []
        self.accepts: Callable[[web.Request], bool] = lambda _: True
        self.respond: Callable[[web.Request], web.StreamResponse] | None = None
        self.delay = asyncio.Event()
        self.delay.set()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        review = await request.json()
        self.reviews.append(review)
        self.headers.append(dict(request.headers))
        self.authorizations.append(request.headers.get("Authorization", ""))
        self.certificates.append(_common_name(request))
        assert request.transport is not None
        self.peers.append(request.transport.get_extra_info("peername"))
        await self.delay.wait()
        if not self.accepts(request):
            return web.json_response({"kind": "Status", "code": 401}, status=401)
        if self.respond is not None:
            return self.respond(request)
        is_token = review["kind"] == "TokenReview"
        user = {"username": "alice", "uid": "7"}
        status = {"authenticated": True, "user": user} if is_token else {"allowed": True}
        return web.json_response(review | {"status": status}, status=201)


@asynccontextmanager
async def api_server(context: ssl.SSLContext | None = None) -> AsyncIterator[ApiStub]:
    stub = ApiStub()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", stub.handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        stub.url = f"{'https' if context else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
        yield stub
    finally:
        stub.delay.set()
        await runner.cleanup()


def server_context(authority: Authority, *, asks_for_certificate: bool = False) -> ssl.SSLContext:
    pair = authority.serving("api")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate_file, pair.key_file)
    if asks_for_certificate:
        context.load_verify_locations(authority.certificate_file)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def service_account(
    folder: Path,
    url: str,
    ca: bytes,
    token: str = "own-1",  # noqa: S107 -- made up
) -> KubeSettings:
    (folder / "token").write_text(f"{token}\n")
    (folder / "ca.crt").write_bytes(ca)
    return KubeSettings(server=url, service_account_folder=str(folder))


def kubeconfig(
    path: Path, cluster: dict[str, Any], user: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Write a kubeconfig with one context; returns it for changes."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "there", "user": "me"}}],
        "clusters": [{"name": "there", "cluster": cluster}],
        "users": [{"name": "me", "user": user or {}}],
    }
    path.write_text(json.dumps(document))
    return document


def rotate(link: Path, target: Path) -> None:
    """Point a symbolic link elsewhere at one stroke, as the kubelet does."""
    fresh = link.with_suffix(".new")
    fresh.symlink_to(target)
    fresh.replace(link)


class Held:
    """A named pipe by which a test sees a program live and end: it writes "up" and holds it open.

    `program` is Python that does so.
    """

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.program = (
            f"import time; held = open({str(path)!r}, 'w'); held.write('up'); held.flush();"
            " time.sleep(600)"
        )
        self._file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb", 0)
        self._reader = asyncio.StreamReader()

    async def is_up(self) -> None:
        """Wait until the program is there."""
        loop = asyncio.get_running_loop()
        protocol = asyncio.StreamReaderProtocol(self._reader)
        await loop.connect_read_pipe(lambda: protocol, self._file)
        async with asyncio.timeout(60):
            assert await self._reader.readexactly(2) == b"up"

    async def is_gone(self) -> None:
        """Wait until nobody holds the pipe."""
        async with asyncio.timeout(60):
            assert await self._reader.read() == b""


def text_of(pair: Pair) -> tuple[str, str]:
    return pair.certificate_file.read_text(), pair.key_file.read_text()


def _common_name(request: web.Request) -> str:
    assert request.transport is not None
    certificate = request.transport.get_extra_info("peercert") or {}
    fields = [pair for part in certificate.get("subject", ()) for pair in part]
    return str(dict(fields).get("commonName", ""))

"""A node in small: an old proxy that holds a port, its manifest, and the new proxy that waits."""

import asyncio
import contextlib
import ssl
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from pyrbacproxy.demo.pki import Authority, Pair, client_context
from pyrbacproxy.node.host import listening_sockets
from tests.e2e.programs import DEADLINE_SECONDS, Program, Programs, free_port

SCRAPER = "system:serviceaccount:openshift-monitoring:prometheus-k8s"
GATE_PAGE = "/readyz/startup-gate"
RULES = f"""
authorization:
  static:
    - {{user: {{name: "{SCRAPER}"}}, verb: get, path: /metrics}}
    - {{user: {{name: "{SCRAPER}"}}, verb: get, path: {GATE_PAGE}}}
"""
OLD, NEW = "old", "new"
HELD = ("--wait-for-port", "--wait-for-serving-cert")
MANIFESTS = "etc/kubernetes/manifests"
_BODY = "container_runtime_crio_operations_total 1\n" * 500
_SCRAPES_PER_SECOND = 20
_LOOKS_PER_SECOND = 10


@dataclass(frozen=True, slots=True)
class Answer:
    """What one request came to: who answered, by the certificate's name, or the error."""

    begun: float
    ended: float
    server: str = ""
    status: int = 0
    body: str = ""
    error: str = ""


class Visitor:
    """Asks over a connection of its own for each request, and believes any certificate."""

    def __init__(self, authority: Authority, pair: Pair | None) -> None:
        self._context = client_context(authority, pair)
        self._context.check_hostname = False
        self._context.verify_mode = ssl.CERT_NONE

    async def ask(self, host: str, port: int, path: str) -> Answer:
        """One GET."""
        begun = time.monotonic()
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                server, head, body = await self._asked(host, port, path)
        except (OSError, EOFError) as error:
            return Answer(begun, time.monotonic(), error=repr(error))
        return Answer(begun, time.monotonic(), server, int(head[9:12]), body.decode())

    async def _asked(self, host: str, port: int, path: str) -> tuple[str, bytes, bytes]:
        reader, writer = await asyncio.open_connection(host, port, ssl=self._context)
        try:
            certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
            writer.write(f"GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            body = await reader.read()
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        return _name(certificate), head, body


class Node:
    """The parts of one node; the port is `port`, the new proxy's pages are on `pages`."""

    def __init__(
        self, authority: Authority, programs: Programs, upstream: str, host: str = "127.0.0.1"
    ) -> None:
        self.port, self.pages = free_port(), free_port()
        self.host = host
        self._programs = programs
        self._upstream = upstream
        self.upstream_port = int(upstream.rstrip("/").rpartition(":")[2])
        self._authority = authority
        self.folder = programs.folder / f"node-{self.port}"
        # Below where an audit looks for the host's root.
        self.manifest = self.folder / "host" / MANIFESTS / "criometricsproxy.yaml"
        self.manifest.parent.mkdir(parents=True)
        self.manifest.write_text("kind: Pod\n")
        rules = self.folder / "rules.yaml"
        rules.write_text(RULES)
        self._rules = rules
        self.credential = authority.client(f"scraper-{self.port}", SCRAPER)
        self.scraper = Visitor(authority, self.credential)
        self.stranger = Visitor(authority, None)

    async def start_old(self, host: str | None = None) -> Program:
        """The proxy of the static pod; returns once it listens."""
        pair = self.pair(OLD)
        program = self._start(OLD, pair, self.host if host is None else host)
        await program.logged(r"(Listening securely)")
        return program

    def start_new(self, *flags: str, pair: Path | None = None) -> Program:
        """The proxy of the DaemonSet."""
        pages = (
            f"--proxy-endpoints-port={self.pages}",
            "--proxy-endpoints-address=127.0.0.1",
        )
        return self._start(NEW, pair or self.pair(NEW), self.host, *pages, *flags)

    def absent(self) -> str:
        """The flag that waits for the manifest to go."""
        return f"--wait-for-absent={self.manifest}"

    def pair(self, name: str) -> Path:
        """A serving pair whose name tells who answers."""
        return self._authority.serving(f"{name}-{self.port}", common_name=name).combined_file

    def _start(self, name: str, pair: Path, host: str, *flags: str) -> Program:
        return self._programs.start(
            f"{name}-{self.port}",
            *(sys.executable, "-m", "pyrbacproxy"),
            f"--secure-listen-address={host}:{self.port}",
            f"--upstream={self._upstream}",
            f"--tls-cert-file={pair}",
            f"--tls-private-key-file={pair}",
            f"--client-ca-file={self._authority.certificate_file}",
            f"--config-file={self._rules}",
            *flags,
        )

    async def scrape(self, host: str = "127.0.0.1") -> Answer:
        """One scrape."""
        return await self.scraper.ask(host, self.port, "/metrics")

    async def page(self, path: str) -> Answer:
        """One page of the new proxy, read by the scraper's user."""
        return await self.scraper.ask("127.0.0.1", self.pages, path)

    async def says(self, program: Program, text: str) -> None:
        """Wait until `/readyz?verbose`, that anybody may read, holds the text."""

        async def look() -> bool | None:
            answer = await self.stranger.ask("127.0.0.1", self.pages, "/readyz?verbose")
            return text in answer.body or None

        await program.until(look, f"{text!r} in /readyz?verbose")

    async def served_by(self, program: Program, host: str = "127.0.0.1") -> Answer:
        """Wait for the first good scrape."""

        async def look() -> Answer | None:
            answer = await self.scrape(host)
            return answer if answer.status == 200 else None

        return await program.until(look, "good scrape")

    def holders(self) -> list[int]:
        """The processes that listen on the port, once for each socket."""
        return [one.pid for found in listening_sockets(self.port) for one in found.processes]


@asynccontextmanager
async def scraping(node: Node) -> AsyncIterator[list[Answer]]:
    """Scrape 20 times a second, one after the other."""
    async with _repeated(node.scraper, node.port, "/metrics", _SCRAPES_PER_SECOND) as answers:
        yield answers
    assert all(answer.body == _BODY for answer in answers if answer.status == 200)


@asynccontextmanager
async def probing(node: Node) -> AsyncIterator[list[Answer]]:
    """Ask whether the new proxy is ready, as the kubelet does but more often."""
    async with _repeated(node.stranger, node.pages, "/readyz", _LOOKS_PER_SECOND) as answers:
        yield answers


@asynccontextmanager
async def _repeated(
    visitor: Visitor, port: int, path: str, per_second: int
) -> AsyncIterator[list[Answer]]:
    answers: list[Answer] = []

    async def repeat() -> None:
        while True:
            answers.append(await visitor.ask("127.0.0.1", port, path))
            passed = time.monotonic() - answers[-1].begun
            await asyncio.sleep(max(0.0, 1 / per_second - passed))

    async with asyncio.TaskGroup() as tasks:
        repeating = tasks.create_task(repeat())
        try:
            yield answers
        finally:
            repeating.cancel()


@asynccontextmanager
async def crio() -> AsyncIterator[str]:
    """The service behind the proxies; its URL."""

    async def metrics(_request: web.Request) -> web.Response:
        return web.Response(text=_BODY)

    application = web.Application()
    application.router.add_get("/metrics", metrics)
    runner = web.AppRunner(application)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield f"http://127.0.0.1:{port}/"
    finally:
        await runner.cleanup()


def _name(certificate: bytes) -> str:
    # Imported here so that nothing is parsed that is not looked at.
    from cryptography import x509  # noqa: PLC0415

    return x509.load_der_x509_certificate(certificate).subject.rfc4514_string().removeprefix("CN=")

"""`pyrbacproxy demo`: the proxy with everything around it on loopback."""

import argparse
import asyncio
import contextlib
import os
import shlex
import signal
import socket
import ssl
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pyrbacproxy.commands.terminal import Arguments
from pyrbacproxy.demo.api_server import ApiServer, ReviewRecord
from pyrbacproxy.demo.manifests import read_policy
from pyrbacproxy.demo.pki import client_context, server_context
from pyrbacproxy.demo.scene import RBAC, Scene
from pyrbacproxy.demo.tokens import TokenTable

_PORT = 9637
# Not the docstring: -OO drops it.
_DESCRIPTION = """\
`pyrbacproxy demo`: the proxy with everything around it on loopback, and curl lines to try.

The API server is embedded; upstream and proxy are processes of their own, as in life. All files are
in a temporary folder that goes with the demo."""
_EXIT_CODES = """as in: pyrbacproxy demo -- --http2-prefer --v=2

exit status: 0 after Ctrl-C or a signal, 1 when a part fails and when a flag is wrong"""
_PORTS = range(65536)
_START_SECONDS = 30.0
_STOP_SECONDS = 5.0
_POLL_SECONDS = 0.1
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class DemoError(Exception):
    """A part of the demo did not start, or is gone before its time."""


def run(argv: list[str]) -> int:
    """Run the demo until one of _SIGNALS, then return 0; 1 when a part of it fails."""
    parser = Arguments("demo", _DESCRIPTION, _EXIT_CODES)
    parser.add_argument(
        "--port", type=_port, default=_PORT, help="of the proxy; 0 takes a free one (default: 9637)"
    )
    parser.add_argument("--size", type=int, help="size of the upstream's answer in bytes")
    parser.add_argument(
        "proxy_flags", nargs="*", metavar="FLAG", help="behind --: a flag of the proxy"
    )
    options = parser.parse_args(argv)
    return asyncio.run(_until_signal(options))


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) not in _PORTS:
        raise argparse.ArgumentTypeError(f"{text} is no port")
    return int(text)


async def _until_signal(options: argparse.Namespace) -> int:
    task = asyncio.current_task()

    def stop() -> None:
        # Once: a second Ctrl-C must not interrupt the clearing up that the first began.
        if task and not task.cancelling():
            task.cancel()

    for number in _SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, stop)
    try:
        # Between the handlers' beginning and their end: no signal may leave the folder behind.
        with tempfile.TemporaryDirectory(prefix="pyrbacproxy-demo-") as folder:
            await _play(Scene(Path(folder)), options)
    except asyncio.CancelledError:
        _say("The demo is over.")
        return 0
    except DemoError as error:
        with contextlib.suppress(OSError):
            sys.stderr.write(f"The demo failed: {error}\n")
    return 1


async def _play(scene: Scene, options: argparse.Namespace) -> None:
    """Start every part, say how to use them, and stay until cancelled. Raises DemoError."""
    api_server = ApiServer(
        policy=read_policy(RBAC),
        tokens=TokenTable(scene.tokens),
        tls=server_context(scene.api_server, scene.authority),
        observer=_tell_review,
    )
    await api_server.start()
    try:
        size_flag = () if options.size is None else (f"--size={options.size}",)
        async with _child("pyrbacproxy.demo.crio", "--port=0", *size_flag, stdout=PIPE) as crio:
            upstream = f"http://{await _first_line(crio)}/"
            port, pages_port = _free_port(options.port), _free_port(0)
            flags = scene.proxy_flags(
                port=port, pages_port=pages_port, upstream=upstream, api_server=api_server.url
            )
            async with _child("pyrbacproxy", *flags, *options.proxy_flags) as proxy:
                await _until_answered(scene, port, proxy)
                guarded = _guarded(upstream, options.proxy_flags)
                _say(_introduction(scene, port, guarded=guarded, api_server=api_server.url))
                _say(_pages(scene, pages_port))
                await _until_one_ends(crio, proxy)
                raise DemoError("the proxy or its upstream has ended")
    finally:
        await api_server.close()


@asynccontextmanager
async def _child(module: str, *flags: str, stdout: int | None = None) -> AsyncIterator[Process]:
    """A Python process that is ended with the block, gently first.

    It has a process group of its own: a terminal's Ctrl-C reaches the demo alone, which then ends
    each part once and in order.
    """
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, *flags, stdout=stdout, process_group=0
    )
    try:
        yield child
    finally:
        if child.returncode is None:
            child.terminate()
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await child.wait()
        except TimeoutError:
            child.kill()
            await child.wait()


async def _until_one_ends(*children: Process) -> None:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(child.wait()) for child in children]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()


async def _first_line(child: Process) -> str:
    line = await child.stdout.readline() if child.stdout else b""
    if not line:
        raise DemoError("the upstream did not start")
    return line.decode().strip()


async def _until_answered(scene: Scene, port: int, proxy: Process) -> None:
    """Ask the proxy until it answers. Raises DemoError when it ends instead, or takes too long."""
    # As the user that is allowed: a refusal would be the first line that the user reads.
    trust = client_context(scene.authority, scene.prometheus)
    try:
        async with asyncio.timeout(_START_SECONDS):
            while not await _is_answering(port, trust):
                if proxy.returncode is not None:
                    raise DemoError(f"the proxy ended with status {proxy.returncode}")
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError as error:
        raise DemoError(f"the proxy did not answer in {_START_SECONDS:.0f} s") from error


async def _is_answering(port: int, trust: ssl.SSLContext) -> bool:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        status_line = await reader.readline()
        writer.close()
    except OSError:
        return False
    return status_line.startswith(b"HTTP/1.1 ")


def _free_port(wanted: int) -> int:
    """`wanted`, or any free port when it is taken."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            # As a server binds: a port whose last connections linger is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                _say(f"Port {port} is taken; the proxy gets another one.")
                continue
            return int(probe.getsockname()[1])
    raise DemoError("there is no free port")


def _guarded(upstream: str, proxy_flags: list[str]) -> str:
    """What the proxy guards; the last `--upstream` counts, and its URL may hold a password."""
    if any(flag.partition("=")[0] == "--upstream" for flag in proxy_flags):
        return "the --upstream that it was given"
    return f"{upstream} (like CRI-O's metrics)"


def _introduction(scene: Scene, port: int, *, guarded: str, api_server: str) -> str:
    url = f"https://127.0.0.1:{port}/metrics"
    trust = _file(scene.authority.certificate_file)
    certificate = _file(scene.prometheus.certificate_file)
    key = _file(scene.prometheus.key_file)
    scraper, visitor = (_bearer(scene.token_file(name)) for name in ("scraper", "visitor"))
    return f"""
The proxy listens on https://127.0.0.1:{port} and guards {guarded}.
The API server is {api_server}. All files are in {scene.folder}.

1. Allowed by certificate: a static rule of authorization.yaml names this user.
   The API server is not asked.

   curl -sS --cacert {trust} --cert {certificate} --key {key} {url} | tail -n 5

2. Allowed by token: a TokenReview says whose it is, a SubjectAccessReview that rbac.yaml lets them.
   Both are remembered: asked again, the proxy answers by itself.

   curl -sS --cacert {trust} -H {scraper} {url} | tail -n 5

3. 401: nobody knows who asks.

   curl -sSi --cacert {trust} {url}

4. 403: the token is good, but rbac.yaml gives its owner nothing.

   curl -sSi --cacert {trust} -H {visitor} {url}"""


def _pages(scene: Scene, port: int) -> str:
    trust = _file(scene.authority.certificate_file)
    scraper = _bearer(scene.token_file("scraper"))
    return f"""
5. The proxy about itself, on a port of its own: everybody may see whether it is ready, and
   whom rbac.yaml lets may read /statusz, /flagz, /metrics and /version.

   curl -sS --cacert {trust} 'https://127.0.0.1:{port}/readyz?verbose'
   curl -sS --cacert {trust} -H {scraper} https://127.0.0.1:{port}/statusz

What the API server is asked is shown here as it happens.
Ctrl-C ends everything and removes the files.
"""


def _file(path: Path) -> str:
    return shlex.quote(str(path))


def _bearer(token_file: Path) -> str:
    """A header for the shell to fill in, so that no token stands on the screen."""
    return f'"Authorization: Bearer $(cat {_file(token_file)})"'


def _tell_review(review: ReviewRecord) -> None:
    _say(f"API server: {review.kind} by {review.asker} about {review.about} → {review.outcome}")


def _say(text: str) -> None:
    """Print; without a reader (`demo | head`) the rest is not shown, and the demo goes on until
    Ctrl-C.
    """
    try:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    except OSError:
        # What is buffered would fail once more at the interpreter's end.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)

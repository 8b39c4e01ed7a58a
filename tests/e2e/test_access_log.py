"""The access log of the real program: a line for each exchange, whichever way it ends, no token."""

import base64
import json
import signal
from collections import Counter
from pathlib import Path

import aiohttp
import pytest

from pyrbacproxy.demo.pki import Authority, client_context
from tests.e2e.cluster import NAMESPACE, READER_ACCOUNT, READER_USER, STRANGER_ACCOUNT, Cluster
from tests.e2e.curl import curl
from tests.e2e.nginx import start_nginx
from tests.e2e.programs import Programs
from tests.e2e.proxy import Proxies
from tests.e2e.tunnels import websockets

pytestmark = pytest.mark.e2e

READER = f"system:serviceaccount:{NAMESPACE}:{READER_ACCOUNT}"
STRANGER = f"system:serviceaccount:{NAMESPACE}:{STRANGER_ACCOUNT}"
JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl"
BOTH = ["TokenReview", "SubjectAccessReview"]
SHOWN = ("path", "status", "user", "outcome", "identity_source", "decision_source", "waited_for")


def lines(text: str) -> list[dict[str, object]]:
    """The lines of an access log, also from among those of another log."""
    return [json.loads(line) for line in text.splitlines() if line.startswith('{"time":')]


async def test_every_exchange_has_its_line_and_none_a_token(
    authority: Authority, cluster: Cluster, proxies: Proxies, programs: Programs, tmp_path: Path
) -> None:
    log = tmp_path / "access.log"
    proxy = await proxies.start(
        await start_nginx(programs),
        *(f"--access-log={log}", "--http2-prefer", "--ignore-paths=/open/*/*", "--v=8"),
        f"--client-ca-file={authority.certificate_file}",
    )
    reader, stranger = await cluster.token(READER_ACCOUNT), await cluster.token(STRANGER_ACCOUNT)
    pair = authority.client("reader-of-lines", READER_USER)
    url = f"{proxy.url}/metrics"
    for version in ("--http1.1", "--http2"):
        await curl(f"{url}?token=secret-in-query", version, token=reader)
        await curl(url, version, token=stranger)
        await curl(url, version, token="secret-and-wrong")
        await curl(f"{proxy.url}/open/{JWT}/%0a%ff", version)
    await curl(url, "--http2", pair=pair)
    await curl(url, "--http1.1", "--header", "Transfer-Encoding: secret-coding")
    proxy.program.signal(signal.SIGTERM)
    assert await proxy.program.ended() == 0
    written = log.read_text()
    shown = [[line[key] for key in SHOWN] for line in lines(written)]
    opened = ["/open/<masked>/\n%FF", 200, "", "allowed", "none", "none", []]
    denied = ["/metrics", 403, STRANGER, "denied", "token", "review"]
    assert shown == [
        ["/metrics", 200, READER, "allowed", "token", "review", BOTH],
        [*denied, BOTH],
        ["/metrics", 401, "", "unauthenticated", "", "", BOTH[:1]],
        opened,
        ["/metrics", 200, READER, "allowed", "token", "review", []],
        [*denied, []],
        ["/metrics", 401, "", "unauthenticated", "", "", []],
        opened,
        ["/metrics", 200, READER_USER, "allowed", "certificate", "review", BOTH[1:]],
        ["", 501, "", "refused", "", "", []],
    ]
    first = lines(written)[0]
    assert (first["peer"], first["method"], first["failure"]) == ("127.0.0.1", "GET", "")
    assert first["sent_bytes"] == len("HTTP/1.1 /metrics?token=secret-in-query\n")
    for secret in (reader, stranger, JWT, "secret"):
        assert secret not in written
        assert secret not in proxy.program.output()


async def test_a_tunnel_has_its_line_when_it_is_over(
    authority: Authority, cluster: Cluster, proxies: Proxies
) -> None:
    token = await cluster.token(READER_ACCOUNT)
    async with websockets() as upstream, aiohttp.ClientSession() as session:
        proxy = await proxies.start(upstream.url, "--access-log=-")
        encoded = base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")
        protocols = (f"base64url.bearer.authorization.k8s.io.{encoded}", "chat")
        trust = client_context(authority)
        url = f"{proxy.url}/metrics"
        async with session.ws_connect(url, protocols=protocols, ssl=trust) as connection:
            await connection.send_str("x" * 1000)
            assert await connection.receive_str() == "x" * 1000
            assert lines(proxy.program.output()) == []
        await upstream.close_codes.get()
        await proxy.program.logged('("status":101)')
        (line,) = lines(proxy.program.output())
    assert (line["user"], line["outcome"], line["failure"]) == (READER, "allowed", "")
    for direction in ("received_bytes", "sent_bytes"):
        count = line[direction]
        assert isinstance(count, int)
        assert count > 1000
    for secret in (token, encoded):
        assert secret not in proxy.program.output()


async def test_what_the_end_cuts_has_its_line_too(
    authority: Authority, cluster: Cluster, proxies: Proxies, tmp_path: Path
) -> None:
    log = tmp_path / "access.log"
    token = await cluster.token(READER_ACCOUNT)
    headers = {"Authorization": f"Bearer {token}"}
    async with websockets() as upstream, aiohttp.ClientSession() as session:
        flags = (f"--access-log={log}", "--shutdown-grace-period=0s")
        proxy = await proxies.start(upstream.url, *flags)
        trust = client_context(authority)
        async with session.ws_connect(f"{proxy.url}/metrics", headers=headers, ssl=trust):
            proxy.program.signal(signal.SIGTERM)
            assert await proxy.program.ended() == 0
    (line,) = lines(log.read_text())
    assert (line["status"], line["user"], line["failure"]) == (101, READER, "cut at shutdown")


async def test_a_rotated_log_loses_nothing(
    cluster: Cluster, proxies: Proxies, programs: Programs, tmp_path: Path
) -> None:
    log, old = tmp_path / "access.log", tmp_path / "access.log.1"
    proxy = await proxies.start(await start_nginx(programs), f"--access-log={log}")
    token = await cluster.token(READER_ACCOUNT)
    asked = 0

    async def ask_until_written() -> bool | None:
        nonlocal asked
        asked += 1
        await proxy.get("/metrics", token=token)
        return (log.exists() and log.stat().st_size > 0) or None

    await proxy.program.until(ask_until_written, "line")
    log.rename(old)
    await proxy.program.until(ask_until_written, "line in a new file")
    assert proxy.program.stop() == 0
    together = lines(old.read_text()) + lines(log.read_text())
    assert Counter(line["status"] for line in together) == {200: asked}

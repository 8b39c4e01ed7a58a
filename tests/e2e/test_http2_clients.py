"""HTTP/2 with the clients that people have: curl, nghttp and, for load, h2load (reference 5.4)."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyrbacproxy.demo.pki import Authority
from tests.e2e.cluster import READER_ACCOUNT, STRANGER_ACCOUNT, Cluster
from tests.e2e.curl import REFUSED, curl
from tests.e2e.nginx import start_nginx
from tests.e2e.programs import DEADLINE_SECONDS, Programs, debian, free_port
from tests.e2e.proxy import Proxies
from tests.e2e.upstream import echoing

pytestmark = pytest.mark.e2e

PREFER = "--http2-prefer"
REQUESTS = 5000
LARGE = bytes(range(256)) * 4096 * 3


@pytest.fixture
async def upstream(programs: Programs) -> str:
    return await start_nginx(programs)


@pytest.fixture
async def echo() -> AsyncIterator[str]:
    async with echoing() as url:
        yield url


async def run(name: str, *words: str) -> str:
    """What a client that ended well wrote."""
    process = await asyncio.create_subprocess_exec(
        debian(name), *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    async with asyncio.timeout(DEADLINE_SECONDS):
        output = (await process.communicate())[0].decode()
    assert process.returncode == 0, output
    return output


# --- curl -----------------------------------------------------------------------------

VERSIONS = {
    "both offered": ([], "--http2", "1.1"),
    "both offered, HTTP/2 preferred": ([PREFER], "--http2", "2"),
    "only HTTP/1.1 offered, HTTP/2 preferred": ([PREFER], "--http1.1", "1.1"),
}


@pytest.mark.parametrize("case", VERSIONS.values(), ids=VERSIONS)
async def test_curl_gets_the_version_that_is_agreed_on(
    cluster: Cluster, proxies: Proxies, upstream: str, case: tuple[list[str], str, str]
) -> None:
    flags, offer, version = case
    proxy = await proxies.start(upstream, *flags)
    token = await cluster.token(READER_ACCOUNT)
    got = await curl(f"{proxy.url}/metrics", offer, token=token)
    assert (got.code, got.version, got.output) == (0, version, "HTTP/1.1 /metrics\n")


async def test_curl_is_refused_over_http_2(
    cluster: Cluster, proxies: Proxies, upstream: str
) -> None:
    proxy = await proxies.start(upstream, PREFER)
    token = await cluster.token(STRANGER_ACCOUNT)
    for secret, status in ((token, 403), ("wrong", 401), ("", 401)):
        got = await curl(f"{proxy.url}/metrics", "--http2", token=secret)
        assert (got.code, got.status, got.version) == (REFUSED, status, "2")


@pytest.mark.parametrize("length", ["known", "unknown"])
async def test_curl_posts_more_than_every_window(
    cluster: Cluster, proxies: Proxies, echo: str, tmp_path: Path, length: str
) -> None:
    proxy = await proxies.start(echo, PREFER)
    sent, got = tmp_path / "sent", tmp_path / "got"
    sent.write_bytes(LARGE)
    body = {
        "known": ["--data-binary", f"@{sent}"],
        # Standard input has no length.
        "unknown": ["--request", "POST", "--upload-file", "-"],
    }[length]
    header = ["--header", f"Authorization: Bearer {await cluster.token(READER_ACCOUNT)}"]
    words = ["--insecure", "--fail", "--silent", "--http2", "--output", str(got), *header, *body]
    script = 'file=$1; shift; exec curl "$@" < "$file"'
    await run("sh", "-c", script, "sh", str(sent), *words, f"{proxy.url}/posted")
    assert got.read_bytes() == LARGE


@pytest.mark.parametrize("flags", [[], [PREFER]], ids=["HTTP/1.1 preferred", "HTTP/2 preferred"])
async def test_the_endpoints_port_agrees_likewise(proxies: Proxies, flags: list[str]) -> None:
    port = free_port()
    proxy = await proxies.start("http://127.0.0.1:1/", f"--proxy-endpoints-port={port}", *flags)
    await proxy.program.listens(port)
    url = f"https://127.0.0.1:{port}/healthz"
    got = await curl(url, "--http2")
    assert (got.code, got.version, got.output) == (0, "2" if flags else "1.1", "ok")
    assert "ok" in await run("nghttp", "--no-verify-peer", url)


# --- the plain listener ---------------------------------------------------------------


async def test_curl_with_prior_knowledge_on_the_plain_listener(
    cluster: Cluster, proxies: Proxies, upstream: str
) -> None:
    port = free_port()
    proxy = await proxies.start(upstream, f"--insecure-listen-address=127.0.0.1:{port}")
    await proxy.program.listens(port)
    url = f"http://127.0.0.1:{port}/metrics"
    token = await cluster.token(READER_ACCOUNT)
    got = await curl(url, "--http2-prior-knowledge", token=token)
    assert (got.code, got.status, got.version) == (0, 200, "2")
    assert (await curl(url, "--http2-prior-knowledge")).status == 401


async def test_no_upgrade_to_h2c_on_the_plain_listener(
    cluster: Cluster, proxies: Proxies, upstream: str
) -> None:
    """Curl asks by `Upgrade: h2c`; the answer comes over HTTP/1.1 (D8)."""
    port = free_port()
    proxy = await proxies.start(upstream, f"--insecure-listen-address=127.0.0.1:{port}")
    await proxy.program.listens(port)
    token = await cluster.token(READER_ACCOUNT)
    got = await curl(f"http://127.0.0.1:{port}/metrics", "--http2", token=token)
    assert (got.code, got.status, got.version) == (0, 200, "1.1")


async def test_no_prior_knowledge_when_http_2_is_disabled(proxies: Proxies, upstream: str) -> None:
    port = free_port()
    flags = (f"--insecure-listen-address=127.0.0.1:{port}", "--http2-disable")
    proxy = await proxies.start(upstream, *flags, "--ignore-paths=/*")
    await proxy.program.listens(port)
    url = f"http://127.0.0.1:{port}/metrics"
    assert (await curl(url, "--http2-prior-knowledge")).code != 0
    assert (await curl(url)).status == 200


# --- nghttp ---------------------------------------------------------------------------


async def test_nghttp_asks_for_many_on_one_connection(
    cluster: Cluster, proxies: Proxies, upstream: str
) -> None:
    """It offers nothing but h2, which gets it though HTTP/1.1 is preferred (D25)."""
    proxy = await proxies.start(upstream)
    header = f"authorization: Bearer {await cluster.token(READER_ACCOUNT)}"
    words = ("--verbose", "--null-out", "--no-verify-peer", "--header", header, "--multiply=50")
    output = await run("nghttp", *words, f"{proxy.url}/metrics")
    assert len(re.findall(r":status: 200", output)) == 50
    assert "The negotiated protocol: h2\n" in output


async def test_nghttp_posts_a_body(
    cluster: Cluster, proxies: Proxies, echo: str, tmp_path: Path
) -> None:
    proxy = await proxies.start(echo)
    body = tmp_path / "body"
    body.write_bytes(b"x" * 300_000)
    header = f"authorization: Bearer {await cluster.token(READER_ACCOUNT)}"
    words = ("--no-verify-peer", "--header", header, "--data", str(body))
    output = await run("nghttp", *words, f"{proxy.url}/posted")
    assert output.rstrip("\n") == "x" * 300_000


# --- h2load ---------------------------------------------------------------------------


async def load(url: str, token: str, *words: str) -> None:
    """5,000 requests on four connections with 100 streams each; every one must be answered."""
    output = await run(
        "h2load",
        *(f"--requests={REQUESTS}", "--clients=4", "--max-concurrent-streams=100"),
        *("--header", f"authorization: Bearer {token}"),
        *words,
        url,
    )
    wanted = f"{REQUESTS} total, {REQUESTS} started, {REQUESTS} done, {REQUESTS} succeeded"
    assert f"requests: {wanted}, 0 failed, 0 errored, 0 timeout" in output, output
    assert f"status codes: {REQUESTS} 2xx, 0 3xx, 0 4xx, 0 5xx" in output, output
    assert re.search("Application protocol: h2c?\n", output), output


async def test_h2load_with_100_streams(cluster: Cluster, proxies: Proxies, upstream: str) -> None:
    proxy = await proxies.start(upstream, PREFER)
    await load(f"{proxy.url}/metrics", await cluster.token(READER_ACCOUNT))
    assert cluster.calls() == {"tokenreviews": 1, "subjectaccessreviews": 1}


async def test_h2load_with_bodies(
    cluster: Cluster, proxies: Proxies, echo: str, tmp_path: Path
) -> None:
    proxy = await proxies.start(echo, PREFER)
    body = tmp_path / "body"
    body.write_bytes(b"x" * 3000)
    await load(f"{proxy.url}/posted", await cluster.token(READER_ACCOUNT), f"--data={body}")


async def test_h2load_with_http_2_on_both_sides(
    cluster: Cluster, programs: Programs, proxies: Proxies
) -> None:
    upstream = await start_nginx(programs, "http2")
    proxy = await proxies.start(upstream, PREFER, "--upstream-force-h2c")
    await load(f"{proxy.url}/metrics", await cluster.token(READER_ACCOUNT))


async def test_h2load_with_http_2_upstream_only(
    cluster: Cluster, programs: Programs, proxies: Proxies
) -> None:
    upstream = await start_nginx(programs, "http2")
    proxy = await proxies.start(upstream, "--upstream-force-h2c")
    token = await cluster.token(READER_ACCOUNT)
    words = ("--h1", f"--requests={REQUESTS}", "--clients=16")
    header = ("--header", f"authorization: Bearer {token}")
    output = await run("h2load", *words, *header, f"{proxy.url}/metrics")
    assert f"status codes: {REQUESTS} 2xx, 0 3xx, 0 4xx, 0 5xx" in output, output


async def test_h2load_on_the_plain_listener(
    cluster: Cluster, proxies: Proxies, upstream: str
) -> None:
    port = free_port()
    proxy = await proxies.start(upstream, f"--insecure-listen-address=127.0.0.1:{port}")
    await proxy.program.listens(port)
    await load(f"http://127.0.0.1:{port}/metrics", await cluster.token(READER_ACCOUNT))


# --- an https upstream ----------------------------------------------------------------


@pytest.mark.parametrize("is_offered", [True, False], ids=["h2 offered", "h2 not offered"])
async def test_an_https_upstream_of_the_systems_authorities_gets_what_it_offers(
    *,
    authority: Authority,
    cluster: Cluster,
    programs: Programs,
    proxies: Proxies,
    monkeypatch: pytest.MonkeyPatch,
    is_offered: bool,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate_file))
    words = ["http2"] * is_offered
    upstream = await start_nginx(programs, *words, pair=authority.serving("upstream"))
    proxy = await proxies.start(upstream)
    got = await curl(f"{proxy.url}/metrics", token=await cluster.token(READER_ACCOUNT))
    assert got.output == f"HTTP/{'2.0' if is_offered else '1.1'} /metrics\n"


async def test_an_https_upstream_of_given_authorities_is_asked_in_http_1_1(
    authority: Authority, cluster: Cluster, programs: Programs, proxies: Proxies
) -> None:
    """As the original: its own transport for that has no HTTP/2 (reference 6.4)."""
    upstream = await start_nginx(programs, "http2", pair=authority.serving("upstream"))
    proxy = await proxies.start(upstream, f"--upstream-ca-file={authority.certificate_file}")
    got = await curl(f"{proxy.url}/metrics", token=await cluster.token(READER_ACCOUNT))
    assert got.output == "HTTP/1.1 /metrics\n"

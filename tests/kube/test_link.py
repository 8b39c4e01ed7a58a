import asyncio
import errno
import logging
import socket
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from pyrbacproxy.demo.pki import Authority
from pyrbacproxy.egress import EgressProxies, ProxyAddress
from pyrbacproxy.kube import api_client as module
from pyrbacproxy.kube import api_client as pool
from pyrbacproxy.kube.api_client import Link, open_link
from pyrbacproxy.kube.kubeconfig import ApiServer
from pyrbacproxy.kube.memory import Cause, FailedAttempt
from pyrbacproxy.model import (
    Answer,
    ReviewFailed,
    SubjectAccessReviewAnswer,
    TokenReviewAnswer,
    UserInfo,
)
from tests.kube.parties import ACCESS, TOKEN, api_server, server_context
from tests.kube.raw_server import OK, Serve, raw_server, request_on, until

GOOD = TokenReviewAnswer(True, UserInfo("alice", "7"))


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test is decided by how busy the machine is."""
    monkeypatch.setattr(module, "CONNECT_SECONDS", 60.0)


@asynccontextmanager
async def linked(server: ApiServer, proxies: EgressProxies | None = None) -> AsyncIterator[Link]:
    link = await open_link(server, proxies or EgressProxies())
    try:
        yield link
    finally:
        link.retire()


async def asked(serve: Serve) -> Answer:
    async with raw_server(serve) as port, linked(ApiServer(f"http://127.0.0.1:{port}")) as link:
        return (await link.post(TOKEN))[0]


# --- what is sent -------------------------------------------------------------------


async def test_a_review_is_posted_with_our_credential() -> None:
    async with api_server() as stub:
        server = ApiServer(f"{stub.url}/prefix", authorization="Bearer own-1")
        async with linked(server) as link:
            assert await link.post(TOKEN) == (GOOD, 201)
            assert await link.post(ACCESS) == (SubjectAccessReviewAnswer(True), 201)
        assert [review["kind"] for review in stub.reviews] == ["TokenReview", "SubjectAccessReview"]
        assert stub.authorizations == ["Bearer own-1"] * 2
        assert stub.peers[0] == stub.peers[1], "the connection is kept"
        assert stub.headers[0]["Content-Type"] == "application/json"
        assert stub.headers[0]["Accept-Encoding"] == "identity"


async def test_the_path_is_joined_to_the_server_s() -> None:
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await request_on(reader))
        writer.write(OK)

    async with raw_server(serve) as port, linked(ApiServer(f"http://127.0.0.1:{port}/a/b")) as link:
        await link.post(TOKEN)
    assert heads[0].startswith(b"POST /a/b/apis/authentication.k8s.io/v1/tokenreviews HTTP/1.1\r\n")
    assert b"authorization" not in heads[0].lower()


async def test_tls_verifies_the_server_and_shows_our_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.client("me", "proxy-itself")
    server_side = server_context(authority, asks_for_certificate=True)
    async with api_server(server_side) as stub:
        server = ApiServer(
            stub.url,
            ca=authority.certificate_file.read_text(),
            certificate=pair.certificate_file.read_text(),
            key=pair.key_file.read_text(),
        )
        async with linked(server) as link:
            assert await link.post(TOKEN) == (GOOD, 201)
        assert stub.certificates == ["proxy-itself"]


async def test_a_server_of_another_authority_is_not_asked(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    other = Authority(tmp_path, "other-ca")
    async with api_server(server_context(authority)) as stub:
        server = ApiServer(
            stub.url, ca=other.certificate_file.read_text(), authorization="Bearer o"
        )
        async with linked(server) as link:
            answer, status = await link.post(TOKEN)
        assert isinstance(answer, FailedAttempt)
        assert not answer.is_transient
        assert "certificate" in answer.reason
        assert answer.cause is Cause.NOT_ASKED, "somebody is there (D15)"
        assert (status, stub.reviews) == (0, [])
        async with linked(ApiServer(stub.url, is_verified=False)) as link:
            assert await link.post(TOKEN) == (GOOD, 201)


async def test_unusable_certificates_are_an_os_error() -> None:
    with pytest.raises(OSError, match=r".*"):
        await open_link(ApiServer("https://a", ca="junk"), EgressProxies())


CREDENTIALS = "Basic dXNlcjpzM2NyZXQ="


async def test_d34_a_proxy_is_asked_with_its_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):
            heads.append(await request_on(reader))
            writer.write(OK)

    async with raw_server(serve) as port:
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")  # read at start, never later
        proxies = EgressProxies(http=ProxyAddress("http", "127.0.0.1", port, CREDENTIALS))
        async with linked(ApiServer("http://api.test"), proxies) as link:
            for _ in range(2):
                assert await link.post(TOKEN) == (TokenReviewAnswer(False), 201)
    assert len(heads) == 2
    for head in heads:
        assert head.startswith(b"POST http://api.test/apis/")
        assert f"Proxy-Authorization: {CREDENTIALS}\r\n".encode() in head


async def test_d34_tls_goes_through_a_tunnel(tmp_path: Path) -> None:
    heads: list[bytes] = []

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    async with api_server(server_context(Authority(tmp_path))) as stub:

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            port = stub.url.rpartition(":")[2]
            api_reader, api_writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            await asyncio.gather(copy(reader, api_writer), copy(api_reader, writer))

        async with raw_server(serve) as port:
            proxies = EgressProxies(https=ProxyAddress("http", "127.0.0.1", port, CREDENTIALS))
            server = ApiServer(
                "https://api.test:6443", authorization="Bearer own-1", is_verified=False
            )
            async with linked(server, proxies) as link:
                assert await link.post(TOKEN) == (GOOD, 201)
    assert heads[0].startswith(b"CONNECT api.test:6443 HTTP/1.1\r\n")
    assert f"Proxy-Authorization: {CREDENTIALS}\r\n".encode() in heads[0]
    assert b"own-1" not in heads[0]


async def test_d34_a_proxy_without_credentials_gets_none() -> None:
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await request_on(reader))
        writer.write(OK)

    async with raw_server(serve) as port:
        proxies = EgressProxies(http=ProxyAddress("http", "127.0.0.1", port))
        async with linked(ApiServer("http://api.test"), proxies) as link:
            await link.post(TOKEN)
    assert b"Proxy-Authorization" not in heads[0]


async def test_d34_loopback_is_reached_directly() -> None:
    async with api_server() as stub:
        proxies = EgressProxies(http=ProxyAddress("http", "127.0.0.1", 1))
        async with linked(ApiServer(stub.url), proxies) as link:
            assert await link.post(TOKEN) == (GOOD, 201)


# --- what comes back ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "retry_after", "is_transient", "seconds"),
    [
        (400, None, False, 0.0),
        (401, None, False, 0.0),
        (403, None, False, 0.0),
        (404, None, False, 0.0),
        (404, "2", True, 2.0),
        (429, None, True, 0.0),
        (429, "3", True, 3.0),
        (429, "soon", True, 0.0),
        (500, None, True, 0.0),
        (502, None, True, 0.0),
        (503, None, False, 0.0),
        (503, "0", True, 0.0),
        (504, None, True, 0.0),
        (302, "1", False, 1.0),
    ],
)
async def test_a_status_that_is_no_answer_may_be_worth_another_try(
    status: int,
    retry_after: str | None,
    is_transient: bool,  # noqa: FBT001
    seconds: float,
) -> None:
    headers = {"Location": "/elsewhere"} | ({"Retry-After": retry_after} if retry_after else {})
    async with api_server() as stub, linked(ApiServer(stub.url)) as link:
        stub.respond = lambda _: web.Response(status=status, headers=headers, text="s3cret")
        answer, said = await link.post(TOKEN)
        assert len(stub.reviews) == 1
    assert said == status
    assert answer == FailedAttempt(
        f"the API server answered {status}",
        is_transient=is_transient,
        retry_after_seconds=seconds,
        cause=Cause.AWAY if status >= 500 else Cause.ANSWERED,
    )


async def test_a_403_tells_whom_rbac_refuses_what_and_no_secret() -> None:
    said = {"kind": "Status", "message": 'User "x" cannot create: cl1ent.s3cret own-1'}
    async with api_server() as stub:
        server = ApiServer(stub.url, authorization="Bearer own-1")
        stub.respond = lambda _: web.json_response(said, status=403)
        async with linked(server) as link:
            answer, _ = await link.post(TOKEN)
    assert isinstance(answer, FailedAttempt)
    assert answer.reason == (
        'the API server answered 403: User "x" cannot create: <masked> <masked>'
    )


async def test_what_is_no_json_is_no_answer() -> None:
    async with api_server() as stub, linked(ApiServer(stub.url)) as link:
        stub.respond = lambda _: web.Response(text="<html>gateway</html>")
        answer, _ = await link.post(TOKEN)
    assert answer == ReviewFailed("the API server's answer is no JSON object")


@pytest.mark.parametrize("extra", [0, 1])
async def test_an_answer_is_read_up_to_its_limit(
    monkeypatch: pytest.MonkeyPatch, extra: int
) -> None:
    monkeypatch.setattr(module, "MAX_ANSWER_BYTES", 100_000)
    async with api_server() as stub, linked(ApiServer(stub.url)) as link:
        stub.respond = lambda _: web.Response(body=b"{}".ljust(100_000 + extra))
        answer, _ = await link.post(TOKEN)
    assert isinstance(answer, FailedAttempt if extra else TokenReviewAnswer)


async def test_fr48_a_refused_connection_fails_at_once() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        async with linked(ApiServer(f"http://127.0.0.1:{port}")) as link:
            answer, status = await link.post(TOKEN)
    assert isinstance(answer, FailedAttempt)
    assert "can't be reached" in answer.reason
    assert f"(127.0.0.1:{port})" in answer.reason  # FR99
    assert (answer.is_transient, answer.cause, status) == (False, Cause.AWAY, 0)


async def test_fr48_a_server_that_never_shakes_hands_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "CONNECT_SECONDS", 0.05)

    async def serve(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async with (
        raw_server(serve) as port,
        linked(ApiServer(f"https://127.0.0.1:{port}", is_verified=False)) as link,
    ):
        answer, _ = await link.post(TOKEN)
    text = f"no connection to the API server in 0.05 s (127.0.0.1:{port})"
    assert answer == FailedAttempt(text, cause=Cause.AWAY)


async def test_d15_our_own_calls_in_the_way_are_no_silence_of_the_server_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else whoever makes many would have answers used past their time."""
    monkeypatch.setattr(pool, "MAX_CONNECTIONS", 1)
    async with api_server() as stub, linked(ApiServer(stub.url)) as link:
        stub.delay.clear()
        first = asyncio.create_task(link.post(TOKEN))
        await until(lambda: bool(stub.reviews))
        monkeypatch.setattr(module, "CONNECT_SECONDS", 0.05)
        answer, _ = await link.post(ACCESS)
        stub.delay.set()
        assert (await first)[0] == GOOD
    text = f"no connection to the API server in 0.05 s ({stub.url.rpartition('/')[2]})"
    assert answer == FailedAttempt(text, cause=Cause.NOT_ASKED)


async def test_a_name_that_dns_cannot_spell_is_a_failure() -> None:
    async with linked(ApiServer("http://a..b")) as link:
        answer, status = await link.post(TOKEN)
    assert isinstance(answer, FailedAttempt)
    assert answer.reason.startswith("the API server can't be reached: ")
    assert (answer.is_transient, answer.cause, status) == (False, Cause.NOT_ASKED, 0)


@pytest.mark.parametrize(
    ("status", "cause"),
    [
        pytest.param(b"407", Cause.NOT_ASKED, id="it wants a password"),
        pytest.param(b"403", Cause.NOT_ASKED, id="it forbids"),
        pytest.param(b"502", Cause.AWAY, id="nobody behind it"),
        pytest.param(b"504", Cause.AWAY, id="silence behind it"),
    ],
)
async def test_d34_a_proxy_that_refuses_the_tunnel_is_named(status: bytes, cause: Cause) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 %b Refused\r\n\r\n" % status)

    async with raw_server(serve) as port:
        proxies = EgressProxies(https=ProxyAddress("http", "127.0.0.1", port))
        async with linked(ApiServer("https://api.test", is_verified=False), proxies) as link:
            answer, _ = await link.post(TOKEN)
    text = "the API server can't be reached: the egress proxy refused the tunnel with"
    assert answer == FailedAttempt(f"{text} {status.decode()} (api.test:443)", cause=cause)


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        pytest.param(ConnectionRefusedError(errno.ECONNREFUSED, ""), Cause.AWAY, id="refused"),
        pytest.param(ConnectionResetError(), Cause.AWAY, id="reset in the handshake"),
        pytest.param(TimeoutError(errno.ETIMEDOUT, ""), Cause.AWAY, id="the kernel's timeout"),
        pytest.param(OSError(errno.EHOSTUNREACH, ""), Cause.AWAY, id="no route"),
        pytest.param(OSError("Multiple exceptions: ..."), Cause.AWAY, id="several addresses"),
        pytest.param(socket.gaierror(socket.EAI_AGAIN, ""), Cause.AWAY, id="no DNS"),
        pytest.param(ssl.SSLEOFError(8, ""), Cause.AWAY, id="the end instead of TLS"),
        pytest.param(OSError(errno.EMFILE, ""), Cause.NOT_ASKED, id="descriptors"),
        pytest.param(PermissionError(errno.EPERM, ""), Cause.NOT_ASKED, id="firewall here"),
        pytest.param(ssl.SSLError(1, "alert"), Cause.NOT_ASKED, id="our certificate refused"),
        pytest.param(ssl.SSLCertVerificationError(1, ""), Cause.NOT_ASKED, id="not verified"),
    ],
)
async def test_d15_why_a_connection_cannot_be_made_tells_who_is_away(
    monkeypatch: pytest.MonkeyPatch, error: OSError, cause: Cause
) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(module, "dial", broken)
    async with linked(ApiServer("http://127.0.0.1:1")) as link:
        answer, _ = await link.post(TOKEN)
    assert isinstance(answer, FailedAttempt)
    assert answer.cause is cause


@pytest.mark.parametrize("is_kept", [False, True])
async def test_a_reset_is_worth_another_try(*, is_kept: bool) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if is_kept:
            await request_on(reader)
            writer.write(OK)
        await request_on(reader)
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    async with raw_server(serve) as port, linked(ApiServer(f"http://127.0.0.1:{port}")) as link:
        if is_kept:
            assert (await link.post(TOKEN))[1] == 201
        answer, _ = await link.post(TOKEN)
    assert isinstance(answer, FailedAttempt)
    assert answer.is_transient
    # On a kept one the server had perhaps only had enough of waiting.
    assert answer.cause is (Cause.NOT_ASKED if is_kept else Cause.AWAY)


async def test_an_end_without_an_answer_is_not_tried_again() -> None:
    async def serve(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await request_on(reader)

    answer = await asked(serve)
    assert isinstance(answer, FailedAttempt)
    text = "the API server closed the connection without an answer (127.0.0.1:"
    assert answer.reason.startswith(text)
    assert answer.cause is Cause.AWAY
    assert not answer.is_transient


async def test_unless_the_connection_had_been_kept() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_on(reader)
        writer.write(OK)
        await request_on(reader)

    async with raw_server(serve) as port, linked(ApiServer(f"http://127.0.0.1:{port}")) as link:
        assert (await link.post(TOKEN))[1] == 201
        answer, _ = await link.post(TOKEN)
    assert isinstance(answer, FailedAttempt)
    assert (answer.is_transient, answer.cause) == (True, Cause.NOT_ASKED)


async def test_a_cut_answer_is_none() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_on(reader)
        writer.write(b"HTTP/1.1 201 Created\r\nContent-Length: 20\r\n\r\n{}")

    answer = await asked(serve)
    assert isinstance(answer, FailedAttempt)
    assert (answer.is_transient, answer.cause) == (False, Cause.ANSWERED)


async def test_what_is_no_http_is_no_answer() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_on(reader)
        writer.write(b"s3cret\r\n\r\n")

    answer = await asked(serve)
    assert isinstance(answer, FailedAttempt)
    assert "s3cret" not in answer.reason


# --- the life of a link -------------------------------------------------------------


async def test_a_deadline_without_any_answer_marks_the_link_dead() -> None:
    async with api_server() as stub, linked(ApiServer(stub.url)) as link:
        await link.post(TOKEN)
        assert not link.is_dead
        stub.delay.clear()
        call = asyncio.create_task(link.post(TOKEN))
        await until(lambda: len(stub.reviews) == 2)
        call.cancel()
        await asyncio.wait([call])
        assert link.is_dead


async def test_a_deadline_beside_other_answers_does_not() -> None:
    async with api_server() as stub, linked(ApiServer(stub.url)) as link:
        stub.delay.clear()
        slow = asyncio.create_task(link.post(TOKEN))
        await until(lambda: len(stub.reviews) == 1)
        stub.delay.set()
        stub.delay = asyncio.Event()
        stub.delay.set()
        await link.post(ACCESS)
        slow.cancel()
        await asyncio.wait([slow])
        assert not link.is_dead


async def test_a_retired_link_finishes_its_calls_first() -> None:
    is_asked, may_answer, is_closed = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_on(reader)
        is_asked.set()
        await may_answer.wait()
        writer.write(OK)
        assert await reader.read() == b""
        is_closed.set()

    async with raw_server(serve) as port:
        link = await open_link(ApiServer(f"http://127.0.0.1:{port}"), EgressProxies())
        call = asyncio.create_task(link.post(TOKEN))
        await is_asked.wait()
        link.retire()
        may_answer.set()
        assert await call == (TokenReviewAnswer(False), 201)
        await is_closed.wait()


# --- FR67: logs ---------------------------------------------------------------------


@pytest.mark.parametrize("status", [201, 500])
async def test_fr67_bodies_are_logged_at_eight_without_any_token(
    caplog: pytest.LogCaptureFixture, status: int
) -> None:
    def echo(_: web.Request) -> web.StreamResponse:
        told = {"spec": {"token": "cl1ent.s3cret"}, "message": "cl1ent.s3cret, Bearer own-s3cret"}
        return web.json_response(told, status=status)

    with caplog.at_level(logging.DEBUG):
        async with api_server() as stub:
            stub.respond = echo
            async with linked(ApiServer(stub.url, authorization="Bearer own-s3cret")) as link:
                await link.post(TOKEN)
    ours = [record for record in caplog.records if record.name == "pyrbacproxy.kube.api_client"]
    assert [record.levelno for record in ours] == [20 - 8, 20 - 8]
    assert ours[0].getMessage().startswith('Request Body: {"kind":"TokenReview"')
    assert ours[1].getMessage().startswith("Response Body: {")
    assert "s3cret" not in caplog.text


async def test_without_verbosity_no_body_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(20 - 7):
        async with api_server() as stub, linked(ApiServer(stub.url)) as link:
            await link.post(TOKEN)
    assert [
        record for record in caplog.records if record.name == "pyrbacproxy.kube.api_client"
    ] == []

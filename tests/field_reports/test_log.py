"""Field report FR67: no secret in a log, at any level."""

import base64
import contextlib
import datetime as dt
import json
import os
import re
import socket
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.field_reports.harness import Lab, Proxy, World, bearer, get
from tests.field_reports.servers import Reply, failed, refused, user
from tests.field_reports.watching import until

SOCKET = (
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Only an API server with TLS is told our own credential."""
    world = World(tmp_path_factory.mktemp("lab"), is_api_secure=True)
    yield world
    world.close()


@pytest.fixture
def proxy(lab: Lab) -> Proxy:
    """A proxy at the highest level, with a credential of its own for the API server."""
    own = "secret-own-credential"
    lab.secrets.add(own)
    world = lab.world
    kubeconfig = world.write_kubeconfig("own", world.api_url, {"token": own}, world.api_ca)
    return lab.start(f"--kubeconfig={kubeconfig}", "--v=10")


def subprotocol(lab: Lab, token: str) -> str:
    """A token as browsers send it."""
    encoded = base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")
    lab.secrets.add(encoded)
    return f"Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.{encoded}, chat"


# `lab` itself asserts after each test that no secret is in stdout or stderr.


def test_fr67_the_review_is_logged_with_its_token_masked(lab: Lab, proxy: Proxy) -> None:
    before = len(proxy.text())
    assert proxy.ask(get("/metrics", bearer(lab.token(user("alice"))))).status == 200
    assert lab.api.asked[0].credential == "Bearer secret-own-credential"

    def review() -> list[str]:
        lines = proxy.text()[before:].splitlines()
        return [line for line in lines if '"kind":"TokenReview"' in line]

    lines = until(review, "TokenReview in the log")
    assert all('"token":"<masked>"' in line for line in lines)


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(lambda token: refused(f"token {token} is bad"), id="status-error"),
        pytest.param(lambda token: Reply(http=500, body=f"no {token}!".encode()), id="error-body"),
        pytest.param(lambda token: Reply(body=f'{{"spec":{{"token":"{token}"'.encode()), id="cut"),
        pytest.param(lambda token: Reply(body=f"<{token}>".encode()), id="no-json"),
        pytest.param(
            lambda token: Reply(
                http=403,
                body=f'{{"kind":"Status","message":"Bearer {token} may not","code":403}}'.encode(),
            ),
            id="status-object",
        ),
        pytest.param(
            lambda token: Reply({"authenticated": "yes", "user": token}), id="wrong-types"
        ),
        pytest.param(lambda _: failed(401), id="our-own-credential-refused"),
    ],
)
def test_fr67_an_api_server_that_echoes_the_token(lab: Lab, proxy: Proxy, reply: object) -> None:
    assert callable(reply)
    token = lab.token()
    lab.api.tokens[token] = reply(token)
    assert proxy.ask(get("/metrics", bearer(token))).status == 401
    assert lab.api.token_reviews(token)


def test_fr67_an_access_review_that_fails_with_our_credential(lab: Lab, proxy: Proxy) -> None:
    own = "secret-own-credential"
    lab.api.on_access = lambda _: Reply(http=403, body=f"Bearer {own} is nobody".encode())
    assert proxy.ask(get("/echo"), "alice").status == 500


@pytest.mark.parametrize("is_good", [True, False], ids=["good", "bad"])
def test_fr67_tokens_in_every_place(lab: Lab, proxy: Proxy, is_good: bool) -> None:  # noqa: FBT001
    token = lab.token(user("alice") if is_good else refused("no"))
    status = 200 if is_good else 401
    assert proxy.ask(get(f"/metrics?access_token={token}", bearer(token))).status == status
    assert proxy.ask(get(f"/metrics?access_token={token}")).status == 401
    # The upstream declines the upgrade.
    offer = subprotocol(lab, token)
    assert proxy.ask(get("/metrics", *SOCKET, offer)).status == status
    assert proxy.ask(get("/metrics", *SOCKET, offer, bearer(token))).status == status


@pytest.mark.parametrize(
    "line",
    [
        "Authorization: Bearer {} x",
        "Authorization: Basic {}",
        "Authorization:{}\x00",
        "{}",
        "{}: x",
    ],
)
def test_fr67_tokens_in_malformed_requests(lab: Lab, proxy: Proxy, line: str) -> None:
    answer = proxy.ask(get("/metrics", line.format(lab.token())))
    assert answer.status in {400, 401}


def test_fr67_tokens_when_the_upstream_breaks(lab: Lab, proxy: Proxy) -> None:
    token = lab.token(user("alice"))
    lab.upstream.script = f"HTTP/1.1 ok {token}\r\n\r\n".encode()
    assert proxy.ask(get(f"/metrics?access_token={token}", bearer(token))).status == 502
    lab.upstream.script = f"{token}\r\n\r\n".encode()
    assert proxy.ask(get(f"/metrics?access_token={token}", bearer(token))).status == 502


def test_fr67_tokens_when_the_upstream_is_away(lab: Lab) -> None:
    token = lab.token(user("alice"))
    proxy = lab.start("--v=10", "--upstream=http://127.0.0.1:1")
    assert proxy.ask(get(f"/metrics?access_token={token}", bearer(token))).status == 502


def test_fr67_the_flags_are_logged_without_secrets(lab: Lab, proxy: Proxy) -> None:
    assert "--v=" in proxy.text() or "FLAG" in proxy.text()
    assert lab.secrets


def test_fr67_json_lines_are_json_and_masked(lab: Lab) -> None:
    proxy = lab.start("--v=10", "--logging-format=json")
    token = lab.token(refused("no"))
    assert proxy.ask(get(f"/metrics?access_token={token}", bearer(token))).status == 401
    proxy.wait_for("Unable to authenticate")
    lines = [json.loads(line) for line in proxy.text().splitlines()]
    assert all({"ts", "caller", "msg"} <= set(line) for line in lines)
    bodies = [line["msg"] for line in lines if '"kind":"TokenReview"' in line["msg"]]
    assert bodies
    assert all('"token":"<masked>"' in body for body in bodies)
    assert any(line["msg"].startswith("Listening securely on ") for line in lines)


def lines_told(text: str) -> int:
    """The refusals written, and those that were left out and counted."""
    left_out = re.findall(r"Left out (\d+) more lines|leftOut=(\d+)", text)
    return text.count("Unable to authenticate") + sum(int(one or other) for one, other in left_out)


def test_a_flood_of_bad_tokens_does_not_flood_the_log(lab: Lab) -> None:
    proxy = lab.start()
    token = lab.token(refused("no"))
    asks = 400
    began_at = time.monotonic()
    with proxy.connect() as client:
        for _ in range(asks):
            client.send(get("/metrics", bearer(token)))
            assert client.answer().status == 401
    seconds = int(time.monotonic() - began_at) + 2  # a second that began before, and the last
    time.sleep(1.5)  # by then this peer may have another line
    assert proxy.ask(get("/metrics", bearer(lab.token(refused("no"))))).status == 401
    # The last lines may come after their answers.
    until(lambda: lines_told(proxy.text("err")) == asks + 1, "every refusal")
    text = proxy.text("err")
    assert "leftOut=" in text
    assert text.count("Unable to authenticate") <= 10 * seconds + 1


def odd_certificate(folder: Path) -> Path:
    """One with a name that is longer than X.520 has them; where it is, without suffix."""
    key = ec.generate_private_key(ec.SECP256R1())
    now = dt.datetime.now(dt.UTC)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        common = x509.NameAttribute(NameOID.COMMON_NAME, "x" * 65, _validate=False)
        certificate = (
            x509.CertificateBuilder(x509.Name([common]), x509.Name([common]), key.public_key())
            .serial_number(1)
            .not_valid_before(now - dt.timedelta(days=1))
            .not_valid_after(now + dt.timedelta(days=1))
            .sign(key, hashes.SHA256())
        )
    pem = serialization.Encoding.PEM
    form, secrecy = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "odd.crt").write_bytes(certificate.public_bytes(pem))
    (folder / "odd.key").write_bytes(key.private_bytes(pem, form, secrecy))
    return folder / "odd"


def test_names_in_a_certificate_make_no_line_of_their_own(lab: Lab, tmp_path: Path) -> None:
    """`cryptography` warns of odd ones, which anybody may show."""
    proxy = lab.start("--logging-format=json")
    assert proxy.ask(get("/metrics"), odd_certificate(tmp_path)).status == 401
    assert all(isinstance(json.loads(line), dict) for line in proxy.text().splitlines())


def test_stderr_that_nobody_reads_stops_nobody(lab: Lab, tmp_path: Path) -> None:
    path = tmp_path / "stderr"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    redirected = ("sh", "-c", f'exec "$@" 2>{path}', "sh")
    proxy = lab.start("--v=10", prefix=redirected, is_own=True)
    with proxy.connect() as client:
        for number in range(100):
            client.send(get(f"/metrics?{number}", bearer(lab.token(user("alice")))))
            assert client.answer().status == 200
    assert proxy.stop() == 0
    written = os.read(reader, 1 << 20).decode()
    os.close(reader)
    assert "Request Body" in written
    assert "received interrupt, shutting down" not in written


# --- an upstream that fails: FR80, FR82, FR100 ------------------------------------------


@pytest.fixture(name="plain_server")
def _plain_server() -> Iterator[int]:
    """Speaks HTTP alone, as to a client of TLS; its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        connection.recv(65_536)
                        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


@pytest.mark.parametrize(
    ("flag", "lines", "line"),
    [
        pytest.param("--upstream-force-h2c", SOCKET, "no upgrade over HTTP/2", id="FR80"),
        pytest.param(
            "--upstream=https://127.0.0.1:{tls}",
            (),
            "upstream's certificate not trusted (127.0.0.1:{tls}: certificate not trusted: unable "
            "to get local issuer certificate)",
            id="FR82",
        ),
        pytest.param(
            "--upstream=https://127.0.0.1:{plain}",
            (),
            "TLS with the upstream failed (127.0.0.1:{plain}: TLS: wrong version number: does the "
            "upstream speak plain HTTP?)",
            id="FR100 plain HTTP",
        ),
        pytest.param(
            "--upstream=http://a.invalid",
            (),
            "upstream's name not found (a.invalid:80: the name cannot be looked up: ",
            id="FR100 a name",
        ),
    ],
)
def test_a_502_is_one_line_with_the_cause(
    lab: Lab, plain_server: int, flag: str, lines: tuple[str, ...], line: str
) -> None:
    ports = {"tls": lab.api.port, "plain": plain_server}
    proxy = lab.start("--ignore-paths=/*", flag.format(**ports), is_own=True)
    assert proxy.ask(get("/x", *lines)).status == 502

    found = until(
        lambda: [text for text in proxy.text().splitlines() if "proxy error" in text], "a line"
    )
    assert len(found) == 1
    assert f"] http: proxy error: {line.format(**ports)}" in found[0]
    # Once "the upstream refused the connection" followed, whatever the cause was.
    assert "refused the connection" not in proxy.text()

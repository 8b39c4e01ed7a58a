"""Scrapes of made-up servers on loopback; a token is sent to known ones only."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pyrbacproxy.demo.pki import Authority, Pair, server_context
from pyrbacproxy.node.facts import Answer, NoAnswer, NotSeen
from pyrbacproxy.node.scrape import (
    Credential,
    CredentialError,
    ask,
    certificate_file,
    client_context,
)
from tests.tls.parties import as_pem, issue, with_version

TOKEN = "t0psecret"
BODY = (
    b"# TYPE container_runtime_crio_operations_total counter\n"
    b'container_runtime_crio_operations_total{operation="x"} 1\n'
    b"go_goroutines 7\n"
    b"container_runtime_crio_processes_defunct 0"
)


class Server:
    """Answers one connection with bytes, notes what came."""

    def __init__(self, authority: Authority, name: str = "node") -> None:
        self.pair: Pair = authority.serving(name)
        self.authority = authority
        self.asked = b""
        self.common_name = ""

    @property
    def fingerprint(self) -> str:
        content = self.pair.combined_file.read_bytes()
        return certificate_file(content, "").certificates[0].fingerprint

    @contextmanager
    def answering(self, answer: bytes, again: bytes | None = None) -> Iterator[int]:
        """On a port; `again` is sent over and over, until the client leaves, b"" for a silence."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            thread = threading.Thread(target=self._serve, args=(listener, answer, again))
            thread.start()
            yield listener.getsockname()[1]
            thread.join()

    def _serve(self, listener: socket.socket, answer: bytes, again: bytes | None) -> None:
        plain, _ = listener.accept()
        context = server_context(self.pair, self.authority)
        try:
            with context.wrap_socket(plain, server_side=True) as client:
                certificate = client.getpeercert() or {}
                self.common_name = str(certificate.get("subject", ""))
                self.asked = client.recv(65536)
                client.sendall(answer)
                if again is not None:
                    self._drip(client, again)
        except OSError:
            # The client turned its back, as some tests want.
            pass

    def _drip(self, client: ssl.SSLSocket, again: bytes) -> None:
        client.settimeout(0.01)
        while True:
            client.sendall(again)
            try:
                if not client.recv(1):
                    return
            except TimeoutError:
                continue


def with_month_13(certificate: bytes) -> bytes:
    """With a validity that OpenSSL leaves alone and the stricter library refuses (DER)."""
    start = certificate.index(b"\x17\x0d") + 4
    return certificate[:start] + b"13" + certificate[start + 2 :]


def http(status: int, body: bytes = b"") -> bytes:
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body)


@pytest.fixture(name="authority")
def fixture_authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture(name="server")
def fixture_server(authority: Authority) -> Server:
    return Server(authority)


def test_without_a_credential_the_status_and_the_certificate_show(server: Server) -> None:
    with server.answering(http(401)) as port:
        assert ask("127.0.0.1", port, client_context()) == Answer(401, server.fingerprint)
    assert server.asked.startswith(b"GET /metrics HTTP/1.1\r\n")
    assert b"authorization" not in server.asked.lower()


def test_a_client_certificate_counts_series(authority: Authority, server: Server) -> None:
    pair = authority.client("scraper", "prometheus")
    credential = Credential(certificate_file=str(pair.combined_file))
    with server.answering(http(200, BODY)) as port:
        found = ask("127.0.0.1", port, client_context(credential))
    assert found == Answer(200, server.fingerprint, series=2)
    assert "prometheus" in server.common_name


def test_a_token_goes_to_the_server_that_shows_the_serving_pair(server: Server) -> None:
    with server.answering(http(200, BODY)) as port:
        found = ask(
            "127.0.0.1",
            port,
            client_context(),
            token=TOKEN,
            known_fingerprint=server.fingerprint,
        )
    assert found == Answer(200, server.fingerprint, series=2)
    assert f"Authorization: Bearer {TOKEN}\r\n".encode() in server.asked


def test_a_token_goes_to_whom_the_authority_vouches_for(server: Server) -> None:
    context = client_context(ca_file=str(server.authority.certificate_file))
    with server.answering(http(403)) as port:
        assert ask("127.0.0.1", port, context, token=TOKEN) == Answer(403, server.fingerprint)
    assert TOKEN.encode() in server.asked


@pytest.mark.parametrize("known", ["", "other"])
def test_a_token_goes_to_nobody_else(server: Server, known: str) -> None:
    with server.answering(http(200)) as port:
        found = ask("127.0.0.1", port, client_context(), token=TOKEN, known_fingerprint=known)
    assert isinstance(found, NotSeen)
    assert found.why.startswith("the token was not sent: ")
    assert server.asked == b""


def test_a_token_goes_to_nobody_whose_certificate_cannot_be_read(server: Server) -> None:
    pair = issue("CN=odd", hours=(-100_000, 100_000))
    odd = as_pem(with_month_13(pair.der))
    server.pair.certificate_file.write_bytes(odd)
    server.pair.key_file.write_bytes(pair.key_pem())
    with server.answering(http(200)) as port:
        found = ask("127.0.0.1", port, client_context(), token=TOKEN)
    assert isinstance(found, NotSeen)
    assert server.asked == b""


def test_a_certificate_that_cannot_be_read_has_no_fingerprint(server: Server) -> None:
    pair = issue("CN=odd", hours=(-100_000, 100_000))
    odd = as_pem(with_version(pair.der, 5))
    server.pair.certificate_file.write_bytes(odd)
    server.pair.key_file.write_bytes(pair.key_pem())
    with server.answering(http(401)) as port:
        assert ask("127.0.0.1", port, client_context()) == Answer(401, "")


def test_a_server_of_another_authority_is_not_asked(server: Server, tmp_path: Path) -> None:
    other = Authority(tmp_path, "other")
    context = client_context(ca_file=str(other.certificate_file))
    with server.answering(http(200)) as port:
        found = ask("127.0.0.1", port, context, token=TOKEN, known_fingerprint=server.fingerprint)
    assert found == NoAnswer("TLS: CERTIFICATE_VERIFY_FAILED")
    assert server.asked == b""


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"SSH-2.0\r\n\r\n", "no HTTP: BadStatusLine"),
        (b"HTTP/1.1 200 X\r\nContent-Length: 9\r\n\r\nshort", "no HTTP: IncompleteRead"),
    ],
)
def test_what_is_no_answer(server: Server, answer: bytes, why: str) -> None:
    with server.answering(answer) as port:
        assert ask("127.0.0.1", port, client_context()) == NoAnswer(why)


def test_nobody_and_no_tls() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert ask("127.0.0.1", port, client_context()) == NoAnswer("Connection refused")

    def speak_plainly(listener: socket.socket) -> None:
        client, _ = listener.accept()
        with client:
            client.recv(4096)
            client.sendall(http(200))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=speak_plainly, args=(listener,))
        thread.start()
        found = ask("127.0.0.1", listener.getsockname()[1], client_context())
        thread.join()
    assert isinstance(found, NoAnswer)
    assert found.why.startswith("TLS: ")


@pytest.mark.parametrize(
    ("answer", "again"),
    [
        pytest.param(b"HTTP/1.1 200 ", b"X", id="status line"),
        pytest.param(b"", b"HTTP/1.1 100 Continue\r\n\r\n", id="interim answers"),
        pytest.param(http(200, BODY)[:-1], b"", id="nothing more"),
        pytest.param(b"HTTP/1.1 200 X\r\n\r\n", b"x", id="body"),
        pytest.param(
            b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n", b"0", id="chunk size"
        ),
    ],
)
def test_an_answer_without_end_is_cut(
    server: Server, monkeypatch: pytest.MonkeyPatch, answer: bytes, again: bytes
) -> None:
    monkeypatch.setattr("pyrbacproxy.node.scrape._ALL_SECONDS", 0.2)
    monkeypatch.setattr("pyrbacproxy.node.scrape._WAIT_SECONDS", 0.5)
    with server.answering(answer, again) as port:
        found = ask("127.0.0.1", port, client_context())
    assert isinstance(found, NoAnswer)
    assert found.why == "the answer does not end" if again else found.why.startswith("silence")


def test_too_large_an_answer_is_cut(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyrbacproxy.node.scrape._MOST_BYTES", 8)
    with server.answering(http(200, BODY)) as port:
        found = ask("127.0.0.1", port, client_context())
    assert found == NoAnswer("the answer does not end")


def test_files_that_cannot_be_used_say_which(authority: Authority, tmp_path: Path) -> None:
    empty, gone = tmp_path / "empty", tmp_path / "gone"
    empty.touch()
    pair = authority.client("a", "a")
    other = authority.client("b", "b")
    cases = [
        (Credential(), str(gone), f"{gone}: No such file or directory"),
        (Credential(), str(empty), f"{empty}: holds no certificate"),
        (Credential("", str(gone)), "", f"{gone}: No such file or directory"),
        (Credential("", str(empty)), "", f"{empty}: no certificate with its key"),
        (
            Credential("", str(pair.certificate_file), str(other.key_file)),
            "",
            f"{pair.certificate_file} with {other.key_file}: no certificate with its key",
        ),
    ]
    for credential, ca_file, told in cases:
        with pytest.raises(CredentialError) as caught:
            client_context(credential, ca_file)
        assert str(caught.value) == told


def test_no_name_is_compared_and_no_token_shown() -> None:
    assert client_context().verify_mode is ssl.CERT_NONE
    assert not client_context().check_hostname
    assert TOKEN not in repr(Credential(TOKEN))

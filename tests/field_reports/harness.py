"""What a field-report test holds in its hands: a `Lab` that starts proxies, and raw clients.

    def test_fr00_shows_how(lab: Lab) -> None:
        proxy = lab.start("--allow-paths=/metrics")            # shared by equal flags in a module
        token = lab.token(user("alice", "g1"))                 # known to lab.api from now on
        answer = proxy.ask(get("/metrics", bearer(token)))     # one connection, one answer
        assert answer.status == 200
        assert lab.upstream.targets == ["/metrics"]

`lab` is a fixture of conftest.py. After each test it asserts that no proxy that the test used has
written a traceback or a token to stderr or stdout; when the test fails, their stderr is shown.
"""

import contextlib
import itertools
import json
import os
import re
import secrets
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.conformance import pki
from tests.conformance.wire import abort, free_port, parse
from tests.field_reports.servers import PATIENCE_SECONDS, FakeApi, Reply, Upstream

# What every lab has as NAME.crt, NAME.key and NAME.pem (see tests/conformance/pki.py).
CERTIFICATES: dict[str, dict[str, object]] = {
    "server-ca": {"cn": ["server-ca"], "ca": True},
    "server": {"cn": ["server"], "issuer": "server-ca", "eku": ["server"], "dns": ["proxy.test"]},
    "api": {"cn": ["api"], "issuer": "server-ca", "eku": ["server"], "dns": ["api.test"]},
    "upstream": {"cn": ["upstream"], "issuer": "server-ca", "eku": ["server"], "dns": ["up.test"]},
    "client-ca": {"cn": ["client-ca"], "ca": True},
    "other-ca": {"cn": ["other-ca"], "ca": True},
    "alice": {"cn": ["alice"], "o": ["g1", "g2"], "issuer": "client-ca", "eku": ["client"]},
    "bob": {"cn": ["bob"], "o": ["g3"], "issuer": "client-ca", "eku": ["client"]},
    "stranger": {"cn": ["alice"], "o": ["g1"], "issuer": "other-ca", "eku": ["client"]},
    "expired": {"cn": ["alice"], "issuer": "client-ca", "eku": ["client"], "days": [-2, -1]},
    "serverauth": {"cn": ["alice"], "issuer": "client-ca", "eku": ["server"]},
}
_STOP_SECONDS = 15.0
_START_TRIES = 3
_POLL_SECONDS = 0.02
_NOT_OURS = ("_proxy", "kubernetes_service_")


# --- requests and answers -------------------------------------------------------------


def get(target: str = "/metrics", *lines: str, method: str = "GET", host: str = "h") -> bytes:
    """A request head with `Host:` and these header lines (latin-1, sent as they are)."""
    head = [f"{method} {target} HTTP/1.1", f"Host: {host}", *lines, "", ""]
    return "\r\n".join(head).encode("latin-1")


def post(target: str, body: bytes, *lines: str) -> bytes:
    """A POST with this body and its `Content-Length`."""
    return get(target, f"Content-Length: {len(body)}", *lines, method="POST") + body


def bearer(token: str) -> str:
    """The header line that carries a token."""
    return f"Authorization: Bearer {token}"


@dataclass(frozen=True)
class Answer:
    """One answer. `complete` is false when the connection ended in its middle."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    framing: str
    trailers: list[tuple[str, str]]
    complete: bool
    raw: bytes

    def values(self, name: str) -> list[str]:
        """All values of one header, in order of arrival."""
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def value(self, name: str) -> str:
        """The header's values joined by ", "; "" when it is absent."""
        return ", ".join(self.values(name))


class Client:
    """A raw connection to the proxy: exact bytes out, answers in. A context manager."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.received = b""
        self.has_ended = False
        connection.settimeout(PATIENCE_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def send(self, data: bytes) -> None:
        """Write bytes; when the proxy has ended the connection before, they are lost in silence."""
        with contextlib.suppress(OSError):
            self.connection.sendall(data)

    def receive(self) -> bytes:
        """The next block, also appended to `received`; b"" at the end, in order or by a reset.

        Raises TimeoutError when nothing comes.
        """
        try:
            block = self.connection.recv(262144)
        except TimeoutError:
            raise
        except OSError:
            block = b""
        self.received += block
        self.has_ended = self.has_ended or not block
        return block

    def read_until(self, text: bytes) -> bytes:
        """Everything up to and with `text`, taken out of `received`."""
        while text not in self.received and not self.has_ended:
            self.receive()
        assert text in self.received, f"ended before {text!r}: {self.received!r}"
        found, _, self.received = self.received.partition(text)
        return found + text

    def answer(self, *, to_head: bool = False) -> Answer:
        """The next answer, interim ones too, complete or cut off; fails when none comes.

        `to_head`: the request was HEAD, so the answer has no body.
        """
        while True:
            ended = self.has_ended
            message, used = parse(self.received, request=False, closed=ended, head_answer=to_head)
            if message is not None and (message.complete or ended):
                break
            assert not ended, f"no answer but {self.received!r}"
            self.receive()
        raw, self.received = self.received[:used], self.received[used:]
        return Answer(
            int(message.start.split(" ")[1]),
            message.headers,
            message.body,
            message.framing,
            message.trailers,
            message.complete,
            raw,
        )

    def final_answer(self) -> Answer:
        """The next answer that isn't interim (1xx)."""
        while (answer := self.answer()).status < 200:
            pass
        return answer

    def end(self) -> bytes:
        """Wait until the proxy ends the connection; what came before and was not taken.

        Raises TimeoutError when it stays open.
        """
        while not self.has_ended:
            self.receive()
        return self.received

    def half_close(self) -> None:
        """Send FIN without a close_notify and keep reading."""
        socket.socket.shutdown(self.connection, socket.SHUT_WR)

    def reset(self) -> None:
        """Abort the connection."""
        abort(self.connection)


# --- processes ------------------------------------------------------------------------


class Proxy:
    """One proxy process: its port, its clients, what it wrote."""

    def __init__(
        self, process: subprocess.Popen[bytes], folder: Path, port: int, certificates: Path
    ) -> None:
        self.process = process
        self.folder = folder
        self.port = port
        self.certificates = certificates
        self._judged = {"err": 0, "out": 0}

    def connect(
        self,
        certificate: str | Path | None = None,
        *,
        tls: ssl.SSLContext | None = None,
        is_plain: bool = False,
        host: str = "127.0.0.1",
        port: int | None = None,
    ) -> Client:
        """A TLS connection, with the client certificate of that name (or path without suffix).

        `tls` replaces the context that `client_context` makes; `is_plain` leaves TLS out.
        """
        raw = socket.create_connection((host, port or self.port), PATIENCE_SECONDS)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if is_plain:
            return Client(raw)
        path = self.certificates / certificate if certificate else None
        context = tls or client_context(path)
        try:
            return Client(context.wrap_socket(raw, server_hostname="proxy.test"))
        except OSError:
            raw.close()
            raise

    def ask(
        self, data: bytes, certificate: str | Path | None = None, *, to_head: bool = False
    ) -> Answer:
        """The answer to these bytes on a connection of their own."""
        with self.connect(certificate) as client:
            client.send(data)
            return client.answer(to_head=to_head)

    def text(self, stream: str = "err") -> str:
        """What the process has written to `err` or `out`."""
        return (self.folder / stream).read_text(errors="replace")

    def wait_for(self, text: str, stream: str = "err") -> str:
        """Wait until the process has written `text`: a log line may come after its answer.

        Returns all that was written; fails when the text never comes.
        """
        deadline = time.monotonic() + PATIENCE_SECONDS
        while text not in (written := self.text(stream)):
            assert time.monotonic() < deadline, f"{text!r} was not written"
            time.sleep(_POLL_SECONDS)
        return written

    def judge(self, secrets_: set[str]) -> list[str]:
        """Tracebacks and secrets in what was written since the last time."""
        found: list[str] = []
        for stream, start in self._judged.items():
            text = self.text(stream)
            self._judged[stream] = len(text)
            found += [f"Traceback in {stream}"] * ("Traceback" in text[start:])
            found += [f"secret {word} in {stream}" for word in secrets_ if word in text[start:]]
        return found

    def stop(self) -> int:
        """End the process by SIGTERM, else by SIGKILL; its exit code."""
        self.process.terminate()
        try:
            return self.process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


@dataclass(frozen=True)
class Ended:
    """A process that came to its end by itself."""

    code: int
    out: str
    err: str


def client_context(certificate: Path | None = None) -> ssl.SSLContext:
    """A client that accepts any server and shows this certificate (path without suffix)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["http/1.1"])
    if certificate:
        context.load_cert_chain(f"{certificate}.crt", f"{certificate}.key")
    return context


def server_context(certificate: Path, client_ca: Path | None = None) -> ssl.SSLContext:
    """A server with this pair (path without suffix), which may demand clients of that CA file."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{certificate}.crt", f"{certificate}.key")
    if client_ca:
        context.load_verify_locations(client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


class World:
    """What the tests of a module share: certificates, the servers and the running proxies.

    Without `is_api_secure` the API server is spoken to in the clear, and so without credential.
    """

    def __init__(self, folder: Path, *, is_api_secure: bool = False) -> None:
        self.folder = folder
        self.certificates = folder / "pki"
        self.certificates.mkdir()
        pki.build(CERTIFICATES, self.certificates)
        self.api = FakeApi(tls=server_context(self.certificates / "api") if is_api_secure else None)
        self.api_url = f"{'https' if is_api_secure else 'http'}://127.0.0.1:{self.api.port}"
        self.upstream = Upstream()
        self.kubeconfig = self.write_kubeconfig("kubeconfig", self.api_url, ca=self.api_ca)
        self.shared: dict[str, Proxy] = {}
        self._numbers = itertools.count()

    @property
    def api_ca(self) -> str:
        """The CA file of the servers."""
        return str(self.certificates / "server-ca.crt")

    def write_kubeconfig(
        self, name: str, server: str, credential: Mapping[str, str] | None = None, ca: str = ""
    ) -> Path:
        """A kubeconfig for that server; `credential` is its user entry, `ca` a CA file."""
        cluster = {"server": server} | ({"certificate-authority": ca} if ca else {})
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "lab",
            "clusters": [{"name": "lab", "cluster": cluster}],
            "users": [{"name": "lab", "user": dict(credential or {})}],
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}],
        }
        path = self.folder / name
        path.write_text(json.dumps(document))
        return path

    def flags(self, own: Sequence[str], port: int) -> list[str]:
        """The usual flags, less those that `own` replaces (`--x=...`) or drops (`!--x`)."""
        usual = [
            f"--secure-listen-address=127.0.0.1:{port}",
            f"--upstream=http://127.0.0.1:{self.upstream.port}",
            f"--kubeconfig={self.kubeconfig}",
            f"--tls-cert-file={self.certificates}/server.crt",
            f"--tls-private-key-file={self.certificates}/server.key",
            f"--client-ca-file={self.certificates}/client-ca.crt",
        ]
        named = {flag.lstrip("!").partition("=")[0] for flag in own}
        kept = [flag for flag in usual if flag.partition("=")[0] not in named]
        return kept + [flag for flag in own if not flag.startswith("!")]

    def launch(
        self,
        own: Sequence[str],
        config: Mapping[str, object] | str | None,
        env: Mapping[str, str],
        prefix: Sequence[str],
    ) -> Proxy:
        """Start a process with the usual flags and these, and don't wait for anything."""
        folder = self.folder / f"proxy-{next(self._numbers)}"
        folder.mkdir()
        port = free_port()
        flags = self.flags([flag.replace("${port}", str(port)) for flag in own], port)
        if config is not None:
            path = folder / "authorization.yaml"
            path.write_text(config if isinstance(config, str) else json.dumps(config))
            flags.append(f"--config-file={path}")
        inherited = {
            key: value
            for key, value in os.environ.items()
            if not any(word in key.lower() for word in _NOT_OURS)
        }
        with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
            process = subprocess.Popen(
                [*prefix, sys.executable, "-m", "pyrbacproxy", *flags],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env={**inherited, "PYTHONUNBUFFERED": "1", **env},
            )
        return Proxy(process, folder, port, self.certificates)

    def close(self) -> None:
        """End everything; the processes are told together, for each takes its time."""
        for proxy in self.shared.values():
            proxy.process.terminate()
        for proxy in self.shared.values():
            proxy.stop()
        self.api.close()
        self.upstream.close()


class Lab:
    """One test's view of its module's `World`; see the top of this module."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.api = world.api
        self.upstream = world.upstream
        self.certificates = world.certificates
        self.secrets: set[str] = set()
        self._own: list[Proxy] = []
        self.used: list[Proxy] = []
        self.api.reset()
        self.upstream.reset()

    def token(self, reply: Reply | None = None) -> str:
        """A new token, a secret; with `reply`, what the API server says to it.

        A user without uid gets one of its own, so that no cached access review answers for it.
        """
        token = f"secret-{secrets.token_hex(8)}"
        self.secrets.add(token)
        if reply is not None:
            identity = reply.status.get("user")
            if isinstance(identity, dict):
                identity["uid"] = identity["uid"] or f"uid-{secrets.token_hex(4)}"
            self.api.tokens[token] = reply
        return token

    def start(
        self,
        *flags: str,
        config: Mapping[str, object] | str | None = None,
        env: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
        is_own: bool = False,
        awaited: Sequence[tuple[str, int]] = (),
    ) -> Proxy:
        """A proxy that accepts connections, with the usual flags and these.

        `--x=v` replaces a usual flag, `!--x` drops it, `${port}` in a flag is the secure port.
        `config` is the authorization file (a mapping or YAML text); `prefix` stands before the
        command line (`("sh", "-c", 'ulimit -n 64; exec "$@"', "sh")`). Equal calls in one module
        share a process, unless `is_own`. `awaited` are (host, port) pairs that must accept before
        the proxy counts as ready, instead of 127.0.0.1 and the secure port.
        """
        key = json.dumps([flags, config, env and dict(env), list(prefix)])
        proxy = None if is_own else self.world.shared.get(key)
        if proxy is None or proxy.process.poll() is not None:
            proxy = self._ready(flags, config, env or {}, prefix, awaited)
            if is_own:
                self._own.append(proxy)
            else:
                self.world.shared[key] = proxy
        if proxy not in self.used:
            self.used.append(proxy)
        return proxy

    def run(
        self,
        *flags: str,
        config: Mapping[str, object] | str | None = None,
        env: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
    ) -> Ended:
        """Start like `start`, for a process that should end by itself; fails when it doesn't."""
        proxy = self.world.launch(flags, config, env or {}, prefix)
        self._own.append(proxy)
        self.used.append(proxy)
        code = proxy.process.wait(PATIENCE_SECONDS)
        return Ended(code, proxy.text("out"), proxy.text("err"))

    def finish(self) -> list[str]:
        """End this test's own processes; what is wrong with what the used ones wrote."""
        for proxy in self._own:
            proxy.stop()
        return [complaint for proxy in self.used for complaint in proxy.judge(self.secrets)]

    def _ready(
        self,
        flags: Sequence[str],
        config: Mapping[str, object] | str | None,
        env: Mapping[str, str],
        prefix: Sequence[str],
        awaited: Sequence[tuple[str, int]],
    ) -> Proxy:
        for _ in range(_START_TRIES):
            proxy = self.world.launch(flags, config, env, prefix)
            try:
                if all(
                    accepts(proxy.process, *address)
                    for address in awaited or [("127.0.0.1", proxy.port)]
                ):
                    _wait_for_its_word(proxy)
                    return proxy
            except BaseException:
                proxy.stop()
                raise
            proxy.process.wait()
            if not re.search("in use", proxy.text()):  # somebody else was given the same port
                break
        raise AssertionError(f"ended with {proxy.process.returncode}:\n{proxy.text()}")


def _wait_for_its_word(proxy: Proxy) -> None:
    """Wait for the proxy's own line that it listens: another program may have had the port before.

    Not for long, for a test may have closed or redirected what it writes to.
    """
    deadline = time.monotonic() + 2.0
    while "Listening" not in proxy.text() and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)


def accepts(process: subprocess.Popen[bytes], host: str, port: int) -> bool:
    """Wait until the port accepts; false when the process ends before. Raises TimeoutError."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while process.poll() is None:
        with contextlib.suppress(OSError):
            socket.create_connection((host, port), 1).close()
            return True
        if time.monotonic() > deadline:
            raise TimeoutError(f"nothing accepts at {host}:{port}")
        time.sleep(_POLL_SECONDS)
    return False

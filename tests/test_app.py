"""The composition root: serves what the settings say until a signal, or starts nothing at all."""

import contextlib
import gc
import os
import resource
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pyrbacproxy import serve as app
from pyrbacproxy.access import AccessSettings
from pyrbacproxy.authz.attributes import AttributeSettings
from pyrbacproxy.config.settings import Address, Settings
from pyrbacproxy.http2.limits import Http2Limits
from pyrbacproxy.pages.status import PageSettings
from pyrbacproxy.proxy.connector import UpstreamSettings
from pyrbacproxy.proxy.exchange import Limits
from pyrbacproxy.signals import Signals
from pyrbacproxy.startup.gate import GateSettings
from pyrbacproxy.tls.server_context import TlsSettings
from pyrbacproxy.values import replace

GET = b"GET %s HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"


@pytest.fixture(autouse=True)
def _undone() -> Iterator[None]:
    """What serving changes for the whole process."""
    threshold = gc.get_threshold()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    gc.unfreeze()
    gc.set_threshold(*threshold)
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def _few_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def settings() -> Settings:
    return Settings(
        secure=_free_address(),
        insecure=None,
        endpoints=None,
        tls=TlsSettings(),
        upstream=UpstreamSettings(),
        access=AccessSettings(),
        attributes=AttributeSettings(),
        static_rules=(),
        audiences=(),
        oidc=None,
        kube=None,
        limits=Limits(shutdown_grace_seconds=5),
        http2=Http2Limits(),
        gate=GateSettings(),
        pages=PageSettings(),
        access_log="",
    )


def test_every_listener_serves_until_a_signal(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    insecure, endpoints = _free_address(), _free_address()
    settings = replace(settings, insecure=insecure, endpoints=endpoints)
    answers: list[bytes] = []

    def client() -> None:
        answers.append(_asked(settings.secure, b"/metrics", is_tls=True))
        answers.append(_asked(insecure, b"/metrics", is_tls=False))
        answers.append(_asked(endpoints, b"/healthz", is_tls=True))

    with caplog.at_level("INFO", "pyrbacproxy"):
        assert _served(settings, client) == 0
    assert [answer.partition(b"\r\n")[0] for answer in answers] == [
        b"HTTP/1.1 401 Unauthorized",
        b"HTTP/1.1 401 Unauthorized",
        b"HTTP/1.1 200 OK",
    ]
    lines = [record.getMessage() for record in caplog.records]
    assert settings.secure is not None
    assert f"Listening securely on {settings.secure.text}" in lines
    assert f"Listening insecurely on {insecure.text}" in lines
    assert lines[-1] == "received interrupt, shutting down"


def test_the_garbage_collector_is_on_while_serving(settings: Settings) -> None:
    """The program starts without it (`__main__`)."""
    seen: list[bool] = []

    def look() -> None:
        _asked(settings.secure, b"/metrics", is_tls=True)
        seen.append(gc.isenabled())

    gc.disable()
    try:
        assert _served(settings, look) == 0
    finally:
        gc.enable()
    assert seen == [True]


def test_ignored_paths_reach_a_tls_upstream_that_is_not_there(
    settings: Settings, tmp_path: Path
) -> None:
    closed = _free_address()
    settings = replace(
        settings,
        access=AccessSettings(ignore_paths=("/open",)),
        upstream=UpstreamSettings(scheme="https", host="127.0.0.1", port=closed.port),
    )
    answers: list[bytes] = []
    assert _served(settings, lambda: answers.append(_asked(settings.secure, b"/open"))) == 0
    assert answers[0].startswith(b"HTTP/1.1 502 ")
    assert not list(tmp_path.iterdir())


def test_a_taken_port_ends_the_start_and_leaves_no_other_bound(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        address = Address("127.0.0.1", port, "", "--port-of-pages=1")
        assert app.serve(replace(settings, endpoints=address), Signals()) == 1
    text = f"--port-of-pages=1: cannot listen on 127.0.0.1:{port}: Address already in use"
    assert caplog.messages == [f'"command failed" err="{text}"']
    assert settings.secure is not None
    with socket.create_server(("127.0.0.1", settings.secure.port)):
        """The first address is free again."""


def test_all_addresses_that_cannot_be_had_are_told_at_once(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    free = _free_address()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        settings = replace(
            settings,
            secure=Address("127.0.0.1", port, "", "--a=1"),
            insecure=free,
            endpoints=Address("192.0.2.1", 80, "", "--b=2 --c=3"),
        )
        assert app.serve(settings, Signals()) == 1
    texts = (
        f"--a=1: cannot listen on 127.0.0.1:{port}: Address already in use",
        "--b=2 --c=3: cannot listen on 192.0.2.1:80: Cannot assign requested address",
    )
    assert caplog.messages == [f'"command failed" err="{text}"' for text in texts]
    with socket.create_server(("127.0.0.1", free.port)):
        """The one that could be had is free again."""


def test_an_access_log_that_cannot_be_had_ends_the_start(
    settings: Settings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for path, reason in (
        (str(tmp_path), "Is a directory"),
        ("/dev/null", "not a regular file"),
        (str(tmp_path / "none" / "log"), "No such file or directory"),
    ):
        caplog.clear()
        assert app.serve(replace(settings, access_log=path), Signals()) == 1
        text = f"--access-log {path}: cannot be opened: {reason}"
        assert caplog.messages == [f'"command failed" err="{text}"']


def test_the_endpoints_port_leaves_no_line_in_the_access_log(
    settings: Settings, tmp_path: Path
) -> None:
    endpoints, log = _free_address(), tmp_path / "log"
    settings = replace(settings, endpoints=endpoints, access_log=str(log))

    def client() -> None:
        _asked(endpoints, b"/healthz", is_tls=True)
        _asked(settings.secure, b"/metrics", is_tls=True)

    assert _served(settings, client) == 0
    (line,) = log.read_text().splitlines()
    assert '"path":"/metrics","status":401,' in line


def test_a_port_that_cannot_be_had_late_is_told_with_its_flag(
    settings: Settings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gate = GateSettings(absent_paths=(str(tmp_path / "gone"),))
    address = Address("192.0.2.1", 80, "", "--a=1")
    endpoints = _free_address()
    assert (
        app.serve(replace(settings, secure=address, endpoints=endpoints, gate=gate), Signals()) == 1
    )
    text = "--a=1: cannot listen on 192.0.2.1:80: Cannot assign requested address"
    assert f'"command failed" err="{text}"' in caplog.messages
    with socket.create_server(("127.0.0.1", endpoints.port)):
        """The endpoints port is free again."""


@pytest.mark.usefixtures("_few_descriptors")
def test_descriptors_are_bounded_by_the_hard_limit_alone(settings: Settings) -> None:
    # A start that fails is the shortest run.
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = Address("127.0.0.1", taken.getsockname()[1], "taken")
        assert app.serve(replace(settings, secure=address), Signals()) == 1
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft == hard


def test_a_pair_that_vanished_since_the_check_ends_the_start(
    settings: Settings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = str(tmp_path / "pair.pem")
    settings = replace(settings, tls=TlsSettings(certificate_file=path, key_file=path))
    assert app.serve(settings, Signals()) == 1
    assert path in caplog.text


def test_a_wait_that_is_over_ends_the_program(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    endpoints = _free_address()
    assert settings.secure is not None
    gate = GateSettings(waits_for_port=True, timeout_seconds=0.1)
    with socket.create_server(("127.0.0.1", settings.secure.port)):
        assert app.serve(replace(settings, endpoints=endpoints, gate=gate), Signals()) == 1
    lines = caplog.messages
    assert "--startup-timeout=0.1s is over; still waiting for the port" in lines[-1]
    with socket.create_server(("127.0.0.1", endpoints.port)):
        """The endpoints port is free again."""


def test_what_waits_serves_once_it_may(settings: Settings, tmp_path: Path) -> None:
    manifest = tmp_path / "old.yaml"
    manifest.touch()
    endpoints = _free_address()
    gate = GateSettings((str(manifest),), waits_for_port=True)
    answers: list[bytes] = []

    def client() -> None:
        answers.append(_asked(endpoints, b"/readyz"))
        assert settings.secure is not None
        with socket.create_server(("127.0.0.1", settings.secure.port)):
            """Nobody has taken it."""
        manifest.unlink()
        answers.append(_asked(settings.secure, b"/metrics"))

    assert _served(replace(settings, endpoints=endpoints, gate=gate), client) == 0
    assert [answer.partition(b"\r\n")[0] for answer in answers] == [
        b"HTTP/1.1 200 OK",
        b"HTTP/1.1 401 Unauthorized",
    ]


def test_a_signal_ends_the_wait_with_success(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "old.yaml").touch()
    endpoints = _free_address()
    gate = GateSettings((str(tmp_path / "old.yaml"),))
    settings = replace(settings, endpoints=endpoints, gate=gate)
    # An answer, not a mere connection, shows that the signal finds its handler.
    assert _served(settings, lambda: _check_live(endpoints)) == 0


def _check_live(endpoints: Address) -> None:
    assert b" 200 OK" in _asked(endpoints, b"/livez")


def _free_address() -> Address:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    return Address("127.0.0.1", port, f"127.0.0.1:{port}")


def _served(settings: Settings, client: Callable[[], None]) -> int:
    """Serve here, for signals need the main thread; the client is another thread and ends it."""

    def run() -> None:
        try:
            client()
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    thread = threading.Thread(target=run)
    thread.start()
    try:
        return app.serve(settings, Signals())
    finally:
        thread.join()


def _asked(address: Address | None, path: bytes, *, is_tls: bool = True) -> bytes:
    assert address is not None
    with contextlib.ExitStack() as stack:
        connection = stack.enter_context(_connected(address.port))
        if is_tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            connection = stack.enter_context(context.wrap_socket(connection))
        connection.sendall(GET % path)
        answer = b""
        while data := connection.recv(65536):
            answer += data
        return answer


def _connected(port: int) -> socket.socket:
    """A connection, once there is a listener; pytest's own time limit ends a wait for ever."""
    for _ in range(2000):
        with contextlib.suppress(ConnectionRefusedError):
            return socket.create_connection(("127.0.0.1", port), 10)
        threading.Event().wait(0.01)
    raise AssertionError("nobody listens")

"""Field reports FR24 and FR26: certificates that change while the proxy runs (D10, D11)."""

import os
import ssl
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from tests.conformance import pki
from tests.field_reports.harness import Lab, Proxy, get
from tests.field_reports.servers import OK, Arrived
from tests.field_reports.watching import until

FAST = "--tls-reload-interval=100ms"
CERTIFICATES: dict[str, dict[str, object]] = {
    "ca-a": {"cn": ["ca-a"], "ca": True},
    "ca-b": {"cn": ["ca-b"], "ca": True},
    "a": {"cn": ["alice"], "issuer": "ca-a", "eku": ["client"]},
    "b": {"cn": ["alice"], "issuer": "ca-b", "eku": ["client"]},
    "old": {"cn": ["old"], "dns": ["proxy.test"], "eku": ["server"]},
    "new": {"cn": ["new"], "dns": ["proxy.test"], "eku": ["server"]},
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two client authorities with a client each, two serving pairs."""
    folder = tmp_path_factory.mktemp("reload")
    pki.build(CERTIFICATES, folder)
    return folder


# --- FR24: the client CA --------------------------------------------------------------


def by_rename(path: Path, content: bytes) -> None:
    fresh = path.with_suffix(".fresh")
    fresh.write_bytes(content)
    fresh.replace(path)


def by_new_file(path: Path, content: bytes) -> None:
    path.unlink()
    path.write_bytes(content)


def by_truncation(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def by_symlink(path: Path, content: bytes) -> None:
    """The path is a link into `..data`, itself a link that is swapped, as the kubelet does."""
    data = path.parent / "..data"
    version = path.parent / f"..{path.name}-{len(list(path.parent.iterdir()))}"
    version.mkdir()
    (version / path.name).write_bytes(content)
    fresh = path.parent / "..fresh"
    fresh.symlink_to(version.name)
    fresh.replace(data)
    if not path.is_symlink():
        path.unlink()
        path.symlink_to(f"..data/{path.name}")


def trusting_a(lab: Lab, made: Path) -> tuple[Proxy, Path]:
    """The proxy of all FR24 tests, which trusts client CA `a` again, and the CA's file."""
    file = made / "client-ca.crt"
    by_rename(file, (made / "ca-a.crt").read_bytes())
    proxy = lab.start(f"--client-ca-file={file}", FAST)
    until(lambda: proxy.ask(get(), made / "a").status == 200, "trust in a")
    until(lambda: proxy.ask(get(), made / "b").status == 401, "no trust in b")
    return proxy, file


def hold_nothing(_: Path, __: ExitStack) -> None:
    """Nobody else knows the file."""


def hold_hard_link(path: Path, _: ExitStack) -> None:
    """A second name keeps the replaced inode alive."""
    (path.parent / "kept").unlink(missing_ok=True)
    (path.parent / "kept").hardlink_to(path)


def hold_handle(path: Path, stack: ExitStack) -> None:
    """An open handle keeps the replaced inode alive."""
    stack.enter_context(path.open())


@pytest.mark.parametrize(
    ("replace", "hold"),
    [
        pytest.param(by_rename, hold_nothing, id="rename"),
        pytest.param(by_rename, hold_hard_link, id="rename-with-hard-link"),
        pytest.param(by_rename, hold_handle, id="rename-with-open-handle"),
        pytest.param(by_new_file, hold_nothing, id="unlink-and-create"),
        pytest.param(by_new_file, hold_handle, id="unlink-and-create-with-open-handle"),
        pytest.param(by_truncation, hold_nothing, id="truncate-and-write"),
        pytest.param(by_symlink, hold_nothing, id="symlink-swap"),
    ],
)
def test_fr24_every_new_client_ca_counts_and_every_dropped_one_does_not(
    lab: Lab,
    made: Path,
    replace: Callable[[Path, bytes], None],
    hold: Callable[[Path, ExitStack], None],
) -> None:
    proxy, file = trusting_a(lab, made)
    good, bad = made / "a", made / "b"
    with ExitStack() as stack:
        for swap in range(3):
            hold(file, stack)
            good, bad = bad, good
            replace(file, (made / f"ca-{good.name}.crt").read_bytes())
            until(lambda: proxy.ask(get(), good).status == 200, f"effect of {swap}")  # noqa: B023
            assert proxy.ask(get(), bad).status == 401, f"still trusted after swap {swap}"


def test_fr24_a_live_connection_is_judged_by_the_new_client_ca(lab: Lab, made: Path) -> None:
    proxy, file = trusting_a(lab, made)
    with proxy.connect(made / "a") as old, proxy.connect(made / "b") as new:

        def statuses() -> list[int]:
            for client in (old, new):
                client.send(get())
            return [old.answer().status, new.answer().status]

        assert statuses() == [200, 401]
        by_rename(file, (made / "ca-b.crt").read_bytes())
        until(lambda: statuses() == [401, 200], "new judgement")
        by_rename(file, (made / "ca-a.crt").read_bytes() + (made / "ca-b.crt").read_bytes())
        until(lambda: statuses() == [200, 200], "trust in both")


def test_a_tunnel_outlives_the_trust_in_its_client(lab: Lab, made: Path) -> None:
    """Who may is asked once, at the upgrade (reference 6.4)."""
    proxy, file = trusting_a(lab, made)

    def echo_once(request: Arrived) -> None:
        request.send(b"HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
        request.send(request.connection.recv(100))
        request.close()

    lab.upstream.script = echo_once
    with proxy.connect(made / "a") as client:
        client.send(get("/ws", "Connection: Upgrade", "Upgrade: echo"))
        assert client.answer().status == 101
        lab.upstream.script = OK
        by_rename(file, (made / "ca-b.crt").read_bytes())
        until(lambda: proxy.ask(get(), made / "a").status == 401, "no trust in a")
        client.send(b"still here")
        assert client.end() == b"still here"


@pytest.mark.parametrize(
    "content", [b"", b"garbage\n", b"-----BEGIN CERTIFICATE-----\nAAAA\n"], ids=repr
)
def test_fr24_a_bad_client_ca_keeps_the_old_one(lab: Lab, made: Path, content: bytes) -> None:
    proxy, file = trusting_a(lab, made)
    before = len(proxy.text())
    by_rename(file, content)
    until(lambda: str(file) in proxy.text()[before:], "line about the bad file")
    assert proxy.ask(get(), made / "a").status == 200
    file.unlink()
    assert proxy.ask(get(), made / "a").status == 200
    by_rename(file, (made / "ca-b.crt").read_bytes())
    until(lambda: proxy.ask(get(), made / "b").status == 200, "trust in the next good one")
    assert proxy.ask(get(), made / "a").status == 401


# --- FR26: the serving pair -----------------------------------------------------------


def served(proxy: Proxy) -> str:
    """The common name of the certificate that a new connection sees."""
    with proxy.connect() as client:
        assert isinstance(client.connection, ssl.SSLSocket)
        shown = client.connection.getpeercert(binary_form=True)
    assert shown is not None
    name = x509.load_der_x509_certificate(shown).subject
    return str(name.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)


class Pair:
    """A serving pair on disk, and a client CA whose swaps show that reload periods pass."""

    def __init__(self, made: Path) -> None:
        self.made = made
        self.certificate, self.key, self.ca = (made / name for name in ("t.crt", "t.key", "t.ca"))

    def start(self, lab: Lab) -> Proxy:
        """The proxy of all FR26 tests, which serves the old pair again."""
        self.put(self.certificate, "old.crt")
        self.put(self.key, "old.key")
        self.put(self.ca, "ca-a.crt")
        self.proxy = lab.start(
            f"--tls-cert-file={self.certificate}",
            f"--tls-private-key-file={self.key}",
            f"--client-ca-file={self.ca}",
            FAST,
        )
        until(lambda: served(self.proxy) == "old", "old pair")
        until(lambda: self.proxy.ask(get(), self.made / "a").status == 200, "trust in a")
        self._told = len(self.proxy.text())
        return self.proxy

    def put(self, path: Path, source: str) -> None:
        by_rename(path, (self.made / source).read_bytes())

    def let_periods_pass(self) -> None:
        """Two looks at the files and more, each seen by its effect."""
        for name in ("b", "a"):
            self.put(self.ca, f"ca-{name}.crt")
            client = self.made / name
            until(lambda: self.proxy.ask(get(), client).status == 200, "reload")  # noqa: B023

    def complaints(self) -> list[str]:
        """What was logged since the start as a warning or an error about either file."""
        lines = self.proxy.text()[self._told :].splitlines()
        lines = [line for line in lines if line[:1] in ("E", "W")]
        return [line for line in lines if str(self.certificate) in line or str(self.key) in line]


@pytest.fixture
def pair(made: Path) -> Pair:
    return Pair(made)


@pytest.mark.parametrize("order", [["crt", "key"], ["key", "crt"]], ids="-then-".join)
def test_fr26_a_half_rotated_pair_keeps_the_old_one(lab: Lab, pair: Pair, order: list[str]) -> None:
    proxy = pair.start(lab)
    files = {"crt": pair.certificate, "key": pair.key}
    pair.put(files[order[0]], f"new.{order[0]}")
    until(pair.complaints, "complaint about the mismatch")
    pair.let_periods_pass()
    assert served(proxy) == "old"
    assert len(pair.complaints()) == 1
    pair.put(files[order[1]], f"new.{order[1]}")
    until(lambda: served(proxy) == "new", "new pair")
    assert proxy.process.poll() is None


def spoil_by_truncation(file: Path) -> None:
    # In one step: a file that is written anew is empty for a moment.
    os.truncate(file, file.stat().st_size // 2)


def spoil_by_removal(file: Path) -> None:
    file.unlink()


def spoil_by_directory(file: Path) -> None:
    """Unreadable for everybody, root too; in one step, or it would be missing for a moment."""
    link = file.with_suffix(".link")
    link.symlink_to(file.parent)
    link.replace(file)


@pytest.mark.parametrize(
    ("which", "spoil"),
    [
        pytest.param("certificate", spoil_by_truncation, id="truncated-certificate"),
        pytest.param("key", spoil_by_truncation, id="truncated-key"),
        pytest.param("certificate", spoil_by_removal, id="removed-certificate"),
        pytest.param("key", spoil_by_directory, id="unreadable-key"),
    ],
)
def test_fr26_a_file_that_went_bad_keeps_the_old_pair(
    lab: Lab, pair: Pair, which: str, spoil: Callable[[Path], None]
) -> None:
    proxy = pair.start(lab)
    file = pair.certificate if which == "certificate" else pair.key
    spoil(file)
    complaint = until(pair.complaints, "complaint")[0]
    assert str(file) in complaint
    pair.let_periods_pass()
    assert served(proxy) == "old"
    assert pair.complaints() == [complaint]
    pair.put(pair.certificate, "new.crt")
    pair.put(pair.key, "new.key")
    until(lambda: served(proxy) == "new", "new pair")
    assert proxy.process.poll() is None


def test_fr26_no_request_is_lost_by_a_reload(lab: Lab, pair: Pair) -> None:
    """A connection made before the change goes on; each new one works with either pair."""
    proxy = pair.start(lab)
    with proxy.connect(pair.made / "a") as before:
        before.send(get())
        assert before.answer().status == 200
        pair.put(pair.certificate, "new.crt")
        pair.put(pair.key, "new.key")
        until(lambda: served(proxy) == "new", "new pair")
        before.send(get())
        assert before.answer().status == 200

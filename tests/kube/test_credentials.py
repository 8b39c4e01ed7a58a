import asyncio
import json
import logging
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from pyrbacproxy.demo.pki import Authority
from pyrbacproxy.egress import ProxyAddress
from pyrbacproxy.kube.credentials import (
    Child,
    CredentialError,
    Credentials,
    Kubeconfig,
    ServiceAccount,
    source_of,
)
from pyrbacproxy.kube.kubeconfig import ApiServer, KubeSettings
from pyrbacproxy.kube.kubeconfig_file import digest_of
from tests.kube.parties import Held, kubeconfig, service_account

FIRST = ApiServer("https://a", authorization="Bearer 1")
SECOND = ApiServer("https://a", authorization="Bearer 2")


class FakeSource:
    def __init__(self, *results: ApiServer | Exception) -> None:
        self.results = list(results)
        self.reads = 0
        self.refusals = 0
        self.gate = threading.Event()
        self.gate.set()

    def read(self, *, is_refused: bool = False) -> ApiServer:
        self.reads += 1
        self.refusals += is_refused
        self.gate.wait(10)
        result = self.results.pop(0) if len(self.results) > 1 else self.results[0]
        if isinstance(result, Exception):
            raise result
        return result

    def close(self) -> None:
        self.gate.set()


class Clock:
    def __init__(self) -> None:
        self.now = 500.0

    def __call__(self) -> float:
        return self.now


def keeper(source: FakeSource) -> tuple[Credentials, Clock]:
    clock = Clock()
    return Credentials(source, clock=clock, wall_clock=clock), clock


async def test_fr39_a_credential_is_read_again_after_a_minute() -> None:
    source = FakeSource(FIRST, SECOND)
    credentials, clock = keeper(source)
    assert await credentials.current() == FIRST
    clock.now += 59.9
    assert await credentials.current() == FIRST
    assert source.reads == 1
    clock.now += 0.1
    assert await credentials.current() == SECOND


async def test_a_reading_begun_early_serves_those_who_come_later() -> None:
    source = FakeSource(FIRST)
    source.gate.clear()
    credentials, _ = keeper(source)
    reading = credentials.begin_reading()
    assert credentials.begin_reading() is reading
    source.gate.set()
    assert await credentials.current() == FIRST
    assert source.reads == 1


async def test_fr39_a_refused_credential_is_read_again_at_once() -> None:
    source = FakeSource(FIRST, SECOND)
    credentials, _ = keeper(source)
    await credentials.current()
    assert source.refusals == 0
    assert await credentials.after_refusal(FIRST) == SECOND
    assert (source.reads, source.refusals) == (2, 1)


async def test_a_refusal_that_came_late_reads_nothing() -> None:
    source = FakeSource(FIRST, SECOND)
    credentials, _ = keeper(source)
    await credentials.current()
    await credentials.after_refusal(FIRST)
    assert await credentials.after_refusal(FIRST) == SECOND
    assert source.reads == 2


async def test_a_credential_that_expires_sooner_is_read_sooner() -> None:
    source = FakeSource(ApiServer("https://a", expires_at=530.0), FIRST)
    credentials, clock = keeper(source)
    await credentials.current()
    clock.now = 529.0
    await credentials.current()
    assert source.reads == 1
    clock.now = 530.0
    assert await credentials.current() == FIRST


async def test_a_credential_that_stays_expired_is_not_read_for_every_review() -> None:
    source = FakeSource(ApiServer("https://a", expires_at=1.0))
    credentials, clock = keeper(source)
    await credentials.current()
    clock.now += 4.9
    await credentials.current()
    assert source.reads == 1
    clock.now += 0.1
    await credentials.current()
    assert source.reads == 2


async def test_whatever_breaks_a_reading_leaves_the_old_in_use_and_quotes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = FakeSource(FIRST, RuntimeError("s3cret"))
    credentials, clock = keeper(source)
    await credentials.current()
    clock.now += 60
    assert await credentials.current() == FIRST
    assert caplog.messages == ["API server credential: unexpected RuntimeError, to be tried again"]
    assert "s3cret" not in caplog.text


async def test_d38_what_cannot_be_renewed_is_used_until_its_own_end() -> None:
    expiring = ApiServer("https://a", expires_at=570.0)
    failure = CredentialError("the plugin failed")
    source = FakeSource(expiring, failure)
    credentials, clock = keeper(source)
    assert await credentials.current() == expiring
    clock.now = 569.9
    assert await credentials.after_refusal(expiring) == expiring
    assert source.reads == 2
    clock.now = 570.0
    with pytest.raises(CredentialError, match="the plugin failed"):
        await credentials.current()


async def test_without_a_credential_whatever_broke_is_the_reason() -> None:
    credentials, _ = keeper(FakeSource(ValueError("s3cret")))
    with pytest.raises(CredentialError, match=r"^could not be read: ValueError$"):
        await credentials.current()


async def test_fr39_a_good_credential_survives_a_bad_file_and_that_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failure = CredentialError("token cannot be read")
    source = FakeSource(FIRST, failure, failure, SECOND)
    credentials, clock = keeper(source)
    for _ in range(3):
        assert await credentials.current() == FIRST
        clock.now += 60.0
    assert [record.message for record in caplog.records] == [
        "API server credential: token cannot be read"
    ]
    with caplog.at_level(logging.INFO):
        assert await credentials.current() == SECOND
    assert "has changed" in caplog.records[-1].message
    assert "Bearer" not in caplog.text


async def test_without_any_credential_there_is_an_error_and_no_storm_of_reads() -> None:
    source = FakeSource(CredentialError("token cannot be read"), FIRST)
    credentials, clock = keeper(source)
    for _ in range(3):
        with pytest.raises(CredentialError, match="cannot be read"):
            await credentials.current()
    assert source.reads == 1
    clock.now += 5.0
    assert await credentials.current() == FIRST


async def test_many_share_one_reading_that_outlives_them() -> None:
    source = FakeSource(FIRST)
    source.gate.clear()
    credentials, _ = keeper(source)
    impatient = asyncio.create_task(credentials.current())
    await asyncio.sleep(0)
    impatient.cancel()
    patient = [asyncio.create_task(credentials.current()) for _ in range(3)]
    await asyncio.sleep(0)
    source.gate.set()
    assert await asyncio.gather(*patient) == [FIRST] * 3
    assert source.reads == 1


# --- the service account ------------------------------------------------------------


def test_a_service_account_is_two_files(tmp_path: Path) -> None:
    ca = Authority(tmp_path).certificate_file.read_bytes()
    settings = service_account(tmp_path, "https://10.0.0.1:443", ca)
    server = ServiceAccount(settings).read()
    assert server == ApiServer("https://10.0.0.1:443", ca=ca.decode(), authorization="Bearer own-1")
    assert isinstance(source_of(settings), ServiceAccount)


@pytest.mark.parametrize("ca", [b"", b" \n", b"-----BEGIN CERTIFICATE-----\nMIIB"])
def test_fr39_a_ca_that_is_none_is_not_taken_for_the_system_s(tmp_path: Path, ca: bytes) -> None:
    settings = service_account(tmp_path, "https://a", ca)
    with pytest.raises(CredentialError, match=r"ca\.crt holds (no|a bad) certificate"):
        ServiceAccount(settings).read()


def test_fr39_a_token_is_renewed_while_the_ca_s_file_is_bad(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It lasts an hour, and whom we trust does not change with it."""
    ca = Authority(tmp_path).certificate_file.read_bytes()
    source = ServiceAccount(service_account(tmp_path, "https://a", ca))
    source.read()
    (tmp_path / "token").write_text("own-2")
    for bad in (b"", b"", None, ca):
        if bad is None:
            (tmp_path / "ca.crt").unlink()
        else:
            (tmp_path / "ca.crt").write_bytes(bad)
        assert source.read() == ApiServer("https://a", ca=ca.decode(), authorization="Bearer own-2")
    assert [message.removeprefix(f"{tmp_path}/") for message in caplog.messages] == [
        "ca.crt holds no certificate: the old one stays in use",
        "ca.crt cannot be read: No such file or directory: the old one stays in use",
    ]


@pytest.mark.parametrize("token", ["", "two\nlines", "\u00e9"])
def test_what_is_no_token_is_refused_unquoted(tmp_path: Path, token: str) -> None:
    settings = service_account(tmp_path, "https://a", b"PEM", token)
    with pytest.raises(CredentialError, match=r"holds no token$"):
        ServiceAccount(settings).read()


@pytest.mark.parametrize("name", ["token", "ca.crt"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    settings = service_account(tmp_path, "https://a", b"PEM")
    (tmp_path / name).unlink()
    with pytest.raises(CredentialError, match=f"{name} cannot be read: No such file"):
        ServiceAccount(settings).read()


# --- the kubeconfig -----------------------------------------------------------------


class FakeChild:
    """Stands for `Child.output`."""

    def __init__(self, *outputs: str | Exception) -> None:
        self.outputs = list(outputs)
        self.commands: list[list[str]] = []

    def __call__(self, command: list[str]) -> bytes:
        self.commands.append(command)
        output = self.outputs.pop(0)
        if isinstance(output, Exception):
            raise output
        return output.encode()


def output(path: Path, **changes: Any) -> str:
    resolved = {
        "url": "https://a/",
        "ca": "",
        "certificate": "",
        "key": "",
        "authorization": "Bearer 1",
        "is_verified": True,
        "expires_at": None,
        "server_name": "",
        "proxy_url": "",
        "impersonation": [],
        "is_from_plugin": False,
        "files": {str(path): digest_of(path)},
    }
    return json.dumps(resolved | changes)


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    path = tmp_path / "kc"
    kubeconfig(path, {"server": "https://a"})
    return path


def test_a_real_child_resolves_a_kubeconfig(path: Path) -> None:
    source = source_of(KubeSettings(kubeconfig=str(path)))
    assert source.read() == ApiServer("https://a")


def test_the_child_runs_again_only_when_a_file_has_changed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = FakeChild(output(path), output(path, authorization="Bearer 2"))
    monkeypatch.setattr(Child, "output", child)
    source = Kubeconfig(str(path))
    assert source.read() == source.read() == FIRST
    assert len(child.commands) == 1
    assert child.commands[0][-1] == str(path)
    path.write_text(path.read_text() + "\n")
    assert source.read() == SECOND


def test_the_child_runs_again_when_the_credential_has_expired(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = FakeChild(output(path, expires_at=600.0), output(path))
    monkeypatch.setattr(Child, "output", child)
    clock = Clock()
    source = Kubeconfig(str(path), wall_clock=clock)
    source.read()
    clock.now = 599.0
    assert source.read().expires_at == 600.0
    clock.now = 600.0
    assert source.read() == FIRST


def test_a_kubeconfig_that_turns_bad_is_not_resolved(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = FakeChild()
    monkeypatch.setattr(Child, "output", child)
    path.write_text("{}")
    with pytest.raises(CredentialError, match="current-context"):
        Kubeconfig(str(path)).read()
    assert child.commands == []


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ('{"problem": "kc: Expected key"}', "kubeconfig kc: Expected key"),
        ("", "could not be resolved"),
        ("[]", "could not be resolved"),
        ('{"url": "https://a", "token": "s3cret"}', "could not be resolved"),
        ('{"url": "https://a", "token": "s3cret", "files": {}}', "could not be resolved"),
        (OSError("no memory"), "could not be resolved"),
        (subprocess.TimeoutExpired(["x"], 20, output=b"s3cret"), "not resolved in 20 s"),
    ],
)
def test_fr67_a_child_that_fails_is_told_without_its_output(
    path: Path, monkeypatch: pytest.MonkeyPatch, result: str | Exception, said: str
) -> None:
    monkeypatch.setattr(Child, "output", FakeChild(result))
    with pytest.raises(CredentialError, match=said) as caught:
        Kubeconfig(str(path)).read()
    assert "s3cret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_token_with_a_line_end_in_it_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Child, "output", FakeChild(output(path, authorization="Bearer s3\ncret")))
    with pytest.raises(CredentialError, match=r"its token is no token$"):
        Kubeconfig(str(path)).read()


def test_a_child_that_is_killed_answers_nothing_and_nobody_waits_for_it() -> None:
    child, outputs = Child(), []
    sleeping = [sys.executable, "-c", "import time; time.sleep(60)"]
    thread = threading.Thread(target=lambda: outputs.append(child.output(sleeping)))
    thread.start()
    while child._process is None:
        thread.join(0.01)
    child.kill()
    thread.join(30)
    assert outputs == [b""]
    assert child.output(sleeping) == b""  # whoever comes later is ended too


async def test_closing_ends_a_reading_and_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    source = FakeSource(CredentialError("the child was ended"))
    source.gate.clear()
    credentials = Credentials(source)
    reading = credentials.begin_reading()
    credentials.close()
    with pytest.raises(CredentialError):
        await reading
    assert not caplog.records


def test_a_service_account_and_a_kubeconfig_can_be_closed(path: Path) -> None:
    for settings in (KubeSettings(), KubeSettings(kubeconfig=str(path))):
        source_of(settings).close()


async def test_what_a_plugin_started_ends_with_the_child(tmp_path: Path) -> None:
    held = Held(tmp_path / "pipe")
    starting = f"import subprocess; subprocess.run({[sys.executable, '-c', held.program]!r})"
    child = Child()
    running = asyncio.create_task(asyncio.to_thread(child.output, [sys.executable, "-c", starting]))
    await held.is_up()
    child.kill()
    await held.is_gone()
    assert await running == b""


def test_a_child_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyrbacproxy.kube.credentials.CHILD_SECONDS", 0.01)
    with pytest.raises(subprocess.TimeoutExpired):
        Child().output([sys.executable, "-c", "import time; time.sleep(600)"])


def test_a_plugin_whose_credential_is_refused_is_run_again_but_not_for_every_refusal(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs = [output(path, is_from_plugin=True, authorization=f"Bearer {n}") for n in range(9)]
    monkeypatch.setattr(Child, "output", child := FakeChild(*outputs))
    clock = Clock()
    source = Kubeconfig(str(path), clock=clock)
    found = [source.read().authorization]
    for seconds in (0.0, 0.1, 9.8, 0.1):
        clock.now += seconds
        found.append(source.read(is_refused=True).authorization)
    assert found == ["Bearer 0", "Bearer 1", "Bearer 1", "Bearer 1", "Bearer 2"]
    assert len(child.commands) == 3


def test_an_expired_credential_is_not_asked_for_anew_for_every_refusal(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expired = output(path, is_from_plugin=True, expires_at=1.0)
    monkeypatch.setattr(Child, "output", child := FakeChild(*[expired] * 9))
    clock = Clock()
    source = Kubeconfig(str(path), clock=clock, wall_clock=clock)
    source.read()
    for _ in range(5):
        assert source.read(is_refused=True).expires_at == 1.0
    assert len(child.commands) == 2
    source.read()  # which is due every 5 s at most
    assert len(child.commands) == 3


def test_a_kubeconfig_that_cannot_be_resolved_is_not_tried_for_every_refusal(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = '{"problem": "kc: its plugin failed"}'
    child = FakeChild(output(path), bad, bad, output(path, authorization="Bearer 2"))
    monkeypatch.setattr(Child, "output", child)
    clock = Clock()
    source = Kubeconfig(str(path), clock=clock)
    assert source.read() == FIRST
    before = path.read_text()
    path.write_text(f"{before}\n")
    for _ in range(5):
        # Said again, so that the one who waits for it looks again soon.
        with pytest.raises(CredentialError, match="its plugin failed"):
            source.read(is_refused=True)
    assert len(child.commands) == 2
    path.write_text(before)
    assert source.read() == FIRST  # nothing is wrong with what it was resolved from
    path.write_text(f"{before}\n")
    clock.now += 10.0
    with pytest.raises(CredentialError):
        source.read(is_refused=True)
    clock.now += 10.0
    assert source.read(is_refused=True).authorization == "Bearer 2"


def test_files_that_change_once_more_are_read_at_once(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = FakeChild(output(path))
    monkeypatch.setattr(Child, "output", child)
    source = Kubeconfig(str(path), clock=Clock())
    source.read()
    for _ in range(3):
        path.write_text(path.read_text() + "\n")
        child.outputs.append(output(path))
        source.read(is_refused=True)
    assert len(child.commands) == 4


def test_a_refused_credential_without_a_plugin_is_looked_for_in_the_files(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Child, "output", child := FakeChild(output(path)))
    source = Kubeconfig(str(path))
    assert source.read() == source.read(is_refused=True)
    assert len(child.commands) == 1


def test_everything_that_a_kubeconfig_says_of_the_way_is_kept(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = output(
        path,
        server_name="b",
        proxy_url="http://me:s3cret@p:3128",
        impersonation=[["Impersonate-User", "admin"]],
    )
    monkeypatch.setattr(Child, "output", FakeChild(said))
    server = Kubeconfig(str(path)).read()
    assert server.server_name == "b"
    assert server.proxy == ProxyAddress("http", "p", 3128, "Basic bWU6czNjcmV0")
    assert server.impersonation == (("Impersonate-User", "admin"),)
    assert "s3cret" not in repr(server)

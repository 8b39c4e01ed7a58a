"""D38: whatever goes on beside the requests is tried again after any fault, which is told once."""

import asyncio
import errno
import logging
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from pyrbacproxy import background
from pyrbacproxy.background import Activity, LoopFaults
from pyrbacproxy.kube.credentials import CredentialError, Credentials
from pyrbacproxy.kube.kubeconfig import ApiServer
from pyrbacproxy.model import ExchangeRecord
from pyrbacproxy.observe.access_log import AccessLog, open_outlet
from pyrbacproxy.observe.metrics import LAG_BOUNDS, Histogram
from pyrbacproxy.observe.process import LoopLag
from pyrbacproxy.oidc.issuer import Issuer
from pyrbacproxy.oidc.settings import OidcSettings
from pyrbacproxy.proxy import listener
from pyrbacproxy.proxy import transport as deadline
from pyrbacproxy.proxy.exchange import Limits
from pyrbacproxy.proxy.listener import Listener
from pyrbacproxy.proxy.transport import Deadline
from pyrbacproxy.startup.gate import GateSettings
from pyrbacproxy.startup.watch import Watch
from pyrbacproxy.tls.files import WatchedFiles
from pyrbacproxy.tls.reloader import TlsReloader
from pyrbacproxy.tls.server_context import TlsSettings
from pyrbacproxy.wiring import background as background_check

SECONDS = 20.0
PAUSE_SECONDS = 0.01
SECRET = "s3" + "cret"


class UnforeseenError(Exception):
    """Of a type that nobody expects."""


class Once:
    """Raises at its first call."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, *_: object) -> None:
        self.calls += 1
        if self.calls == 1:
            raise UnforeseenError(SECRET)


class Quick:
    """The running loop, with another way of doing some of it."""

    def __init__(self, **others: object) -> None:
        self._loop = asyncio.get_running_loop()
        self.__dict__.update(others)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def as_loop(self) -> asyncio.AbstractEventLoop:
        return cast("asyncio.AbstractEventLoop", self)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.005)


def loop_faults() -> LoopFaults:
    faults = LoopFaults()
    asyncio.get_running_loop().set_exception_handler(faults.handle)
    return faults


async def over(faults: LoopFaults, once: Once) -> Activity:
    """Once the loop's fault is past."""

    def is_over() -> bool:
        faults.look(asyncio.get_running_loop())
        return once.calls > 1 and not faults.fault

    await until(is_over)
    return faults


async def ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


# --- each of them: fails once, then works ---------------------------------------------


async def reload(once: Once, folder: Path) -> Activity:
    path, used = folder / "file", []

    def use(contents: tuple[bytes, ...]) -> None:
        if contents != (b"old",):
            once()
        used.append(contents)

    path.write_bytes(b"old")
    files, other = (WatchedFiles(name, (str(path),), use) for name in ("some", "others"))
    reloader = TlsReloader(
        TlsSettings(reload_seconds=PAUSE_SECONDS), lambda _: None, lambda _: None, [files, other]
    )
    reloader.load()
    path.write_bytes(b"new")
    task = asyncio.create_task(reloader.run())
    await until(lambda: once.calls == 3 and not reloader.activity.fault)
    assert used == [(b"old",), (b"old",), (b"new",), (b"new",)]
    assert (files.failures, other.failures, files.fault) == (1, 0, "")
    await ended(task)
    return reloader.activity


async def oidc_keys(once: Once, _folder: Path) -> Activity:
    class Scripted(Issuer):
        async def _renewed(self) -> float:
            once()
            return SECONDS

    issuer = Scripted(OidcSettings("https://i.test", "c"), lambda: None)  # type: ignore[arg-type,return-value]
    task = asyncio.create_task(issuer.run())
    await until(lambda: once.calls == 2 and not issuer.activity.fault)
    await ended(task)
    return issuer.activity


async def credential(once: Once, _folder: Path) -> Activity:
    class Source:
        def read(self, *, is_refused: bool = False) -> ApiServer:  # noqa: ARG002
            once()
            return ApiServer("https://a")

        def close(self) -> None:
            """Nothing lasts."""

    now = 0.0
    credentials = Credentials(Source(), clock=lambda: now)
    with pytest.raises(CredentialError, match=r"^could not be read: UnforeseenError$"):
        await credentials.current()
    assert credentials.activity.fault
    now = PAUSE_SECONDS
    assert await credentials.current() == ApiServer("https://a")
    return credentials.activity


async def gate(once: Once, folder: Path) -> Activity:
    def pair() -> str:
        once()
        return ""

    watch = Watch(
        GateSettings(waits_for_pair=True),
        pair_files=(str(folder / "pair"),),
        load_pair=pair,
        bind=list,
        prepare=lambda: None,
    )
    async with asyncio.timeout(SECONDS):
        assert await watch.opened() == []
    return watch.activity


async def access_log(once: Once, folder: Path) -> Activity:
    outlet = open_outlet(str(folder / "log"))
    write = outlet.write

    def scripted(lines: bytes) -> bool:
        once()
        return write(lines)

    outlet.write = scripted  # type: ignore[method-assign]
    log = AccessLog(outlet, asyncio.get_running_loop(), lambda: 0.0)
    log.observe(ExchangeRecord("192.0.2.1", "GET", "/"))
    await until(lambda: once.calls == 2)
    log.close()
    assert (folder / "log").read_text().count("\n") == 1
    assert log.dropped == 0
    return log.activity


async def deadline_of_a_connection(once: Once, _folder: Path) -> Activity:
    faults = loop_faults()
    Deadline(asyncio.get_running_loop(), once).set(0.001)
    return await over(faults, once)


async def accepting_again(once: Once, _folder: Path) -> Activity:
    class Poor(socket.socket):
        has_been_poor = False

        def accept(self) -> tuple[socket.socket, Any]:
            if not self.has_been_poor:
                self.has_been_poor = True
                raise OSError(errno.EMFILE, "Too many open files")
            return super().accept()

    loop = asyncio.get_running_loop()

    def add_reader(*words: Any) -> None:
        if listening.has_been_poor:
            once()  # that it is asked for again is enough: nobody is to be let in
        else:
            loop.add_reader(*words)

    faults = loop_faults()
    with Poor() as listening:
        listening.setblocking(False)
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        made = Listener(
            [listening],
            lambda _: pytest.fail("nobody is let in"),
            Limits(),
            loop=Quick(add_reader=add_reader).as_loop(),
        )
        made.start()
        with socket.create_connection(listening.getsockname()):
            await until(lambda: once.calls == 2)
            made.stop_accepting()
    return await over(faults, once)


async def loop_lag(once: Once, _folder: Path) -> Activity:
    class Broken(Histogram):
        def add(self, value: float) -> None:
            once()
            super().add(value)

    lag, faults = Broken(LAG_BOUNDS), loop_faults()
    observe = LoopLag(asyncio.get_running_loop(), lag).observe
    for instant in (1.0, 2.0):
        observe(ExchangeRecord("192.0.2.1", "GET", "/", ended_at=instant))
    activity = await over(faults, once)
    assert sum(lag.counts) == 1
    return activity


TASKS = (
    *(reload, oidc_keys, credential, gate, access_log),
    *(deadline_of_a_connection, accepting_again, loop_lag),
)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.__name__)
async def test_d38_what_fails_once_in_an_unforeseen_way_works_again(
    task: Callable[[Once, Path], Awaitable[Activity]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(background, "FIRST_PAUSE_SECONDS", PAUSE_SECONDS)
    monkeypatch.setattr(deadline, "FIRST_PAUSE_SECONDS", PAUSE_SECONDS)
    monkeypatch.setattr(background, "LONGEST_PAUSE_SECONDS", PAUSE_SECONDS)
    monkeypatch.setattr(listener, "_PAUSE_SECONDS", PAUSE_SECONDS)
    activity = await task(Once(), tmp_path)
    told = [record for record in caplog.records if record.name == background.__name__]
    assert [record.levelname for record in told] == ["ERROR", "INFO"]
    assert told[0].exc_info is not None
    assert told[0].getMessage().startswith(f"{activity.name}: ")
    assert told[1].getMessage() == f"{activity.name}: works again"
    assert (activity.failures, activity.fault) == (1, "")


# --- how ------------------------------------------------------------------------------


def test_the_pause_doubles_up_to_a_minute_and_begins_anew() -> None:
    activity = Activity("a")
    pauses = [activity.failed(UnforeseenError()) for _ in range(8)]
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
    activity.worked()
    assert activity.failed(UnforeseenError()) == 1
    assert activity.failures == 9


def test_a_traceback_is_told_at_a_change_of_state(caplog: pytest.LogCaptureFixture) -> None:
    activity = Activity("a")
    for error in (UnforeseenError("x"), UnforeseenError("x"), UnforeseenError("y")):
        activity.failed(error)
    group = ExceptionGroup("some", [UnforeseenError("x"), KeyError("y")])
    activity.failed(group)
    activity.failed(ExceptionGroup("some", [UnforeseenError("x"), KeyError("z")]))
    assert caplog.messages == [
        *["a: unexpected UnforeseenError, to be tried again"] * 2,
        *["a: unexpected ExceptionGroup, to be tried again"] * 2,
    ]


def test_what_may_quote_a_secret_is_told_without_its_words(
    caplog: pytest.LogCaptureFixture,
) -> None:
    activity = Activity("a", withholds_text=True)
    try:
        Once()()
    except UnforeseenError as error:
        activity.failed(error)
    assert SECRET not in caplog.text + activity.fault
    assert "in __call__" in caplog.text


@pytest.mark.parametrize("end", [asyncio.CancelledError, KeyboardInterrupt, SystemExit])
async def test_what_is_to_end_it_ends_it(end: type[BaseException]) -> None:
    async def step() -> float:
        raise end

    with pytest.raises(end):
        Activity("a").attempt(step).send(None)


def test_the_check_names_what_fails_and_never_decides() -> None:
    one, two = Activity("one"), Activity("two")
    assert background_check([one, two]).is_ok
    two.failed(UnforeseenError(SECRET))
    check = background_check([one, two])
    assert (check.name, check.is_ok, check.counts_for_readiness) == ("background", False, False)
    assert check.detail == (
        "two failed with UnforeseenError and is tried again; the log has the traceback"
    )


async def test_a_failed_handshake_is_left_to_the_dial_that_waits_for_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Uvloop hands the same exception to both: a certificate's odd text would be a traceback."""
    faults = LoopFaults()
    error = UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")
    context = {"message": "SSL handshake failed", "exception": error}
    faults.handle(asyncio.get_running_loop(), context)
    assert (faults.fault, caplog.text) == ("", "")

"""The gate's facts, from files and sockets of this machine."""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from pyrbacproxy.startup import watch as watch_module
from pyrbacproxy.startup.gate import Found, GateSettings
from pyrbacproxy.startup.watch import Watch, still_there

SECONDS = 20.0
TAKEN = OSError(errno.EADDRINUSE, "cannot listen on :9637: Address already in use")


class World:
    """A port that is taken as long as `port_fault` says so, a pair, and a clock."""

    def __init__(self) -> None:
        self.port_fault: OSError | None = None
        self.pair_fault = ""
        self.prepared = 0
        self.tries = 0
        self.now = 0.0
        self.sockets: list[socket.socket] = []
        self.tried = asyncio.Event()

    def watch(self, settings: GateSettings, *pair_files: str) -> Watch:
        return Watch(
            settings,
            pair_files=pair_files,
            load_pair=lambda: self.pair_fault,
            bind=self.bind,
            prepare=self.prepare,
            clock=lambda: self.now,
        )

    def bind(self) -> list[socket.socket]:
        self.tries += 1
        self.tried.set()
        if self.port_fault is not None:
            raise self.port_fault
        return self.sockets

    def prepare(self) -> None:
        self.prepared += 1


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110 - nothing tells when the watch has looked
            await asyncio.sleep(0.005)


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def opened(watch: Watch) -> list[socket.socket]:
    async with asyncio.timeout(SECONDS):
        return await watch.opened()


async def test_a_fresh_install_passes_at_once(tmp_path: Path) -> None:
    world = World()
    settings = GateSettings(
        (str(tmp_path / "missing" / "old.yaml"),), waits_for_port=True, waits_for_pair=True
    )
    watch = world.watch(settings, str(tmp_path / "pair.pem"))
    assert await opened(watch) is world.sockets
    assert (world.tries, world.prepared, watch.summary()) == (1, 0, "")


async def test_the_kernel_tells_that_the_manifest_went(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("pyrbacproxy.startup.gate._FILES_SECONDS", 1e6)
    manifest = tmp_path / "old.yaml"
    manifest.touch()
    world = World()
    watch = world.watch(GateSettings((str(manifest),)))
    with caplog.at_level(logging.INFO):
        task = asyncio.create_task(opened(watch))
        await until(lambda: bool(caplog.messages))
        world.now = 132.5
        assert watch.summary() == "waiting: manifest, 132s"
        (tmp_path / "another").touch()
        manifest.unlink()
        assert await task is world.sockets
    assert world.tries == 1
    assert caplog.messages == [
        f"Start-up gate: waiting for {manifest}: it is still there",
        "Start-up gate: open after 132.500s",
    ]


async def test_where_the_kernel_tells_nothing_it_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_inotify() -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(watch_module, "FolderEvents", no_inotify)
    monkeypatch.setattr("pyrbacproxy.startup.gate._FILES_SECONDS", 1e6)
    manifest = tmp_path / "old.yaml"
    manifest.touch()
    with caplog.at_level(20 - 8, "pyrbacproxy"):
        task = asyncio.create_task(opened(World().watch(GateSettings((str(manifest),)))))
        await until(lambda: "inotify: " in caplog.text)
        manifest.unlink()
        assert await task == []
    assert "inotify: [Errno 24] Too many open files" in caplog.messages


async def test_a_folder_that_cannot_be_watched_is_looked_at_more_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyrbacproxy.startup.gate._FILES_SECONDS", 1e6)
    world = World()
    world.pair_fault = "not there"
    watch = world.watch(GateSettings(waits_for_pair=True), str(tmp_path / "missing" / "pair.pem"))
    task = asyncio.create_task(opened(watch))
    await until(lambda: watch.summary() == "waiting: serving certificate, 0s")
    world.pair_fault = ""
    assert await task is world.sockets


async def test_a_taken_port_is_tried_again_and_the_rest_prepared_once_a_minute() -> None:
    world = World()
    world.port_fault = TAKEN
    watch = world.watch(GateSettings(waits_for_port=True))
    task = asyncio.create_task(opened(watch))
    await until(lambda: world.tries > 2)
    assert (watch.summary(), world.prepared) == ("waiting: port, 0s", 1)
    assert watch.gate.detail() == "the port: cannot listen on :9637: Address already in use"
    world.now = 60.0
    await until(lambda: world.prepared == 2)
    world.port_fault = None
    assert await task is world.sockets


async def test_a_manifest_that_comes_back_ends_the_tries(tmp_path: Path) -> None:
    world = World()
    world.port_fault = TAKEN
    manifest = tmp_path / "old.yaml"
    watch = world.watch(GateSettings((str(manifest),), waits_for_port=True))
    task = asyncio.create_task(opened(watch))
    await world.tried.wait()
    manifest.touch()
    await until(lambda: not watch.gate.may_bind)
    before, world.port_fault = world.tries, None
    (tmp_path / "something else").touch()
    assert watch.summary() == "waiting: manifest, 0s"
    assert world.tries == before
    manifest.unlink()
    assert await task is world.sockets


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        (GateSettings(("/nowhere/old.yaml",)), TAKEN),
        (GateSettings(waits_for_port=True), OSError(errno.EADDRNOTAVAIL, "not of this host")),
    ],
)
async def test_a_port_that_is_not_waited_for_or_never_comes_is_an_error(
    settings: GateSettings, fault: OSError
) -> None:
    world = World()
    world.port_fault = fault
    with pytest.raises(OSError, match=str(fault.strerror)):
        await opened(world.watch(settings))


async def test_it_gives_up_and_names_what_it_waited_for() -> None:
    world = World()
    world.port_fault = TAKEN
    watch = world.watch(GateSettings(waits_for_port=True, timeout_seconds=30))
    task = asyncio.create_task(watch.opened())
    await world.tried.wait()
    world.now = 30.0
    text = "--startup-timeout=30s is over; still waiting for the port: cannot listen on :9637"
    with pytest.raises(TimeoutError, match=text):
        await task


async def test_a_cancelled_wait_leaves_no_descriptor(tmp_path: Path) -> None:
    manifest = tmp_path / "old.yaml"
    manifest.touch()
    before = open_descriptors()
    watch = World().watch(GateSettings((str(manifest),)))
    task = asyncio.create_task(watch.opened())
    await until(lambda: bool(watch.gate.obstacles))
    assert open_descriptors() > before
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert open_descriptors() == before


def test_only_no_such_file_is_absent(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "circle").symlink_to("circle")
    assert still_there(str(tmp_path / "missing")) is None
    assert still_there(str(tmp_path / "missing" / "file")) is None
    for name in ("file", "link"):
        assert still_there(str(tmp_path / name)) == Found(str(tmp_path / name))
    for name, error in (
        ("file/below", "Not a directory"),
        ("circle/below", "Too many levels of symbolic links"),
        ("x" * 300, "File name too long"),
        ("nul\0", "embedded null"),
    ):
        path = f"{tmp_path}/{name}"
        found = still_there(path)
        assert found is not None
        assert (found.path, error in found.error) == (path, True)

"""`pyrbacproxy demo` as a user runs it: its curl lines do what it says, nothing stays behind."""

import asyncio
import os
import re
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pyrbacproxy.commands import demo

DEADLINE_SECONDS = 60.0


class Running:
    """A demo in a process of its own; `text` is what it printed until it was ready."""

    def __init__(self, process: Process, text: str) -> None:
        self.process = process
        self.text = text
        self.lines = re.findall(r"^ +(curl .*)$", text, re.MULTILINE)
        (folder,) = re.findall(r"files are in (\S+)\.$", text, re.MULTILINE)
        self.folder = Path(folder)
        (self.port,) = re.findall(r"The proxy listens on https://127\.0\.0\.1:(\d+)", text)

    async def next_line(self) -> str:
        assert self.process.stdout
        return (await self.process.stdout.readline()).decode()

    async def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return await self.process.wait()


@asynccontextmanager
async def running(*flags: str, stderr: int | None = None) -> AsyncIterator[Running]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pyrbacproxy", "demo", *flags), stdout=PIPE, stderr=stderr
    )
    try:
        assert process.stdout
        async with asyncio.timeout(DEADLINE_SECONDS):
            text = (await process.stdout.readuntil(b"removes the files.\n\n")).decode()
            yield Running(process, text)
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()


async def shell(line: str) -> str:
    process = await asyncio.create_subprocess_shell(line, stdout=PIPE)
    answer, _ = await process.communicate()
    assert process.returncode == 0, line
    return answer.decode()


async def test_the_curl_lines_show_what_they_say() -> None:
    async with running("--port=0", "--size=30000") as scene:
        by_certificate, by_token, nobody, forbidden, ready, status = scene.lines
        assert "container_runtime_crio_" in await shell(by_certificate)
        assert "container_runtime_crio_" in await shell(by_token)
        # The certificate asked nothing: the first review is the token's.
        scraper = "system:serviceaccount:monitoring:scraper"
        assert "TokenReview by system:node:demo" in (line := await scene.next_line())
        assert line.endswith(f"→ {scraper}\n")
        assert f"about {scraper}: get /metrics → allowed" in await scene.next_line()
        assert (await shell(nobody)).startswith("HTTP/1.1 401 Unauthorized")
        assert (await shell(forbidden)).startswith("HTTP/1.1 403 Forbidden")
        assert "[+]upstream ok" in await shell(ready)
        assert "kube-rbac-proxy statusz" in await shell(status)
        assert await scene.end(signal.SIGINT) == 0


async def leaves_nothing(scene: Running) -> None:
    """Neither files nor a process that listens."""
    assert not scene.folder.exists()
    upstream = re.search(r"guards http://127\.0\.0\.1:(\d+)", scene.text)
    assert upstream
    for port in (scene.port, upstream[1]):
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", int(port))


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT], ids=lambda n: n.name
)
async def test_fr102_a_signal_ends_everything(number: signal.Signals) -> None:
    async with running("--port=0", stderr=PIPE) as scene:
        assert scene.folder.exists()
        assert await scene.end(number) == 0
        await leaves_nothing(scene)
        assert scene.process.stderr
        log = (await scene.process.stderr.read()).decode()
    lines = log.splitlines()
    assert not [line for line in lines if not line.startswith("I")]


@pytest.mark.parametrize("is_merged", [False, True])
async def test_fr102_a_reader_that_is_gone_leaves_nothing_behind(
    tmp_path: Path, *, is_merged: bool
) -> None:
    """As with `demo | head`, and `demo 2>&1 | head`: reviews and the end are told to nobody."""
    reading, writing = os.pipe()
    log = tmp_path / "log"
    with log.open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pyrbacproxy", "demo", "--port=0"),
            stdout=writing,
            stderr=writing if is_merged else stderr,
        )
    os.close(writing)
    text = b""
    while b"removes the files.\n" not in text:
        text += await asyncio.to_thread(os.read, reading, 65536)
    os.close(reading)
    scene = Running(process, text.decode())
    assert (await shell(scene.lines[3])).startswith("HTTP/1.1 403")
    assert (await shell(scene.lines[2])).startswith("HTTP/1.1 401")
    assert await scene.end(signal.SIGINT) == 0
    await leaves_nothing(scene)
    assert "Traceback" not in log.read_text()
    assert "Broken" not in log.read_text()


async def test_a_taken_port_is_no_obstacle() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        async with running(f"--port={port}") as scene:
            assert f"Port {port} is taken" in scene.text
            assert int(scene.port) != port
            assert (await shell(scene.lines[2])).startswith("HTTP/1.1 401")
            assert await scene.end(signal.SIGTERM) == 0


async def test_another_upstream_is_not_told_as_crio() -> None:
    async with running("--port=0", "--", "--upstream=http://127.0.0.1:1/") as scene:
        assert "and guards the --upstream that it was given." in scene.text
        assert "CRI-O" not in scene.text


async def test_flags_behind_two_dashes_are_the_proxys() -> None:
    async with running("--port=0", "--", "--http2-prefer", "--allow-paths=/only") as scene:
        assert (await shell(scene.lines[2])).startswith("HTTP/2 404")


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("--port=70000", "argument --port: 70000 is no port"),
        ("--port=x", "argument --port: x is no port"),
        ("--prt=1", "unknown flag: --prt, did you mean --port?"),
    ],
)
def test_a_wrong_flag_ends_with_1(flag: str, said: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        demo.run([flag])
    assert ended.value.code == 1
    assert f"Error: {said}" in capfd.readouterr().err


def test_an_upstream_that_does_not_start_ends_the_demo(capfd: pytest.CaptureFixture[str]) -> None:
    assert demo.run(["--port=0", "--size=-5"]) == 1
    assert "The demo failed: the upstream did not start" in capfd.readouterr().err

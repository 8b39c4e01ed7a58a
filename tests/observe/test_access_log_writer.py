"""Serving never waits for the access log: what cannot be written is dropped, counted, said once."""

import asyncio
import json
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from pyrbacproxy.model import ExchangeRecord
from pyrbacproxy.observe.access_log import MOST_WAITING_BYTES, AccessLog, LineOutlet


class Call:
    """What a loop was asked to call."""

    def __init__(self, turns: "Turns", callback: Callable[[], None]) -> None:
        self.turns = turns
        self.callback = callback

    def cancel(self) -> None:
        if self in self.turns.due:
            self.turns.due.remove(self)


class Turns:
    """As much of an event loop as is needed: what was asked for, called by `turn`."""

    def __init__(self) -> None:
        self.due: list[Call] = []

    def call_soon(self, callback: Callable[[], None]) -> Call:
        self.due.append(Call(self, callback))
        return self.due[-1]

    def call_later(self, _seconds: float, callback: Callable[[], None]) -> Call:
        return self.call_soon(callback)

    def turn(self) -> None:
        due, self.due = self.due, []
        for call in due:
            call.callback()


class Outlet(LineOutlet):
    """One that notes what it gets; `mood` says how it is."""

    def __init__(self) -> None:
        super().__init__(os.open(os.devnull, os.O_WRONLY))
        self.name = "there"
        self.mood = "well"
        self.groups: list[bytes] = []

    def write(self, lines: bytes) -> bool:
        if self.mood == "broken":
            raise BrokenPipeError(32, "Broken pipe")
        if self.mood == "well":
            self.groups.append(lines)
        return self.mood == "well"


@pytest.fixture(name="outlet")
def fixture_outlet() -> Outlet:
    return Outlet()


@pytest.fixture(name="turns")
def fixture_turns() -> Turns:
    return Turns()


@pytest.fixture(name="log")
def fixture_log(
    outlet: Outlet, turns: Turns, caplog: pytest.LogCaptureFixture
) -> Iterator[AccessLog]:
    caplog.set_level(logging.INFO)
    log = AccessLog(outlet, cast("asyncio.AbstractEventLoop", turns), lambda: 0.0)
    yield log
    outlet.mood = "well"


def observe(log: AccessLog, *paths: str) -> None:
    for path in paths:
        log.observe(ExchangeRecord("192.0.2.1", "GET", path))


def paths(data: bytes) -> list[str]:
    return [json.loads(line)["path"] for line in data.splitlines()]


def test_all_of_one_turn_goes_out_together(log: AccessLog, outlet: Outlet, turns: Turns) -> None:
    observe(log, "/a", "/b", "/c")
    assert (outlet.groups, len(turns.due)) == ([], 1)
    turns.turn()
    observe(log, "/d")
    turns.turn()
    assert [paths(group) for group in outlet.groups] == [["/a", "/b", "/c"], ["/d"]]
    assert turns.due == []


def test_no_group_is_longer_than_a_pipe_takes_at_once(
    log: AccessLog, outlet: Outlet, turns: Turns
) -> None:
    names = [f"/{number}/" + "x" * 1500 for number in range(10)]
    observe(log, *names)
    turns.turn()
    assert max(map(len, outlet.groups)) <= MOST_WAITING_BYTES
    assert paths(b"".join(outlet.groups)) == names
    assert len(outlet.groups) == 5


def test_what_is_not_taken_now_is_tried_again(
    log: AccessLog, outlet: Outlet, turns: Turns, caplog: pytest.LogCaptureFixture
) -> None:
    outlet.mood = "stuck"
    observe(log, "/a")
    turns.turn()
    observe(log, "/b")
    turns.turn()
    assert len(turns.due) == 1
    outlet.mood = "well"
    turns.turn()
    assert [paths(group) for group in outlet.groups] == [["/a", "/b"]]
    assert (turns.due, log.dropped, caplog.records) == ([], 0, [])


def test_what_waits_is_bounded(
    log: AccessLog, outlet: Outlet, turns: Turns, caplog: pytest.LogCaptureFixture
) -> None:
    outlet.mood = "stuck"
    observe(log, *(["/" + "x" * 1000] * 400))
    turns.turn()
    assert 150 < log.dropped < 250
    outlet.mood = "well"
    turns.turn()
    assert len(paths(b"".join(outlet.groups))) == 400 - log.dropped
    observe(log, "/a")
    turns.turn()
    assert [record.levelname for record in caplog.records] == ["ERROR", "INFO"]
    assert 'file="there" err="nobody reads it"' in caplog.text
    assert f'"Access log is written again" file="there" dropped={log.dropped}' in caplog.text


def test_a_broken_outlet_is_told_once(
    log: AccessLog, outlet: Outlet, turns: Turns, caplog: pytest.LogCaptureFixture
) -> None:
    outlet.mood = "broken"
    for _ in range(3):
        observe(log, "/a", "/b")
        turns.turn()
    assert (log.dropped, turns.due) == (6, [])
    log.close()
    assert [record.getMessage() for record in caplog.records] == [
        '"Access log lines are dropped" file="there" err="Broken pipe"'
    ]


def test_at_the_end_what_waits_is_written(log: AccessLog, outlet: Outlet, turns: Turns) -> None:
    observe(log, "/a")
    log.close()
    observe(log, "/late")
    assert [paths(group) for group in outlet.groups] == [["/a"]]
    assert (turns.due, log.dropped) == ([], 1)


def test_at_the_end_nobody_waits_for_a_reader(log: AccessLog, outlet: Outlet, turns: Turns) -> None:
    outlet.mood = "stuck"
    observe(log, "/a", "/b")
    turns.turn()
    log.close()
    assert (turns.due, log.dropped) == ([], 2)


async def test_a_reader_that_stopped_reading_stops_nobody() -> None:
    reader, writer = os.pipe()
    log = AccessLog(LineOutlet(writer), asyncio.get_running_loop(), lambda: 0.0)
    while not log.dropped:
        observe(log, "/" + "x" * 2000)
        await asyncio.sleep(0)
    os.close(reader)
    log.close()


async def test_with_a_loop_and_a_file(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    log = AccessLog(LineOutlet(descriptor), asyncio.get_running_loop(), lambda: 0.0)
    observe(log, "/a", "/b")
    await asyncio.sleep(0)
    assert paths((tmp_path / "log").read_bytes()) == ["/a", "/b"]
    log.close()

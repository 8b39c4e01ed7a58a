"""Lines of one kind are rationed, and what was left out is told."""

import io
import logging

import pytest

from pyrbacproxy.observe.logs import LINES_A_SECOND, RATION, FloodHandler


class Log:
    """A handler with a clock that stands still."""

    def __init__(self) -> None:
        self.stream = io.StringIO()
        self.is_read: bool | OSError = True
        self.handler = FloodHandler(self.stream, self._is_ready)
        self.handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
        self.now = 1000.0

    def _is_ready(self) -> bool:
        if isinstance(self.is_read, OSError):
            raise self.is_read
        return self.is_read

    def write(self, text: str, kind: str = "", times: int = 1) -> None:
        for _ in range(times):
            record = logging.LogRecord("n", logging.ERROR, "f.py", 1, "%s", (text,), None)
            record.created = self.now
            if kind:
                setattr(record, RATION, kind)
            self.handler.handle(record)

    @property
    def lines(self) -> list[str]:
        return self.stream.getvalue().splitlines()


def test_a_line_without_a_kind_is_always_written() -> None:
    log = Log()
    log.write("x", times=100)
    assert len(log.lines) == 100


def test_of_each_kind_so_many_are_written_a_second() -> None:
    log = Log()
    log.write("a", "unauthenticated", times=1000)
    log.write("b", "upstream", times=3)
    assert log.lines.count("ERROR a") == LINES_A_SECOND
    assert log.lines.count("ERROR b") == 3


def test_what_was_left_out_is_told_before_the_next_line() -> None:
    log = Log()
    log.write("a", "unauthenticated", times=LINES_A_SECOND + 7)
    log.now += 1.0
    log.write("x")
    log.write("a", "unauthenticated")
    assert log.lines[LINES_A_SECOND:] == [
        "ERROR Left out 7 more lines like this within a second: unauthenticated",
        "ERROR x",
        "ERROR a",
    ]


def test_nothing_is_told_when_nothing_was_left_out() -> None:
    log = Log()
    for _ in range(3):
        log.write("a", "denied", times=LINES_A_SECOND)
        log.now += 1.5
    assert log.lines == ["ERROR a"] * (3 * LINES_A_SECOND)


def test_a_clock_that_is_set_back_silences_nobody() -> None:
    log = Log()
    log.write("a", "denied", times=LINES_A_SECOND + 1)
    log.now -= 3600.0
    log.write("b", "denied")
    assert log.lines[-1] == "ERROR b"


@pytest.mark.parametrize("how", [False, BrokenPipeError()], ids=["late", "gone"])
def test_what_nobody_read_is_told_of(how: bool | OSError) -> None:  # noqa: FBT001
    log = Log()
    log.write("a")
    log.is_read = how
    log.write("b", times=3)
    log.is_read = True
    log.write("c", times=2)
    assert log.lines == [
        "ERROR a",
        "ERROR Left out 3 lines: nobody read them",
        "ERROR c",
        "ERROR c",
    ]

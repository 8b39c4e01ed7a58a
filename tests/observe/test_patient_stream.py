"""What nobody reads is not waited for, but for a moment."""

import os
import select
from collections.abc import Iterator

import pytest

from pyrbacproxy.observe.logs import PATIENCE_SECONDS, REST_SECONDS, PatientStream, unwaiting


class Pipe:
    """A stream into a pipe of which a test says when it takes something, and a clock."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)
        self.now = 100.0
        self.takes = 1_000_000
        self.waited: list[float] = []
        self.stream = PatientStream(self.writer, poll=self._poll, clock=lambda: self.now)

    def _poll(self, seconds: float) -> bool:
        if self.takes:
            self.takes -= 1
            return True
        if seconds:
            self.waited.append(seconds)
        return False

    def read(self) -> bytes:
        try:
            return os.read(self.reader, 1 << 20)
        except BlockingIOError:
            return b""


@pytest.fixture(name="pipe")
def fixture_pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    os.close(pipe.reader)
    os.close(pipe.writer)


def test_texts_are_written_at_once(pipe: Pipe) -> None:
    assert pipe.stream.is_ready()
    pipe.stream.write("a\n")
    pipe.stream.write("\udcff\u00e4\n")
    pipe.stream.flush()
    assert pipe.read() == b"a\n\\udcff\xc3\xa4\n"


def test_a_late_reader_is_waited_for_once_in_a_while(pipe: Pipe) -> None:
    pipe.takes = 0
    assert [pipe.stream.is_ready() for _ in range(3)] == [False] * 3
    assert pipe.waited == [PATIENCE_SECONDS]
    pipe.now += REST_SECONDS
    assert not pipe.stream.is_ready()
    assert pipe.waited == [PATIENCE_SECONDS] * 2


def test_the_rest_of_a_text_goes_out_before_the_next(pipe: Pipe) -> None:
    text = "x" * (2 * select.PIPE_BUF) + "\n"
    pipe.takes = 1
    pipe.stream.write(text)
    assert pipe.read() == b"x" * select.PIPE_BUF
    assert not pipe.stream.is_ready()
    pipe.takes = 3
    assert pipe.stream.is_ready()
    assert pipe.read() == b"x" * select.PIPE_BUF + b"\n"


def test_the_rest_of_the_last_text_goes_out_at_the_end(pipe: Pipe) -> None:
    """`logging` flushes when the program ends, be it with a traceback longer than what was free."""
    pipe.takes = 1
    pipe.stream.write("x" * select.PIPE_BUF + "\n")
    pipe.takes = 1
    pipe.stream.flush()
    assert pipe.read() == b"x" * select.PIPE_BUF + b"\n"


def test_who_does_not_ask_writes_behind_the_rest(pipe: Pipe) -> None:
    pipe.takes = 0
    pipe.stream.write("a\n")
    pipe.takes = 9
    pipe.stream.write("b\n")
    assert pipe.read() == b"a\nb\n"


def test_when_the_reader_is_gone_the_rest_is_dropped() -> None:
    reader, writer = os.pipe()
    stream = PatientStream(writer)
    os.close(reader)
    with pytest.raises(BrokenPipeError):
        stream.write("a\n")
    assert stream.is_ready()
    os.close(writer)


def test_a_terminal_that_nobody_reads_is_not_waited_for() -> None:
    reader, terminal = os.openpty()
    ours = unwaiting(terminal)
    stream = PatientStream(ours)
    lines = 0
    while lines < 10_000 and stream.is_ready():
        stream.write("x" * 1000 + "\n")
        lines += 1
    assert lines < 10_000
    assert os.get_blocking(terminal)
    for descriptor in (reader, terminal, ours):
        os.close(descriptor)


def test_a_terminal_that_is_not_ours_to_open_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError

    reader, terminal = os.openpty()
    monkeypatch.setattr(os, "open", refuse)
    ours = unwaiting(terminal)
    assert os.get_blocking(ours)
    for descriptor in (reader, terminal, ours):
        os.close(descriptor)


def test_the_kernel_tells_whether_a_pipe_takes_a_block() -> None:
    reader, writer = os.pipe()
    stream = PatientStream(writer)
    written = 0
    while stream.is_ready():
        stream.write("x" * select.PIPE_BUF)
        written += select.PIPE_BUF
    assert len(os.read(reader, 1 << 20)) == written
    assert stream.is_ready()
    os.close(reader)
    os.close(writer)

from pyrbacproxy.proxy.transport import Deadline, StallWatch
from tests.fakes import ManualLoop


def deadline() -> tuple[ManualLoop, Deadline, list[float]]:
    loop = ManualLoop()
    fired: list[float] = []
    return loop, Deadline(loop.as_loop(), lambda: fired.append(loop.now - 1000)), fired


def test_it_is_due_once() -> None:
    loop, due, fired = deadline()
    due.set(5)
    loop.advance(4.9)
    assert fired == []
    loop.advance(100)
    assert fired == [5]


def test_it_moves_without_a_new_timer() -> None:
    loop, due, fired = deadline()
    for _ in range(50):
        due.set(90)
        loop.advance(1)
        assert len(loop.timers) == 1
    loop.advance(90)
    assert fired == [49 + 90]


def test_it_may_come_nearer() -> None:
    loop, due, fired = deadline()
    due.set(90)
    due.set(2)
    assert len(loop.timers) == 1
    loop.advance(100)
    assert fired == [2]


def test_what_is_cleared_is_not_due_but_may_be_set_again() -> None:
    loop, due, fired = deadline()
    due.set(5)
    due.clear()
    loop.advance(10)
    assert fired == []
    due.set(5)
    loop.advance(10)
    assert fired == [15]


def test_a_cancelled_one_leaves_nothing_behind() -> None:
    loop, due, fired = deadline()
    due.cancel()
    due.set(5)
    due.cancel()
    assert loop.timers == []
    loop.advance(10)
    assert fired == []


def stalled(sizes: list[int], seconds: float) -> bool:
    """Whether a buffer that has these sizes at each quarter of 60 s is given up."""
    loop = ManualLoop()
    cut: list[bool] = []
    waiting = list(sizes)
    watch = StallWatch(
        loop.as_loop(),
        60,
        pending_bytes=lambda: waiting.pop(0) if len(waiting) > 1 else waiting[0],
        stalled=lambda: cut.append(True),
    )
    watch.start()
    loop.advance(seconds)
    watch.cancel()
    assert loop.timers == []
    return bool(cut)


def test_who_stops_reading_is_cut() -> None:
    assert not stalled([500], 59)
    assert stalled([500], 61)


def test_who_reads_slowly_is_spared() -> None:
    assert not stalled(list(range(500, 0, -1)), 600)
    assert not stalled([500, 500, 500, 500, 499, 499, 499, 498, 498], 115)


def test_a_low_buffer_ends_the_watch() -> None:
    loop = ManualLoop()
    watch = StallWatch(loop.as_loop(), 60, pending_bytes=lambda: 1, stalled=loop.timers.clear)
    watch.start()
    watch.stop()
    loop.advance(1000)
    assert loop.timers == []


def test_an_empty_buffer_is_not_watched() -> None:
    loop = ManualLoop()
    StallWatch(loop.as_loop(), 60, pending_bytes=lambda: 0, stalled=loop.timers.clear).start()
    assert loop.timers == []

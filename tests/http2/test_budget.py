from pyrbacproxy.http2.codec import Budget


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_frames_for_nothing_are_paid_until_nothing_is_left() -> None:
    budget = Budget(10, Clock())
    assert all(budget.spend() for _ in range(4000))
    assert not budget.spend()
    assert not Budget(10, Clock()).spend(4001)


def test_time_pays_back() -> None:
    clock = Clock()
    budget = Budget(10, clock)
    for _ in range(4000):
        budget.spend()
    clock.now += 1
    assert all(budget.spend() for _ in range(99))
    assert not budget.spend(3)
    clock.now += 10_000
    assert all(budget.spend() for _ in range(4000))
    assert not budget.spend(2)


def test_work_pays_back_and_crumbs_a_crumb() -> None:
    budget = Budget(10, Clock())
    for _ in range(3999):
        budget.spend()
    budget.moved(1023)
    budget.moved(0)
    assert budget.spend(2)
    assert not budget.spend()
    budget = Budget(10, Clock())
    for _ in range(3998):
        budget.spend()
    budget.moved(1024)
    budget.answered()
    assert all(budget.spend() for _ in range(8))
    assert not budget.spend()


def test_each_piece_that_a_client_gives_back_windows_for_is_paid() -> None:
    """Go's client gives back what it has read by 4 KiB, to the stream and to the connection."""
    budget = Budget(10, Clock())
    for _ in range(4000):
        budget.spend()
    budget.moved(16384)
    assert all(budget.spend() for _ in range(4 * 3))
    assert not budget.spend()


def test_streams_given_up_are_counted_against_those_answered() -> None:
    budget = Budget(2, Clock())
    assert all(budget.abandoned() for _ in range(8))
    assert not budget.abandoned()
    budget.answered()
    budget.answered()
    assert budget.abandoned()
    assert not budget.abandoned()

from pyrbacproxy.kube.rate import FairBucket


def bucket(per_second: float = 10.0, burst: int = 2) -> FairBucket[str]:
    return FairBucket(per_second=per_second, burst=burst, now=0.0)


def join(books: FairBucket[str], *names: str, preferred: bool = False) -> None:
    """Each waiter is called `ASKER-NUMBER`."""
    for name in names:
        books.join(name, name.partition("-")[0], is_preferred=preferred)


def test_a_burst_goes_at_once_and_the_rate_afterwards() -> None:
    books = bucket()
    assert [books.take(0.0) for _ in range(3)] == [True, True, False]
    assert not books.take(0.05)
    assert books.take(0.1)
    assert [books.take(100.0) for _ in range(3)] == [True, True, False]


def test_nobody_overtakes_those_who_wait() -> None:
    books = bucket(burst=1)
    assert books.take(0.0)
    join(books, "a-1")
    assert not books.take(10.0)
    assert books.turns(10.0) == ["a-1"]


def test_askers_take_turns() -> None:
    books = bucket()
    books.take(0.0)
    books.take(0.0)
    join(books, "a-1", "a-2", "a-3", "b-1", "c-1", "c-2")
    went = [name for tenth in range(1, 7) for name in books.turns(tenth * 0.1001)]
    assert went == ["a-1", "b-1", "c-1", "a-2", "c-2", "a-3"]


def test_preferred_ones_go_first() -> None:
    books = bucket()
    books.take(0.0)
    books.take(0.0)
    join(books, "a-1", "b-1")
    join(books, "a-2", preferred=True)
    assert books.turns(0.2001) == ["a-2", "a-1"]
    assert books.turns(0.31) == ["b-1"]


def test_who_leaves_gets_no_turn() -> None:
    books = bucket()
    books.take(0.0)
    books.take(0.0)
    join(books, "a-1", "a-2", "b-1")
    books.leave("a-1", "a", is_preferred=False)
    books.leave("b-1", "b", is_preferred=False)
    books.leave("b-1", "b", is_preferred=False)
    books.leave("a-9", "a", is_preferred=False)
    assert books.turns(10.0) == ["a-2"]


def test_the_next_turn_can_be_told() -> None:
    books = bucket(burst=1)
    assert books.seconds_to_turn(0.0) is None
    books.take(0.0)
    join(books, "a-1")
    assert books.seconds_to_turn(0.04) is not None
    assert round(books.seconds_to_turn(0.04) or 0.0, 6) == 0.06
    assert books.seconds_to_turn(1.0) == 0.0
    assert books.turns(1.0) == ["a-1"]
    assert books.seconds_to_turn(1.0) is None

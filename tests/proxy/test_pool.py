from pyrbacproxy.proxy.connector import Pool


def test_the_newest_is_taken_first() -> None:
    pool: Pool[str] = Pool(2)
    assert pool.check_out() is None
    assert pool.check_in("a") is None
    assert pool.check_in("b") is None
    assert len(pool) == 2
    assert pool.check_out() == "b"


def test_the_oldest_is_closed_when_there_are_too_many() -> None:
    pool: Pool[str] = Pool(2)
    for name in "ab":
        pool.check_in(name)
    assert pool.check_in("c") == "a"
    assert pool.clear() == ["b", "c"]
    assert pool.check_out() is None


def test_what_is_closed_is_forgotten() -> None:
    pool: Pool[str] = Pool(2)
    pool.check_in("a")
    pool.discard("b")
    pool.discard("a")
    assert len(pool) == 0

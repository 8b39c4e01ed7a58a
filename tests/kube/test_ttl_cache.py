from pyrbacproxy.kube.memory import TtlCache


def test_a_value_is_there_until_its_instant() -> None:
    cache: TtlCache[str, int] = TtlCache(capacity=2)
    cache.put("a", 1, 10.0)
    assert cache.get("a", 9.999) == (1, 10.0)
    assert cache.get("a", 10.0) is None
    assert len(cache) == 0


def test_asking_does_not_prolong() -> None:
    cache: TtlCache[str, int] = TtlCache(capacity=2)
    cache.put("a", 1, 10.0)
    for now in (1.0, 5.0, 9.0):
        assert cache.get("a", now) == (1, 10.0)
    assert cache.get("a", 11.0) is None


def test_what_was_never_put_is_not_there() -> None:
    assert TtlCache[str, int](capacity=1).get("a", 0.0) is None


def test_the_one_used_longest_ago_makes_room() -> None:
    cache: TtlCache[str, int] = TtlCache(capacity=2)
    cache.put("a", 1, 10.0)
    cache.put("b", 2, 10.0)
    cache.get("a", 0.0)
    cache.put("c", 3, 10.0)
    assert [key for key in "abc" if cache.get(key, 0.0)] == ["a", "c"]


def test_a_new_value_takes_the_old_one_s_place() -> None:
    cache: TtlCache[str, int] = TtlCache(capacity=2)
    cache.put("a", 1, 10.0)
    cache.put("b", 2, 10.0)
    cache.put("a", 3, 20.0)
    cache.put("c", 4, 10.0)
    assert cache.get("a", 15.0) == (3, 20.0)
    assert cache.get("b", 0.0) is None


def test_clear_forgets_everything() -> None:
    cache: TtlCache[str, int] = TtlCache(capacity=2)
    cache.put("a", 1, 10.0)
    cache.clear()
    assert cache.get("a", 0.0) is None


def test_one_may_be_dropped_whether_it_is_there_or_not() -> None:
    cache: TtlCache[str, int] = TtlCache(capacity=2)
    cache.put("a", 1, 10.0)
    cache.put("b", 2, 10.0)
    cache.drop("a")
    cache.drop("a")
    assert [key for key in "ab" if cache.get(key, 0.0)] == ["b"]

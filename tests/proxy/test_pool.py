from pyrbacproxy.proxy.exchange import Limits
from pyrbacproxy.proxy.upstream_http1 import UpstreamConnection, UpstreamPool
from tests.fakes import ManualLoop, TapeTransport


def connected(pool: UpstreamPool) -> tuple[UpstreamConnection, TapeTransport]:
    connection, tcp = UpstreamConnection(pool), TapeTransport()
    connection.connection_made(tcp)
    return connection, tcp


def test_the_newest_is_taken_first() -> None:
    pool = UpstreamPool(Limits(), ManualLoop().as_loop())
    assert pool.check_out() is None
    older, newer = connected(pool)[0], connected(pool)[0]
    pool.check_in(older)
    pool.check_in(newer)
    assert len(pool) == 2
    assert pool.check_out() is newer


def test_the_oldest_is_closed_when_there_are_too_many() -> None:
    pool = UpstreamPool(Limits(max_idle_upstreams=2), ManualLoop().as_loop())
    made = [connected(pool) for _ in range(3)]
    for connection, _ in made:
        pool.check_in(connection)
    assert [tcp.done for _, tcp in made] == [["abort"], [], []]
    pool.close()
    assert [tcp.done for _, tcp in made] == [["abort"]] * 3
    assert pool.check_out() is None


def test_what_is_closed_is_removed() -> None:
    pool = UpstreamPool(Limits(), ManualLoop().as_loop())
    idle, busy = connected(pool)[0], connected(pool)[0]
    pool.check_in(idle)
    busy.close()
    assert len(pool) == 1
    idle.close()
    assert len(pool) == 0


def test_an_idle_connection_is_closed_when_its_time_is_over() -> None:
    loop = ManualLoop()
    pool = UpstreamPool(Limits(upstream_idle_seconds=5.0), loop.as_loop())
    connection, tcp = connected(pool)
    pool.check_in(connection)
    loop.advance(4.9)
    assert len(pool) == 1
    loop.advance(0.2)
    assert len(pool) == 0
    assert tcp.done == ["abort"]

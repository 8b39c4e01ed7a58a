import asyncio

import pytest

from pyrbacproxy.kube import rate as module
from pyrbacproxy.kube.rate import Turns


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def waiting(turns: Turns, asker: str, *, is_preferred: bool = False) -> asyncio.Task[bool]:
    return asyncio.create_task(turns.turn(asker, is_preferred=is_preferred))


async def test_a_burst_waits_for_nobody() -> None:
    turns = Turns(per_second=1.0, burst=3, clock=Clock())
    assert [await turns.turn("a", is_preferred=False) for _ in range(3)] == [True] * 3


async def test_then_each_gets_a_turn_when_the_rate_allows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "WAIT_SECONDS", 60.0)
    turns = Turns(per_second=200.0, burst=1)
    went = await asyncio.gather(*(turns.turn("a", is_preferred=False) for _ in range(5)))
    assert went == [True] * 5


async def test_fr47_who_gets_no_turn_in_time_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert module.WAIT_SECONDS == 1.0
    monkeypatch.setattr(module, "WAIT_SECONDS", 0.01)
    turns = Turns(per_second=1.0, burst=1, clock=Clock())
    assert await turns.turn("a", is_preferred=False)
    assert not await turns.turn("a", is_preferred=False)


async def test_d14_peers_take_turns_and_preferred_ones_go_first() -> None:
    clock = Clock()
    turns = Turns(per_second=1.0, burst=1, clock=clock)
    await turns.turn("a", is_preferred=False)
    order: list[str] = []

    async def go(asker: str, *, is_preferred: bool = False) -> None:
        if await turns.turn(asker, is_preferred=is_preferred):
            order.append(asker)

    tasks = [asyncio.create_task(go("flood")) for _ in range(3)]
    await settle()
    tasks.append(asyncio.create_task(go("other")))
    tasks.append(asyncio.create_task(go("good", is_preferred=True)))
    await settle()
    for _ in tasks:
        clock.now += 1.0
        turns._give_turns()
        await settle()
    await asyncio.gather(*tasks)
    assert order == ["good", "flood", "other", "flood", "flood"]


async def test_fr47_waiting_ends_with_the_caller() -> None:
    clock = Clock()
    turns = Turns(per_second=1.0, burst=1, clock=clock)
    await turns.turn("a", is_preferred=False)
    gone, stays = waiting(turns, "a"), waiting(turns, "b")
    await settle()
    gone.cancel()
    await settle()
    clock.now += 1.0
    turns._give_turns()
    assert await stays
    assert gone.cancelled()

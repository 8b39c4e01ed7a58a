"""The old proxy's port goes to the new one: the rehearsal of an upgrade, and what may go wrong."""

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import pytest

from pyrbacproxy.commands import audit
from pyrbacproxy.demo.pki import Authority
from tests.e2e.audited import SERVING, AuditedNode, Rack, Serving
from tests.e2e.handover import GATE_PAGE, HELD, NEW, OLD, Answer, Node, crio, probing, scraping
from tests.e2e.programs import Program, Programs

pytestmark = pytest.mark.e2e

NODES = ("master-0", "master-1", "master-2", "worker-0", "worker-1", "arbiter-0")
MakeNode = Callable[..., Node]


@pytest.fixture
async def make_node(authority: Authority, programs: Programs) -> AsyncIterator[MakeNode]:
    async with crio() as upstream:
        yield lambda host="127.0.0.1": Node(authority, programs, upstream, host)


@pytest.fixture
def rack(authority: Authority, programs: Programs) -> Rack:
    return Rack(authority, programs)


@pytest.fixture
def node(make_node: MakeNode) -> Node:
    return make_node()


# --- the rehearsal ----------------------------------------------------------------------


async def test_six_nodes_roll_one_after_another(
    make_node: MakeNode, rack: Rack, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = {name: make_node("") for name in NODES}
    old = {name: await node.start_old() for name, node in nodes.items()}
    pairs = {name: node.pair(NEW) for name, node in nodes.items()}
    new = {}
    # The operator waits for the DaemonSet's rollout before it drops the manifests.
    for name, node in nodes.items():
        new[name] = node.start_new(node.absent(), *HELD, pair=pairs[name])
        await node.says(new[name], "[+]startup-gate ok (waiting: manifest, ")
    for name, node in nodes.items():
        async with scraping(node) as scrapes, probing(node) as probes:
            await new[name].until(partial(_enough, scrapes, OLD), "scrapes by the old")
            node.manifest.unlink()
            await new[name].logged("(waiting for the port)")
            # The kubelet ends the static pod.
            ended_at = time.monotonic()
            old[name].signal(signal.SIGTERM)
            await new[name].until(partial(_enough, scrapes, NEW), "scrapes by the new")
        assert await old[name].ended() == 0
        check_hand_over(scrapes, ended_at)
        assert [probe.status for probe in probes if probe.status != 200] == []
        assert node.holders() == [new[name].pid]
        outcomes = await audited(as_audited(node, name, rack, new[name], pairs[name]), capsys)
        assert [one for one in outcomes if one["status"] != "ok"] == []
    for name, node in nodes.items():
        assert (await node.scrape()).server == NEW
        assert new[name].stop() == 0


def as_audited(node: Node, name: str, rack: Rack, new: Program, pair: Path) -> AuditedNode:
    """The rolled node, with what else a node of its role has."""
    serving = Serving(node.port, new.pid, node.upstream_port, os.getpid())
    found = AuditedNode(node.folder, rack, serving)
    found.put(SERVING, pair.read_text())
    found.credential = node.credential
    if name.startswith("master"):
        found.becomes_a_master()
    elif name.startswith("arbiter"):
        found.becomes_an_arbiter()
    return found


async def audited(node: AuditedNode, capsys: pytest.CaptureFixture[str]) -> list[dict[str, str]]:
    """Every outcome of its audit."""
    # In a thread, since the upstream is served by this one.
    await asyncio.to_thread(audit.run, [*node.command_line(), "--output=json"])
    outcomes: list[dict[str, str]] = json.loads(capsys.readouterr().out)["checks"]
    return outcomes


async def _enough(scrapes: list[Answer], server: str) -> bool | None:
    return len([scrape for scrape in scrapes if scrape.server == server]) > 5 or None


def check_hand_over(scrapes: list[Answer], ended_at: float) -> None:
    """First only the old proxy's answers, then only the new one's; between them the gap."""
    first_new = next(scrape for scrape in scrapes if scrape.server == NEW)
    for scrape in scrapes:
        is_in_the_gap = ended_at <= scrape.ended and scrape.begun <= first_new.begun
        if scrape.status == 200:
            assert scrape.server == (NEW if scrape.begun >= first_new.begun else OLD)
        else:
            assert is_in_the_gap, scrape


# --- what may go wrong ------------------------------------------------------------------


async def test_a_hung_old_process_is_named_and_waited_for(node: Node) -> None:
    old = await node.start_old()
    new = node.start_new(node.absent(), *HELD)
    await node.says(new, "waiting: manifest")
    old.signal(signal.SIGSTOP)
    node.manifest.unlink()
    await node.says(new, "[+]startup-gate ok (waiting: port, ")

    async def look() -> Answer | None:
        answer = await node.page(GATE_PAGE)
        return answer if f"(pid {old.pid})" in answer.body else None

    detail = await new.until(look, "the holder's number")
    assert detail.status == 200
    assert f"cannot listen on 127.0.0.1:{node.port}: Address already in use" in detail.body
    assert "--secure-listen-address" not in detail.body
    assert node.holders() == [old.pid]
    assert (await node.stranger.ask("127.0.0.1", node.pages, GATE_PAGE)).status == 401
    old.signal(signal.SIGKILL)
    assert (await node.served_by(new)).server == NEW
    assert node.holders() == [new.pid]


async def test_a_free_port_is_not_taken_while_the_manifest_is_there(node: Node) -> None:
    new = node.start_new(node.absent(), *HELD)
    await node.says(new, "waiting: manifest")
    assert node.holders() == []
    node.manifest.unlink()
    assert (await node.served_by(new)).server == NEW


async def test_a_late_serving_certificate(node: Node) -> None:
    pair = node.folder / "kubelet-server-current.pem"
    node.manifest.unlink()
    new = node.start_new(node.absent(), *HELD, pair=pair)
    await node.says(new, "[+]startup-gate ok (waiting: serving certificate, ")
    assert "@" in (await node.page("/readyz")).server  # one made in memory
    assert "No such file" in (await node.page(GATE_PAGE)).body
    assert node.holders() == []
    content = node.pair(NEW).read_bytes()
    pair.write_bytes(content[: len(content) // 2])
    await new.logged("(serving certificate: .*(holds no|has no END line|bad))")
    assert node.holders() == []
    (node.folder / "dated.pem").write_bytes(content)
    pair.unlink()
    pair.symlink_to("dated.pem")
    assert (await node.served_by(new)).server == NEW
    assert (await node.page("/readyz")).server == NEW


async def test_a_missing_folder_is_a_fresh_install(node: Node) -> None:
    node.manifest.unlink()
    node.manifest.parent.rmdir()
    new = node.start_new(node.absent(), *HELD)
    assert (await node.served_by(new)).server == NEW
    # After the bind it never closes again.
    node.manifest.parent.mkdir()
    node.manifest.touch()
    await node.says(new, "[+]startup-gate ok\n")
    assert (await node.scrape()).server == NEW


async def test_a_folder_that_cannot_be_read_counts_as_there_and_says_so(node: Node) -> None:
    node.manifest.unlink()
    node.manifest.parent.rmdir()
    # Even root cannot look behind a link that leads to itself.
    node.manifest.parent.symlink_to(node.manifest.parent.name)
    new = node.start_new(node.absent(), *HELD)
    await node.says(new, "waiting: manifest")
    text = "whether it is gone cannot be seen (Too many levels of symbolic links), so it is not"
    assert text in (await node.page(GATE_PAGE)).body
    await new.logged(r"(cannot be seen \(Too many levels)")
    assert node.holders() == []
    node.manifest.parent.unlink()
    assert (await node.served_by(new)).server == NEW


async def test_killed_while_waiting_the_next_one_waits_again(node: Node) -> None:
    old = await node.start_old()
    first = node.start_new(node.absent(), *HELD)
    await node.says(first, "waiting: manifest")
    first.signal(signal.SIGKILL)
    assert await first.ended() == -signal.SIGKILL
    assert (await node.scrape()).server == OLD
    second = node.start_new(node.absent(), *HELD)
    await node.says(second, "waiting: manifest")
    node.manifest.unlink()
    await node.says(second, "waiting: port")
    old.signal(signal.SIGTERM)
    assert (await node.served_by(second)).status == 200
    assert await old.ended() == 0
    assert node.holders() == [second.pid]


@pytest.mark.parametrize("waiting_for", ["manifest", "port"])
async def test_sigterm_while_waiting_is_a_good_end(node: Node, waiting_for: str) -> None:
    await node.start_old()
    if waiting_for == "port":
        node.manifest.unlink()
    new = node.start_new(node.absent(), *HELD, "--shutdown-delay-duration=10m")
    await node.says(new, f"waiting: {waiting_for}")
    new.signal(signal.SIGTERM)
    assert await new.ended() == 0
    assert (await node.scrape()).server == OLD


async def test_a_rollback_closes_the_gate_again(node: Node) -> None:
    old = await node.start_old()
    new = node.start_new(node.absent(), *HELD)
    await node.says(new, "waiting: manifest")
    node.manifest.unlink()
    await node.says(new, "waiting: port")
    node.manifest.write_text("kind: Pod\n")
    await node.says(new, "waiting: manifest")
    # The kubelet starts the static pod anew: nobody may take its port meanwhile.
    old.signal(signal.SIGTERM)
    assert await old.ended() == 0
    again = await node.start_old()
    assert (await node.scrape()).server == OLD
    node.manifest.unlink()
    await node.says(new, "waiting: port")
    again.signal(signal.SIGTERM)
    assert await again.ended() == 0
    assert (await node.served_by(new)).server == NEW


@pytest.mark.parametrize("old_host", ["0.0.0.0", "127.0.0.1", "[::1]", "[::]"])
async def test_dual_stack_waits_for_whoever_holds_one_family(
    make_node: MakeNode, old_host: str
) -> None:
    node = make_node("")
    old = await node.start_old(old_host)
    new = node.start_new("--wait-for-port")
    await node.says(new, "waiting: port")
    assert node.holders() == [old.pid]
    old.signal(signal.SIGTERM)
    for host in ("127.0.0.1", "::1"):
        assert (await node.served_by(new, host)).status == 200
    assert await old.ended() == 0
    assert (await node.scrape("::1")).server == (await node.scrape()).server == NEW
    assert node.holders() == [new.pid]


async def test_one_address_alone_takes_nothing_else(make_node: MakeNode) -> None:
    node = make_node("127.0.0.1")
    old = await node.start_old()
    new = node.start_new("--wait-for-port")
    await node.says(new, "waiting: port")
    old.signal(signal.SIGTERM)
    assert await old.ended() == 0
    assert (await node.served_by(new)).server == NEW
    assert (await node.scrape("::1")).error


# --- the flags --------------------------------------------------------------------------


async def test_it_gives_up_after_the_time_it_was_given(node: Node) -> None:
    old = await node.start_old()
    new = node.start_new(node.absent(), *HELD, "--startup-timeout=300ms")
    assert await new.ended() == 1
    assert "--startup-timeout=0.3s is over; still waiting for" in new.output()
    assert f"{node.manifest}: it is still there" in new.output()
    assert node.holders() == [old.pid]


async def test_without_waits_a_taken_port_ends_the_start(node: Node) -> None:
    old = await node.start_old()
    new = node.start_new(node.absent(), "--wait-for-absent=")
    assert await new.ended() == 1
    assert "Address already in use" in new.output()
    assert node.holders() == [old.pid]


async def test_the_other_answer_of_readyz(node: Node) -> None:
    new = node.start_new(node.absent(), "--ready-while-waiting=false")
    await node.says(new, "[-]startup-gate failed: reason withheld\n")
    assert (await node.page("/readyz")).status == 500
    assert (await node.page("/livez")).status == 200
    node.manifest.unlink()
    assert (await node.served_by(new)).server == NEW
    assert (await node.page("/readyz")).status == 200


async def test_a_delayed_shutdown_serves_on_and_is_not_ready(node: Node) -> None:
    new = node.start_new("--shutdown-delay-duration=10m")
    await node.served_by(new)
    new.signal(signal.SIGTERM)
    await node.says(new, "[-]shutdown failed")
    assert (await node.scrape()).server == NEW
    assert (await node.page("/readyz")).status == 500
    new.signal(signal.SIGTERM)
    assert await new.ended() == 1


async def test_a_delayed_shutdown_ends_after_the_delay(node: Node) -> None:
    new = node.start_new("--shutdown-delay-duration=300ms")
    await node.served_by(new)
    begun = time.monotonic()
    new.signal(signal.SIGTERM)
    assert await new.ended() == 0
    assert time.monotonic() - begun >= 0.3

"""The gate as dialogues: facts and the time in, what is due and what is logged out."""

import pytest

from pyrbacproxy.startup.gate import Found, Gate, GateSettings, Obstacle, Reason

MANIFEST = "/etc/kubernetes/manifests/old.yaml"
THERE = (Found(MANIFEST),)
ALL = GateSettings((MANIFEST,), waits_for_port=True, waits_for_pair=True)
LATE = "x.pem: cannot be read: No such file or directory"
PAIR = f"serving certificate: {LATE}"
TAKEN = "cannot listen on :9637: Address already in use"


def gate(settings: GateSettings = ALL) -> Gate:
    return Gate(settings, 100.0)


@pytest.mark.parametrize(
    ("settings", "has_waits"),
    [
        (GateSettings(), False),
        (GateSettings(timeout_seconds=5, is_ready_meanwhile=False), False),
        (GateSettings((MANIFEST,)), True),
        (GateSettings(waits_for_port=True), True),
        (GateSettings(waits_for_pair=True), True),
    ],
)
def test_nothing_is_waited_for_by_default(settings: GateSettings, has_waits: bool) -> None:  # noqa: FBT001 - a table's column
    assert settings.has_waits is has_waits


def test_a_fresh_install_passes_at_once() -> None:
    fresh = gate()
    assert not fresh.may_bind
    assert fresh.summary(100.0) == "waiting: 0s"
    fresh.see_files((), "", "", 100.0)
    assert fresh.may_bind
    fresh.open(100.002)
    assert fresh.is_open
    assert fresh.take_lines() == ("Start-up gate: open after 0.002s",)
    assert (fresh.summary(101.0), fresh.detail(), fresh.obstacles) == ("", "", ())


def test_an_upgrade_waits_for_one_thing_after_the_other() -> None:
    new = gate()
    new.see_files(THERE, LATE, "", 100.0)
    assert not new.may_bind
    assert new.summary(232.9) == "waiting: manifest, serving certificate, 132s"
    assert new.take_lines() == (
        f"Start-up gate: waiting for {MANIFEST}: it is still there; the {PAIR}",
    )
    new.see_files(THERE, "", "", 110.0)
    assert new.summary(110.0) == "waiting: manifest, 10s"
    assert new.obstacles == (Obstacle(Reason.MANIFEST, f"{MANIFEST}: it is still there"),)
    new.see_files((), "", "", 120.0)
    new.see_port_taken(TAKEN, 120.0)
    assert new.may_bind
    assert new.summary(121.0) == "waiting: port, 21s"
    new.see_files((), "", "", 122.0)
    new.open(122.5)
    assert new.take_lines() == (
        f"Start-up gate: waiting for {MANIFEST}: it is still there",
        f"Start-up gate: waiting for the port: {TAKEN}",
        "Start-up gate: open after 22.500s",
    )
    assert new.take_lines() == ()


def test_a_manifest_that_comes_back_closes_it_again_until_the_port_is_taken() -> None:
    rolled_back = gate()
    rolled_back.see_files((), "", "", 100.0)
    rolled_back.see_port_taken(TAKEN, 100.0)
    rolled_back.see_files(THERE, "", "", 101.0)
    assert not rolled_back.may_bind
    assert rolled_back.summary(101.0) == "waiting: manifest, 1s"
    rolled_back.see_files((), "", "", 300.0)
    # The two minutes of looking often begin anew.
    assert rolled_back.pause_seconds(300.0, has_events=True) == 0.01


def test_several_paths_are_one_reason_and_doubt_counts_as_there() -> None:
    doubtful = gate()
    doubtful.see_files((Found("/a"), Found("/b", "Permission denied")), "", "", 100.0)
    assert doubtful.summary(100.0) == "waiting: manifest, 0s"
    assert doubtful.detail() == (
        "/a: it is still there; "
        "/b: whether it is gone cannot be seen (Permission denied), so it is not"
    )


def test_one_line_for_a_change_of_state_and_one_reminder_a_minute() -> None:
    patient = gate()
    lines = []
    for second in range(301):
        patient.see_files(THERE, "", "", 100.0 + second)
        lines += [(second, line) for line in patient.take_lines()]
    text = f"{MANIFEST}: it is still there"
    assert lines == [(0, f"Start-up gate: waiting for {text}")] + [
        (second, f"Start-up gate: still waiting after {second}s for {text}")
        for second in (60, 120, 180, 240, 300)
    ]


def test_how_often_to_look() -> None:
    looking = gate()
    looking.see_files(THERE, "", "", 100.0)
    assert looking.pause_seconds(100.0, has_events=True) == 1.0
    assert looking.pause_seconds(100.0, has_events=False) == 0.25
    looking.see_files((), "", "", 200.0)
    for now, pause in ((200.0, 0.01), (319.9, 0.01), (320.0, 0.1)):
        looking.see_files((), "", "", now)
        assert looking.pause_seconds(now, has_events=True) == pause


def test_it_gives_up_when_it_is_told_to() -> None:
    short = gate(GateSettings((MANIFEST,), timeout_seconds=5))
    short.see_files(THERE, "", "", 104.5)
    assert short.pause_seconds(104.5, has_events=True) == 0.5
    assert not short.has_given_up(104.9)
    assert short.has_given_up(105.0)
    assert short.pause_seconds(106.0, has_events=True) == 0.0
    short.open(106.0)
    assert not short.has_given_up(107.0)


def test_it_never_gives_up_by_itself() -> None:
    assert not gate().has_given_up(1e9)


def test_fr87_a_missing_client_ca_is_waited_for() -> None:
    new = gate()
    fault = "ca.crt: cannot be read: No such file or directory"
    new.see_files((), "", fault, 100.0)
    assert not new.may_bind
    assert new.summary(101.0) == "waiting: client CA, 1s"
    assert new.take_lines() == (f"Start-up gate: waiting for the client CA: {fault}",)
    new.see_files((), "", "", 102.0)
    assert new.may_bind

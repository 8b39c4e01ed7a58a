"""The snapshot: one instant, folders of paths."""

from pyrbacproxy.pages.status import PageSettings, Program, Status, status_at, top_folders

PROGRAM = Program("1.0", "python3.12.3", "cpython", "linux/x86_64", 1000.75)


def test_times_are_whole_seconds() -> None:
    assert status_at(PROGRAM, ["/x"], 1060.5) == Status(PROGRAM, 1000, 59, ("/x",))


def test_a_clock_before_the_start_shows_no_uptime() -> None:
    assert status_at(PROGRAM, [], 5.0).uptime_seconds == 0


def test_z_a10_paths_are_folded_to_their_folders() -> None:
    paths = (
        *("/livez/a", "/readyz/log", "/metrics/slis", "/metrics", "/", "/api/v1", "/openapi/v3"),
        *("healthz", "/.well-known/x", "/openid/v1/jwks", "/debug/pprof/"),
    )
    assert " ".join(top_folders(paths)) == "/debug /livez /metrics /readyz"


def test_both_pages_are_shown_unless_told_otherwise() -> None:
    assert PageSettings() == PageSettings("", "", (), has_statusz=True, has_flagz=True)

"""For all tests: how hypothesis judges, what child processes inherit, what the summary says."""

import os
import sys

import pytest
from hypothesis import HealthCheck, settings

# By what comes out, never by how fast a machine is.
settings.register_profile("steady", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")

# Several hundred child processes import the program. Without bytecode each compiles it anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

_LEFT_OUT = pytest.StashKey[int]()
_KEY = "left_out"


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Count the end-to-end tests that are left out."""
    for item in items:
        if item.get_closest_marker("e2e"):
            item.config.stash[_LEFT_OUT] = item.config.stash.get(_LEFT_OUT, 0) + 1


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand the count to the process that writes the summary, from one that pytest-xdist started."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput[_KEY] = session.config.stash.get(_LEFT_OUT, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    """Take the count of a process that has ended: each has collected, and left out, the same."""
    config: pytest.Config = getattr(node, "config")  # noqa: B009 - pytest-xdist has no types
    config.stash[_LEFT_OUT] = getattr(node, "workeroutput", {}).get(_KEY, 0)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say how many recorded cases held, and what was not run and how to run it."""
    held, failed = (
        sum(
            "test_conformance.py::test_case[" in getattr(report, "nodeid", "")
            for report in terminalreporter.stats.get(outcome, [])
        )
        for outcome in ("passed", "failed")
    )
    if held or failed:
        terminalreporter.write_line(f"conformance: {held} passed, {failed} failed")
    count = config.stash.get(_LEFT_OUT, 0)
    if count and "e2e" in config.getoption("markexpr"):  # who names tests has chosen
        terminalreporter.write_line(
            f"not run: {count} end-to-end tests (the image, the standalone binary, real programs "
            "around the proxy, long waits). `make e2e` runs them."
        )

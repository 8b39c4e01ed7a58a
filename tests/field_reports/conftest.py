"""Fixtures of the field-report tests."""

from collections.abc import Generator, Iterator

import pytest

from tests.field_reports.harness import Lab, World


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Certificates, servers and shared proxies of one module."""
    world = World(tmp_path_factory.mktemp("lab"))
    yield world
    world.close()


@pytest.fixture
def lab(world: World) -> Iterator[Lab]:
    """What a test works with; afterwards nothing it used may have told a secret or crashed."""
    lab = Lab(world)
    yield lab
    complaints = lab.finish()
    assert not complaints, [*complaints, *(proxy.text()[-4000:] for proxy in lab.used)]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the proxies wrote when a test fails."""
    report = yield
    lab = getattr(item, "funcargs", {}).get("lab")
    if report.failed and isinstance(lab, Lab):
        for proxy in lab.used:
            report.sections.append((f"stderr of the proxy at {proxy.port}", proxy.text()[-8000:]))
    return report

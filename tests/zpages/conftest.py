"""Fixtures of the z-pages' acceptance tests: a proxy process, and an API server that knows RBAC."""

from collections.abc import Iterator

import pytest

from tests.field_reports.harness import Lab, World
from tests.zpages.pages import PageLab


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Certificates, servers and shared proxies of one module."""
    world = World(tmp_path_factory.mktemp("zpages"))
    yield world
    world.close()


@pytest.fixture(scope="module")
def ports() -> dict[str, int]:
    """The endpoints ports of shared proxies."""
    return {}


@pytest.fixture
def pages(world: World, ports: dict[str, int]) -> Iterator[PageLab]:
    """What a test works with; afterwards nothing it used may have told a secret or crashed."""
    lab = Lab(world)
    yield PageLab(lab, ports)
    complaints = lab.finish()
    assert not complaints, [*complaints, *(proxy.text()[-4000:] for proxy in lab.used)]

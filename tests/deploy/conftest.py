"""Fixtures of the manifests' tests."""

import pytest

from pyrbacproxy.demo.pki import Authority


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pki"))

"""What tests of the image and of the binary are given."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.programs import Programs


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    programs = Programs(tmp_path)
    yield programs
    programs.stop()

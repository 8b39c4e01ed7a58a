"""How facts are shown."""

import pytest

from pyrbacproxy.node.facts import Process


@pytest.mark.parametrize(
    ("process", "shown"),
    [
        (Process(7, "crio"), "crio (pid 7)"),
        (Process(7, "proxy", "c0ffee", "ns/pod"), "proxy (pid 7) of pod ns/pod"),
    ],
)
def test_a_process_is_told_without_its_arguments(process: Process, shown: str) -> None:
    assert str(process) == shown

"""/version as client-go reads it."""

import json

import pytest

from pyrbacproxy.admin.status import Program
from pyrbacproxy.admin.version import version_info, version_page


@pytest.mark.parametrize(
    ("version", "major", "minor"), [("1.36.2-node5", "1", "36"), ("unknown", "", "")]
)
def test_z_g14_the_object(version: str, major: str, minor: str) -> None:
    program = Program(version, "python3.12.3", "cpython", "linux/x86_64", 0.0)
    response = version_page(program)
    assert response.headers.pairs == ((b"Content-Type", b"application/json"),)
    assert response.body.startswith(b'{\n  "major": "')
    assert json.loads(response.body) == {
        "major": major,
        "minor": minor,
        "gitVersion": f"v{version}",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "python3.12.3",
        "compiler": "cpython",
        "platform": "linux/x86_64",
    }
    assert json.loads(response.body) == version_info(program)

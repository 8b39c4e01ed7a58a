"""/version as client-go reads it."""

import json

import pytest

from pyrbacproxy.pages.status import Program
from pyrbacproxy.pages.statusz_flagz import version_info, version_page


@pytest.mark.parametrize(
    ("version", "major", "minor"), [("1.36.2-node5", "1", "36"), ("unknown", "", "")]
)
def test_z_g14_the_object(version: str, major: str, minor: str) -> None:
    program = Program(version, "python3.12.3", "cpython", "linux/amd64", 0.0)
    response = version_page(program)
    assert response.headers.pairs == ((b"Content-Type", b"application/json"),)
    assert response.body.startswith(b'{\n  "major": "')
    assert json.loads(response.body) == {
        "major": major,
        "minor": minor,
        "gitVersion": f"v{version}",
        "goVersion": "python3.12.3",
        "compiler": "cpython",
        "platform": "linux/amd64",
    }
    assert json.loads(response.body) == version_info(program)


def test_fr89_what_the_build_knew_is_told() -> None:
    build = {"gitCommit": "c0ffee", "gitTreeState": "clean", "buildDate": "2026-01-02T03:04:05Z"}
    program = Program("1.2", "python3.12.3", "cpython", "linux/amd64", 0.0, build=build)
    assert list(version_info(program))[2:7] == ["gitVersion", *build, "goVersion"]
    assert build.items() <= version_info(program).items()

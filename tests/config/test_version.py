from importlib import metadata

import pytest

from pyrbacproxy.config.flag_parsing import VERSION, VersionAnswer, answer, reported


def answered(text: str) -> VersionAnswer:
    return answer(text, program="p", built="v0.1.0", details="(more)")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("true", VersionAnswer("p v0.1.0", "v0.1.0")),
        ("false", VersionAnswer("", "v0.1.0")),
        ("raw", VersionAnswer("p v0.1.0 (more)", "v0.1.0")),
        ("v0.1.0-node5", VersionAnswer("", "v0.1.0-node5")),
    ],
)
def test_print_or_go_on(text: str, expected: VersionAnswer) -> None:
    assert answered(text) == expected


@pytest.mark.parametrize("text", ["v0.2.0", "v1", "v", "v0.1.01"])
def test_an_override_keeps_the_numbers(text: str) -> None:
    with pytest.raises(ValueError, match=r"must keep the numbers of v0\.1\.0"):
        answered(text)


def test_any_other_word_must_be_a_boolean() -> None:
    with pytest.raises(ValueError, match="invalid syntax"):
        answered("latest")


def test_the_version_is_the_packages() -> None:
    assert metadata.version("pyrbacproxy") == VERSION


@pytest.mark.parametrize(
    ("text", "version"), [("false", VERSION), ("raw", VERSION), ("v0.1.0-node5", "0.1.0-node5")]
)
def test_pages_and_logs_tell_the_version_we_run_under(text: str, version: str) -> None:
    assert reported(text) == version

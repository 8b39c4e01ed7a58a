from pathlib import Path

import pytest

from pyrbacproxy.kube.kubeconfig_file import (
    digest_of,
    file_or_data,
    file_problems,
    is_header_text,
    is_token,
    token_file_problems,
)


@pytest.mark.parametrize(
    ("text", "is_header", "is_one"),
    [
        ("own-1", True, True),
        (" own-1\r\n", False, True),
        ("", False, False),
        (" \n", False, False),
        ("two\nlines", False, False),
        ("crét", False, False),
    ],
)
def test_a_token_is_one_line_of_ascii(text: str, is_header: bool, is_one: bool) -> None:  # noqa: FBT001
    assert (is_header_text(text), is_token(text)) == (is_header, is_one)


def test_a_file_or_data(tmp_path: Path) -> None:
    (tmp_path / "ca").write_text("PEM")
    assert file_or_data({}, "ca", tmp_path) == ("", [])
    assert file_or_data({"ca": "ca"}, "ca", tmp_path) == ("PEM", [])
    assert file_or_data({"ca-data": "UEVN"}, "ca", tmp_path) == ("PEM", [])
    assert file_or_data({"ca-data": "UE\r\nVN\n"}, "ca", tmp_path) == ("PEM", [])
    assert file_or_data({"ca-data": "UE VN"}, "ca", tmp_path)[1] == ["ca-data: is no base64"]
    assert file_or_data({"ca": "ca", "ca-data": "UEVN"}, "ca", tmp_path)[0] == ""


@pytest.mark.parametrize("name", ["none", "empty", "folder", "a\0b"])
def test_what_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").write_text(" \n")
    (tmp_path / "folder").mkdir()
    for problems in (file_problems, token_file_problems):
        (problem,) = problems(tmp_path / name, "it")
        assert problem.startswith("it: ")


def test_fr67_what_is_no_token_is_not_quoted(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\nline")
    (problem,) = token_file_problems(tmp_path / "token", "it")
    assert "s3cret" not in problem


def test_a_missing_file_has_a_digest_of_its_own(tmp_path: Path) -> None:
    assert digest_of(tmp_path / "none") == ""
    (tmp_path / "empty").touch()
    assert digest_of(tmp_path / "empty") != ""

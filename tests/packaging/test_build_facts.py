"""What a wheel, an image and the binary know of their build."""

import runpy
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def facts() -> dict[str, str]:
    known: dict[str, str] = runpy.run_path(str(ROOT / "setup.py"))["build_facts"]()
    return known


def test_fr89_what_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYRBACPROXY_COMMIT", "c0ffee")
    monkeypatch.setenv("PYRBACPROXY_TREE_STATE", "clean")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1767323045")
    assert facts() == {
        "gitCommit": "c0ffee",
        "gitTreeState": "clean",
        "buildDate": "2026-01-02T03:04:05Z",
    }


def test_fr89_what_git_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYRBACPROXY_COMMIT", raising=False)
    asked = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    assert facts().get("gitCommit", "") == asked.stdout.strip()


def test_fr89_without_git_nothing_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYRBACPROXY_COMMIT", raising=False)
    monkeypatch.setenv("PATH", "")
    assert list(facts()) == ["buildDate"]

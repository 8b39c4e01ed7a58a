"""What the documents copy is whole: flags without their line, and lines without flag, are told."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(name="docs")
def _docs() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs", ROOT / "packaging" / "docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("part", "change", "said"),
    [
        ("migration_flags", ("  insecure-listen-address: same\n", ""), "nothing about insec"),
        ("migration_flags", ("flags:\n", "flags:\n  gone: same\n"), "there is no gone"),
        (
            "migration_flags",
            ("  secure-listen-address: same\n", "  secure-listen-address: alike\n"),
            "no verdict: sec",
        ),
        ("migration_differences", ("  D8: better\n", ""), "nothing about D8"),
        ("migration_differences", ("  D8: better\n", "  D8: better\n  Q1: same\n"), "no Q1"),
        ("migration_differences", ("  D8: better\n", "  D8: worse\n"), "no verdict: D8"),
    ],
)
def test_what_is_missing_or_too_much_is_named(
    docs: ModuleType, monkeypatch: pytest.MonkeyPatch, part: str, change: tuple[str, str], said: str
) -> None:
    written = docs.MIGRATION.read_text()
    assert change[0] in written
    changed = yaml.safe_load(written.replace(*change, 1))
    monkeypatch.setattr(docs.yaml, "safe_load", lambda _: changed)
    with pytest.raises(SystemExit, match=said):
        getattr(docs, part)()


def test_a_flag_s_row(docs: ModuleType) -> None:
    rows = docs.migration_flags().splitlines()
    assert "| `--http2-disable` | same |  |" in rows
    assert "| `--logtostderr` | same | no effect, and a warning that says so |" in rows


def test_a_difference_s_row_is_the_readme_s_with_a_verdict(docs: ModuleType) -> None:
    theirs, ours = "may keep an old client CA for ever", "compares content at each"
    row = next(row for row in docs.migration_differences().splitlines() if theirs in row)
    assert row.startswith("| D11 | better | ")
    assert ours in row

"""What the project's files promise about themselves."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pyrbacproxy.config import authorization_file as authz_file
from pyrbacproxy.config.findings import Findings
from tests.test_architecture import on_disk

ROOT = Path(__file__).resolve().parents[1]
FRAGMENT = re.compile(r"(\d+|\+[a-z-]+)\.(added|changed|fixed|removed|security)\.md")


def test_documents_are_in_step_with_the_code() -> None:
    result = subprocess.run(
        [sys.executable, "packaging/docs.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stderr == ""
    assert result.returncode == 0


def test_fragments_are_named_by_what_they_change() -> None:
    names = sorted(path.name for path in (ROOT / "changes").iterdir())
    assert [name for name in names if not FRAGMENT.fullmatch(name)] == []


@pytest.mark.parametrize("name", ["ARCHITECTURE.md", "THREAT_MODEL.md"])
def test_modules_that_a_document_names_exist(name: str) -> None:
    modules = on_disk()
    packages = {module.partition(".")[0] for module in modules}
    named = set(re.findall(r"`([a-z_0-9]+\.[a-z_0-9.]+)`", (ROOT / name).read_text()))
    ours = {word for word in named if word.partition(".")[0] in packages}
    assert sorted(ours - set(modules)) == []


@pytest.mark.parametrize(
    ("target", "extras"),
    [
        ("demo", ["."]),
        ("test", [".", ".[dev]"]),
        ("check", [".", ".[dev]"]),
        ("binary", [".", ".[binary]"]),
        ("wheel", [".", ".[dev]"]),
        ("e2e", [".", ".[dev]", ".[binary]"]),
    ],
)
def test_a_target_sets_up_what_it_needs_and_no_more(
    tmp_path: Path, target: str, extras: list[str]
) -> None:
    done = subprocess.run(
        ["make", "--dry-run", target, f"VENV={tmp_path}/venv", f"PYTHON={sys.executable}"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        check=True,
        capture_output=True,
        text=True,
    )
    assert re.findall(r"--editable '?(\.[^\s']*)", done.stdout) == extras


def interpreter(path: Path) -> Path:
    """A program that calls itself new enough, and another installation than all others."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\ncase "$2" in *base_prefix*) echo {path};; esac\n')
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("env", "words", "has_venv", "expected"),
    [
        ({}, (), False, "python3"),
        ({}, (), True, "venv/bin/python"),
        ({}, ("PYTHON=python3.11",), False, "python3.11"),
        ({}, ("PYTHON=python3.11",), True, "python3.11 --clear"),
        ({"PYTHON": "python3.11"}, (), True, "python3.11 --clear"),
        ({"VIRTUAL_ENV": "active"}, (), False, "active/bin/python"),
        ({"VIRTUAL_ENV": "active"}, (), True, "active/bin/python --clear"),
        ({"VIRTUAL_ENV": "active"}, ("PYTHON=python3.11",), False, "python3.11"),
        ({"VIRTUAL_ENV": "venv"}, (), True, "venv/bin/python"),
        ({"PYENV_VERSION": "3.13.0"}, (), False, "pyenv/versions/3.13.0/bin/python3"),
        ({"PYENV_VERSION": "3.13.0"}, (), True, "pyenv/versions/3.13.0/bin/python3 --clear"),
        (
            {"PYENV_VERSION": "3.13.0", "VIRTUAL_ENV": "venv"},
            (),
            True,
            "pyenv/versions/3.13.0/bin/python3 --clear",
        ),
        ({"PYENV_VERSION": "none"}, (), False, "pyenv/versions/none/bin/python3"),
    ],
)
def test_fr102_make_sets_up_with_the_python_that_was_chosen(
    tmp_path: Path, env: dict[str, str], words: tuple[str, ...], *, has_venv: bool, expected: str
) -> None:
    """Without pyenv's program. What is not there is named by the recipe, which then ends."""
    for name in ("bin/python3", "bin/python3.11", "active/bin/python"):
        interpreter(tmp_path / name)
    interpreter(tmp_path / "pyenv/versions/3.13.0/bin/python3")
    if has_venv:
        interpreter(tmp_path / "venv/bin/python")
    around = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "PYENV_ROOT": f"{tmp_path}/pyenv"}
    around |= env
    if "VIRTUAL_ENV" in env:
        around["VIRTUAL_ENV"] = str(tmp_path / env["VIRTUAL_ENV"])
    done = subprocess.run(
        ["make", "--dry-run", "setup", f"VENV={tmp_path}/venv", *words],
        cwd=ROOT,
        env=around,
        check=True,
        capture_output=True,
        text=True,
    )
    made = re.findall(r"^(\S+) -m venv ( *--clear)?", done.stdout, re.MULTILINE)[0]
    assert " ".join(made).replace(f"{tmp_path}/", "").split() == expected.split()


def test_ci_runs_what_the_readme_says() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    assert "make check test e2e\n" in (ROOT / ".ci" / "run").read_text()


README = (ROOT / "README.md").read_text()
README_YAML = re.findall(r"(?ms)^```yaml\n(.*?)^```$", README)


@pytest.mark.parametrize("text", README_YAML)
def test_the_readme_shows_authorization_files_without_fault(text: str) -> None:
    findings = Findings()
    authz_file.read_authorization_file(text.encode(), "README.md", findings, is_strict=True)
    assert findings == Findings()


def test_links_between_documents_lead_somewhere() -> None:
    broken = [
        f"{path.name}: {link}"
        for path in [
            *ROOT.glob("*.md"),
            *ROOT.glob("docs/**/*.md"),
            *ROOT.glob("benchmarks/*.md"),
            *ROOT.glob("deploy/*/*.md"),
        ]
        for link in re.findall(r"\]\(([^)#:]+)\)", path.read_text())
        if not (path.parent / link).exists()
    ]
    assert broken == []

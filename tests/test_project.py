"""What the project's files promise about themselves."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pyrbacproxy.config import authz_file
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


@pytest.mark.parametrize("path", sorted((ROOT / "changes").iterdir()), ids=lambda path: path.name)
def test_a_fragment_is_named_by_what_it_changes(path: Path) -> None:
    assert FRAGMENT.fullmatch(path.name)


@pytest.mark.parametrize("name", ["ARCHITECTURE.md", "THREAT_MODEL.md"])
def test_modules_that_a_document_names_exist(name: str) -> None:
    modules = on_disk()
    packages = {module.partition(".")[0] for module in modules}
    named = set(re.findall(r"`([a-z_0-9]+\.[a-z_0-9.]+)`", (ROOT / name).read_text()))
    ours = {word for word in named if word.partition(".")[0] in packages}
    assert sorted(ours - set(modules)) == []


@pytest.mark.parametrize(
    "target", ["setup", "demo", "test", "check", "bench", "e2e", "conformance", "binary"]
)
def test_make_has_the_target(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_ci_runs_what_the_readme_says() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    assert "make check test" in (ROOT / ".ci" / "run").read_text()
    assert (ROOT / "README.md").read_text().startswith("# pyrbacproxy\n\n    make demo ")


README = (ROOT / "README.md").read_text()
README_YAML = re.findall(r"(?ms)^```yaml\n(.*?)^```$", README)


@pytest.mark.parametrize("text", README_YAML)
def test_the_readme_shows_authorization_files_without_fault(text: str) -> None:
    findings = Findings()
    authz_file.read(text.encode(), "README.md", findings, is_strict=True)
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

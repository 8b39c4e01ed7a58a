"""Every decision, field report and section that the project cites stands in docs/reference."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "docs" / "reference"
CITING = sorted(
    path
    for pattern in ("src/**/*.py", "tests/**/*.py", "benchmarks/**/*.py", "*.md", "docs/*.md")
    for path in ROOT.glob(pattern)
    if "conformance" not in path.parts and path != Path(__file__).resolve()
)
DOCUMENTS = {path.stem: path.read_text() for path in REFERENCE.glob("*.md")}
CITATION = re.compile(
    r"\b(?:DEC-)?(D[1-9]\d?|N[1-9]\d?|FR\d{2,3}|K-E\d{1,2}|Z-[A-Z]\d{1,2})\b(?!:)"
)
SECTION = re.compile(r"\breference (?:section )?(\d+(?:\.\d+)*)((?:,? (?:and )?\d+(?:\.\d+)+)*)")


def entries() -> set[str]:
    """The first cell of each table row: `D14` of decisions, `FR24` of field reports, and so on."""
    found = set()
    for name, prefix in (("decisions", ""), ("field-reports", ""), ("behaviour", "K-")):
        for cell in re.findall(r"^\| ([A-Z]+\d+)(?:\S+)? \|", DOCUMENTS[name], re.MULTILINE):
            found.add(prefix + cell)
    # One row for several cases.
    found |= {f"K-E{number}" for number in range(13, 17)}
    found |= {
        f"Z-{cell}" for cell in re.findall(r"^\| ([A-Z]\d+) \|", DOCUMENTS["zpages"], re.MULTILINE)
    }
    return found


def resolves(section: str) -> bool:
    """Whether behaviour.md has the section, as a heading or as a numbered item of one."""
    text = DOCUMENTS["behaviour"]
    if re.search(rf"^#+ {re.escape(section)}\.? ", text, re.MULTILINE):
        return True
    parent, _, item = section.rpartition(".")
    found = re.search(rf"^#+ {re.escape(parent)}\.? .*?(?=^#|\Z)", text, re.MULTILINE | re.DOTALL)
    return found is not None and re.search(rf"^{item}\. ", found[0], re.MULTILINE) is not None


def unresolved(text: str) -> list[str]:
    known = entries()
    missing = [name for name in CITATION.findall(text) if name not in known]
    for first, others in SECTION.findall(text):
        sections = [first, *re.findall(r"\d+(?:\.\d+)+", others)]
        missing += [f"reference {section}" for section in sections if not resolves(section)]
    return missing


@pytest.mark.parametrize("path", CITING, ids=lambda path: str(path.relative_to(ROOT)))
def test_each_citation_resolves(path: Path) -> None:
    assert unresolved(path.read_text()) == []


@pytest.mark.parametrize("text", ["(D99)", "FR999", "(reference 4.1.99)", "K-E77", "reference 77"])
def test_a_citation_that_leads_nowhere_is_found(text: str) -> None:
    assert unresolved(text) != []


@pytest.mark.parametrize("text", ["(D14)", "FR24", "reference 4.1.3", "reference 15.12", "K-E14"])
def test_a_citation_that_resolves_is_none_of_them(text: str) -> None:
    assert unresolved(text) == []

"""Keeps what the documents copy: README's flag list, MIGRATION's tables.

`python packaging/docs.py` writes the parts between the marker comments anew; with `--check` it
writes nothing and ends with 1 when a document is not in step.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from pyrbacproxy.config.flag_parsing import readme_list  # noqa: E402 - see above
from pyrbacproxy.config.flags import (  # noqa: E402 - see above
    GROUPS,
    Fate,
    Flag,
)

MIGRATION = ROOT / "packaging" / "migration.yaml"
VERDICTS = ("same", "better", "different", "ours")


def migration_flags() -> str:
    """One row a flag: the verdict and the note of packaging/migration.yaml."""
    flags = [flag for group in GROUPS for flag in group.flags]
    lines = _lines("flags", [flag.name for flag in flags])
    rows = ["| flag | | |", "|---|---|---|"]
    return "\n".join(rows + [_flag_row(flag, *lines[flag.name]) for flag in flags])


def _flag_row(flag: Flag, verdict: str, note: str) -> str:
    if flag.fate is Fate.DEAD:
        note = "no effect, and a warning that says so"
    shown = "no effect" if flag.fate is Fate.WITHOUT_EFFECT else verdict
    return f"| `--{flag.name}` | {shown} | {note} |"


def migration_differences() -> str:
    """The README's table of differences, with the verdict of packaging/migration.yaml."""
    section = (ROOT / "README.md").read_text().partition("## Differences from kube-rbac-proxy")[2]
    rows = [
        row.strip("|").split("|", 1)
        for row in re.findall(r"(?m)^\|.*\|$", section.partition("\n## ")[0])[2:]
    ]
    lines = _lines("differences", [row[0].strip() for row in rows])
    table = ["| | | kube-rbac-proxy | pyrbacproxy |", "|---|---|---|---|"]
    table += [f"| {row[0].strip()} | {lines[row[0].strip()][0]} |{row[1]}|" for row in rows]
    return "\n".join(table)


def _lines(section: str, names: list[str]) -> dict[str, tuple[str, str]]:
    """Verdict and note of each; ends the program when one is missing, gone or no verdict."""
    written = yaml.safe_load(MIGRATION.read_text())[section]
    where = f"{MIGRATION.relative_to(ROOT)}, {section}"
    if missing := [name for name in names if name not in written]:
        raise SystemExit(f"{where}: nothing about {', '.join(missing)}")
    parted = {name: text.partition(": ") for name, text in written.items()}
    if gone := sorted(written.keys() - set(names)):
        raise SystemExit(f"{where}: there is no {', '.join(gone)}")
    if wrong := [name for name, (verdict, _, _) in parted.items() if verdict not in VERDICTS]:
        raise SystemExit(f"{where}: no verdict: {', '.join(wrong)}")
    return {name: (verdict, note) for name, (verdict, _, note) in parted.items()}


PARTS: tuple[tuple[str, str, Callable[[], str]], ...] = (
    ("README.md", "flags", readme_list),
    ("docs/MIGRATION.md", "migration-flags", migration_flags),
    ("docs/MIGRATION.md", "differences", migration_differences),
)


def in_step(text: str, mark: str, part: str) -> str:
    """The document with the part between its markers replaced."""
    pattern = rf"(<!-- {mark}: [^>]*-->\n).*?(<!-- end of {mark} -->)"
    if not re.search(pattern, text, re.DOTALL):
        raise SystemExit(f"the markers of {mark} are missing")
    return re.sub(
        pattern, lambda found: f"{found[1]}\n{part.strip()}\n\n{found[2]}", text, flags=re.DOTALL
    )


def main() -> int:
    """Write the documents, or compare them."""
    stale = []
    for name, mark, part in PARTS:
        path = ROOT / name
        before = path.read_text()
        after = in_step(before, mark, part())
        if before != after:
            stale.append(name)
        if "--check" not in sys.argv[1:]:
            path.write_text(after)
    if stale and "--check" in sys.argv[1:]:
        sys.stderr.write(f"not in step with the code: {', '.join(stale)}; run `make docs`\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

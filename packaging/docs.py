"""Keeps what the documents copy from the code: README's flag list, ARCHITECTURE's module table.

`python packaging/docs.py` writes the parts between the marker comments anew; with `--check` it
writes nothing and ends with 1 when a document is not in step.
"""

import ast
import re
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from pyrbacproxy.config.flag_text import readme_list  # noqa: E402 - see above
from tests.test_architecture import PURE, matches, on_disk  # noqa: E402 - found by the path above


def module_table() -> str:
    """One row a module: its job is its docstring's first sentence, a dot marks the pure ones."""
    rows = ["| | module | its one job |", "|---|---|---|"]
    rows += [
        f"| {'●' * matches(name, PURE)} | `{name}` | {job(source)} |"
        for name, source in sorted(on_disk().items())
    ]
    return "\n".join(rows)


def job(source: str) -> str:
    """The first sentence of the module's docstring, on one line, without its full stop."""
    text = " ".join((ast.get_docstring(ast.parse(source)) or "").partition("\n\n")[0].split())
    sentence = re.split(r"\.(?= [A-Z`]|$)", text, maxsplit=1)[0]
    return sentence.replace("|", r"\|")


PARTS: dict[str, tuple[str, Callable[[], str]]] = {
    "README.md": ("flags", readme_list),
    "ARCHITECTURE.md": ("modules", module_table),
}


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
    for name, (mark, part) in PARTS.items():
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

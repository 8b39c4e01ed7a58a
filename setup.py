"""Has a wheel know the commit and the date that it was built from; all else is in pyproject.toml.

They go into `pyrbacproxy/build.json`, which `/version` and `kubernetes_build_info` show. Where git
can't be asked, as in an image's build, `PYRBACPROXY_COMMIT` and `PYRBACPROXY_TREE_STATE` ("clean",
"dirty") say it; without either nothing is claimed. `SOURCE_DATE_EPOCH` replaces the time of now.
"""

import json
import os
import subprocess
import time
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent


def build_facts() -> dict[str, str]:
    """What is known of this build, by version.Info's names."""
    commit = os.environ.get("PYRBACPROXY_COMMIT", "")
    state = os.environ.get("PYRBACPROXY_TREE_STATE", "") if commit else ""
    # The sources may lie within another project's repository.
    if not commit and _git("rev-parse", "--show-toplevel") == str(HERE):
        commit = _git("rev-parse", "HEAD")
        state = "dirty" if _git("status", "--porcelain") else "clean"
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
    date = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
    known = {"gitCommit": commit, "gitTreeState": state if commit else "", "buildDate": date}
    return {name: value for name, value in known.items() if value}


def _git(*words: str) -> str:
    """What git answers, "" where it can't."""
    try:
        asked = subprocess.run(  # noqa: S603 - the words are our own
            ["git", *words],  # noqa: S607 - whichever git builds
            cwd=HERE,
            capture_output=True,
            check=True,
            text=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return asked.stdout.strip()


class BuildWithFacts(build_py):
    """Writes them beside the modules; an editable install runs the sources, whose state changes."""

    def run(self) -> None:
        """Build, then write."""
        super().run()
        if not self.editable_mode:
            path = Path(self.build_lib, "pyrbacproxy", "build.json")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(build_facts()) + "\n")


if __name__ == "__main__":
    setup(cmdclass={"build_py": BuildWithFacts})

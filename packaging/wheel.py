"""Builds the wheels into dist/: the program, and the command `kube-rbac-proxy` for who wants it.

`python packaging/wheel.py [FOLDER]`. The same sources and the same setuptools give the same bytes,
whoever builds them: what is built is a copy with one mode and one time for all files, in which
nothing is left of an earlier build. The time is SOURCE_DATE_EPOCH, else that of the last commit.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "src")
# Zip files know no earlier time.
EARLIEST_SECONDS = 315532800
# One more command is a distribution of its own: installers write every command of a wheel.
COMMAND = """
[build-system]
requires = ["setuptools>=68"]
build-backend = "setuptools.build_meta"

[project]
name = "pyrbacproxy-kube-rbac-proxy"
version = "{version}"
description = "The command kube-rbac-proxy, which runs pyrbacproxy"
requires-python = "{python}"
dependencies = ["pyrbacproxy=={version}"]

[project.scripts]
kube-rbac-proxy = "{main}"

[tool.setuptools]
py-modules = []
"""


def main() -> int:
    """Build both wheels; pip tells what goes wrong."""
    target = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "dist").resolve()
    target.mkdir(parents=True, exist_ok=True)
    for old in target.glob("pyrbacproxy*.whl"):
        old.unlink()
    with tempfile.TemporaryDirectory() as work:
        program, command = Path(work, "program"), Path(work, "command")
        copy_sources(program)
        command.mkdir()
        (command / "pyproject.toml").write_text(command_project())
        return build(target, program) or build(target, command)


def copy_sources(folder: Path) -> None:
    """Copy what the wheel is made of, readable for all as installers leave it."""
    folder.mkdir()
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(source, folder / name, ignore=ignored)
        else:
            shutil.copyfile(source, folder / name)
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)


def command_project() -> str:
    """The pyproject.toml of the command's distribution."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return COMMAND.format(
        version=project["version"],
        python=project["requires-python"],
        main=project["scripts"]["pyrbacproxy"],
    )


def build(target: Path, folder: Path) -> int:
    """Build the wheel of the project in `folder`; returns pip's exit status."""
    options = ("--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation")
    return subprocess.run(
        [sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", target, folder],
        env=os.environ | {"SOURCE_DATE_EPOCH": epoch()},
        umask=0o022,
        check=False,
    ).returncode


def epoch() -> str:
    """The time that all files get, in seconds."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        return given
    log = ("git", "-C", str(ROOT), "log", "-1", "--format=%ct")
    try:
        told = subprocess.run(log, capture_output=True, text=True, check=False).stdout.strip()
    except FileNotFoundError:
        told = ""
    return told or str(EARLIEST_SECONDS)


if __name__ == "__main__":
    sys.exit(main())

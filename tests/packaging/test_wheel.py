"""The wheels: what is inside, that the same sources give the same bytes, and their commands."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e
ROOT = Path(__file__).resolve().parents[2]
PROGRAM = "pyrbacproxy-*.whl"
MAIN = "pyrbacproxy.__main__:main"
COMMAND = "pyrbacproxy_kube_rbac_proxy-*.whl"


def built(root: Path, folder: Path) -> Path:
    """The wheels of the sources in `root`."""
    environment = {k: v for k, v in os.environ.items() if k != "SOURCE_DATE_EPOCH"}
    subprocess.run(
        [sys.executable, root / "packaging" / "wheel.py", folder],
        env=environment | {"SOURCE_DATE_EPOCH": "1700000000"},
        check=True,
    )
    return folder


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(ROOT, tmp_path_factory.mktemp("wheels"))


def files(wheels: Path, pattern: str) -> dict[str, bytes]:
    (wheel,) = wheels.glob(pattern)
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def commands(inside: dict[str, bytes]) -> str:
    """The console scripts."""
    (text,) = (text for name, text in inside.items() if name.endswith("entry_points.txt"))
    return text.decode().removeprefix("[console_scripts]").strip()


def test_it_holds_each_module_and_nothing_else(wheels: Path) -> None:
    source = ROOT / "src"
    modules = {str(path.relative_to(source)) for path in source.rglob("*.py")}
    inside = files(wheels, PROGRAM)
    assert {name for name in inside if ".dist-info/" not in name} == {
        *modules,
        "pyrbacproxy/py.typed",
    }
    about = {name.partition(".dist-info/")[2] for name in inside if ".dist-info/" in name}
    assert {"METADATA", "RECORD", "WHEEL", "entry_points.txt"} <= about
    assert any(name.endswith("LICENSE") for name in about)


def test_it_asks_for_what_runs_and_for_no_test_s_tool(wheels: Path) -> None:
    inside = files(wheels, PROGRAM)
    (about,) = (text for name, text in inside.items() if name.endswith("/METADATA"))
    needed = message_from_bytes(about).get_all("Requires-Dist", [])
    names = {re.split(r"[^\w-]", line)[0].lower() for line in needed if "extra ==" not in line}
    assert {"aiohttp", "cryptography", "h2", "uvloop"} <= names
    assert not names & {"mypy", "pyinstaller", "pytest", "ruff", "setuptools"}


def test_kube_rbac_proxy_is_a_command_of_its_own_wheel(wheels: Path) -> None:
    assert commands(files(wheels, PROGRAM)) == f"pyrbacproxy = {MAIN}"
    assert commands(files(wheels, COMMAND)) == f"kube-rbac-proxy = {MAIN}"
    assert all(".dist-info/" in name for name in files(wheels, COMMAND))


def test_another_checkout_of_the_same_sources_gives_the_same_bytes(
    wheels: Path, tmp_path: Path
) -> None:
    """With other modes and times, after other builds and starts, and in another place."""
    root = tmp_path / "checkout"
    root.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copyfile(ROOT / name, root / name)
    shutil.copytree(ROOT / "src", root / "src", copy_function=shutil.copyfile)
    (root / "packaging").mkdir()
    shutil.copyfile(ROOT / "packaging" / "wheel.py", root / "packaging" / "wheel.py")
    for path in root.rglob("*"):
        path.chmod(0o700)
    (root / "build" / "lib" / "pyrbacproxy").mkdir(parents=True)
    (root / "build" / "lib" / "pyrbacproxy" / "gone.py").touch()
    again = built(root, tmp_path / "again")
    made = {path.name: path.read_bytes() for path in wheels.iterdir()}
    assert {path.name: path.read_bytes() for path in again.iterdir()} == made


def test_both_commands_run_the_program(wheels: Path, tmp_path: Path) -> None:
    """Beside the libraries that are here."""
    home = tmp_path / "home"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
    (site,) = (home / "lib").glob("python3*/site-packages")
    pip = [sys.executable, "-m", "pip", f"--python={home}/bin/python"]
    install = ["install", "--quiet", "--no-deps", "--no-index", *map(str, wheels.glob("*.whl"))]
    subprocess.run(pip + install, check=True)
    (here,) = {path for path in sys.path if path.endswith("site-packages")}
    (site / "libraries.pth").write_text(f"{here}\n")
    for command in ("pyrbacproxy", "kube-rbac-proxy"):
        told = subprocess.run(
            [home / "bin" / command, "--version"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        assert told.stdout.startswith("pyrbacproxy v")

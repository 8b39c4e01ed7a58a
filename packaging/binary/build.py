"""Builds build/pyrbacproxy: one file that runs on a node without Python, whatever its C library.

PyInstaller gathers the program, Python and their libraries; this adds the C library and its loader,
takes out what ties them to the machine that built them, and packs all into the launcher.
"""

import hashlib
import json
import os
import runpy
import shutil
import subprocess
import sys
import zlib
from importlib import metadata
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1] / "src"
BUILD = HERE.parents[1] / "build"
BINARY = BUILD / "pyrbacproxy"
WORK = BUILD / "binary"
TREE = WORK / "tree" / "pyrbacproxy"
PROGRAM = TREE / "pyrbacproxy"
LIBRARIES = TREE / "_internal"  # PyInstaller's name for everything beside the program
TOOLS = ("gcc", "patchelf", "pyinstaller", "strip")
# Where the program names its loader; the launcher writes the real path over it.
INTERPRETER = "/" + "i" * 1022
# Loaded by name: no library says that it needs them. Part of libc from glibc 2.34 on.
LOADED_BY_NAME = ("libnss_dns.so.2", "libnss_files.so.2")


def main() -> int:
    """Build the file, unless it is there and made of the same; the tools tell what goes wrong."""
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    if missing := [tool for tool in TOOLS if not shutil.which(tool)]:
        sys.stderr.write(f"missing: {', '.join(missing)}; `make setup` (as root) brings them\n")
        return 1
    record, now = WORK / "made-of", made_of()
    if BINARY.exists() and record.exists() and record.read_text() == now:
        return 0
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    (WORK / "build.json").write_text(json.dumps(facts()))
    gather()
    loader = add_c_library()
    detach()
    pack(loader)
    record.write_text(now)
    return 0


def made_of() -> str:
    """What the binary depends on: our files, this Python, what is installed for it."""
    files = sorted([*SOURCE.rglob("*.py"), *HERE.iterdir()])
    known = [f"{name} {value}" for name, value in facts().items() if name != "buildDate"]
    contents = [hashlib.sha256(path.read_bytes()).hexdigest() for path in files if path.is_file()]
    installed = sorted(f"{one.name} {one.version}" for one in metadata.distributions())
    return "\n".join([sys.version, *known, *installed, *map(str, files), *contents])


def facts() -> dict[str, str]:
    """What /version shows of this build, as a wheel knows it."""
    known: dict[str, str] = runpy.run_path(str(SOURCE.parent / "setup.py"))["build_facts"]()
    return known


def run(*words: str | Path) -> str:
    """What a tool prints; raises CalledProcessError."""
    result = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, cwd=WORK)
    return result.stdout


def gather() -> None:
    """The folder with the program, Python and their libraries."""
    where = ("--workpath", WORK / "pyinstaller", "--distpath", TREE.parent)
    run("pyinstaller", "--log-level=ERROR", "--noconfirm", *where, HERE / "pyrbacproxy.spec")


def objects() -> list[Path]:
    """Every program and library in the folder."""
    files = (path for path in TREE.rglob("*") if path.is_file() and not path.is_symlink())
    return sorted(path for path in files if path.read_bytes()[:4] == b"\x7fELF")


def add_c_library() -> str:
    """Copy the loader, and what PyInstaller leaves to the node; returns the loader's path."""
    loader = Path(run("patchelf", "--print-interpreter", PROGRAM).strip())
    shutil.copy(loader, LIBRARIES)
    wanted = [*LOADED_BY_NAME, *(name for path in objects() for name in needed(path))]
    while wanted:
        name = wanted.pop()
        found = Path(run("gcc", f"-print-file-name={name}").strip())
        # Wheels bring libraries in folders of their own, beside those that need them.
        if not found.is_absolute() or any(LIBRARIES.rglob(name)):
            continue
        shutil.copy(found, LIBRARIES / name)
        wanted += needed(found)
    return f"{LIBRARIES.name}/{loader.name}"


def needed(path: Path) -> list[str]:
    """The libraries that one says it needs."""
    return run("patchelf", "--print-needed", path).split()


def detach() -> None:
    """Take out symbols, and the folders of the building machine where libraries look for others:
    they come before the folder that the binary unpacks into.
    """
    for path in objects():
        if path.name.startswith("ld-linux"):
            continue  # finds its own parts by itself; patchelf would break it
        if path != PROGRAM:  # PyInstaller's archive is behind the program: strip would drop it
            run("strip", "--strip-unneeded", path)
        run("patchelf", "--remove-rpath", path)
    # For all that the program loads, and what that loads (RPATH, which RUNPATH is not).
    run("patchelf", "--force-rpath", "--set-rpath", f"$ORIGIN/{LIBRARIES.name}", PROGRAM)
    run("patchelf", "--set-interpreter", INTERPRETER, PROGRAM)


def pack(loader: str) -> None:
    """Compile the launcher around the folder's content."""
    paths = sorted(TREE.rglob("*"))
    files = [path for path in paths if path.is_file() and not path.is_symlink()]
    content = b"".join(path.read_bytes() for path in files)
    place = PROGRAM.read_bytes().index(INTERPRETER.encode() + b"\0")
    lines = "\n".join(line(path) for path in paths)
    identity = hashlib.sha256(lines.encode() + content).hexdigest()[:16]
    first = f"{identity} {len(content)} {place} {loader}"
    (WORK / "index").write_text(f"{first}\n{lines}\n")
    (WORK / "payload").write_bytes(zlib.compress(content))
    run(
        *("gcc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-static", "-s"),
        f"-DINTERPRETER_BYTES={len(INTERPRETER)}",
        *("-o", BINARY, HERE / "launcher.c", "-lz"),
    )


def line(path: Path) -> str:
    """One thing in the index, as launcher.c reads it: kind, mode, size, name, a link's target."""
    kind, mode, size, target = "d", 755, 0, "-"
    if path.is_symlink():
        kind, target = "l", str(path.readlink())
    elif path.is_file():
        kind, size = "f", path.stat().st_size
        mode = 755 if os.access(path, os.X_OK) else 644
    return f"{kind}\t{mode}\t{size}\t{path.relative_to(TREE)}\t{target}"


if __name__ == "__main__":
    sys.exit(main())

"""The image of the Dockerfile, built and run without a container engine or a registry.

mmdebstrap makes the base of Debian's packages, buildah builds on it, runc runs what comes out as a
container engine would: by the image's own configuration, on a root that nobody can write to. pip's
packages are downloaded here, as this machine's pip is configured, and served to the build on
loopback.
"""

import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

from tests.e2e.programs import Program, Programs
from tests.packaging.debian_base import tar_of

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_SECONDS = 600.0
HELP = """\
The image is built and run with Debian's mmdebstrap, buildah and runc, as root (`make setup` as root
brings them), on a machine that lets root mount, chroot and make namespaces and device files."""

# Like the official image python:3.11-slim-bookworm: Debian's essentials around Python and pip, and
# no bytecode, for nothing is configured, only unpacked. So a standard library that the Dockerfile
# forgets to compile is noticed.
SUITE = "bookworm"
BASE_PYTHON = "3.11"
BASE = [
    "--variant=extract",
    "--include=base-files,bash,coreutils,dash,ca-certificates,python-is-python3,python3-pip",
    '--aptopt=APT::Install-Recommends "false"',
    "--dpkgopt=path-exclude=/usr/share/doc/*",
    "--dpkgopt=path-exclude=/usr/share/man/*",
    "--dpkgopt=path-exclude=/usr/share/locale/*",
    # The package's own script would make them, and scripts don't run.
    '--extract-hook=mkdir -p "$1/usr/local/bin"',
]
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CAPABILITIES = ("bounding", "effective", "inheritable", "permitted", "ambient")
# What every engine mounts; /dev/shm is all that can be written to.
SYSTEM = [
    {"destination": "/proc", "type": "proc", "source": "proc"},
    {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
    {
        "destination": "/dev/shm",  # noqa: S108 - in the container
        "type": "tmpfs",
        "source": "shm",
        "options": ["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"],
    },
]
Mounts: TypeAlias = dict[str, Path]


@dataclass(frozen=True, slots=True)
class Image:
    """A built image; `root` is its file system, mounted."""

    root: Path
    user: str
    environment: list[str]
    entrypoint: list[str]
    size_mib: float
    base_mib: float


class Runner:
    """Runs commands in containers of the image, on a read-only root without any capability."""

    def __init__(self, image: Image, programs: Programs) -> None:
        self._image = image
        self._programs = programs
        self._count = 0

    def start(
        self,
        *arguments: str,
        user: str = "",
        mounts: Mounts | None = None,
        environment: tuple[str, ...] = (),
        entrypoint: tuple[str, ...] = (),
    ) -> tuple[Program, str]:
        """Start a container on this machine's network; gives its program and its name.

        Mounts are path in the container → path here, and read-only.
        """
        self._count += 1
        bundle = self._programs.folder / f"bundle-{self._count}"
        bundle.mkdir()
        name = f"pyrbacproxy-image-test-{os.getpid()}-{self._count}"
        uid, _, gid = (user or self._image.user).partition(":")
        process = {
            "user": {"uid": int(uid), "gid": int(gid)},
            "args": [*(entrypoint or self._image.entrypoint), *arguments],
            "cwd": "/",
            "env": [*self._image.environment, *environment],
            "capabilities": {name: [] for name in CAPABILITIES},
            "noNewPrivileges": True,
        }
        mounted = [
            {"destination": inside, "source": str(here), "type": "bind", "options": ["rbind", "ro"]}
            for inside, here in (mounts or {}).items()
        ]
        configuration = {
            "ociVersion": "1.0.2",
            "root": {"path": str(self._image.root), "readonly": True},
            "process": process,
            "mounts": [*SYSTEM, *mounted],
            "linux": {"namespaces": [{"type": kind} for kind in ("pid", "mount", "ipc", "uts")]},
        }
        (bundle / "config.json").write_text(json.dumps(configuration))
        state = str(self._programs.folder / "runc")
        program = self._programs.start(
            name, found("runc"), "--root", state, "run", "--bundle", str(bundle), name
        )
        return program, name

    async def output(self, *command: str) -> str:
        """What a command of the image writes; fails when it ends with another status than 0."""
        program, _ = self.start(*command[1:], entrypoint=command[:1])
        status = await program.ended()
        assert status == 0, f"{command}: {program.output()}"
        return program.output()

    def resident_mib(self, name: str) -> float:
        """Resident memory of a container's first process."""
        state = json.loads(
            tool("runc", "--root", str(self._programs.folder / "runc"), "state", name)
        )
        lines = Path(f"/proc/{state['pid']}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


@contextmanager
def built(folder: Path, packages: Path) -> Iterator[Image]:
    """Build the image with these packages; its storage lies in `folder` and goes at the end."""
    assert os.geteuid() == 0, f"not root.\n{HELP}"
    # vfs copies instead of mounting layers: slower by seconds, and works on every file system.
    buildah = partial(
        tool,
        "buildah",
        *("--storage-driver", "vfs"),
        *("--root", str(folder / "storage"), "--runroot", str(folder / "run")),
    )
    try:
        empty = buildah("from", "scratch").strip()
        buildah("add", "--quiet", empty, str(tar_of(SUITE, BASE)), "/")
        buildah("config", "--env", f"PATH={PATH}", empty)
        buildah("commit", "--quiet", empty, "localhost/base")
        with serving(packages) as url:
            secret = folder / "pip.conf"
            secret.write_text(f"[global]\nno-index = true\nfind-links = {url}\n")
            buildah(
                *("build", "--isolation", "chroot", "--pull-never", "--http-proxy=false"),
                *("--build-arg", "BASE=localhost/base", "--tag", "localhost/pyrbacproxy"),
                *("--secret", f"id=pip.conf,src={secret}", str(ROOT)),
            )
        container = buildah("from", "--pull-never", "localhost/pyrbacproxy").strip()
        root = Path(buildah("mount", container).strip())
        inspected = json.loads(buildah("inspect", "--type", "image", "localhost/pyrbacproxy"))
        configuration = inspected["OCIv1"]["config"]
        yield Image(
            root,
            configuration["User"],
            configuration["Env"],
            configuration["Entrypoint"],
            size_mib(root),
            tar_of(SUITE, BASE).stat().st_size / 2**20,
        )
    finally:
        if (folder / "storage").exists():
            buildah("rm", "--all")
            shutil.rmtree(folder / "storage")


def download(folder: Path, machine: str) -> None:
    """Fetch all that pip needs to install us on a machine with such a processor.

    Source distributions don't count: the image holds no compiler.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    # pip judges markers by the Python that it runs on, and ours may be newer than the image's:
    # aiohttp wants this one below 3.13.
    needed.append("typing_extensions")
    tool(
        *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
        *("--python-version", BASE_PYTHON, "--only-binary=:all:", "--dest", str(folder)),
        *(f"--platform=manylinux_2_{glibc}_{machine}" for glibc in (28, 17)),
        f"--platform=manylinux2014_{machine}",
        *needed,
    )


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve a folder on loopback; gives its URL."""
    handler = partial(QuietHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Logs nothing."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its parent's name
        pass


def tool(name: str, *arguments: str) -> str:
    """Run a program to its end; returns what it wrote to its output, and fails with its errors."""
    result = subprocess.run(
        [found(name), *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert result.returncode == 0, f"{name} {arguments} failed:\n{result.stderr[-4000:]}\n{HELP}"
    return result.stdout


def found(name: str) -> str:
    """The path of a program; fails when it is missing."""
    path = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    assert path, f"{name} is missing.\n{HELP}"
    return path


def size_mib(root: Path) -> float:
    """What the files below a folder take, links counted once."""
    sizes = {
        (status.st_dev, status.st_ino): status.st_size
        for folder, folders, files in os.walk(root)
        for status in (os.lstat(Path(folder, name)) for name in folders + files)
    }
    return sum(sizes.values()) / 2**20

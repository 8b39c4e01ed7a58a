"""A node of an older Debian release without Python: a root folder of its own to run programs in."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.packaging.debian_base import tar_of

SUITE = "bullseye"  # glibc 2.31
# Unpacked and not configured: a shell and its tools run without.
BASE = (
    "--variant=extract",
    "--include=coreutils,dash",
    "--dpkgopt=path-exclude=/usr/share/*",
)


class OldNode:
    """The root folder, with the binary as /pyrbacproxy in it."""

    def __init__(self, root: Path, binary: Path) -> None:
        self.root = root
        root.mkdir()
        tar = ("tar", "--extract", "--exclude=./dev/*", "--directory", root)
        subprocess.run([*tar, "--file", tar_of(SUITE, BASE)], check=True)
        root.chmod(0o755)
        for folder, mode in (("dev", 0o755), ("proc", 0o755), ("tmp", 0o1777)):
            (root / folder).mkdir(exist_ok=True)
            (root / folder).chmod(mode)
        (root / "pyrbacproxy").write_bytes(binary.read_bytes())
        (root / "pyrbacproxy").chmod(0o755)
        tried = self.run("/bin/true")
        assert tried.returncode == 0, f"root may not unshare, mount or chroot here: {tried.stderr}"

    def command(self, *words: str, shared: Path | None = None, mounts: str = "") -> list[str]:
        """What runs a program on the node, as the process that the command starts.

        `shared` is a folder of ours, there at the same path; `mounts` are shell lines that mount
        more, with the root folder as `$1`. Mounts are seen by this process alone and end with it.
        """
        lines = [
            "set -e",
            'mount -t proc proc "$1/proc"',
            'mount --rbind /dev "$1/dev"',
            f'mkdir -p "$1{shared}"; mount --bind "{shared}" "$1{shared}"' if shared else "",
            mounts,
            'root=$1; shift; exec chroot "$root" "$@"',
        ]
        script = "\n".join(lines)
        return ["unshare", "--mount", "sh", "-c", script, "sh", str(self.root), *words]

    def run(
        self,
        *words: str,
        shared: Path | None = None,
        mounts: str = "",
        variables: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program to its end with these variables in its environment."""
        return subprocess.run(
            self.command(*words, shared=shared, mounts=mounts),
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **(variables or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

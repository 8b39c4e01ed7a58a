"""Root folders made of Debian's packages, as tar files: what images and old nodes are made of here.

They are kept in build/bases: making one takes longest in its test, and none holds anything of us.
"""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

BASES = Path(__file__).resolve().parents[2] / "build" / "bases"
TIMEOUT_SECONDS = 600.0


def tar_of(suite: str, options: Sequence[str]) -> Path:
    """A Debian release's packages by mmdebstrap's options; made when there is none of this recipe.

    Fails when this is not root or mmdebstrap is missing.
    """
    assert os.geteuid() == 0, "not root: only root can make a root folder of Debian's packages"
    assert shutil.which("mmdebstrap"), "mmdebstrap is missing: `make setup` (as root) brings it"
    recipe = hashlib.sha256(" ".join(options).encode()).hexdigest()[:12]
    base = BASES / f"{suite}-{recipe}.tar"
    if not base.exists():
        BASES.mkdir(parents=True, exist_ok=True)
        unfinished = base.with_suffix(f".{os.getpid()}.tar")
        made = subprocess.run(
            ["mmdebstrap", "--quiet", *options, suite, unfinished],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
        assert made.returncode == 0, made.stderr
        unfinished.rename(base)
    return base

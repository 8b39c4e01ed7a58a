"""curl as the original's end-to-end tests call it: with `--fail`, a refusal is an exit code."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from pyrbacproxy.demo.pki import Pair
from tests.e2e.programs import DEADLINE_SECONDS, debian

# curl's exit code for a status of 400 or above.
REFUSED = 22
_FACTS = "\n%{http_code} %{http_version}"


@dataclass(frozen=True, slots=True)
class Fetched:
    """How one call ended: curl's exit code, what the server said, curl's own words."""

    code: int
    status: int
    version: str
    output: str
    errors: str


async def curl(url: str, *words: str, token: str = "", pair: Pair | None = None) -> Fetched:
    """One call. The output is empty when the status is 400 or above: `--fail` keeps it back."""
    process = await asyncio.create_subprocess_exec(
        debian("curl"),
        *("--insecure", "--fail", "--silent", "--show-error", "--write-out", _FACTS),
        *("--max-time", str(DEADLINE_SECONDS)),
        *_credentials(token, pair),
        *words,
        url,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    output, _, facts = out.decode().rpartition("\n")
    status, _, version = facts.partition(" ")
    code = process.returncode
    assert code is not None
    return Fetched(code, int(status), version, output, err.decode())


def _credentials(token: str, pair: Pair | None) -> Sequence[str]:
    header = ["--header", f"Authorization: Bearer {token}"] if token else []
    if not pair:
        return header
    return [*header, "--cert", str(pair.certificate_file), "--key", str(pair.key_file)]

"""Replays the recorded conformance cases against the program, one test a case.

The replayer of tests/conformance runs as it is, once for each group of cases, on those of them that
are to be tested. None is left out.
"""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

FOLDER = Path(__file__).resolve().parent / "conformance"
CASES = {path.stem: yaml.safe_load(path.read_text()) for path in FOLDER.glob("cases/*.yaml")}
NAMES = [f"{group}/{case['id']}" for group in sorted(CASES) for case in CASES[group]["cases"]]
# How long a case waits for its answers, unless it says. Only a case that fails waits so long; the
# replayer's own 3 s are short for the first review of a process on a busy machine.
PATIENCE_SECONDS = 15
SECONDS = 600
PROXY = f"{sys.executable} -m pyrbacproxy"


def write(folder: Path, group: str, ids: set[str]) -> None:
    """Write a case file that holds only these cases of the group."""
    document = CASES[group]
    kept = [{"timeout": PATIENCE_SECONDS} | case for case in document["cases"] if case["id"] in ids]
    text = yaml.safe_dump(document | {"cases": kept}, allow_unicode=True)
    (folder / f"{group}.yaml").write_text(text)


def read(output: str, cases: list[str]) -> dict[str, str]:
    """What the replayer found wrong, by case; a replayer that did not come to its end fails all."""
    failed = dict(re.findall(r"^FAIL (\S+): (.*)$", output, re.MULTILINE))
    closing = f"{len(cases) - len(failed)} passed, {len(failed)} failed"
    if not output.rstrip().endswith(closing):
        return dict.fromkeys(cases, f"the replayer broke off: {output[-2000:]}")
    return failed


@pytest.fixture(scope="session")
def failures(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], dict[str, str]]:
    """Replay a group's selected cases, once; what each failed one differs in, by name."""
    selected = {item.name.removeprefix("test_case[")[:-1] for item in request.session.items}
    replayed: dict[str, dict[str, str]] = {}

    def replay(group: str) -> dict[str, str]:
        if group not in replayed:
            cases = [name for name in NAMES if name in selected and name.startswith(f"{group}/")]
            folder = tmp_path_factory.mktemp(group)
            write(folder, group, {name.partition("/")[2] for name in cases})
            ended = subprocess.run(
                [sys.executable, FOLDER / "replay.py", f"--proxy={PROXY}", f"--cases={folder}"],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=SECONDS,
                check=False,
            )
            replayed[group] = read(ended.stdout, cases)
        return replayed[group]

    return replay


@pytest.mark.parametrize("case", NAMES)
def test_case(case: str, failures: Callable[[str], dict[str, str]]) -> None:
    failed = failures(case.partition("/")[0])
    if case in failed:
        pytest.fail(failed[case].replace(" | ", "\n"), pytrace=False)


def test_a_broken_replayer_fails_its_cases() -> None:
    assert read("Traceback ...\n", ["a/b"])["a/b"].startswith("the replayer broke off")
    assert read("1 passed, 0 failed\n", ["a/b"]) == {}
    assert read("FAIL a/b: x | y\n1 passed, 1 failed\n", ["a/b", "a/c"]) == {"a/b": "x | y"}

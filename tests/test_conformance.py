"""Replays the recorded conformance cases against the program, one test a case.

The replayer of tests/conformance runs as it is, in a few processes side by side: each gets case
files with its share of the cases, made so that cases which share a running proxy stay together.
None is left out.
"""

import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import pytest
import yaml

FOLDER = Path(__file__).resolve().parent / "conformance"
CASES = {path.stem: yaml.safe_load(path.read_text()) for path in FOLDER.glob("cases/*.yaml")}
NAMES = [f"{group}/{case['id']}" for group in sorted(CASES) for case in CASES[group]["cases"]]
# As many as a small machine has cores: more would slow each start, and the first review waits for
# a child process, which the proxy gives a few seconds only.
SHARES = 2
# How long a case waits for its answers, unless it says. Only a case that fails waits so long; the
# replayer's own 3 s are short for the first review of a process on a busy machine.
PATIENCE_SECONDS = 15
SECONDS = 600
PROXY = f"{sys.executable} -m pyrbacproxy"


def shares(names: Iterable[str]) -> list[list[str]]:
    """Split cases so that the shares take about equally long and equal setups stay together."""
    wanted = set(names)
    together: dict[str, list[str]] = defaultdict(list)
    for group, document in CASES.items():
        for case in document["cases"]:
            name = f"{group}/{case['id']}"
            is_alone = case.get("fresh") or not {"send", "h2"} & set(case)
            key = name if is_alone else f"{group} {json.dumps(case.get('setup'))}"
            together[key] += [name] * (name in wanted)
    split: list[list[str]] = [[] for _ in range(SHARES)]
    for bundle in sorted(together.values(), key=len, reverse=True):
        min(split, key=len).extend(bundle)
    return [share for share in split if share]


def write(folder: Path, share: list[str]) -> None:
    """Write case files that hold only these cases."""
    folder.mkdir()
    for group, document in CASES.items():
        kept = [
            {"timeout": PATIENCE_SECONDS} | case
            for case in document["cases"]
            if f"{group}/{case['id']}" in share
        ]
        if kept:
            text = yaml.safe_dump(document | {"cases": kept}, allow_unicode=True)
            (folder / f"{group}.yaml").write_text(text)


def replay(folder: Path, share: list[str]) -> subprocess.Popen[str]:
    """Start the replayer on these cases."""
    write(folder, share)
    return subprocess.Popen(
        [*(sys.executable, str(FOLDER / "replay.py")), "--proxy", PROXY, "--cases", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def read(output: str, share: list[str]) -> dict[str, str]:
    """What the replayer found wrong, by case; a replayer that did not come to its end fails all."""
    failed = dict(re.findall(r"^FAIL (\S+): (.*)$", output, re.MULTILINE))
    closing = f"{len(share) - len(failed)} passed, {len(failed)} failed"
    if not output.rstrip().endswith(closing):
        return dict.fromkeys(share, f"the replayer broke off: {output[-2000:]}")
    return failed


@pytest.fixture(scope="session")
def failures(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """Replay the cases of all selected tests; what each failed one differs in, by name."""
    folder = tmp_path_factory.mktemp("conformance")
    names = {item.name.removeprefix("test_case[")[:-1] for item in request.session.items}
    split = shares(name for name in NAMES if name in names)
    running = [replay(folder / str(number), share) for number, share in enumerate(split)]
    failed: dict[str, str] = {}
    for process, share in zip(running, split, strict=True):
        failed |= read(process.communicate(timeout=SECONDS)[0], share)
    yield failed
    passed = sum(map(len, split)) - len(failed)
    plugins = request.config.pluginmanager
    with plugins.getplugin("capturemanager").global_and_fixture_disabled():
        reporter = plugins.getplugin("terminalreporter")
        reporter.write_line(f"\nconformance: {passed} passed, {len(failed)} failed")


@pytest.mark.parametrize("case", NAMES)
def test_case(case: str, failures: dict[str, str]) -> None:
    if case in failures:
        pytest.fail(failures[case].replace(" | ", "\n"), pytrace=False)


def test_a_broken_replayer_fails_its_cases() -> None:
    assert read("Traceback ...\n", ["a/b"])["a/b"].startswith("the replayer broke off")
    assert read("1 passed, 0 failed\n", ["a/b"]) == {}
    assert read("FAIL a/b: x | y\n1 passed, 1 failed\n", ["a/b", "a/c"]) == {"a/b": "x | y"}


def test_shares_hold_each_case_once() -> None:
    assert sorted(chain.from_iterable(shares(NAMES))) == sorted(NAMES)

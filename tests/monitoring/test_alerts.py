"""The alert rules: promtool checks them and runs their unit tests."""

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from pyrbacproxy.demo.documents import Document, document

RULES = Path(__file__).resolve().parents[2] / "deploy" / "monitoring" / "alerts.yaml"
UNIT_TESTS = Path(__file__).with_name("alerts_test.yaml")


def promtool(*words: str) -> str:
    """What it says; it must have no complaint."""
    path = shutil.which("promtool")
    assert path, "promtool is missing: `make setup` (as root) brings Debian's prometheus"
    done = subprocess.run([path, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rules() -> tuple[Document, ...]:
    (group,) = document(yaml.safe_load(RULES.read_text())).child("spec").children("groups")
    return group.children("rules")


@pytest.fixture
def rules_file(tmp_path: Path) -> Path:
    """The rules as Prometheus itself reads them."""
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(RULES.read_text())["spec"]))
    return path


@pytest.mark.e2e
def test_prometheus_takes_the_rules(rules_file: Path) -> None:
    assert f"SUCCESS: {len(rules())} rules found" in promtool("check", "rules", str(rules_file))


@pytest.mark.e2e
def test_the_alerts_fire_when_they_should_and_only_then(rules_file: Path) -> None:
    shutil.copy(UNIT_TESTS, rules_file.parent)
    assert "SUCCESS" in promtool("test", "rules", str(rules_file.parent / UNIT_TESTS.name))


def test_every_alert_is_tried_both_ways_and_explained() -> None:
    tried: dict[str, set[bool]] = {}
    for case in document(yaml.safe_load(UNIT_TESTS.read_text())).children("tests"):
        for look in case.children("alert_rule_test"):
            fires = bool(look.children("exp_alerts"))
            tried.setdefault(look.text("alertname"), set()).add(fires)
    assert tried == {rule.text("alert"): {True, False} for rule in rules()}
    readme = RULES.with_name("README.md").read_text()
    assert [name for name in tried if f"`{name}`" not in readme] == []

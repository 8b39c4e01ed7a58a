import pytest

from pyrbacproxy.config.findings import Findings
from pyrbacproxy.config.flag import Fate, Flag, Kind
from pyrbacproxy.config.flag_table import FLAGS
from pyrbacproxy.config.later import check
from pyrbacproxy.config.options import parse

LATER = [flag for flag in FLAGS.values() if flag.fate is Fate.LATER]


def problems(*words: str) -> list[str]:
    parsed = parse(words)
    assert parsed.problems == ()
    findings = Findings()
    check(parsed.options, findings)
    assert findings.warnings == []
    return findings.problems


def other_value(flag: Flag) -> str:
    """A good value that is not the flag's default."""
    if flag.choices:
        return flag.choices[-1]
    if flag.kind is Kind.BOOL:
        return "false" if flag.default == "true" else "true"
    by_kind = {Kind.DURATION: "5m", Kind.ARRAY: "ES256"}
    return by_kind.get(flag.kind, "https://issuer.test")


def test_the_flags_that_come_later_are_known() -> None:
    assert {flag.name for flag in LATER} == {"access-log"}


@pytest.mark.parametrize("flag", LATER, ids=lambda flag: flag.name)
def test_a_flag_that_is_set_ends_the_start(flag: Flag) -> None:
    assert f"not supported yet: --{flag.name}" in problems(f"--{flag.name}={other_value(flag)}")


@pytest.mark.parametrize("flag", LATER, ids=lambda flag: flag.name)
def test_its_default_does_not(flag: Flag) -> None:
    assert problems(f"--{flag.name}={flag.default}") == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--logging-format=xml",), "--logging-format=xml: must be one of text, json"),
        (("--zpages-authorization=",), "--zpages-authorization=: must be one of component, node"),
    ],
)
def test_values_are_checked_already(words: tuple[str, ...], said: str) -> None:
    assert said in problems(*words)

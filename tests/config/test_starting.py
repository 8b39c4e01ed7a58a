"""The gate's flags → what the secure listener waits for, or why that makes no sense."""

import pytest

from pyrbacproxy.config.complete import gate_settings
from pyrbacproxy.config.findings import Findings
from pyrbacproxy.config.flag_parsing import parse
from pyrbacproxy.startup.gate import GateSettings

SECURE = "--secure-listen-address=:9637"
PAIR = ("--tls-cert-file=/pki/pair.pem", "--tls-private-key-file=/pki/pair.pem")
MANIFEST = "--wait-for-absent=/manifests/old.yaml"
ENDPOINTS = "--proxy-endpoints-port=9638"


def read(*words: str) -> tuple[GateSettings, Findings]:
    findings = Findings()
    return gate_settings(parse(words).options, findings), findings


def test_nothing_is_waited_for_by_default() -> None:
    settings, findings = read(SECURE)
    assert settings == GateSettings()
    assert (findings.problems, findings.warnings) == ([], [])


def test_everything_at_once() -> None:
    settings, findings = read(
        *(SECURE, *PAIR, ENDPOINTS, MANIFEST, "--wait-for-absent=/b", "--wait-for-port"),
        *("--wait-for-serving-cert", "--startup-timeout=5m", "--ready-while-waiting=false"),
    )
    assert settings == GateSettings(
        absent_paths=("/manifests/old.yaml", "/b"),
        waits_for_port=True,
        waits_for_pair=True,
        timeout_seconds=300,
        is_ready_meanwhile=False,
    )
    assert (findings.problems, findings.warnings) == ([], [])


def test_an_empty_value_given_last_is_a_choice() -> None:
    settings, findings = read(SECURE, MANIFEST, "--wait-for-absent=")
    assert settings.absent_paths == ()
    assert (findings.problems, findings.warnings) == ([], [])


ALONE = "only --secure-listen-address alone can wait"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((SECURE, "--startup-timeout=-1s"), "--startup-timeout=-1s: must not be negative"),
        (
            (SECURE, "--wait-for-absent=old.yaml"),
            "--wait-for-absent=old.yaml: must be an absolute path",
        ),
        (("--insecure-listen-address=:80", MANIFEST), f"--wait-for-absent: {ALONE}"),
        (
            (SECURE, "--insecure-listen-address=:80", "--wait-for-port", MANIFEST),
            f"--wait-for-absent, --wait-for-port: {ALONE}",
        ),
        (
            (SECURE, "--wait-for-serving-cert"),
            "--wait-for-serving-cert needs --tls-cert-file and --tls-private-key-file",
        ),
    ],
)
def test_what_cannot_be_meant_ends_the_start(words: tuple[str, ...], said: str) -> None:
    assert said in read(*words)[1].problems


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("--startup-timeout=1s",),
            "--startup-timeout has no effect without a --wait-for-... flag",
        ),
        (
            ("--ready-while-waiting=false",),
            "--ready-while-waiting has no effect without a --wait-for-... flag",
        ),
        (
            (MANIFEST, "--ready-while-waiting=false"),
            "--ready-while-waiting has no effect without --proxy-endpoints-port",
        ),
    ],
)
def test_what_has_no_effect_is_said(words: tuple[str, ...], said: str) -> None:
    settings_and_findings = read(SECURE, *words)
    assert settings_and_findings[1].warnings == [said]

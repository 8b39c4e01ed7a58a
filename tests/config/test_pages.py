"""The flags about the pages."""

import pytest

from pyrbacproxy.config.complete import page_settings
from pyrbacproxy.config.findings import Findings
from pyrbacproxy.config.flag_parsing import VERSION, parse
from pyrbacproxy.config.flags import FLAGS
from pyrbacproxy.pages.status import PageSettings
from pyrbacproxy.values import replace

NODE = "--zpages-authorization=node"


def read(*words: str, environ: dict[str, str] | None = None) -> tuple[PageSettings, Findings]:
    parsed = parse(words)
    assert parsed.problems == ()
    findings = Findings()
    return page_settings(parsed.options, environ or {}, findings), findings


def test_component_mode_with_both_pages_is_usual() -> None:
    settings, findings = read(environ={"NODE_NAME": "node-1"})
    assert replace(settings, flags=()) == PageSettings("", VERSION)
    assert findings == Findings()


def test_node_mode_takes_the_node_from_the_flag_before_the_environment() -> None:
    environ = {"NODE_NAME": "node-2"}
    assert read(NODE, environ=environ)[0].node_name == "node-2"
    assert read(NODE, "--node-name=node-1", environ=environ)[0].node_name == "node-1"


def test_z_f10_node_mode_without_a_node_is_a_problem() -> None:
    (problem,) = read(NODE)[1].problems
    assert "--node-name" in problem
    assert "NODE_NAME" in problem


def test_a_node_name_in_component_mode_has_no_effect() -> None:
    settings, findings = read("--node-name=node-1")
    assert settings.node_name == ""
    assert findings.warnings == ["--node-name has no effect without --zpages-authorization=node"]


def test_gates_turn_pages_off() -> None:
    assert not read("--feature-gates=ComponentStatusz=false")[0].has_statusz
    assert not read("--feature-gates=ComponentFlagz=false")[0].has_flagz


def test_z_g7_an_unknown_gate_is_a_problem() -> None:
    assert read("--feature-gates=Nosuch=true")[1].problems == [
        '--feature-gates: unknown gate "Nosuch"'
    ]


def test_z_d1_every_flag_is_shown_by_name() -> None:
    names = [name for name, _ in read()[0].flags]
    assert names == sorted(FLAGS)


def test_z_d3_values_are_shown_as_pflag_prints_them() -> None:
    shown = dict(read("--proxy-endpoints-port=8444", "--allow-paths=/a,/b", "-v3")[0].flags)
    assert (
        shown.items()
        >= {
            "tls-min-version": "VersionTLS12",
            "proxy-endpoints-port": "8444",
            "tls-reload-interval": "1m0s",
            "ignore-paths": "[]",
            "allow-paths": "[/a,/b]",
            "oidc-sign-alg": "[RS256]",
            "upstream-force-h2c": "false",
            "kube-api-qps": "0",
            "feature-gates": "",
            "v": "3",
        }.items()
    )


def test_z_d5_a_password_is_not_shown() -> None:
    settings, _ = read("--upstream=https://u:pw@127.0.0.1:9/")
    assert dict(settings.flags)["upstream"] == "https://<masked>@127.0.0.1:9/"
    assert "pw@" not in repr(settings)


@pytest.mark.parametrize("version", [f"v{VERSION}", f"v{VERSION}-node5"])
def test_it_runs_under_the_name_it_was_given(version: str) -> None:
    assert read(f"--version={version}")[0].version == version[1:]

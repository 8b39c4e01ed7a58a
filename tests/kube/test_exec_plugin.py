"""The protocol of exec plugins, against programs that are really run."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from pyrbacproxy.demo.pki import Authority
from pyrbacproxy.kube.exec_plugin import PluginCredential, PluginError, plugin_problems, run_plugin
from pyrbacproxy.values import replace
from tests.kube.parties import text_of

V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"
ENTRY = {"command": "./plugin", "apiVersion": V1, "interactiveMode": "Never"}


def plugin(folder: Path, program: str) -> None:
    """Write the program that `ENTRY` names."""
    path = folder / "plugin"
    path.write_text(f"#!{sys.executable}\n{program}\n")
    path.chmod(0o755)


def printing(folder: Path, **changes: Any) -> None:
    """A plugin that prints one credential."""
    credential = {"kind": "ExecCredential", "apiVersion": V1, "status": {"token": "t"}} | changes
    plugin(folder, f"print({json.dumps(credential)!r})")


# --- what is wrong with an entry ----------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"interactiveMode": "IfAvailable"},
        {"apiVersion": V1BETA1, "interactiveMode": None},
        {"args": ["a"], "env": [{"name": "A", "value": "b"}, {"name": "B"}]},
        {"args": None, "env": None, "command": sys.executable},
        {"command": "true", "provideClusterInfo": True, "installHint": "get it"},
    ],
)
def test_a_whole_entry_has_no_problem(tmp_path: Path, changes: dict[str, Any]) -> None:
    printing(tmp_path)
    assert list(plugin_problems(ENTRY | changes, tmp_path)) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"command": ""}, "exec.command: is not given"),
        ({"command": 1}, "exec.command: is not given"),
        ({"command": "./none"}, "exec.command: './none' is no program that can be run"),
        ({"command": "a\0b"}, "is no program that can be run"),
        (
            {"command": "no-such-plugin", "installHint": "brew\ninstall it"},
            "is no program that can be run (brew install it)",
        ),
        ({"apiVersion": "client.authentication.k8s.io/v1alpha1"}, "exec.apiVersion: "),
        ({"apiVersion": None, "interactiveMode": "Never"}, "exec.apiVersion: None is neither"),
        ({"interactiveMode": None}, "exec.interactiveMode: is not given"),
        ({"interactiveMode": "Always"}, "Always asks for a terminal, and there is none"),
        ({"interactiveMode": "never"}, "'never' is none of Never, IfAvailable, Always"),
        ({"args": "a"}, "exec.args: "),
        ({"args": [1]}, "exec.args: "),
        ({"args": ["a\0"]}, "exec.args: "),
        ({"provideClusterInfo": "false"}, "exec.provideClusterInfo: "),
        ({"env": {"A": "b"}}, "exec.env: "),
        ({"env": ["A=b"]}, "exec.env: "),
        ({"env": [{"value": "s3cret"}]}, "exec.env: "),
        ({"env": [{"name": "", "value": "s3cret"}]}, "exec.env: "),
        ({"env": [{"name": "A=", "value": "s3cret"}]}, "exec.env: "),
        ({"env": [{"name": "A", "value": 1}]}, "exec.env: "),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    printing(tmp_path)
    (problem,) = plugin_problems(ENTRY | changes, tmp_path)
    assert said in problem
    assert "s3cret" not in problem


def test_an_entry_is_a_mapping(tmp_path: Path) -> None:
    assert list(plugin_problems("aws", tmp_path)) == ["exec: is no mapping"]


# --- a run --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "credential"),
    [
        pytest.param({"token": "t"}, PluginCredential("t"), id="token"),
        pytest.param(
            {"token": "t", "expirationTimestamp": "2030-01-01T01:00:00+01:00"},
            PluginCredential("t", expires_at=1893456000.0),
            id="for a time",
        ),
        pytest.param(
            {"token": "t", "expirationTimestamp": "2030-01-01T00:00:00.123456789Z"},
            PluginCredential("t", expires_at=1893456000.123456),
            id="to the nanosecond",
        ),
    ],
)
def test_a_credential(tmp_path: Path, status: dict[str, str], credential: PluginCredential) -> None:
    printing(tmp_path, status=status)
    assert run_plugin(ENTRY, {}, tmp_path) == credential


def test_a_credential_may_be_a_certificate(tmp_path: Path) -> None:
    certificate, key = text_of(Authority(tmp_path).client("me", "me"))
    pair = {"clientCertificateData": f"# \u00e9\n{certificate}", "clientKeyData": key}
    printing(tmp_path, status=pair)
    expected = PluginCredential("", pair["clientCertificateData"], key)
    assert run_plugin(ENTRY, {}, tmp_path) == expected
    printing(tmp_path, status=pair | {"token": "t"})
    assert run_plugin(ENTRY, {}, tmp_path) == replace(expected, token="t")


def test_a_certificate_that_no_connection_can_use_is_no_credential(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = text_of(authority.client("me", "me"))
    _, other_key = text_of(authority.client("you", "you"))
    for pair in ((certificate, other_key), ("s3cret", key), (certificate, "s3cret")):
        status = dict(zip(("clientCertificateData", "clientKeyData"), pair, strict=True))
        printing(tmp_path, status=status)
        with pytest.raises(PluginError, match="its certificate") as caught:
            run_plugin(ENTRY, {}, tmp_path)
        assert "s3cret" not in str(caught.value)


def test_yaml_is_taken_as_well(tmp_path: Path) -> None:
    lines = (f"apiVersion: {V1}", "kind: ExecCredential", "status:", "  token: t")
    stamp = "  expirationTimestamp: 2030-01-01T00:00:00Z"
    plugin(tmp_path, f"print({chr(10).join((*lines, stamp))!r})")
    assert run_plugin(ENTRY, {}, tmp_path) == PluginCredential("t", expires_at=1893456000.0)


ECHO = """
import json, os, sys
told = {"info": json.loads(os.environ["KUBERNETES_EXEC_INFO"]), "argv": sys.argv[1:]}
told |= {"stdin": sys.stdin.read(), "a": os.environ["A"], "home": os.environ["HOME"]}
credential = {"kind": "ExecCredential", "apiVersion": "%s", "status": {"token": json.dumps(told)}}
print(json.dumps(credential))
"""


def told(folder: Path, entry: dict[str, Any], cluster: dict[str, Any]) -> Any:
    """What a plugin got to know."""
    plugin(folder, ECHO % entry["apiVersion"])
    return json.loads(run_plugin(entry, cluster, folder).token)


def test_the_plugin_is_told_what_client_go_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("A", "inherited")
    entry = ENTRY | {"args": ["get-token", "-x"], "env": [{"name": "A", "value": "b"}]}
    assert told(tmp_path, entry, {"server": "https://a"}) == {
        "info": {"kind": "ExecCredential", "apiVersion": V1, "spec": {"interactive": False}},
        "argv": ["get-token", "-x"],
        "stdin": "",
        "a": "b",
        "home": "/home/me",
    }


def test_the_cluster_is_told_to_who_asks_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A", "b")
    entry = ENTRY | {"apiVersion": V1BETA1, "provideClusterInfo": True}
    cluster = {"server": "https://a", "tls-server-name": "b", "certificate-authority": "ca"}
    told_of = {"server": "https://a", "tls-server-name": "b"}
    assert told(tmp_path, entry, cluster)["info"]["spec"]["cluster"] == told_of
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}
    with_config = cluster | {"extensions": [{"name": "other"}, {}, extension]}
    told_more = told_of | {"config": {"audience": "x"}}
    assert told(tmp_path, entry, with_config)["info"]["spec"]["cluster"] == told_more


def test_a_bare_name_is_looked_for_in_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    printing(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run_plugin(ENTRY | {"command": "plugin"}, {}, Path("/")).token == "t"


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import sys; print('s3cret', file=sys.stderr); sys.exit(3)", "ended with status 3"),
        ("import os; os.kill(os.getpid(), 9)", "was ended by signal 9"),
        ("print('s3cret')", "its kind is not ExecCredential"),
        ("print('s3cret: [')", "it is neither JSON nor YAML"),
        ("print('[' * 100_000)", "it is neither JSON nor YAML"),
        ("print('x' * (1 << 22))", "writes more than a credential"),
        ("print('[\"s3cret\"]')", "its kind is not ExecCredential"),
    ],
)
def test_fr67_what_fails_is_told_without_its_words(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], program: str, said: str
) -> None:
    plugin(tmp_path, program)
    with pytest.raises(PluginError, match=said) as caught:
        run_plugin(ENTRY, {}, tmp_path)
    assert "s3cret" not in f"{caught.value}{capfd.readouterr()}"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"kind": "Token"}, "its kind is not"),
        ({"apiVersion": V1BETA1}, "its apiVersion is not"),
        ({"status": None}, "it has no status"),
        ({"status": {}}, "neither a token nor a certificate"),
        ({"status": {"token": 1}}, "its token is no string"),
        ({"status": {"token": "s3cret\ud800"}}, "its token is no string"),
        ({"status": {"clientKeyData": "s3cret"}}, "a certificate and its key go together"),
        ({"status": {"token": "s3cret", "expirationTimestamp": "soon"}}, "no time of RFC 3339"),
        (
            {"status": {"token": "s3cret", "expirationTimestamp": "2030-01-01T00:00:00"}},
            "no time of RFC 3339",
        ),
    ],
)
def test_what_is_no_credential_is_told(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    printing(tmp_path, **changes)
    with pytest.raises(PluginError, match=said) as caught:
        run_plugin(ENTRY, {}, tmp_path)
    assert "s3cret" not in str(caught.value)


def test_a_plugin_that_is_gone_is_told(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match="cannot be run: No such file"):
        run_plugin(ENTRY, {}, tmp_path)
    with pytest.raises(PluginError, match="cannot be passed on"):
        run_plugin(ENTRY | {"command": "a\0b"}, {}, tmp_path)


def test_fr67_a_credential_s_secrets_are_not_shown() -> None:
    assert "s3cret" not in repr(PluginCredential("s3cret", "C", "s3cret"))

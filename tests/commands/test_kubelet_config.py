"""`pyrbacproxy kubelet-config` as a user runs it: files, flags, streams, exit status."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pyrbacproxy.commands import kubelet_config

DEFAULTS = """
kind: KubeletConfiguration
apiVersion: kubelet.config.k8s.io/v1beta1
maxPods: 250
kubeAPIQPS: 50
staticPodPath: /etc/kubernetes/manifests
tlsMinVersion: VersionTLS12
tlsCipherSuites: [A]
"""
OBJECT = """
apiVersion: machineconfiguration.openshift.io/v1
kind: KubeletConfig
metadata: {name: no-static-pods}
spec:
  kubeletConfig:
    staticPodPath: ""
"""
DAEMONSET = """
kind: Service
---
kind: DaemonSet
metadata: {name: machine-config-daemon}
spec: {template: {spec: {containers: [{name: NAME}]}}}
"""
Output = pytest.CaptureFixture[str]
Write = Callable[[str, str], str]


@pytest.fixture(name="write")
def fixture_write(tmp_path: Path) -> Write:
    def write(name: str, text: str) -> str:
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return write


@pytest.fixture(name="defaults")
def fixture_defaults(write: Write) -> str:
    return f"--defaults={write('defaults.yaml', DEFAULTS)}"


@pytest.mark.parametrize("form", [OBJECT, '{"staticPodPath": ""}', 'staticPodPath: ""'])
def test_an_explicitly_empty_path_turns_the_folder_off(
    form: str, defaults: str, write: Write, capsys: Output
) -> None:
    file = write("user.yaml", form)
    assert kubelet_config.run([defaults, file]) == 0
    told = capsys.readouterr()
    assert 'staticPodPath  "/etc/kubernetes/manifests"  ""         absent\n' in told.out
    assert "    staticPodPath:" not in told.out
    assert "the legacy pod kube-rbac-proxy-crio with them" in told.out
    assert told.err == ""


def test_programs_get_json(defaults: str, write: Write, capsys: Output) -> None:
    file = write("user.yaml", "{maxPods: 500, eventBurst: 0}")
    assert kubelet_config.run([defaults, file, "--output=json", "--pool=infra"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["pool"] == "infra"
    assert told["kubeletConfiguration"]["maxPods"] == 500
    assert told["staticPodPath"]["result"] == "/etc/kubernetes/manifests"


def test_nothing_from_a_file_moves_the_cursor(defaults: str, write: Write, capsys: Output) -> None:
    file = write("user.yaml", '{"a\\e[2Jb": 1, podLogsDir: "/\\x9b\\u202e", "x\\e": 1}')
    assert kubelet_config.run([defaults, file]) == 1
    told = capsys.readouterr().out
    assert r'    podLogsDir: "/\x9B\u202E"' in told
    assert "a?[2Jb: unknown field" in told
    assert all(letter.isprintable() for letter in told.replace("\n", ""))
    wrong = write("wrong.yaml", '{evictionHard: {"m\\e]0;x\\a": 1}}')
    assert kubelet_config.run([defaults, wrong]) == 1
    assert "evictionHard.m?]0;x?: must be text" in capsys.readouterr().err


# FR85


@pytest.mark.parametrize(
    ("text", "key", "nearest"),
    [
        ("maxpod: 500", "maxpod", "maxPods"),
        ("kind: KubeletConfiguration\nmaxpod: 500", "maxpod", "maxPods"),
        (
            "kind: KubeletConfig\nspec: {kubeletconfig: {maxPods: 500}}",
            *("spec.kubeletconfig", "spec.kubeletConfig"),
        ),
        (
            "kind: KubeletConfiguration\nspec: {kubeletConfig: {maxPods: 500}}",
            *("spec", "spec.kubeletConfig of an object with `kind: KubeletConfig`"),
        ),
        (
            "spec: {kubeletconfig: {maxPods: 500}}",
            *("spec", "spec.kubeletConfig of an object with `kind: KubeletConfig`"),
        ),
        ("kind: KubeletConfig\nspec: {kubeletConfig: {maxpod: 500}}", "maxpod", "maxPods"),
    ],
)
def test_fr85_what_is_misspelt_is_not_what_the_nodes_get(
    text: str, key: str, nearest: str, *, defaults: str, write: Write, capsys: Output
) -> None:
    file = write("user.yaml", text)
    line = f"{file}: {key}: unknown field, which is ignored; the nearest known one is {nearest}"
    assert kubelet_config.run([defaults, file]) == 1
    told = capsys.readouterr()
    assert told.err == f"Error: {line}\n"
    assert f"Ignored:\n\n  - {line}\n" in told.out
    assert kubelet_config.run([defaults, file, "--output=json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["isAsAsked"], answer["unknown"]) == (False, [line])
    assert answer["kubeletConfiguration"]["maxPods"] == 250


def test_fr85_every_unknown_key_is_named(defaults: str, write: Write, capsys: Output) -> None:
    text = "{kind: KubeletConfig, spek: 1, spec: {logLevels: 1, kubeletConfig: {maxPod: 1, a: 1}}}"
    assert kubelet_config.run([defaults, write("user.yaml", text)]) == 1
    assert capsys.readouterr().err.count("unknown field, which is ignored; the nearest") == 4


def test_a_default_that_stays_is_a_failure(defaults: str, write: Write, capsys: Output) -> None:
    assert kubelet_config.run([defaults, write("user.yaml", "kubeAPIQPS: 0")]) == 1
    assert "kubeAPIQPS: 0 is lost; the default 50 stays" in capsys.readouterr().out


@pytest.mark.parametrize("pool", [["--pool=master"], ["--pool=arbiter"], ["--control-plane"]])
def test_a_control_plane_keeps_its_folder(
    pool: list[str], defaults: str, write: Write, capsys: Output
) -> None:
    assert kubelet_config.run([defaults, write("user.yaml", OBJECT), *pool]) == 1
    told = capsys.readouterr()
    assert "user.yaml: staticPodPath: not allowed for the control-plane pool" in told.err
    assert "renders nothing" in told.out


def test_the_input_may_come_by_pipe(
    defaults: str, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"maxPods: 7")))
    assert kubelet_config.run([defaults, "-"]) == 0
    assert "    maxPods: 7\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "status", "line"),
    [
        ("kube-rbac-proxy-crio", 0, "is in DaemonSet machine-config-daemon"),
        ("another", 1, "the sidecar kube-rbac-proxy-crio is missing"),
    ],
)
def test_the_sidecar_is_looked_for(
    name: str, status: int, line: str, *, defaults: str, write: Write, capsys: Output
) -> None:
    manifests = f"--manifests={write('ds.yaml', DAEMONSET.replace('NAME', name))}"
    assert kubelet_config.run([defaults, manifests, write("user.yaml", OBJECT)]) == status
    told = capsys.readouterr()
    assert line in told.out
    assert ("Error: no pod template has a container" in told.err) is (status == 1)


@pytest.mark.parametrize(
    ("profile", "minimum", "suites"),
    [
        ("{type: Modern}", "VersionTLS13", 3),
        ("{type: Old}", "VersionTLS10", 21),
        ("{type: Custom, custom: {ciphers: [AES128-SHA]}}", None, 1),
        ("{type: Custom, custom: {minTLSVersion: VersionTLS11}}", "VersionTLS11", 0),
    ],
)
def test_a_tls_profile_of_its_own_overrides_the_defaults(
    profile: str,
    minimum: str | None,
    suites: int,
    *,
    defaults: str,
    write: Write,
    capsys: Output,
) -> None:
    text = f"kind: KubeletConfig\nspec: {{tlsSecurityProfile: {profile}}}"
    assert kubelet_config.run([defaults, write("user.yaml", text), "--output=json"]) == 0
    told = json.loads(capsys.readouterr().out)
    document = told["kubeletConfiguration"]
    assert document.get("tlsMinVersion") == minimum
    assert len(document.get("tlsCipherSuites", [])) == suites
    assert any("the proxy's TLS flags follow the cluster's" in note for note in told["notes"])
    assert any("AES256-SHA256: dropped" in note for note in told["notes"]) is ("Old" in profile)


def test_every_problem_is_told_at_once(write: Write, capsys: Output, tmp_path: Path) -> None:
    user = write(
        "user.yaml",
        "kind: KubeletConfig\n"
        "spec: {logLevel: 99, kubeletConfig: {maxPods: many, staticPodPath: /x, port: 0.5}}",
    )
    words = [user, f"--defaults={tmp_path}/none", f"--manifests={write('m.yaml', 'a: [')}"]
    assert kubelet_config.run(words) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert [line.replace(f"{tmp_path}/", "")[:45] for line in told.err.splitlines()] == [
        "Error: none: No such file or directory",
        "Error: m.yaml: while parsing a flow node expe",
        "Error: user.yaml: maxPods: must be a whole nu",
        "Error: user.yaml: port: must be a whole numbe",
        'Error: user.yaml: staticPodPath: must be "" f',
        "Error: user.yaml: spec.logLevel: must be a wh",
    ]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("kind: ConfigMap", 'kind: must be KubeletConfiguration, not "ConfigMap"'),
        ("maxPods: 1", "kind: must be KubeletConfiguration, not null"),
        ("{kind: KubeletConfiguration, staticPodPath: 1}", "staticPodPath: must be text, not 1"),
    ],
)
def test_the_defaults_must_be_the_kubelets(
    text: str, complaint: str, write: Write, capsys: Output
) -> None:
    words = [f"--defaults={write('d.yaml', text)}", write("user.yaml", "maxPods: 1")]
    assert kubelet_config.run(words) == 1
    assert capsys.readouterr().err.endswith(f"d.yaml: {complaint}\n")


@pytest.mark.parametrize("words", [[], ["--pool"], ["file", "--defaults=d", "--output=xml"]])
def test_wrong_flags_exit_1_as_everything_that_can_be_mended(
    words: list[str], capsys: Output
) -> None:
    with pytest.raises(SystemExit) as caught:
        kubelet_config.run(words)
    assert caught.value.code == 1
    assert "Error: " in capsys.readouterr().err

"""Field report FR69: flags of old, flags as operators write them, flags that cannot be."""

import re
import shlex
from pathlib import Path

import pytest

from tests.field_reports.harness import Lab, get
from tests.field_reports.watching import until

INTERMEDIATE = (
    "TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256,"
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,"
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,"
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"
)
OLD = (
    f"{INTERMEDIATE},TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256,TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256,"
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA,TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA,"
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA,TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA,"
    "TLS_RSA_WITH_AES_128_GCM_SHA256,TLS_RSA_WITH_AES_256_GCM_SHA384,"
    "TLS_RSA_WITH_AES_128_CBC_SHA256,TLS_RSA_WITH_AES_128_CBC_SHA,TLS_RSA_WITH_AES_256_CBC_SHA,"
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA"
)
MODERN = "TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256"
PROFILES = [
    pytest.param("VersionTLS10", OLD, id="old"),
    pytest.param("VersionTLS12", INTERMEDIATE, id="intermediate"),
    pytest.param("VersionTLS13", MODERN, id="modern"),
    pytest.param("VersionTLS11", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", id="custom"),
    pytest.param("VersionTLS12", "", id="custom-empty"),
]
RULE = """\
authorization:
  static:
    - resourceRequest: false
      path: /metrics
      verb: get
      user:
        name: alice
"""


@pytest.mark.parametrize(("version", "suites"), PROFILES)
def test_fr69_the_arguments_of_the_node_s_static_pod(
    lab: Lab, tmp_path: Path, version: str, suites: str
) -> None:
    """In the pod's order and spelling, one file for certificate and key, a symlink as usual."""
    (tmp_path / "kubelet-server-current.pem").symlink_to(lab.certificates / "server.pem")
    (tmp_path / "crio-metrics-proxy.cfg").write_text(RULE)
    proxy = lab.start(
        *("!--secure-listen-address", "!--kubeconfig", "!--client-ca-file"),
        *("!--tls-cert-file", "!--tls-private-key-file", "!--upstream"),
        "--secure-listen-address=:${port}",
        f"--config-file={tmp_path}/crio-metrics-proxy.cfg",
        f"--client-ca-file={lab.certificates}/client-ca.crt",
        "--logtostderr=true",
        f"--kubeconfig={lab.world.kubeconfig}",
        f"--tls-cipher-suites={suites}",
        f"--tls-min-version={version}",
        f"--upstream=http://127.0.0.1:{lab.upstream.port}",
        f"--tls-cert-file={tmp_path}/kubelet-server-current.pem",
        f"--tls-private-key-file={tmp_path}/kubelet-server-current.pem",
        is_own=True,
    )
    assert proxy.ask(get("/metrics"), "alice").status == 200
    assert lab.api.asked == []


DEPRECATED = [
    "--logtostderr",
    "--logtostderr=true",
    "--logtostderr=false",
    "--add-dir-header",
    "--add_dir_header",
    "--alsologtostderr=1",
    "--one-output",
    "--skip-headers",
    "--skip_log_headers",
    "--log-backtrace-at=x.go:1",
    "--log-dir=/nowhere",
    "--log-file=/nowhere/x",
    "--log-file-max-size=0x10",
    "--stderrthreshold=2",
]


def test_fr69_deprecated_flags_are_accepted_with_a_warning(lab: Lab) -> None:
    proxy = lab.start("--ignore-paths=/*", *DEPRECATED, is_own=True)
    assert proxy.ask(get()).status == 200
    for flag in DEPRECATED:
        name = flag.partition("=")[0].lstrip("-").replace("_", "-")
        until(lambda: name in proxy.text(), f"warning about {name}")  # noqa: B023 -- used at once


@pytest.mark.parametrize("words", ["-v 3", "-v3", "--v=3"])
def test_fr69_the_log_level_in_every_spelling(lab: Lab, words: str) -> None:
    """From level 1 on all flags are told."""
    proxy = lab.start(*shlex.split(words), is_own=True)
    assert re.search('--v="?3"?', proxy.text())


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        pytest.param(
            [
                "--no-such-flag",
                "--nor-this=x",
                "--upstrea=http://127.0.0.1:1",
                "--listen-address=:1",
            ],
            ["--no-such-flag", "--nor-this", "--upstrea", "--listen-address"],
            id="unknown",
        ),
        pytest.param(["-x"], ["'x'"], id="unknown-shorthand"),
        pytest.param(
            ["--allow-paths=/a", "--ignore-paths=/b"],
            ["--allow-paths", "--ignore-paths"],
            id="forbidden-pair",
        ),
        pytest.param(["--logtostderr", "true"], ["true"], id="bool-value-apart"),
        pytest.param(["serve"], ["serve"], id="positional"),
        pytest.param(
            ["--logtostderr=maybe", "--log-file-max-size=-1", "--v=high", "--idle-timeout=90"],
            ["--logtostderr", "maybe", "--log-file-max-size", "-1", "--v", "high", "90"],
            id="typed",
        ),
        pytest.param(["--config-file"], ["--config-file"], id="value-missing"),
    ],
)
def test_fr69_a_flag_that_cannot_be_ends_the_start(
    lab: Lab, flags: list[str], words: list[str]
) -> None:
    ended = lab.run(*flags)
    assert ended.code == 1
    assert all(word in ended.err for word in words)

"""Field reports of kind CFG: flags of old, flags as operators write them, flags that cannot be."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance.wire import free_port
from tests.field_reports.harness import Lab, Proxy, get
from tests.field_reports.servers import PATIENCE_SECONDS
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


# --- FR90: the port that was given out --------------------------------------------------


def logged_port(proxy: Proxy, how: str, host: str) -> int:
    """The port that the log names for this listener."""
    pattern = rf"Listening {how} on {re.escape(host)}:([0-9]+)$"
    until(lambda: re.search(pattern, proxy.text(), re.MULTILINE) is not None, pattern)
    (found,) = re.findall(pattern, proxy.text(), re.MULTILINE)
    return int(found)


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("127.0.0.1:0", "127.0.0.1"),
        ("127.0.0.1:", "127.0.0.1"),
        ("localhost:00", "localhost"),
        (":0", ""),
        ("[::ffff:127.0.0.1]:0", "[::ffff:127.0.0.1]"),
    ],
)
def test_fr90_the_log_names_the_secure_port_that_was_given_out(
    lab: Lab, address: str, host: str
) -> None:
    flags = (f"--secure-listen-address={address}", "--insecure-listen-address=127.0.0.1:${port}")
    proxy = lab.start(*flags, is_own=True)
    port = logged_port(proxy, "securely", host)
    with proxy.connect("alice", port=port) as client:
        client.send(get("/metrics"))
        assert client.answer().status == 200
    assert logged_port(proxy, "insecurely", "127.0.0.1") == proxy.port


def test_fr90_and_the_insecure_one(lab: Lab) -> None:
    proxy = lab.start("--insecure-listen-address=127.0.0.1:0", is_own=True)
    port = logged_port(proxy, "insecurely", "127.0.0.1")
    with proxy.connect(is_plain=True, port=port) as client:
        client.send(get("/metrics"))
        assert client.answer().status == 401


def test_fr90_and_after_the_startup_gate(lab: Lab, tmp_path: Path) -> None:
    endpoints = free_port()
    proxy = lab.start(
        "--secure-listen-address=127.0.0.1:0",
        f"--proxy-endpoints-port={endpoints}",
        f"--wait-for-absent={tmp_path}/none",
        is_own=True,
        awaited=[("127.0.0.1", endpoints)],
    )
    port = logged_port(proxy, "securely", "127.0.0.1")
    with proxy.connect("alice", port=port) as client:
        client.send(get("/metrics"))
        assert client.answer().status == 200
    assert f"Listening securely on 127.0.0.1:{endpoints} for proxy endpoints" in proxy.text()


# --- FR98: one mistake, one message -----------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        pytest.param(
            ["!--upstream", "--upstrem=http://a"], ["did you mean --upstream?"], id="flag"
        ),
        pytest.param(
            ["!--kubeconfig", "--kubeconf=/x"], ["did you mean --kubeconfig?"], id="kubeconfig"
        ),
        pytest.param(
            ["!--kubeconfig", "--config-file=/none"], ["--config-file /none"], id="unreadable"
        ),
        pytest.param(["--kubeconfig=/none"], ["/none"], id="kubeconfig unreadable"),
        pytest.param(["--client-ca-file=/none"], ["/none"], id="authority unreadable"),
        pytest.param(
            ["--tls-cert-file=/none", "--tls-private-key-file=/none"],
            ["--tls-cert-file: /none"],
            id="pair in one file unreadable",
        ),
        pytest.param(
            ["--tls-cert-file=/dev/null", "--tls-private-key-file=/dev/null"],
            ["--tls-cert-file: /dev/null"],
            id="pair in one file that is none",
        ),
        pytest.param(["--upstream-ca-file=/none"], ["/none"], id="upstream authority unreadable"),
        pytest.param(
            ["--oidc-issuer=https://i", "--oidc-clientI=x"], ["--oidc-clientID"], id="oidc"
        ),
    ],
)
def test_fr98_one_mistake_is_one_message(lab: Lab, flags: list[str], words: list[str]) -> None:
    ended = lab.run(*flags)
    assert ended.code == 1
    (line,) = (line for line in ended.err.splitlines() if re.search("^Error: |err=", line))
    assert all(word in line for word in words)


def test_fr98_a_misspelt_command_is_one_line() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "pyrbacproxy", "audti", "--output=json"],
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert ended.returncode == 1
    assert ended.stderr == 'Error: unknown command "audti", did you mean "audit"?\n'

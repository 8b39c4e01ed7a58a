"""Bad input at the start: it ends non-zero, naming the flag or file, the key and the value."""

import json
import os
import socket
import textwrap
from pathlib import Path

import pytest

from tests.field_reports.harness import Ended, Lab

KUBECONFIG: dict[str, object] = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "here",
    "contexts": [{"name": "here", "context": {"cluster": "there", "user": "me"}}],
    "clusters": [{"name": "there", "cluster": {"server": "https://127.0.0.1:6443"}}],
    "users": [{"name": "me", "user": {}}],
}


def tells(ended: Ended, *words: str) -> None:
    """It ended with status 1, and its errors said all this."""
    assert ended.code == 1
    errors = "\n".join(line for line in ended.err.splitlines() if line.startswith("E"))
    assert not [word for word in words if word not in errors], ended.err
    assert ended.out == ""


# --- PEM files ------------------------------------------------------------------------

CERTIFICATE_FLAGS = ["--tls-cert-file", "--client-ca-file", "--upstream-client-cert-file"]
KEY_FLAGS = ["--tls-private-key-file", "--upstream-client-key-file"]
CONTENTS: dict[str, bytes] = {
    "empty": b"",
    "cut": b"-----BEGIN %s-----\nMIIB\n",
    "bad-base64": b"-----BEGIN %s-----\n!!!!\n-----END %s-----\n",
    "bad-der": b"-----BEGIN %s-----\nAAAA\n-----END %s-----\n",
    "no-pem": bytes(range(256)),
}


def spoil(file: Path, name: str, block: bytes) -> None:
    match name:
        case "missing":
            pass
        case "directory":  # unreadable for everybody, root too
            file.mkdir()
        case _:
            file.write_bytes(CONTENTS[name].replace(b"%s", block))


def judged(lab: Lab, folder: Path, name: str, flags: list[str], block: bytes) -> None:
    """Give each flag a bad file of its own, the other half of an upstream pair being good."""
    files = {flag: folder / f"{number}.pem" for number, flag in enumerate(flags)}
    for file in files.values():
        spoil(file, name, block)
    given = {
        "--upstream-client-cert-file": lab.certificates / "alice.crt",
        "--upstream-client-key-file": lab.certificates / "alice.key",
    }
    ended = lab.run(*(f"{flag}={file}" for flag, file in (given | files).items()))
    tells(ended, *flags, *map(str, files.values()))


@pytest.mark.parametrize("name", ["missing", "directory", *CONTENTS])
def test_bad_certificate_files(lab: Lab, tmp_path: Path, name: str) -> None:
    judged(lab, tmp_path, name, CERTIFICATE_FLAGS, b"CERTIFICATE")


@pytest.mark.parametrize("name", ["missing", "directory", *CONTENTS])
def test_bad_key_files(lab: Lab, tmp_path: Path, name: str) -> None:
    judged(lab, tmp_path, name, KEY_FLAGS, b"PRIVATE KEY")


@pytest.mark.parametrize("name", ["missing", "bad-der"])
def test_a_bad_upstream_ca_file(lab: Lab, tmp_path: Path, name: str) -> None:
    judged(lab, tmp_path, name, ["--upstream-ca-file"], b"CERTIFICATE")


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param(["--tls-cert-file", "--tls-private-key-file"], id="serving-pair"),
        pytest.param(["--upstream-ca-file", "--upstream-client-cert-file"], id="upstream"),
    ],
)
def test_no_bad_file_hides_the_next(lab: Lab, tmp_path: Path, flags: list[str]) -> None:
    judged(lab, tmp_path, "missing", flags, b"")


def test_a_pair_that_does_not_match(lab: Lab) -> None:
    files = [lab.certificates / "server.crt", lab.certificates / "api.key"]
    ended = lab.run(f"--tls-cert-file={files[0]}", f"--tls-private-key-file={files[1]}")
    tells(ended, *map(str, files))


def test_an_encrypted_key(lab: Lab, tmp_path: Path) -> None:
    file = tmp_path / "locked.key"
    file.write_text(
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n"
    )
    tells(lab.run(f"--tls-private-key-file={file}"), str(file))


@pytest.mark.parametrize(
    ("given", "lacking"),
    [
        ("--tls-cert-file", "--tls-private-key-file"),
        ("--tls-private-key-file", "--tls-cert-file"),
        ("--upstream-client-cert-file", "--upstream-client-key-file"),
        ("--upstream-client-key-file", "--upstream-client-cert-file"),
    ],
)
def test_half_a_pair(lab: Lab, given: str, lacking: str) -> None:
    suffix = "key" if "key" in given else "crt"
    ended = lab.run(f"{given}={lab.certificates}/server.{suffix}", f"!{lacking}")
    tells(ended, given, lacking)


def test_an_upstream_pair_that_does_not_match(lab: Lab) -> None:
    files = [lab.certificates / "alice.crt", lab.certificates / "bob.key"]
    ended = lab.run(
        "--upstream=https://127.0.0.1:1",
        f"--upstream-client-cert-file={files[0]}",
        f"--upstream-client-key-file={files[1]}",
    )
    tells(ended, *map(str, files))


# --- values of flags ------------------------------------------------------------------


VALUES = {
    "flags-of-every-type": [
        "--tls-cipher-suites=TLS_NONE",
        "--tls-min-version=TLS1.2",
        "--allow-paths=/[",
        "--upstream=http://[::1",
        "--secure-listen-address=127.0.0.1",
        "--insecure-listen-address=nowhere",
        "--proxy-endpoints-port=70000",
        "--max-header-bytes=0",
        "--max-connections=-5",
        "--logging-format=xml",
        "--zpages-authorization=nobody",
    ],
    "values-without-meaning": [
        "--tls-reload-interval=0s",
        "--read-header-timeout=-1s",
        "--ignore-paths=/[a-",
        "--upstream=http://127.0.0.1:port",
        "--secure-listen-address=127.0.0.1:99999",
    ],
    "values-that-cannot-be-read": [
        "--tls-reload-interval=1",
        "--shutdown-grace-period=soon",
        "--kube-api-qps=fast",
        "--kube-api-burst=1.5",
        "--http2-max-size=-1",
        "--http2-disable=perhaps",
        "--vmodule=x",
        "--proxy-endpoints-port=many",
    ],
    "address-with-bare-ipv6": ["--secure-listen-address=::1:9637"],
    "pattern-with-lone-backslash": ["--ignore-paths=/a\\"],
    "pattern-with-empty-class": ["--allow-paths=/a[]"],
}


@pytest.mark.parametrize("name", VALUES)
def test_values_that_cannot_be(lab: Lab, name: str) -> None:
    words = [word.rstrip("\\") for flag in VALUES[name] for word in flag.split("=")]
    tells(lab.run(*VALUES[name]), *words)


def test_a_rate_without_a_burst(lab: Lab) -> None:
    tells(lab.run("--kube-api-qps=7.5"), "--kube-api-qps", "--kube-api-burst")


def test_no_listener_at_all(lab: Lab) -> None:
    tells(lab.run("!--secure-listen-address"), "--secure-listen-address")


# --- the authorization file -----------------------------------------------------------

DOCUMENTS: dict[str, tuple[str, list[str]]] = {
    "no-yaml": ("authorization: [", []),
    "tab": ("authorization:\n\tstatic: []\n", ["2"]),
    "no-mapping": ("- a\n- b\n", []),
    "empty": ("", ["authorization"]),
    "section-blank": ("authorization:\n", ["authorization"]),
    "not-utf8": ("authorization: {static: [{path: /\xff}]}\n", []),
    "wrong-types": (
        """
        authorization:
          static:
            - all
            - path: [/x]
            - {path: /x, verb: {get: 1}}
            - {resource: x, resourceRequest: "yes please"}
            - {path: /x, user: alice}
            - {path: /x, user: {groups: developers}}
          resourceAttributes: 7
          rewrites: none
        """,
        [
            *(f"static[{number}]" for number in range(6)),
            *("all", "verb", "resourceRequest", "yes please", "alice", "developers"),
            *("resourceAttributes", "rewrites"),
        ],
    ),
    "contradictions": (
        """
        authorization:
          static:
            - {path: /x, resourceRequest: true}
            - {verb: get}
            - {path: /y, resourceRequest: true, resource: pods}
        """,
        ["static[0]", "/x", "static[1]", "static[2]", "/y"],
    ),
    "misspelt": (
        """
        authorization:
          static:
            - {path: /x, usr: {name: alice}}
            - {path: /x, user: {nmae: alice}}
          resourceAttributes: {namespce: x, resource: y}
          rewrites: {byQueryParam: {name: n}}
        """,
        [
            "usr",
            "user",
            "nmae",
            "name",
            "namespce",
            "namespace",
            "byQueryParam",
            "byQueryParameter",
        ],
    ),
    "repeated": (
        """
        authorization:
          static:
            - {path: /x, user: {name: alice}, USER: {}}
            - {path: /x, user: {name: !!null alice}}
        """,
        ["static[0].USER", "static[1].user.name"],
    ),
    "templates": (
        """
        authorization:
          rewrites: {byQueryParameter: {name: n}}
          resourceAttributes: {namespace: "{{ .Value", name: "{{ other }}"}
        """,
        ["namespace: bad template: line 1, column 1", "name: bad template", "other"],
    ),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_bad_authorization_file(lab: Lab, tmp_path: Path, name: str) -> None:
    text, words = DOCUMENTS[name]
    file = tmp_path / "authorization.yaml"
    file.write_text(textwrap.dedent(text), "latin-1")
    tells(lab.run(f"--config-file={file}"), str(file), *words)


def test_an_authorization_file_that_is_not_there(lab: Lab, tmp_path: Path) -> None:
    tells(lab.run(f"--config-file={tmp_path}/none.yaml"), "--config-file", f"{tmp_path}/none.yaml")
    tells(lab.run(f"--config-file={tmp_path}"), "--config-file", str(tmp_path))


@pytest.mark.parametrize(
    "flag",
    ["--config-file", "--kubeconfig", "--upstream-ca-file", *CERTIFICATE_FLAGS, *KEY_FLAGS],
)
def test_a_pipe_is_refused_at_once(lab: Lab, tmp_path: Path, flag: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    pair = ("--upstream-client-cert-file", "--upstream-client-key-file")
    other = [f"{one}={lab.certificates / 'alice.crt'}" for one in pair if flag in pair]
    tells(lab.run(*other, f"{flag}={tmp_path}/pipe"), flag, f"{tmp_path}/pipe", "regular file")


def test_a_problem_has_its_line(lab: Lab) -> None:
    text = textwrap.dedent("""\
        authorization:
          static:
            - path: /a
            - path: /b
              verb: [get]
        """)
    ended = lab.run(config=text)
    tells(ended, "verb")
    assert ":5" in ended.err or "line 5" in ended.err


# --- kubeconfigs ----------------------------------------------------------------------


def of_cluster(**fields: str) -> dict[str, object]:
    return KUBECONFIG | {"clusters": [{"name": "there", "cluster": fields}]}


def of_user(**fields: str) -> dict[str, object]:
    named = {name.replace("_", "-"): value for name, value in fields.items()}
    return KUBECONFIG | {"users": [{"name": "me", "user": named}]}


KUBECONFIGS: dict[str, tuple[dict[str, object] | str, list[str]]] = {
    "no-yaml": ("clusters: [", []),
    "text": ("hello", []),
    "empty": ("", []),
    # A date is text there, this one too.
    "no-date": ("current-context: 2024-02-30", ["--kubeconfig", "2024-02-30"]),
    "no-integer": ("current-context: !!int demo", ["--kubeconfig", "line 1"]),
    "token-of-two-lines": (of_user(token="a\nb"), ["users[me].token"]),
    "no-current-context": (KUBECONFIG | {"current-context": ""}, []),
    "unknown-context": (KUBECONFIG | {"current-context": "elsewhere"}, ["elsewhere"]),
    "unknown-cluster": (KUBECONFIG | {"clusters": []}, ["there"]),
    "no-server": (of_cluster(), []),
    "ca-missing": (
        of_cluster(server="https://127.0.0.1:1", **{"certificate-authority": "/nowhere/ca.crt"}),
        ["/nowhere/ca.crt"],
    ),
    "token-file-missing": (of_user(tokenFile="/nowhere/token"), ["/nowhere/token"]),
    "certificate-missing": (
        of_user(client_certificate="/nowhere/me.crt", client_key="/nowhere/me.key"),
        ["/nowhere/me.crt"],
    ),
}


@pytest.mark.parametrize("name", KUBECONFIGS)
def test_an_unusable_kubeconfig(lab: Lab, tmp_path: Path, name: str) -> None:
    document, words = KUBECONFIGS[name]
    file = tmp_path / "kubeconfig"
    file.write_text(document if isinstance(document, str) else json.dumps(document))
    tells(lab.run(f"--kubeconfig={file}"), str(file), *words)


def test_a_kubeconfig_that_is_not_there(lab: Lab, tmp_path: Path) -> None:
    tells(lab.run(f"--kubeconfig={tmp_path}/none"), "--kubeconfig", f"{tmp_path}/none")


def test_neither_kubeconfig_nor_pod(lab: Lab) -> None:
    tells(lab.run("!--kubeconfig"), "--kubeconfig")


def test_a_broken_credential_ends_the_start_though_it_may_not_be_needed(
    lab: Lab, tmp_path: Path
) -> None:
    """D20: with a client CA and static rules no API server is needed, but what is given must do."""
    rules = {"authorization": {"static": [{"path": "/metrics", "resourceRequest": False}]}}
    file = tmp_path / "none"
    tells(lab.run(f"--kubeconfig={file}", config=rules), str(file))


# --- addresses ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "flag", ["--secure-listen-address", "--insecure-listen-address", "--proxy-endpoints-port"]
)
def test_a_taken_port_is_told_with_its_flag(lab: Lab, flag: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        value = str(port) if flag.endswith("port") else f"127.0.0.1:{port}"
        tells(lab.run(f"{flag}={value}"), flag, f"127.0.0.1:{port}")


@pytest.mark.parametrize("flag", ["--secure-listen-address", "--insecure-listen-address"])
def test_an_absent_address_is_told_with_its_flag(lab: Lab, flag: str) -> None:
    tells(lab.run(f"{flag}=192.0.2.1:9637"), flag, "192.0.2.1:9637")


# --- all at once ----------------------------------------------------------------------


def test_all_problems_are_told_at_once(lab: Lab, tmp_path: Path) -> None:
    ended = lab.run(
        "--no-such-flag",
        "--tls-cipher-suites=TLS_NONE",
        "--tls-min-version=TLS1.2",
        "--allow-paths=/[",
        f"--client-ca-file={tmp_path}/no-ca.crt",
        f"--tls-cert-file={tmp_path}/no.crt",
        "--idle-timeout=90",
        "--kube-api-qps=5",
        "--kube-api-burst=0",
        f"--kubeconfig={tmp_path}/no-kubeconfig",
        "--upstream=http://[::1",
        "surplus",
        config="authorization: {static: [{path: /x, usr: 1}, {verb: get}], resourceAttributes: 7}",
    )
    tells(
        ended,
        "--no-such-flag",
        "TLS_NONE",
        "TLS1.2",
        "/[",
        "no-ca.crt",
        "no.crt",
        "--idle-timeout",
        "--kube-api-burst",
        "no-kubeconfig",
        "http://[::1",
        "surplus",
        "usr",
        "static[1]",
        "resourceAttributes",
    )

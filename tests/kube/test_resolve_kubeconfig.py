import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest

from pyrbacproxy.demo.pki import Authority
from pyrbacproxy.kube import resolve_kubeconfig
from pyrbacproxy.kube.exec_plugin import PluginCredential
from pyrbacproxy.kube.kubeconfig_file import DocumentError, digest_of
from pyrbacproxy.kube.tls_context import secret_folder
from tests.kube.parties import kubeconfig, text_of


def resolved(path: Path) -> dict[str, Any]:
    return asyncio.run(resolve_kubeconfig.resolve(path))


def test_files_are_read_beside_the_kubeconfig(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = text_of(authority.client("me", "me"))
    (tmp_path / "token").write_text("own-1\n")
    cluster = {"server": "https://api.test:6443/", "certificate-authority": "demo-ca.crt"}
    user = {"client-certificate": "me.crt", "client-key": "me.key", "tokenFile": "token"}
    kubeconfig(tmp_path / "kc", cluster, user)
    found = resolved(tmp_path / "kc")
    files = found.pop("files")
    assert found == {
        "url": "https://api.test:6443",
        "ca": authority.certificate_file.read_text(),
        "certificate": certificate,
        "key": key,
        "authorization": "Bearer own-1",
        "is_verified": True,
        "expires_at": None,
        "server_name": "",
        "proxy_url": "",
        "impersonation": [],
        "is_from_plugin": False,
    }
    names = {"kc", "demo-ca.crt", "me.crt", "me.key", "token"}
    assert files == {str(tmp_path / name): digest_of(tmp_path / name) for name in names}


def test_data_is_read_and_left_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority(tmp_path)
    certificate, key = text_of(authority.client("me", "me"))
    made: list[Path] = []

    def folder() -> Any:
        made.append(Path(context.name))
        return context

    context = secret_folder()
    monkeypatch.setattr(resolve_kubeconfig, "secret_folder", folder)
    user = {
        "client-certificate-data": base64.b64encode(certificate.encode()).decode(),
        "client-key-data": base64.b64encode(key.encode()).decode(),
    }
    kubeconfig(tmp_path / "kc", {"server": "https://api.test"}, user)
    found = resolved(tmp_path / "kc")
    assert (found["certificate"], found["key"]) == (certificate, key)
    assert [path.exists() for path in made] == [False]


@pytest.mark.parametrize(
    ("user", "authorization"),
    [
        ({}, ""),
        ({"token": "inline"}, "Bearer inline"),
        ({"token": "inline", "tokenFile": "token"}, "Bearer from-file"),
        ({"token": "", "tokenFile": "token"}, "Bearer from-file"),
        ({"token": "inline", "tokenFile": ""}, "Bearer inline"),
        ({"username": "me", "password": "p:w"}, "Basic bWU6cDp3"),
        ({"username": "me", "password": ""}, "Basic bWU6"),
    ],
)
def test_a_token_file_goes_before_a_token(
    tmp_path: Path, user: dict[str, Any], authorization: str
) -> None:
    (tmp_path / "token").write_text("from-file\n")
    kubeconfig(tmp_path / "kc", {"server": "https://127.0.0.1:1"}, user)
    assert resolved(tmp_path / "kc")["authorization"] == authorization


@pytest.mark.parametrize("user", [None, "", "absent"])
def test_a_context_may_have_no_user(tmp_path: Path, user: str | None) -> None:
    document = kubeconfig(tmp_path / "kc", {"server": "https://api.test"})
    document["users"] = None
    context = document["contexts"][0]["context"]
    context["user"] = user
    if user == "absent":
        del context["user"]
    (tmp_path / "kc").write_text(json.dumps(document))
    found = resolved(tmp_path / "kc")
    assert found["authorization"] == found["certificate"] == ""


def plugin(folder: Path, status: dict[str, str]) -> dict[str, Any]:
    """A plugin that prints this, and the user entry that names it."""
    version = "client.authentication.k8s.io/v1"
    credential = {"kind": "ExecCredential", "apiVersion": version, "status": status}
    (folder / "printed").write_text(json.dumps(credential))
    (folder / "plugin").write_text(f"#!/bin/sh\ntouch {folder}/was-run\ncat {folder}/printed\n")
    (folder / "plugin").chmod(0o755)
    return {"exec": {"command": "./plugin", "apiVersion": version, "interactiveMode": "Never"}}


def test_a_plugin_is_run_for_a_credential(tmp_path: Path) -> None:
    certificate, key = text_of(Authority(tmp_path).client("me", "me"))
    status = {
        "token": "run-1",
        "clientCertificateData": certificate,
        "clientKeyData": key,
        "expirationTimestamp": "2030-01-01T00:00:00Z",
    }
    kubeconfig(tmp_path / "kc", {"server": "https://a"}, plugin(tmp_path, status))
    found = resolved(tmp_path / "kc")
    assert (found["authorization"], found["certificate"]) == ("Bearer run-1", certificate)
    assert (found["expires_at"], found["is_from_plugin"]) == (1893456000.0, True)


@pytest.mark.parametrize(
    ("user", "authorization", "certificate"),
    [
        pytest.param({"token": "t"}, "Bearer t", "", id="a token"),
        pytest.param({"tokenFile": "token"}, "Bearer f", "", id="a token file"),
        pytest.param({"username": "me"}, "Basic bWU6", "", id="a name"),
        pytest.param(
            {"client-certificate-data": "SQ==", "client-key-data": "Sg=="},
            "",
            "I",
            id="a certificate",
        ),
    ],
)
def test_beside_a_credential_in_the_file_no_plugin_is_run(
    tmp_path: Path, user: dict[str, Any], authorization: str, certificate: str
) -> None:
    (tmp_path / "token").write_text("f\n")
    entry = user | plugin(tmp_path, {"token": "run-1"})
    kubeconfig(tmp_path / "kc", {"server": "https://a"}, entry)
    found = resolved(tmp_path / "kc")
    assert (found["authorization"], found["certificate"]) == (authorization, certificate)
    assert (found["is_from_plugin"], (tmp_path / "was-run").exists()) == (False, False)


@pytest.mark.parametrize(
    "user",
    [
        {"token": "s3cret"},
        {"tokenFile": "token"},
        {"username": "me", "password": "s3cret"},
        {"client-certificate-data": "SQ==", "client-key-data": "Sg=="},
        {},
    ],
)
def test_no_credential_goes_in_the_clear(tmp_path: Path, user: dict[str, Any]) -> None:
    """As in client-go, which tells a server without TLS no more than whom to act as."""
    (tmp_path / "token").write_text("s3cret")
    entry = user | plugin(tmp_path, {"token": "s3cret"}) | {"as": "admin", "as-uid": "7"}
    kubeconfig(tmp_path / "kc", {"server": "HTTP://127.0.0.1:1"}, entry)
    found = resolved(tmp_path / "kc")
    assert found["url"] == "http://127.0.0.1:1"
    assert found["impersonation"] == [("Impersonate-User", "admin"), ("Impersonate-Uid", "7")]
    assert found["authorization"] == found["certificate"] == found["key"] == ""
    assert (found["is_from_plugin"], (tmp_path / "was-run").exists()) == (False, False)
    assert list(found["files"]) == [str(tmp_path / "kc")]


def test_a_scheme_in_capitals_is_a_scheme(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cluster = {"server": "HTTPS://a", "certificate-authority": "demo-ca.crt"}
    kubeconfig(tmp_path / "kc", cluster, {"token": "t"})
    found = resolved(tmp_path / "kc")
    assert (found["url"], found["authorization"]) == ("https://a", "Bearer t")
    assert found["ca"] == authority.certificate_file.read_text()


def test_what_stands_beside_the_current_context_is_not_looked_at(tmp_path: Path) -> None:
    document = kubeconfig(tmp_path / "kc", {"server": "https://a"}, {"token": "t"})
    junk: list[object] = [
        None,
        "junk",
        {"cluster": {}},
        {"name": "other"},
        {"name": "other", "user": 1},
    ]
    files = {"name": "else", "user": {"tokenFile": "a\0b", "client-key": 5}}
    for section in ("contexts", "clusters", "users"):
        document[section] += [*junk, files]
    (tmp_path / "kc").write_text(json.dumps(document, indent="\t"))
    assert resolved(tmp_path / "kc")["authorization"] == "Bearer t"


@pytest.mark.parametrize("name", ["demo-ca.crt", "me.crt", "me.key"])
def test_a_file_that_was_emptied_since_it_was_judged_is_none(tmp_path: Path, name: str) -> None:
    Authority(tmp_path).client("me", "me")
    (tmp_path / name).write_text(" \n")
    cluster = {"server": "https://a", "certificate-authority": "demo-ca.crt"}
    user = {"client-certificate": "me.crt", "client-key": "me.key"}
    kubeconfig(tmp_path / "kc", cluster, user)
    with pytest.raises(DocumentError, match="is empty"):
        resolved(tmp_path / "kc")


def test_a_plugin_is_told_of_the_cluster_with_its_ca(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    seen: list[Any] = []

    def run(_plugin: Any, cluster: Any, _folder: Path) -> PluginCredential:
        seen.append(cluster)
        return PluginCredential("t")

    plugin = {"command": "x", "provideClusterInfo": True}
    cluster = {"server": "https://a", "certificate-authority": "demo-ca.crt"}
    kubeconfig(tmp_path / "kc", cluster, {"exec": plugin})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resolve_kubeconfig, "run_plugin", run)
        assert resolved(tmp_path / "kc")["authorization"] == "Bearer t"
    content = base64.b64encode(authority.certificate_file.read_bytes()).decode()
    assert seen == [cluster | {"certificate-authority-data": content}]


def test_the_way_to_the_server_and_whom_to_act_as_are_carried(tmp_path: Path) -> None:
    cluster = {"server": "https://a", "tls-server-name": "b", "proxy-url": "http://p"}
    kubeconfig(tmp_path / "kc", cluster, {"as": "admin"})
    found = resolved(tmp_path / "kc")
    assert (found["server_name"], found["proxy_url"]) == ("b", "http://p")
    assert found["impersonation"] == [("Impersonate-User", "admin")]


def test_insecure_is_carried(tmp_path: Path) -> None:
    kubeconfig(tmp_path / "kc", {"server": "https://api.test", "insecure-skip-tls-verify": True})
    assert resolved(tmp_path / "kc")["is_verified"] is False


def test_main_prints_one_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kubeconfig(tmp_path / "kc", {"server": "http://127.0.0.1:1"})
    assert resolve_kubeconfig.main([str(tmp_path / "kc")]) == 0
    assert json.loads(capsys.readouterr().out)["url"] == "http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is no YAML in line 2"),
        ("[]", "TypeError"),
        ('{"contexts": [], "current-context": "s"}', 'context "s": none of contexts'),
    ],
)
def test_main_tells_a_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    (tmp_path / "kc").write_text(text)
    assert resolve_kubeconfig.main([str(tmp_path / "kc")]) == 1
    problem = json.loads(capsys.readouterr().out)["problem"]
    assert problem.startswith(f"{tmp_path / 'kc'}: ")
    assert said in problem

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest

from pyrbacproxy.demo.pki import Authority
from pyrbacproxy.kube import resolve_kubeconfig
from pyrbacproxy.kube.credential_files import digest_of
from pyrbacproxy.kube.exec_plugin import PluginCredential
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
    kubeconfig(tmp_path / "kc", {"server": "http://127.0.0.1:1"}, user)
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


PLUGIN = """#!/bin/sh
echo '{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", "status":
{"token": "run-1", "clientCertificateData": "CERTIFICATE", "clientKeyData": "KEY",
"expirationTimestamp": "2030-01-01T00:00:00Z"}}'
"""


@pytest.mark.parametrize(
    ("user", "authorization", "certificate"),
    [
        pytest.param({}, "Bearer run-1", "C1", id="alone"),
        pytest.param({"token": "t"}, "Bearer t", "C2", id="with a token"),
        pytest.param({"username": "me"}, "Basic bWU6", "C3", id="with a name"),
        pytest.param(
            {"client-certificate-data": "SQ==", "client-key-data": "Sg=="},
            "Bearer run-1",
            "I",
            id="with a certificate",
        ),
    ],
)
def test_a_plugin_is_run_for_what_the_file_does_not_hold(
    tmp_path: Path, user: dict[str, Any], authorization: str, certificate: str
) -> None:
    # The library takes equal contents for the same file, which is gone by now.
    text = PLUGIN.replace("CERTIFICATE", certificate).replace("KEY", f"key of {certificate}")
    (tmp_path / "plugin").write_text(text)
    (tmp_path / "plugin").chmod(0o755)
    plugin = {"command": "./plugin", "apiVersion": "client.authentication.k8s.io/v1"}
    kubeconfig(tmp_path / "kc", {"server": "https://a"}, user | {"exec": plugin})
    found = resolved(tmp_path / "kc")
    assert (found["authorization"], found["certificate"]) == (authorization, certificate)
    assert (found["expires_at"], found["is_from_plugin"]) == (1893456000.0, True)


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
        ("{", "ParserError"),
        ("[]", "AttributeError"),
        ('{"contexts": [], "clusters": [], "current-context": "s"}', "KeyError"),
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

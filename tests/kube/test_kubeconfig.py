import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyrbacproxy.demo.pki import Authority
from pyrbacproxy.kube.kubeconfig import ApiServer, in_cluster_problems, in_cluster_server, problems
from tests.kube.parties import kubeconfig, service_account, text_of

Change = Callable[[dict[str, Any]], object]


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


# --- in the cluster -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, None),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, None),
        ({"KUBERNETES_SERVICE_PORT": "443"}, None),
        (
            {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"},
            "https://10.0.0.1:443",
        ),
        (
            {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"},
            "https://[fd00::1]:443",
        ),
    ],
)
def test_the_kubelet_s_variables_name_the_server(
    environ: dict[str, str], expected: str | None
) -> None:
    assert in_cluster_server(environ) == expected


def test_a_whole_service_account_has_no_problem(tmp_path: Path) -> None:
    service_account(tmp_path, "", Authority(tmp_path).certificate_file.read_bytes())
    assert in_cluster_problems("https://10.0.0.1:443", str(tmp_path)) == []


def test_a_service_account_s_files_are_judged(tmp_path: Path) -> None:
    missing = in_cluster_problems("https://10.0.0.1:443", str(tmp_path))
    assert [str(tmp_path / "token") in missing[0], str(tmp_path / "ca.crt") in missing[1]] == [
        True
    ] * 2
    service_account(tmp_path, "", b"no PEM", token="")
    empty, bad = in_cluster_problems("https://10.0.0.1:443", str(tmp_path))
    assert f"{tmp_path / 'token'} is empty" in empty
    assert f"{tmp_path / 'ca.crt'}: holds no certificate" in bad
    service_account(tmp_path, "", b"no PEM", token="s3\ncret")
    broken, _ = in_cluster_problems("https://10.0.0.1:443", str(tmp_path))
    assert broken.startswith(f"the service account's token: {tmp_path / 'token'} holds no token")
    assert "s3" not in broken.replace(str(tmp_path), "")


def test_fr98_a_service_account_that_is_not_mounted_is_one_problem(tmp_path: Path) -> None:
    (problem,) = in_cluster_problems("https://10.0.0.1:443", str(tmp_path / "none"))
    assert f"{tmp_path / 'none'} is missing; is automountServiceAccountToken false?" in problem


@pytest.mark.parametrize("server", ["https://10.0.0.1:x", "https://a b:443", "https://a:0"])
def test_what_the_kubelet_s_variables_name_is_judged(tmp_path: Path, server: str) -> None:
    service_account(tmp_path, "", Authority(tmp_path).certificate_file.read_bytes())
    (problem,) = in_cluster_problems(server, str(tmp_path))
    assert problem == (
        f"KUBERNETES_SERVICE_HOST and _PORT: server: {server!r} has no usable host and port"
    )


# --- kubeconfig ---------------------------------------------------------------------


@pytest.fixture(name="pki")
def _pki(tmp_path: Path) -> Authority:
    (tmp_path / "pki").mkdir()
    return Authority(tmp_path / "pki")


@pytest.mark.parametrize(
    "cluster",
    [
        {"server": "http://127.0.0.1:8080"},
        {"server": "https://[::1]:6443/prefix", "insecure-skip-tls-verify": True},
        {"server": "https://api.test"},
        {"server": "https://a", "tls-server-name": "b", "proxy-url": "http://me:it@p:3128"},
        {"server": "HTTPS://a.test.:6443"},
        {"server": "https://a", "extensions": [{"name": "b", "extension": 1}, {}]},
    ],
)
def test_a_whole_kubeconfig_has_no_problem(tmp_path: Path, cluster: dict[str, Any]) -> None:
    kubeconfig(tmp_path / "kc", cluster)
    assert problems(str(tmp_path / "kc")) == []


def test_files_are_found_beside_the_kubeconfig(tmp_path: Path, pki: Authority) -> None:
    pki.client("me", "me")
    (tmp_path / "token").write_text("t")
    files = {"client-certificate": "pki/me.crt", "client-key": "pki/me.key", "tokenFile": "token"}
    cluster = {"server": "https://api.test", "certificate-authority": "pki/demo-ca.crt"}
    kubeconfig(tmp_path / "kc", cluster, files)
    assert problems(str(tmp_path / "kc")) == []


def test_data_stands_in_the_file_itself(tmp_path: Path, pki: Authority) -> None:
    certificate, key = text_of(pki.client("me", "me"))
    ca = encoded(pki.certificate_file.read_text())
    kubeconfig(
        tmp_path / "kc",
        {"server": "https://api.test", "certificate-authority-data": ca},
        {"client-certificate-data": encoded(certificate), "client-key-data": encoded(key)},
    )
    assert problems(str(tmp_path / "kc")) == []


def test_a_context_without_user_is_anonymous(tmp_path: Path) -> None:
    document = kubeconfig(tmp_path / "kc", {"server": "https://api.test"})
    del document["contexts"][0]["context"]["user"], document["users"]
    (tmp_path / "kc").write_text(json.dumps(document))
    assert problems(str(tmp_path / "kc")) == []


def test_a_user_may_be_null(tmp_path: Path) -> None:
    document = kubeconfig(tmp_path / "kc", {"server": "https://api.test"})
    document["users"][0]["user"] = None
    (tmp_path / "kc").write_text(json.dumps(document))
    assert problems(str(tmp_path / "kc")) == []


def test_a_missing_kubeconfig_is_named(tmp_path: Path) -> None:
    (problem,) = problems(str(tmp_path / "none"))
    assert str(tmp_path / "none") in problem
    assert "No such file" in problem


def test_bad_yaml_is_placed_but_not_quoted(tmp_path: Path) -> None:
    path = tmp_path / "kc"
    path.write_text("users:\n- user: {token: s3cret: x}\n")
    (problem,) = problems(str(path))
    assert f"kubeconfig {path}: is no YAML in line 2" in problem
    assert "s3cret" not in problem
    path.write_bytes(b"\xff\x00")
    assert "is no YAML" in problems(str(path))[0]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("current-context: !!int demo", "line 1, column 18"),
        ("current-context: !!int ''", "line 1, column 18"),
        ("current-context: !!bool s3cret", "line 1, column 18"),
        ("token: !!float s3cret", "line 1, column 8"),
        ("token: !!binary s3cret", "line 1, column 8"),
        ("token: !!map s3cret", "line 1, column 8"),
        ("token: !own s3cret", "line 1, column 8"),
        ("at: !!float 1" + ":1" * 200, "line 1, column 5"),
        ("users:\n- {token: !!int s3cret}", "line 2, column 11"),
    ],
)
def test_a_value_that_is_none_of_its_kind_is_placed_but_not_quoted(
    tmp_path: Path, text: str, place: str
) -> None:
    path = tmp_path / "kc"
    path.write_text(text)
    said = f"kubeconfig {path}: holds a value that is not valid in {place}"
    assert problems(str(path)) == [said]


@pytest.mark.parametrize("text", ["[" * 5000, "? {a: b}\n: c", "a: {<<: s3cret}"])
def test_what_python_cannot_hold_is_no_yaml(tmp_path: Path, text: str) -> None:
    (tmp_path / "kc").write_text(text)
    (problem,) = problems(str(tmp_path / "kc"))
    assert problem.startswith(f"kubeconfig {tmp_path / 'kc'}: is no YAML")
    assert "s3cret" not in problem


def test_a_merge_key_is_resolved(tmp_path: Path) -> None:
    document = json.dumps(kubeconfig(tmp_path / "kc", {"server": "https://api.test"}))
    (tmp_path / "kc").write_text(f"<<: {document}")
    assert problems(str(tmp_path / "kc")) == []


def test_a_file_that_is_no_mapping_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kc").write_text("")
    assert "no mapping" in problems(str(tmp_path / "kc"))[0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d.pop("current-context"), "current-context: is not set"),
        (lambda d: d.update({"current-context": 1}), "current-context: is not set"),
        (lambda d: d.update({"current-context": "other"}), 'current-context: "other"'),
        (lambda d: d.pop("contexts"), 'current-context: "here": contexts is no list'),
        (lambda d: d["contexts"].append(d["contexts"][0]), '"here": 2 of contexts'),
        (lambda d: d["contexts"][0].pop("context"), '"here": its context is no mapping'),
        (
            lambda d: d["contexts"][0]["context"].update(cluster="other"),
            'contexts[here].cluster: "other": none of clusters',
        ),
        (
            lambda d: d["contexts"][0]["context"].pop("cluster"),
            "contexts[here].cluster: names no cluster",
        ),
        (
            lambda d: d["contexts"][0]["context"].update(user="other"),
            'contexts[here].user: "other": none of users',
        ),
        (lambda d: d["users"][0].update(user="x"), 'contexts[here].user: "me": its user'),
    ],
)
def test_what_does_not_fit_together_is_named(tmp_path: Path, change: Change, said: str) -> None:
    path = tmp_path / "kc"
    document = kubeconfig(path, {"server": "https://api.test"})
    change(document)
    path.write_text(json.dumps(document))
    (problem,) = problems(str(path))
    assert problem.startswith(f"kubeconfig {path}: ")
    assert said in problem


@pytest.mark.parametrize(
    ("cluster", "said"),
    [
        ({}, "server: None is no"),
        ({"server": "api.test:6443"}, "server: 'api.test:6443' is no http"),
        ({"server": "https://"}, "server: 'https://' has no usable host"),
        ({"server": "https://api.test:99999"}, "has no usable host and port"),
        ({"server": "https://me:s3cret@api.test"}, "credentials in the URL"),
        ({"server": "me:s3cret@api.test"}, "credentials in the URL"),
        ({"server": "ftp://me:s3cret@api.test"}, "credentials in the URL"),
        ({"server": "https://a\n.test"}, "has no usable host and port"),
        ({"server": "https://a :6443"}, "has no usable host and port"),
        ({"server": "https://.a"}, "has no usable host and port"),
        ({"server": f"https://{'a' * 64}.b"}, "has no usable host and port"),
        ({"server": "https://a", "proxy-url": 1}, "proxy-url: is no string"),
        (
            {"server": "https://a", "proxy-url": "gopher://me:s3cret@p"},
            "proxy-url: not supported: a proxy of scheme gopher",
        ),
        ({"server": "https://a", "proxy-url": "me:s3cret@p"}, "proxy-url: not a URL"),
        ({"server": "https://a", "tls-server-name": 1}, "tls-server-name: is no name"),
        ({"server": "https://a", "tls-server-name": "a\nb"}, "tls-server-name: is no name"),
        ({"server": "https://a", "tls-server-name": "a b"}, "tls-server-name: is no name"),
        ({"server": "https://a", "tls-server-name": ".a"}, "tls-server-name: is no name"),
        ({"server": "https://a", "tls-server-name": "a" * 64}, "tls-server-name: is no name"),
        ({"server": "https://a", "extensions": "a"}, "extensions: is no list"),
        ({"server": "https://a", "extensions": [1]}, "extensions: is no list"),
        ({"server": "https://a", "extensions": [{"name": []}]}, "extensions: is no list"),
        (
            {"server": "https://a", "insecure-skip-tls-verify": "true"},
            "insecure-skip-tls-verify: 'true' is neither",
        ),
        ({"server": "https://a", "certificate-authority": 1}, "certificate-authority: 1 is no"),
        ({"server": "https://a", "certificate-authority-data": 1}, "-data: is no string"),
        ({"server": "https://a", "certificate-authority": "none.crt"}, "none.crt cannot be read"),
        ({"server": "https://a", "certificate-authority": "empty"}, "empty is empty"),
        ({"server": "https://a", "certificate-authority": "junk"}, "holds no certificate"),
        ({"server": "https://a", "certificate-authority-data": "!"}, "is no base64"),
        ({"server": "https://a", "certificate-authority-data": "anVuaw=="}, "holds no certificate"),
        (
            {
                "server": "https://a",
                "certificate-authority": "a",
                "certificate-authority-data": "b",
            },
            "certificate-authority: is given together with",
        ),
    ],
)
def test_a_cluster_s_problems_are_named(tmp_path: Path, cluster: dict[str, Any], said: str) -> None:
    (tmp_path / "empty").write_text("")
    (tmp_path / "junk").write_text("junk")
    kubeconfig(tmp_path / "kc", cluster)
    (problem,) = problems(str(tmp_path / "kc"))
    assert problem.startswith(f"kubeconfig {tmp_path / 'kc'}: clusters[there].")
    assert said in problem
    assert "s3cret" not in problem


def test_an_insecure_cluster_with_a_ca_contradicts_itself(tmp_path: Path, pki: Authority) -> None:
    cluster = {
        "server": "https://a",
        "insecure-skip-tls-verify": True,
        "certificate-authority": str(pki.certificate_file),
    }
    kubeconfig(tmp_path / "kc", cluster)
    (problem,) = problems(str(tmp_path / "kc"))
    assert "insecure-skip-tls-verify: contradicts certificate-authority" in problem


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    cluster = {"server": "x", "certificate-authority": "none"}
    kubeconfig(tmp_path / "kc", cluster, {"exec": {}, "tokenFile": "none"})
    assert len(problems(str(tmp_path / "kc"))) == 5


def test_fr67_a_server_s_secrets_are_not_shown() -> None:
    server = ApiServer("https://a", key="s3cret", authorization="Bearer s3cret")
    assert "s3cret" not in repr(server)

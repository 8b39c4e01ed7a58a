"""The demo's files: modes, and contents that hang together."""

from pathlib import Path

import yaml

from pyrbacproxy.demo.manifests import read_policy
from pyrbacproxy.demo.scene import PROMETHEUS, RBAC, Scene
from pyrbacproxy.model import NonResourceAttributes, UserInfo


def test_secrets_are_for_the_owner_alone(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    secret = [*tmp_path.glob("*.token"), *tmp_path.glob("*.key"), *tmp_path.glob("*.pem")]
    assert {path.stat().st_mode & 0o777 for path in secret} == {0o600}
    assert len(secret) == 2 + 2 * 4
    assert scene.token_file("scraper").read_text() in scene.tokens


def test_flags_name_files_that_exist(tmp_path: Path) -> None:
    flags = Scene(tmp_path).proxy_flags(
        port=1, pages_port=3, upstream="http://u/", api_server="https://a:2"
    )
    named = [Path(value) for _, _, value in (flag.partition("=") for flag in flags)]
    files = [path for path in named if path.is_absolute()]
    assert len(files) == 5
    assert all(path.exists() for path in files)
    assert {"--secure-listen-address=127.0.0.1:1", "--proxy-endpoints-port=3"} <= set(flags)
    assert "--upstream=http://u/" in flags


def test_the_kubeconfig_is_whole(tmp_path: Path) -> None:
    Scene(tmp_path).proxy_flags(port=1, upstream="http://u/", api_server="https://a:2")
    config = yaml.safe_load((tmp_path / "kubeconfig").read_text())
    assert config["current-context"] == config["contexts"][0]["name"]
    assert config["clusters"][0]["cluster"]["server"] == "https://a:2"
    user = config["users"][0]["user"]
    assert Path(user["client-certificate"]).exists()
    assert Path(user["client-key"]).exists()


def test_the_authorization_file_has_the_static_rule(tmp_path: Path) -> None:
    content = yaml.safe_load(Scene(tmp_path).authorization_file.read_text())
    (rule,) = content["authorization"]["static"]
    assert rule == {
        "user": {"name": PROMETHEUS},
        "verb": "get",
        "path": "/metrics",
        "resourceRequest": False,
    }


def test_rbac_knows_the_scraper_and_not_the_visitor(tmp_path: Path) -> None:
    policy = read_policy(RBAC)
    action = NonResourceAttributes("get", "/metrics")
    users: list[UserInfo] = [entry.user for entry in Scene(tmp_path).tokens.values()]
    assert [policy.authorize(user, action).is_allowed for user in users] == [True, False]
    assert not policy.authorize(UserInfo(PROMETHEUS), action).is_allowed

from pathlib import Path
from typing import Any

import pytest

from pyrbacproxy.demo.pki import Authority
from pyrbacproxy.kube.kubeconfig_user import user_problems


@pytest.fixture(name="pki")
def _pki(tmp_path: Path) -> Authority:
    (tmp_path / "pki").mkdir()
    return Authority(tmp_path / "pki")


@pytest.mark.parametrize(
    "user",
    [
        {},
        {"token": None, "tokenFile": "", "exec": None, "as": None},
        {"username": "u", "password": "p"},
        {"username": "u"},
        {"as": "admin", "as-groups": ["g"]},
        {"exec": {"command": "true", "apiVersion": "client.authentication.k8s.io/v1beta1"}},
    ],
)
def test_a_whole_user_has_no_problem(tmp_path: Path, user: dict[str, Any]) -> None:
    assert list(user_problems(user, tmp_path)) == []


@pytest.mark.parametrize(
    ("user", "said"),
    [
        ({"token": 1234567}, "token: is no string"),
        ({"token": "s3cret\nline"}, "token: holds no token"),
        ({"token": "s3cret\x00"}, "token: holds no token"),
        ({"token": "s3cret\x1f\n"}, "token: holds no token"),
        ({"token": "s3crét"}, "token: holds no token"),
        ({"token": " \n"}, "token: holds no token"),
        ({"tokenFile": "bad-token"}, "bad-token holds no token"),
        ({"tokenFile": "bad-text"}, "bad-text holds no token"),
        ({"tokenFile": "a\x00b"}, "a\\x00b' cannot name a file"),
        ({"tokenFile": 1}, "tokenFile: 1 is no string"),
        ({"tokenFile": "none"}, "none cannot be read"),
        ({"exec": {}}, "exec.command: is not given"),
        ({"auth-provider": {"name": "oidc"}}, "auth-provider: not supported"),
        ({"username": 1}, "username: is no string"),
        ({"username": "a:b"}, "username: is no string without a colon"),
        ({"username": "u", "password": 1234}, "password: is no string"),
        ({"password": "s3cret"}, "password: is given without username"),
        ({"username": "u", "token": "s3cret"}, "username: is given together with a token"),
        ({"as": 1}, "as: is no text"),
        ({"client-certificate": "pki/me.crt"}, "client-certificate: is given without client-key"),
        ({"client-key": "pki/me.key"}, "client-key: is given without client-certificate"),
        ({"client-certificate": "none", "client-key": "pki/me.key"}, "none cannot be read"),
        (
            {"client-certificate": "pki/me.crt", "client-key-data": "!"},
            "client-key-data: is no base64",
        ),
        (
            {"client-certificate": "pki/me.crt", "client-key": "pki/you.key"},
            "client-certificate: does not belong to client-key",
        ),
        (
            {"client-certificate": "pki/me.crt", "client-key": "pki/me.crt"},
            "client-certificate: is no readable PEM, or client-key",
        ),
    ],
)
def test_a_user_s_problems_are_named(
    tmp_path: Path, pki: Authority, user: dict[str, Any], said: str
) -> None:
    pki.client("me", "me")
    pki.client("you", "you")
    (tmp_path / "bad-token").write_bytes(b"s3cret\nline\n")
    (tmp_path / "bad-text").write_bytes(b"s3cr\xc3\xa9t\n")
    problem = next(user_problems(user, tmp_path))
    assert said in problem
    assert "s3cret" not in problem


@pytest.mark.parametrize(
    ("user", "said"),
    [
        (
            {"client-certificate": "none", "client-key": "pki/me.crt"},
            ["none cannot be read", "client-key: holds no private key"],
        ),
        (
            {"client-certificate": "pki/me.key", "client-key": "none"},
            ["none cannot be read", "client-certificate: holds no certificate"],
        ),
    ],
)
def test_a_client_s_missing_file_hides_no_bad_one(
    tmp_path: Path, pki: Authority, user: dict[str, Any], said: list[str]
) -> None:
    pki.client("me", "me")
    for problem, words in zip(user_problems(user, tmp_path), said, strict=True):
        assert words in problem


def test_blanks_around_a_token_are_nothing(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(" t\r\n")
    user = {"token": "t\n", "tokenFile": "token"}
    assert list(user_problems(user, tmp_path)) == []

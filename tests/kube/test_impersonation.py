from typing import Any

import pytest

from pyrbacproxy.kube.kubeconfig_file import impersonation_headers, impersonation_problems


@pytest.mark.parametrize(
    ("user", "headers"),
    [
        pytest.param({}, [], id="nobody"),
        pytest.param({"as": "admin"}, [("Impersonate-User", "admin")], id="a name"),
        pytest.param(
            {"as": "a", "as-uid": "7", "as-groups": ["g", "h"], "as-user-extra": None},
            [
                ("Impersonate-User", "a"),
                ("Impersonate-Uid", "7"),
                ("Impersonate-Group", "g"),
                ("Impersonate-Group", "h"),
            ],
            id="uid and groups",
        ),
        pytest.param(
            {"as": "a", "as-user-extra": {"acme.com/pro ject%": ["x", "y"], "none": None}},
            [
                ("Impersonate-User", "a"),
                ("Impersonate-Extra-acme.com%2Fpro%20ject%25", "x"),
                ("Impersonate-Extra-acme.com%2Fpro%20ject%25", "y"),
            ],
            id="extra, escaped as client-go does",
        ),
    ],
)
def test_the_headers(user: dict[str, Any], headers: list[tuple[str, str]]) -> None:
    assert list(impersonation_problems(user)) == []
    assert impersonation_headers(user) == headers


@pytest.mark.parametrize(
    ("user", "said"),
    [
        ({"as": 1}, "as: is no text"),
        ({"as": "a\nb"}, "as: is no text"),
        ({"as": "a "}, "as: is no text"),
        ({"as": "a", "as-uid": 7}, "as-uid: is no text"),
        ({"as": "a", "as-groups": "g"}, "as-groups: is no list"),
        ({"as": "a", "as-groups": [1]}, "as-groups: is no list"),
        ({"as": "a", "as-user-extra": ["g"]}, "as-user-extra: is no mapping"),
        ({"as": "a", "as-user-extra": {"": []}}, "as-user-extra: is no mapping"),
        ({"as": "a", "as-user-extra": {1: []}}, "as-user-extra: is no mapping"),
        ({"as": "a", "as-user-extra": {"k": "v"}}, "as-user-extra: is no mapping"),
        ({"as-uid": "7"}, "as: is not given, but"),
        ({"as-groups": ["g"]}, "as: is not given, but"),
        ({"as-user-extra": {"k": ["v"]}}, "as: is not given, but"),
    ],
)
def test_what_is_wrong_is_named(user: dict[str, Any], said: str) -> None:
    (problem,) = impersonation_problems(user)
    assert said in problem

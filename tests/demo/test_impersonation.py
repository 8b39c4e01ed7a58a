"""The `Impersonate-` headers, read as kube-apiserver does."""

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from pyrbacproxy.demo.api_server import impersonated, impersonations
from pyrbacproxy.model import ResourceAttributes, UserInfo

AUTHENTICATED = "system:authenticated"


def headers(*pairs: tuple[str, str]) -> CIMultiDictProxy[str]:
    return CIMultiDictProxy(CIMultiDict(pairs))


def asked(resource: str, name: str, **more: str) -> ResourceAttributes:
    return ResourceAttributes("impersonate", version="v1", resource=resource, name=name, **more)


@pytest.mark.parametrize(
    ("pairs", "user", "permissions"),
    [
        pytest.param((), None, [], id="nobody"),
        pytest.param(
            (("impersonate-user", "alice"),),
            UserInfo("alice", groups=(AUTHENTICATED,)),
            [asked("users", "alice")],
            id="user",
        ),
        pytest.param(
            (("Impersonate-User", "system:serviceaccount:ns:sa"),),
            UserInfo("system:serviceaccount:ns:sa", groups=(AUTHENTICATED,)),
            [asked("serviceaccounts", "sa", namespace="ns")],
            id="service account",
        ),
        pytest.param(
            (
                ("Impersonate-User", "a"),
                ("Impersonate-Group", "g"),
                ("Impersonate-Group", AUTHENTICATED),
                ("Impersonate-Uid", "7"),
                ("Impersonate-Extra-Acme.com%2FScope", "x"),
                ("Impersonate-Extra-acme.com%2Fscope", "y"),
            ),
            UserInfo(
                "a", uid="7", groups=("g", AUTHENTICATED), extra=(("acme.com/scope", ("x", "y")),)
            ),
            [
                asked("users", "a"),
                asked("groups", "g"),
                asked("groups", AUTHENTICATED),
                asked("uids", "7", group="authentication.k8s.io"),
                asked(
                    "userextras", "x", group="authentication.k8s.io", subresource="acme.com/scope"
                ),
                asked(
                    "userextras", "y", group="authentication.k8s.io", subresource="acme.com/scope"
                ),
            ],
            id="everything",
        ),
        pytest.param(
            (("Impersonate-Group", "g"),), None, [asked("groups", "g")], id="group of nobody"
        ),
    ],
)
def test_impersonation(
    pairs: tuple[tuple[str, str], ...],
    user: UserInfo | None,
    permissions: list[ResourceAttributes],
) -> None:
    assert impersonated(headers(*pairs)) == user
    assert list(impersonations(headers(*pairs))) == permissions

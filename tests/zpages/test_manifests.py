"""The RBAC that we ship (acceptance table, section 6.8), as the embedded API server judges it."""

from pathlib import Path

import pytest
import yaml

from pyrbacproxy.demo.manifests import read_policy
from pyrbacproxy.reviews import NonResourceAttributes, ResourceAttributes
from pyrbacproxy.user import UserInfo
from tests.zpages.pages import DEPLOY, RBAC, USERS, shipped

DOCUMENTS = [
    (path.relative_to(DEPLOY), document)
    for path in sorted(DEPLOY.rglob("*.yaml"))
    for document in yaml.safe_load_all(path.read_text())
]
(ROLE,) = [item for item in yaml.safe_load_all(shipped()) if item["kind"] == "ClusterRole"]
(BINDING,) = [
    item for item in yaml.safe_load_all(shipped()) if item["kind"] == "ClusterRoleBinding"
]
PROMETHEUS = UserInfo(
    "system:serviceaccount:openshift-monitoring:prometheus-k8s",
    groups=("system:serviceaccounts", "system:authenticated"),
)


def user(name: str) -> UserInfo:
    return UserInfo(USERS[name][0], groups=USERS[name][1])


def is_allowed(who: UserInfo, subresource: str, rbac: str) -> bool:
    action = ResourceAttributes(
        "get", version="v1", resource="nodes", subresource=subresource, name="node-1"
    )
    return read_policy(rbac).authorize(who, action).is_allowed


def test_z_h1_the_role_only_reads_and_never_through_the_node_proxy() -> None:
    assert [rule["verbs"] for rule in ROLE["rules"]] == [["get"]] * 2
    resources = [name for rule in ROLE["rules"] for name in rule.get("resources", [])]
    assert "nodes/statusz" in resources
    assert not {"nodes/proxy", "nodes/flagz"} & set(resources)
    assert "*" not in str(ROLE)


@pytest.mark.parametrize(("path", "document"), DOCUMENTS, ids=str)
def test_z_h2_no_manifest_touches_the_built_in_role(
    path: Path, document: dict[str, dict[str, str]]
) -> None:
    assert document.get("metadata", {}).get("name") != "system:monitoring", path


def test_z_h3_the_binding_names_the_group_and_each_account() -> None:
    kinds = {subject["kind"]: subject for subject in BINDING["subjects"]}
    assert kinds["Group"]["name"] == "system:monitoring"
    assert kinds["ServiceAccount"]["namespace"] == "openshift-monitoring"
    assert not any(
        subject["name"].startswith("system:serviceaccount") for subject in BINDING["subjects"]
    )
    assert BINDING["roleRef"]["name"] == ROLE["metadata"]["name"]


@pytest.mark.parametrize("subresource", ["statusz", "configz", "healthz", "metrics"])
def test_z_h4_the_role_opens_the_pages_to_its_subjects_alone(subresource: str) -> None:
    rbac = RBAC + shipped()
    assert is_allowed(user("mon"), subresource, rbac)
    assert is_allowed(PROMETHEUS, subresource, rbac)
    assert not is_allowed(user("plain"), subresource, rbac)
    assert not is_allowed(user("px"), subresource, rbac)
    assert not is_allowed(user("mon"), "proxy", rbac)


def test_z_h4_without_it_the_kubelets_pages_are_closed_to_the_group() -> None:
    assert not is_allowed(user("mon"), "statusz", RBAC)
    assert not is_allowed(PROMETHEUS, "statusz", RBAC)


@pytest.mark.parametrize("path", ["/statusz", "/flagz", "/metrics", "/version"])
def test_z_h4_the_role_stands_alone_on_older_clusters(path: str) -> None:
    policy = read_policy(shipped())
    action = NonResourceAttributes("get", path)
    assert policy.authorize(user("mon"), action).is_allowed
    assert policy.authorize(PROMETHEUS, action).is_allowed
    assert not policy.authorize(user("plain"), action).is_allowed

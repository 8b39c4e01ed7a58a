"""The RBAC that we ship (acceptance table, section 6.8), as the embedded API server judges it."""

from pathlib import Path

import pytest
import yaml

from pyrbacproxy.demo.manifests import read_policy
from pyrbacproxy.model import NonResourceAttributes, ResourceAttributes, UserInfo
from tests.deploy.rendering import Object
from tests.zpages.pages import DEPLOY, RBAC, USERS, shipped

DOCUMENTS = [
    (path.relative_to(DEPLOY), document)
    for path in sorted(DEPLOY.rglob("*.yaml"))
    for document in yaml.safe_load_all(path.read_text())
]
FOLDERS = ("zpages", "zpages/node")
PROMETHEUS = UserInfo(
    "system:serviceaccount:openshift-monitoring:prometheus-k8s",
    groups=("system:serviceaccounts", "system:authenticated"),
)


def user(name: str) -> UserInfo:
    return UserInfo(USERS[name][0], groups=USERS[name][1])


def of_kind(kind: str, folder: str) -> Object:
    (found,) = [item for item in yaml.safe_load_all(shipped(folder)) if item["kind"] == kind]
    assert isinstance(found, dict)
    return found


def is_allowed(who: UserInfo, subresource: str, rbac: str) -> bool:
    action = ResourceAttributes(
        "get", version="v1", resource="nodes", subresource=subresource, name="node-1"
    )
    return read_policy(rbac).authorize(who, action).is_allowed


def test_z_h1_the_role_for_nodes_only_reads_and_never_through_the_node_proxy() -> None:
    (rule,) = of_kind("ClusterRole", "zpages/node")["rules"]
    assert rule["verbs"] == ["get"]
    assert "nodes/statusz" in rule["resources"]
    assert not {"nodes/proxy", "nodes/flagz"} & set(rule["resources"])
    assert "*" not in str(rule)


def test_fr86_the_default_role_grants_two_pages_and_no_node() -> None:
    assert of_kind("ClusterRole", "zpages")["rules"] == [
        {"nonResourceURLs": ["/statusz", "/flagz"], "verbs": ["get"]}
    ]
    names = {of_kind("ClusterRole", folder)["metadata"]["name"] for folder in FOLDERS}
    assert len(names) == 2


@pytest.mark.parametrize(("path", "document"), DOCUMENTS, ids=str)
def test_z_h2_no_manifest_touches_the_built_in_role(
    path: Path, document: dict[str, dict[str, str]]
) -> None:
    assert document.get("metadata", {}).get("name") != "system:monitoring", path


@pytest.mark.parametrize("folder", FOLDERS)
def test_z_h3_the_binding_names_the_group_and_each_account(folder: str) -> None:
    binding = of_kind("ClusterRoleBinding", folder)
    kinds = {subject["kind"]: subject for subject in binding["subjects"]}
    assert kinds["Group"]["name"] == "system:monitoring"
    assert kinds["ServiceAccount"]["namespace"] == "openshift-monitoring"
    assert not any(
        subject["name"].startswith("system:serviceaccount") for subject in binding["subjects"]
    )
    role = of_kind("ClusterRole", folder)["metadata"]["name"]
    assert binding["roleRef"]["name"] == binding["metadata"]["name"] == role


@pytest.mark.parametrize("subresource", ["statusz", "configz", "healthz", "metrics"])
def test_z_h4_the_role_opens_the_pages_to_its_subjects_alone(subresource: str) -> None:
    rbac = RBAC + shipped("zpages/node")
    assert is_allowed(user("mon"), subresource, rbac)
    assert is_allowed(PROMETHEUS, subresource, rbac)
    assert not is_allowed(user("plain"), subresource, rbac)
    assert not is_allowed(user("px"), subresource, rbac)
    assert not is_allowed(user("mon"), "proxy", rbac)


@pytest.mark.parametrize("rbac", [RBAC, RBAC + shipped()], ids=["built-in", "default"])
def test_z_h4_without_it_the_kubelets_pages_are_closed_to_the_group(rbac: str) -> None:
    assert not is_allowed(user("mon"), "statusz", rbac)
    assert not is_allowed(PROMETHEUS, "statusz", rbac)


@pytest.mark.parametrize("path", ["/statusz", "/flagz"])
def test_z_h4_the_role_stands_alone_on_older_clusters(path: str) -> None:
    policy = read_policy(shipped())
    action = NonResourceAttributes("get", path)
    assert policy.authorize(user("mon"), action).is_allowed
    assert policy.authorize(PROMETHEUS, action).is_allowed
    assert not policy.authorize(user("plain"), action).is_allowed
    assert not policy.authorize(user("mon"), NonResourceAttributes("get", "/metrics")).is_allowed

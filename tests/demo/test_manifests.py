"""RBAC YAML in, permissions out; and what a real API server would not take."""

import pytest

from pyrbacproxy.demo.documents import DocumentError
from pyrbacproxy.demo.manifests import objects, read_policy
from pyrbacproxy.demo.rbac import Policy
from pyrbacproxy.model import NonResourceAttributes, ResourceAttributes, UserInfo

GOOD = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: robot, namespace: work}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: monitoring}
aggregationRule:
  clusterRoleSelectors:
    - matchLabels: {monitoring: "true"}
    - matchExpressions: [{key: monitoring-too, operator: Exists}]
---
apiVersion: v1
kind: List
items:
  - apiVersion: rbac.authorization.k8s.io/v1
    kind: ClusterRole
    metadata: {name: metrics, labels: {monitoring: "true"}}
    rules: [{nonResourceURLs: [/metrics], verbs: [get]}]
  - apiVersion: rbac.authorization.k8s.io/v1
    kind: ClusterRole
    metadata: {name: nodes, labels: {monitoring-too: ""}}
    rules: [{apiGroups: [""], resources: [nodes/metrics], resourceNames: [n1], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: monitoring}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: monitoring}
subjects: [{kind: ServiceAccount, name: robot, namespace: work}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: pods}
rules: [{apiGroups: [""], resources: [pods], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: pods}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: pods}
subjects: [{kind: Group, name: readers}]
---
"""
ROBOT = UserInfo("system:serviceaccount:work:robot")
READER = UserInfo("r", groups=("readers",))
QUESTIONS = {
    "aggregated URL": (ROBOT, NonResourceAttributes("get", "/metrics"), True),
    "URL not given": (ROBOT, NonResourceAttributes("get", "/"), False),
    "aggregated resource": (
        ROBOT,
        ResourceAttributes("get", "", "", "v1", "nodes", "metrics", "n1"),
        True,
    ),
    "resource of another name": (
        ROBOT,
        ResourceAttributes("get", "", "", "v1", "nodes", "metrics", "n2"),
        False,
    ),
    "the namespace is default when not given": (
        READER,
        ResourceAttributes("list", "default", "", "v1", "pods"),
        True,
    ),
    "another namespace": (READER, ResourceAttributes("list", "work", "", "v1", "pods"), False),
}


@pytest.fixture(scope="module")
def policy() -> Policy:
    return read_policy(GOOD)


@pytest.mark.parametrize(("user", "action", "allows"), QUESTIONS.values(), ids=QUESTIONS.keys())
def test_reads_roles_and_bindings(
    policy: Policy,
    user: UserInfo,
    action: ResourceAttributes | NonResourceAttributes,
    *,
    allows: bool,
) -> None:
    assert policy.authorize(user, action).is_allowed is allows


def test_takes_lists_apart() -> None:
    assert [item.where for item in objects(GOOD)] == [
        "ServiceAccount robot",
        "ClusterRole monitoring",
        "ClusterRole metrics",
        "ClusterRole nodes",
        "ClusterRoleBinding monitoring",
        "Role pods",
        "RoleBinding pods",
    ]


def an(kind: str, rest: str, version: str = "v1") -> str:
    head = f"apiVersion: rbac.authorization.k8s.io/{version}\nkind: {kind}\nmetadata: {{name: x}}\n"
    return head + rest


BAD = {
    "no YAML": ("a: [", "not YAML"),
    "no mapping": ("- a", "document: want a mapping"),
    "no name": ("kind: Role", "metadata.name: required"),
    "old version": (an("Role", "", "v1beta1"), "Role x.apiVersion: want"),
    "kind": (an("Rule", ""), "Rule x.kind: 'Rule' is none"),
    "no verbs": (an("Role", "rules: [{resources: [pods]}]"), "Role x.rules[0].verbs: at least"),
    "no groups": (
        an("Role", "rules: [{verbs: [get], resources: [pods]}]"),
        "Role x.rules[0].apiGroups: at least",
    ),
    "no resources": (
        an("Role", "rules: [{verbs: [get], apiGroups: ['']}]"),
        "Role x.rules[0].resources: at least",
    ),
    "URLs in a Role": (
        an("Role", "rules: [{verbs: [get], nonResourceURLs: [/x]}]"),
        "Role x.rules[0].nonResourceURLs: a namespaced",
    ),
    "URLs and resources": (
        an("ClusterRole", "rules: [{verbs: [get], nonResourceURLs: [/x], resources: [y]}]"),
        "ClusterRole x.rules[0].nonResourceURLs: a rule",
    ),
    "role by cluster binding": (
        an("ClusterRoleBinding", "roleRef: {kind: Role, name: r}"),
        "ClusterRoleBinding x.roleRef.kind: 'Role' is none of ClusterRole",
    ),
    "no role": (an("RoleBinding", "roleRef: {kind: Role}"), "RoleBinding x.roleRef.name: required"),
    "subject": (
        an("RoleBinding", "roleRef: {kind: Role, name: r}\nsubjects: [{kind: Robot, name: r}]"),
        "RoleBinding x.subjects[0].kind: 'Robot'",
    ),
    "service account without a namespace": (
        an(
            "ClusterRoleBinding",
            "roleRef: {kind: ClusterRole, name: r}\nsubjects: [{kind: ServiceAccount, name: s}]",
        ),
        "ClusterRoleBinding x.subjects[0].namespace: required",
    ),
    "operator": (
        an(
            "ClusterRole",
            "aggregationRule: {clusterRoleSelectors: "
            "[{matchExpressions: [{key: a, operator: Is}]}]}",
        ),
        "ClusterRole x.aggregationRule.clusterRoleSelectors[0].matchExpressions[0].operator: 'Is'",
    ),
}


@pytest.mark.parametrize(("text", "error"), BAD.values(), ids=BAD.keys())
def test_refuses(text: str, error: str) -> None:
    with pytest.raises(DocumentError) as caught:
        read_policy(text)
    assert str(caught.value).startswith(error)

"""The RBAC authorizer: rules as tables, bindings and reasons as kube-apiserver words them."""

import pytest

from pyrbacproxy.demo.rbac import (
    Binding,
    ClusterRole,
    LabelSelector,
    Policy,
    PolicyRule,
    Role,
    RoleRef,
    Subject,
    aggregated,
    rule_allows,
)
from pyrbacproxy.model import NonResourceAttributes, ResourceAttributes, UserInfo

POD_LOG = ResourceAttributes("get", "ns", "", "v1", "pods", "log", "web-0")
PODS = ResourceAttributes("list", "ns", "", "v1", "pods")
METRICS = NonResourceAttributes("get", "/metrics")


def resource(**changed: tuple[str, ...]) -> PolicyRule:
    fields = {"verbs": ("get", "list"), "api_groups": ("",), "resources": ("pods", "pods/log")}
    return PolicyRule(**(fields | changed))


def urls(*patterns: str, verbs: tuple[str, ...] = ("get",)) -> PolicyRule:
    return PolicyRule(verbs=verbs, non_resource_urls=patterns)


RULES = {
    "resource": (resource(), PODS, True),
    "subresource by its full name": (resource(), POD_LOG, True),
    "a resource does not cover its subresources": (resource(resources=("pods",)), POD_LOG, False),
    "a subresource does not cover its resource": (resource(resources=("pods/log",)), PODS, False),
    "star resource covers subresources": (resource(resources=("*",)), POD_LOG, True),
    "star with subresource": (resource(resources=("*/log",)), POD_LOG, True),
    "star with another subresource": (resource(resources=("*/status",)), POD_LOG, False),
    "star with subresource, request without": (resource(resources=("*/log",)), PODS, False),
    "resource with star subresource means nothing": (
        resource(resources=("pods/*",)),
        POD_LOG,
        False,
    ),
    "star verb": (resource(verbs=("*",)), PODS, True),
    "other verb": (resource(verbs=("watch",)), PODS, False),
    "a request's star verb is only itself": (
        resource(),
        ResourceAttributes("*", "ns", "", "v1", "pods"),
        False,
    ),
    "star group": (resource(api_groups=("*",)), PODS, True),
    "other group": (resource(api_groups=("apps",)), PODS, False),
    "name listed": (resource(resource_names=("web-0",)), POD_LOG, True),
    "name not listed": (resource(resource_names=("web-1",)), POD_LOG, False),
    "names listed, request without": (resource(resource_names=("web-0",)), PODS, False),
    "resource rule, URL asked": (resource(), METRICS, False),
    "URL rule, resource asked": (urls("*", verbs=("*",)), PODS, False),
    "URL": (urls("/metrics"), METRICS, True),
    "URL, other verb": (urls("/metrics", verbs=("post",)), METRICS, False),
    "URL is no prefix": (urls("/metrics"), NonResourceAttributes("get", "/metrics/x"), False),
    "URL, star": (urls("*"), METRICS, True),
    "URL prefix": (urls("/met*"), METRICS, True),
    "URL prefix ends before the star": (urls("/metrics/*"), METRICS, False),
    "URL prefix, below": (urls("/metrics/*"), NonResourceAttributes("get", "/metrics/x/y"), True),
    "URL star inside is literal": (urls("/m*s"), METRICS, False),
    "URL with several stars at its end": (urls("/met**"), METRICS, True),
}


@pytest.mark.parametrize(("rule", "action", "allows"), RULES.values(), ids=RULES.keys())
def test_rule(
    rule: PolicyRule, action: ResourceAttributes | NonResourceAttributes, *, allows: bool
) -> None:
    assert rule_allows(rule, action) is allows


def bound(*subjects: Subject, kind: str = "ClusterRole", namespace: str = "") -> Policy:
    """A policy where everybody among `subjects` may list pods, in `namespace` or anywhere."""
    rules = (resource(), urls("/metrics"))
    return Policy(
        cluster_roles=[ClusterRole("reader", rules)],
        roles=[Role("ns", "reader", (resource(),))],
        bindings=[Binding("b", RoleRef(kind, "reader"), subjects, namespace)],
    )


ALICE = UserInfo("alice", groups=("dev", "system:authenticated"))
ROBOT = UserInfo("system:serviceaccount:ns:robot")
USER = Subject("User", "alice")
SUBJECTS = {
    "user": (
        bound(USER),
        ALICE,
        'RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "reader" to User "alice"',
    ),
    "other user": (bound(USER), ROBOT, None),
    "group": (
        bound(Subject("Group", "x"), Subject("Group", "dev")),
        ALICE,
        'RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "reader" to Group "dev"',
    ),
    "a group is no user": (bound(Subject("Group", "alice")), ALICE, None),
    "a user is no group": (bound(Subject("User", "dev")), ALICE, None),
    "service account": (
        bound(Subject("ServiceAccount", "robot", "ns")),
        ROBOT,
        (
            'RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "reader"'
            ' to ServiceAccount "robot/ns"'
        ),
    ),
    "service account of another namespace": (
        bound(Subject("ServiceAccount", "robot", "other")),
        ROBOT,
        None,
    ),
    "service account without a namespace, cluster-wide": (
        bound(Subject("ServiceAccount", "robot")),
        ROBOT,
        None,
    ),
    "service account without a namespace, in the binding's": (
        bound(Subject("ServiceAccount", "robot"), namespace="ns"),
        ROBOT,
        'RBAC: allowed by RoleBinding "b/ns" of ClusterRole "reader" to ServiceAccount "robot/ns"',
    ),
    "role of the namespace": (
        bound(USER, kind="Role", namespace="ns"),
        ALICE,
        'RBAC: allowed by RoleBinding "b/ns" of Role "reader" to User "alice"',
    ),
    "binding of another namespace": (bound(USER, namespace="other"), ALICE, None),
    "unknown kind of subject": (bound(Subject("Robot", "alice")), ALICE, None),
    "nobody bound": (bound(), ALICE, None),
}


@pytest.mark.parametrize(("policy", "user", "reason"), SUBJECTS.values(), ids=SUBJECTS.keys())
def test_subject(policy: Policy, user: UserInfo, reason: str | None) -> None:
    permission = policy.authorize(user, PODS)
    assert (permission.is_allowed, permission.reason) == (reason is not None, reason or "")


def test_a_role_binding_gives_no_urls() -> None:
    assert not bound(USER, namespace="ns").authorize(ALICE, METRICS).is_allowed


def test_a_role_binding_gives_nothing_at_cluster_scope() -> None:
    everywhere = ResourceAttributes("list", "", "", "v1", "pods")
    assert not bound(USER, namespace="ns").authorize(ALICE, everywhere).is_allowed


def test_cluster_bindings_come_first() -> None:
    policy = Policy(
        cluster_roles=[ClusterRole("reader", (resource(),))],
        bindings=[
            Binding("a", RoleRef("ClusterRole", "reader"), (USER,), "ns"),
            Binding("z", RoleRef("ClusterRole", "reader"), (USER,)),
        ],
    )
    assert policy.authorize(ALICE, PODS).reason.startswith(
        'RBAC: allowed by ClusterRoleBinding "z"'
    )


def test_missing_roles_are_told_once_each_and_only_without_permission() -> None:
    broken = [
        Binding("a", RoleRef("ClusterRole", "gone"), (USER,)),
        Binding("b", RoleRef("Role", "gone"), (USER,), "ns"),
        Binding("c", RoleRef("Role", "gone"), (USER,), "ns"),
    ]
    one, all_of_them = Policy(bindings=broken[:1]), Policy(bindings=broken)
    role = 'role.rbac.authorization.k8s.io "gone" not found'
    assert one.authorize(ALICE, PODS).reason == f"RBAC: cluster{role}"
    assert all_of_them.authorize(ALICE, PODS).reason == f"RBAC: [cluster{role}, {role}]"
    whole = Binding("d", RoleRef("ClusterRole", "reader"), (USER,))
    policy = Policy(cluster_roles=[ClusterRole("reader", (resource(),))], bindings=[*broken, whole])
    assert policy.authorize(ALICE, PODS).is_allowed


def test_a_role_without_the_rule_is_passed_over() -> None:
    policy = Policy(
        cluster_roles=[ClusterRole("a", (urls("/x"),)), ClusterRole("b", (resource(),))],
        bindings=[Binding(name, RoleRef("ClusterRole", name), (USER,)) for name in ("a", "b")],
    )
    assert '"b" of ClusterRole "b"' in policy.authorize(ALICE, PODS).reason


A, B, C = resource(), urls("/b"), urls("/c")


def rules_of(*roles: ClusterRole) -> dict[str, tuple[PolicyRule, ...]]:
    return {role.name: role.rules for role in aggregated(roles)}


def selecting(name: str, *selected: str, **labels: str) -> ClusterRole:
    selectors = tuple(LabelSelector({"to": target}) for target in selected)
    return ClusterRole(name, (C,), labels, selectors)


def test_aggregation_replaces_the_rules_by_those_selected() -> None:
    rules = rules_of(
        selecting("all", "all"),
        ClusterRole("one", (A, B), {"to": "all"}),
        ClusterRole("two", (B,), {"to": "all"}),
        ClusterRole("other", (C,), {"to": "elsewhere"}),
    )
    assert rules["all"] == (A, B)


def test_aggregation_takes_several_selectors() -> None:
    rules = rules_of(
        selecting("all", "x", "y"),
        ClusterRole("one", (A,), {"to": "y"}),
        ClusterRole("two", (B,), {"to": "x"}),
    )
    assert rules["all"] == (B, A)


def test_aggregation_goes_through_aggregated_roles() -> None:
    rules = rules_of(
        selecting("top", "top"),
        selecting("middle", "middle", to="top"),
        ClusterRole("leaf", (A,), {"to": "middle"}),
    )
    assert rules["top"] == (A,)


def test_aggregation_settles_when_roles_select_each_other_and_themselves() -> None:
    rules = rules_of(
        selecting("one", "one", "leaf", to="two"),
        selecting("two", "two", to="one"),
        ClusterRole("leaf", (A,), {"to": "leaf"}),
    )
    assert rules == {"one": (A,), "two": (A,), "leaf": (A,)}

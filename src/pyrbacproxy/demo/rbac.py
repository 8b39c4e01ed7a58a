"""Kubernetes RBAC: may this user do this, as kube-apiserver's RBAC authorizer answers."""

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum

from pyrbacproxy.model import NonResourceAttributes, ResourceAttributes, UserInfo
from pyrbacproxy.values import Frozen, field, replace

# --- label selector -------------------------------------------------------------------
# Kubernetes label selectors, as aggregated ClusterRoles use them. Pure.


class Operator(Enum):
    """`LabelSelectorRequirement.operator`, by its text in YAML."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class Requirement(Frozen):
    """One entry of `matchExpressions`. An absent label fulfils NotIn and DoesNotExist."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels fulfil it."""
        if self.operator is Operator.EXISTS:
            return self.key in labels
        if self.operator is Operator.DOES_NOT_EXIST:
            return self.key not in labels
        is_among = labels.get(self.key) in self.values
        return is_among if self.operator is Operator.IN else not is_among


class LabelSelector(Frozen):
    """All labels and all requirements must match; an empty selector matches everything."""

    labels: Mapping[str, str] = field(default_factory=dict)
    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        return self.labels.items() <= labels.items() and all(
            requirement.matches(labels) for requirement in self.requirements
        )


# --- rbac -----------------------------------------------------------------------------
#
# Roles and bindings → may this user do this, as kube-apiserver's RBAC authorizer answers. Pure.
#
# Rules only ever allow. The order of the search and the wording of reasons are kube-apiserver's
# (plugin/pkg/auth/authorizer/rbac, pkg/registry/rbac/validation): cluster role bindings first, then
# the role bindings of the request's namespace; a binding to a missing role is an error that is told
# only when nothing else allows.

_ALL = "*"


class PolicyRule(Frozen):
    """An allowing rule; either the resource fields or `non_resource_urls` are filled."""

    verbs: tuple[str, ...]
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = ()


class ClusterRole(Frozen):
    """A ClusterRole; with `selectors`, its rules are those of the selected roles (`aggregated`)."""

    name: str
    rules: tuple[PolicyRule, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    selectors: tuple[LabelSelector, ...] = ()


class Role(Frozen):
    """A Role of one namespace."""

    namespace: str
    name: str
    rules: tuple[PolicyRule, ...] = ()


class Subject(Frozen):
    """Who a binding is for; `kind` is User, Group or ServiceAccount."""

    kind: str
    name: str
    namespace: str = ""


class RoleRef(Frozen):
    """The role of a binding; `kind` is Role or ClusterRole."""

    kind: str
    name: str


class Binding(Frozen):
    """A ClusterRoleBinding when `namespace` is "", else a RoleBinding of that namespace."""

    name: str
    role: RoleRef
    subjects: tuple[Subject, ...]
    namespace: str = ""


class Permission(Frozen):
    """The authorizer's answer; without permission `reason` is empty or tells of broken bindings."""

    is_allowed: bool
    reason: str


class Policy:
    """A set of roles and bindings, as one cluster holds them."""

    def __init__(
        self,
        *,
        cluster_roles: Iterable[ClusterRole] = (),
        roles: Iterable[Role] = (),
        bindings: Iterable[Binding] = (),
    ) -> None:
        self._cluster_roles = {role.name: role for role in aggregated(cluster_roles)}
        self._roles = {(role.namespace, role.name): role for role in roles}
        self._bindings = sorted(bindings, key=lambda binding: (binding.namespace, binding.name))

    def authorize(
        self, user: UserInfo, action: ResourceAttributes | NonResourceAttributes
    ) -> Permission:
        """Whether any rule that applies to `user` allows `action`."""
        errors: list[str] = []
        for binding, subject in self._applying(user, action):
            rules = self._rules(binding)
            if rules is None:
                errors.append(_not_found(binding.role))
            elif any(rule_allows(rule, action) for rule in rules):
                return Permission(True, f"RBAC: allowed by {_describe(binding, subject)}")
        return Permission(False, f"RBAC: {_aggregate(errors)}" if errors else "")

    def _applying(
        self, user: UserInfo, action: ResourceAttributes | NonResourceAttributes
    ) -> Iterator[tuple[Binding, Subject]]:
        """The bindings to look at, each with its first subject that is the user."""
        namespace = action.namespace if isinstance(action, ResourceAttributes) else ""
        for binding in self._bindings:
            if binding.namespace in ("", namespace):
                subject = _first_subject(user, binding)
                if subject:
                    yield binding, subject

    def _rules(self, binding: Binding) -> tuple[PolicyRule, ...] | None:
        role: ClusterRole | Role | None
        if binding.role.kind == "ClusterRole":
            role = self._cluster_roles.get(binding.role.name)
        else:
            role = self._roles.get((binding.namespace, binding.role.name))
        return role.rules if role else None


def rule_allows(rule: PolicyRule, action: ResourceAttributes | NonResourceAttributes) -> bool:
    """`RuleAllows`: verbs, then groups, resources and names, or non-resource URLs."""
    if _ALL not in rule.verbs and action.verb not in rule.verbs:
        return False
    if isinstance(action, NonResourceAttributes):
        return any(_url_matches(url, action.path) for url in rule.non_resource_urls)
    return (
        (_ALL in rule.api_groups or action.group in rule.api_groups)
        and any(_resource_matches(resource, action) for resource in rule.resources)
        and (not rule.resource_names or action.name in rule.resource_names)
    )


def aggregated(cluster_roles: Iterable[ClusterRole]) -> list[ClusterRole]:
    """Fill the rules of every role with selectors, as the aggregation controller does in time.

    What its author wrote into such a role's rules is overwritten; a role that selects itself adds
    nothing; a selected role may itself be aggregated, so this goes on until nothing changes.
    """
    roles = {
        role.name: replace(role, rules=()) if role.selectors else role for role in cluster_roles
    }
    is_changed = True
    while is_changed:
        is_changed = False
        for role in [role for role in roles.values() if role.selectors]:
            rules = _selected_rules(role, roles)
            is_changed = is_changed or rules != role.rules
            roles[role.name] = replace(role, rules=rules)
    return list(roles.values())


def _selected_rules(role: ClusterRole, roles: Mapping[str, ClusterRole]) -> tuple[PolicyRule, ...]:
    # Own rules stay first, so that two roles that select each other settle.
    rules = dict.fromkeys(role.rules)
    for selector in role.selectors:
        for name in sorted(roles):
            if name != role.name and selector.matches(roles[name].labels):
                rules.update(dict.fromkeys(roles[name].rules))
    return tuple(rules)


def _resource_matches(rule_resource: str, action: ResourceAttributes) -> bool:
    """`*` is every resource with every subresource, `*/x` is subresource x of every resource."""
    if rule_resource == _ALL:
        return True
    if not action.subresource:
        return rule_resource == action.resource
    return rule_resource in (
        f"{action.resource}/{action.subresource}",
        f"{_ALL}/{action.subresource}",
    )


def _url_matches(rule_url: str, path: str) -> bool:
    """Exact, or a prefix when the rule ends in `*`; a bare `*` is every path."""
    if rule_url.endswith(_ALL):
        return path.startswith(rule_url.rstrip(_ALL))
    return rule_url == path


def _first_subject(user: UserInfo, binding: Binding) -> Subject | None:
    return next((s for s in binding.subjects if _is_subject(user, s, binding.namespace)), None)


def _is_subject(user: UserInfo, subject: Subject, namespace: str) -> bool:
    match subject.kind:
        case "User":
            return user.name == subject.name
        case "Group":
            return subject.name in user.groups
        case "ServiceAccount":
            home = subject.namespace or namespace
            return bool(home) and user.name == f"system:serviceaccount:{home}:{subject.name}"
        case _:
            return False


def _describe(binding: Binding, subject: Subject) -> str:
    kind, name = "ClusterRoleBinding", binding.name
    if binding.namespace:
        kind, name = "RoleBinding", f"{binding.name}/{binding.namespace}"
    who = subject.name
    if subject.kind == "ServiceAccount":
        who = f"{subject.name}/{subject.namespace or binding.namespace}"
    role = f'{binding.role.kind} "{binding.role.name}"'
    return f'{kind} "{name}" of {role} to {subject.kind} "{who}"'


def _not_found(role: RoleRef) -> str:
    return f'{role.kind.lower()}.rbac.authorization.k8s.io "{role.name}" not found'


def _aggregate(errors: list[str]) -> str:
    """As apimachinery prints an aggregate: equal errors once, several in brackets."""
    unique = list(dict.fromkeys(errors))
    return unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"

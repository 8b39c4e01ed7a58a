"""RBAC YAML, as `kubectl apply` takes it → `rbac.Policy`.

It refuses what kube-apiserver would. Several documents and `List`s are read; objects of
other API groups are passed over. Namespaced objects without a namespace are in `default`.
"""

from collections.abc import Iterator

import yaml

from pyrbacproxy.demo.documents import Document, DocumentError, document
from pyrbacproxy.demo.rbac import (
    Binding,
    ClusterRole,
    LabelSelector,
    Operator,
    Policy,
    PolicyRule,
    Requirement,
    Role,
    RoleRef,
    Subject,
)

RBAC_GROUP = "rbac.authorization.k8s.io"
_API_VERSION = f"{RBAC_GROUP}/v1"


def read_policy(text: str) -> Policy:
    """Read the roles and bindings of a YAML text. Raises DocumentError naming object and field."""
    cluster_roles: list[ClusterRole] = []
    roles: list[Role] = []
    bindings: list[Binding] = []
    for item in objects(text):
        if not item.text("apiVersion").startswith(f"{RBAC_GROUP}/"):
            continue
        if item.text("apiVersion") != _API_VERSION:
            raise item.error("apiVersion", f"want {_API_VERSION}")
        match item.text("kind"):
            case "ClusterRole":
                cluster_roles.append(_cluster_role(item))
            case "Role":
                roles.append(_role(item))
            case "ClusterRoleBinding" | "RoleBinding" as kind:
                bindings.append(_binding(item, is_namespaced=kind == "RoleBinding"))
            case kind:
                raise item.error("kind", f"{kind!r} is none of the four RBAC kinds")
    return Policy(cluster_roles=cluster_roles, roles=roles, bindings=bindings)


def objects(text: str) -> Iterator[Document]:
    """Every object of a YAML text, with lists taken apart. Raises DocumentError."""
    try:
        loaded = [value for value in yaml.safe_load_all(text) if value is not None]
    except yaml.YAMLError as error:
        raise DocumentError(f"not YAML: {error}") from error
    for value in loaded:
        item = document(value)
        items = item.children("items") if item.text("kind").endswith("List") else (item,)
        for each in items:
            name = each.child("metadata").required_text("name")
            yield Document(each.fields, f"{each.text('kind')} {name}")


def _cluster_role(item: Document) -> ClusterRole:
    metadata = item.child("metadata")
    selectors = item.child("aggregationRule").children("clusterRoleSelectors")
    return ClusterRole(
        name=metadata.text("name"),
        rules=tuple(_rule(rule) for rule in item.children("rules")),
        labels=metadata.text_map("labels"),
        selectors=tuple(_selector(selector) for selector in selectors),
    )


def _role(item: Document) -> Role:
    rules = item.children("rules")
    for rule in rules:
        if rule.texts("nonResourceURLs"):
            raise rule.error("nonResourceURLs", "a namespaced Role can't have them")
    return Role(_namespace(item), _name(item), tuple(_rule(rule) for rule in rules))


def _rule(item: Document) -> PolicyRule:
    rule = PolicyRule(
        verbs=item.texts("verbs"),
        api_groups=item.texts("apiGroups"),
        resources=item.texts("resources"),
        resource_names=item.texts("resourceNames"),
        non_resource_urls=item.texts("nonResourceURLs"),
    )
    if not rule.verbs:
        raise item.error("verbs", "at least one is required")
    has_resources = bool(rule.api_groups or rule.resources or rule.resource_names)
    if rule.non_resource_urls and has_resources:
        raise item.error("nonResourceURLs", "a rule can't be for resources and URLs at once")
    if not rule.non_resource_urls and not rule.api_groups:
        raise item.error("apiGroups", "at least one is required")
    if not rule.non_resource_urls and not rule.resources:
        raise item.error("resources", "at least one is required")
    return rule


def _selector(item: Document) -> LabelSelector:
    requirements = tuple(_requirement(each) for each in item.children("matchExpressions"))
    return LabelSelector(item.text_map("matchLabels"), requirements)


def _requirement(item: Document) -> Requirement:
    text = item.required_text("operator")
    try:
        operator = Operator(text)
    except ValueError as error:
        raise item.error("operator", f"{text!r} is not a valid selector operator") from error
    return Requirement(item.required_text("key"), operator, item.texts("values"))


def _binding(item: Document, *, is_namespaced: bool) -> Binding:
    reference = item.child("roleRef")
    role = RoleRef(reference.required_text("kind"), reference.required_text("name"))
    allowed = ("Role", "ClusterRole") if is_namespaced else ("ClusterRole",)
    if role.kind not in allowed:
        raise reference.error("kind", f"{role.kind!r} is none of {', '.join(allowed)}")
    return Binding(
        name=_name(item),
        role=role,
        subjects=tuple(
            _subject(subject, is_namespaced=is_namespaced) for subject in item.children("subjects")
        ),
        namespace=_namespace(item) if is_namespaced else "",
    )


def _subject(item: Document, *, is_namespaced: bool) -> Subject:
    subject = Subject(
        item.required_text("kind"), item.required_text("name"), item.text("namespace")
    )
    if subject.kind not in ("User", "Group", "ServiceAccount"):
        raise item.error("kind", f"{subject.kind!r} is not supported")
    if subject.kind == "ServiceAccount" and not subject.namespace and not is_namespaced:
        raise item.error("namespace", "required")
    return subject


def _name(item: Document) -> str:
    return item.child("metadata").text("name")


def _namespace(item: Document) -> str:
    return item.child("metadata").text("namespace") or "default"

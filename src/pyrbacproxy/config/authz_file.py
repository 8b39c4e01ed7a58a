"""The authorization file → attributes and static rules, or problems that name line and key.

The structure is reference 2.2's, with two additions: `resourceAttributes` may be a list whose
checks must all hold (N6), and groups in a static rule count (D1).
"""

from dataclasses import dataclass, field

from pyrbacproxy.authz.attributes import AttributeSettings, ResourceTemplates, Rewrites
from pyrbacproxy.authz.static import StaticRule
from pyrbacproxy.authz.template import Template, literal
from pyrbacproxy.config.findings import Findings
from pyrbacproxy.config.yaml_tree import Entry, NotYamlError, Tree

_RESOURCE_KEYS = ("namespace", "apiGroup", "apiVersion", "resource", "subresource", "name")
_RULE_KEYS = ("verb", "namespace", "apiGroup", "resource", "subresource", "name", "path")


@dataclass(frozen=True, slots=True)
class AuthorizationFile:
    """What the file says; without a file, nothing."""

    attributes: AttributeSettings = field(default_factory=AttributeSettings)
    static_rules: tuple[StaticRule, ...] = ()


def read(
    content: bytes, path: str, findings: Findings, *, is_strict: bool = False
) -> AuthorizationFile:
    """Reads the file's content; `path` is for the messages, which name --config-file.

    `is_strict` makes every unknown key a problem (D2). The result is whole only when no problem was
    found.
    """
    tree = Tree(content, f"--config-file {path}", findings, is_strict=is_strict)
    try:
        root = tree.root()
    except NotYamlError as error:
        findings.problem(f"--config-file {path}: not YAML: {error}")
        return AuthorizationFile()
    authorization = tree.section(root, ("authorization",)).get("authorization")
    if authorization is None or authorization.is_null:
        # The original crashes here (D3).
        findings.problem(
            f'--config-file {path}: lacks "authorization"; "authorization: {{}}" has no rules'
        )
        return AuthorizationFile()
    sections = tree.section(authorization, ("resourceAttributes", "rewrites", "static"))
    rewrites = _rewrites(tree, sections.get("rewrites"))
    resources = _resources(
        tree, sections.get("resourceAttributes"), has_rewrites=rewrites is not None
    )
    if rewrites is not None and not resources:
        tree.warn(sections["rewrites"], "no effect without resourceAttributes")
    rules = tuple(
        _rule(tree, entry, has_resources=bool(resources))
        for entry in tree.items(sections.get("static"))
    )
    return AuthorizationFile(AttributeSettings(resources, rewrites), rules)


def _rewrites(tree: Tree, entry: Entry | None) -> Rewrites | None:
    if entry is None or entry.is_null:
        return None
    sources = tree.section(entry, ("byQueryParameter", "byHttpHeader"), is_strict=True)
    names = {
        key: tree.text(tree.section(source, ("name",), is_strict=True).get("name"))
        for key, source in sources.items()
    }
    return Rewrites(names.get("byQueryParameter", ""), names.get("byHttpHeader", ""))


def _resources(
    tree: Tree, entry: Entry | None, *, has_rewrites: bool
) -> tuple[ResourceTemplates, ...]:
    if entry is None or entry.is_null:
        return ()
    if not entry.is_list:
        return (_resource(tree, entry, has_rewrites=has_rewrites),)
    entries = tree.items(entry)
    if not entries:
        tree.problem(entry, "an empty list checks nothing; leave the key out to check the path")
    return tuple(_resource(tree, one, has_rewrites=has_rewrites) for one in entries)


def _resource(tree: Tree, entry: Entry, *, has_rewrites: bool) -> ResourceTemplates:
    fields = tree.section(entry, _RESOURCE_KEYS, is_strict=True)
    if entry.is_null:
        tree.problem(entry, "must be a mapping, not nothing")

    def template(key: str) -> Template:
        text = tree.text(fields.get(key))
        return _template(tree, fields[key], text) if has_rewrites and text else literal(text)

    return ResourceTemplates(
        namespace=template("namespace"),
        group=template("apiGroup"),
        version=template("apiVersion"),
        resource=template("resource"),
        subresource=template("subresource"),
        name=template("name"),
    )


def _template(tree: Tree, entry: Entry, text: str) -> Template:
    # Late: most proxies rewrite nothing.
    from pyrbacproxy.authz.template_parser import parse  # noqa: PLC0415
    from pyrbacproxy.authz.template_tokens import TemplateError  # noqa: PLC0415

    try:
        template = parse(text)
    except TemplateError as error:
        tree.problem(entry, f"bad template: {error}")
        return literal("")
    if template.flaw and entry.key.casefold().endswith("namespace"):
        tree.problem(entry, f"would be empty, which means every namespace: {template.flaw}")
    elif template.flaw:
        tree.warn(entry, f"always empty: {template.flaw}")
    return template


def _rule(tree: Tree, entry: Entry, *, has_resources: bool) -> StaticRule:
    fields = tree.section(entry, ("user", *_RULE_KEYS, "resourceRequest"), is_strict=True)
    user = tree.section(fields.get("user"), ("name", "groups"), is_strict=True)
    texts = {key: tree.text(fields.get(key)) for key in _RULE_KEYS}
    groups = [tree.text(group) for group in tree.items(user.get("groups"))]
    if "" in groups:
        tree.problem(user["groups"], "holds an empty group, which nobody is in")
    rule = StaticRule(
        user_name=tree.text(user.get("name")),
        groups=frozenset(groups),
        verb=texts["verb"],
        namespace=texts["namespace"],
        api_group=texts["apiGroup"],
        resource=texts["resource"],
        subresource=texts["subresource"],
        name=texts["name"],
        path=texts["path"],
        is_resource_request=tree.truth(fields.get("resourceRequest")),
    )
    _check(tree, entry, rule, has_resources=has_resources)
    return rule


def _check(tree: Tree, entry: Entry, rule: StaticRule, *, has_resources: bool) -> None:
    """`resourceRequest: true` if and only if there is no path (reference 2.4, FR42)."""
    if rule.is_resource_request and rule.path:
        tree.problem(entry, f'resourceRequest: true excludes path: "{rule.path}"')
    elif not rule.is_resource_request and not rule.path:
        tree.problem(entry, "needs either a path or resourceRequest: true")
    elif rule.path and has_resources:
        tree.warn(entry, "a path rule never matches where resourceAttributes are configured")
    elif rule.is_resource_request and not has_resources:
        tree.warn(entry, "a resource rule never matches without resourceAttributes")

"""The authorization file → attributes and static rules, or problems that name line and key.

The structure is reference 2.2's, with two additions: `resourceAttributes` may be a list whose
checks must all hold (N6), and groups in a static rule count (D1).
"""

from dataclasses import dataclass, field

from pyrbacproxy.authz.attributes import (
    OTHER_VERB,
    VERBS,
    AttributeSettings,
    ResourceTemplates,
    Rewrites,
)
from pyrbacproxy.authz.static import PageChecks, StaticRule, doubts
from pyrbacproxy.authz.template import Template, literal
from pyrbacproxy.config.findings import Findings
from pyrbacproxy.config.yaml_tree import Entry, NotYamlError, Tree, nearest

_SECTIONS = ("resourceAttributes", "rewrites", "static")
# Keys that hold checks: read nowhere but below `authorization`, so never ignored elsewhere (D2).
_CHECKS = ("resourceAttributes", "rewrites", "endpoints")
_RESOURCE_KEYS = ("namespace", "apiGroup", "apiVersion", "resource", "subresource", "name")
# Real files hold them, and the original ignores them (D2).
_UNUSED_RESOURCE_KEYS = ("verb", "resourceName")
_RULE_KEYS = ("verb", "namespace", "apiGroup", "resource", "subresource", "name", "path")


@dataclass(frozen=True, slots=True)
class AuthorizationFile:
    """What the file says; without a file, nothing. When it is not whole, for a problem was found,
    nothing follows from what it lacks.
    """

    attributes: AttributeSettings = field(default_factory=AttributeSettings)
    static_rules: tuple[StaticRule, ...] = ()
    is_whole: bool = True


UNREADABLE = AuthorizationFile(is_whole=False)


def read(
    content: bytes,
    path: str,
    findings: Findings,
    *,
    is_strict: bool = False,
    page_checks: PageChecks = PageChecks.NONE,
) -> AuthorizationFile:
    """Reads the file's content; `path` is for the messages, which name --config-file.

    `is_strict` makes every unknown key a problem (D2). `page_checks` is what the endpoints port
    asks, for static rules open its pages as well.
    """
    found = Findings()
    reader = _Reader(content, f"--config-file {path}", found, is_strict=is_strict)
    file = reader.read(page_checks)
    findings.problems.extend(found.problems)
    findings.warnings.extend(found.warnings)
    return UNREADABLE if found.problems else file


class _Reader:
    """One file, whose problems and warnings go to `found`. What only follows from a problem is
    left out.
    """

    def __init__(self, content: bytes, file: str, found: Findings, *, is_strict: bool) -> None:
        self._tree = Tree(content, file, found, is_strict=is_strict)
        self._file = file
        self._found = found

    def read(self, page_checks: PageChecks) -> AuthorizationFile:
        tree, problems = self._tree, self._found.problems
        authorization = self._authorization()
        if authorization is None:
            return UNREADABLE
        sections = tree.section(authorization, _SECTIONS, is_strict=True)
        rewrites = _rewrites(tree, sections.get("rewrites"))
        resources = _resources(
            tree, sections.get("resourceAttributes"), has_rewrites=rewrites is not None
        )
        attributes = AttributeSettings(resources, rewrites)
        is_sure = not problems
        if rewrites is not None and not resources and is_sure:
            tree.warn(sections["rewrites"], "no effect without resourceAttributes")
        rules = []
        for entry in tree.items(sections.get("static")):
            known = len(problems)
            rule, fields = _rule(tree, entry)
            if len(problems) == known:
                _check(tree, entry, rule)
            if len(problems) == known and is_sure:
                for key, text in doubts(rule, attributes, page_checks):
                    tree.warn(fields.get(key, entry), text)
            rules.append(rule)
        return AuthorizationFile(attributes, tuple(rules))

    def _authorization(self) -> Entry | None:
        """The one key at the top; None after a problem."""
        tree, found = self._tree, self._found
        try:
            root = tree.root()
        except NotYamlError as error:
            found.problem(f"{self._file}: not YAML: {error}")
            return None
        top = tree.section(root, ("authorization",), unused=(*_CHECKS, "static"))
        authorization = top.pop("authorization", None)
        if authorization is None or authorization.is_null:
            # The original crashes here (D3).
            if root is None or root.is_null or root.is_mapping:
                found.problems[:] = [f"{self._file}: {_lacking(root)}"]
                found.warnings.clear()
            return None
        for name, misplaced in top.items():
            if name in _CHECKS and not misplaced.is_null:
                place = f"authorization.{name}"
                tree.problem(misplaced, f'must stand below "authorization", as {place}')
            else:
                tree.ignored(misplaced, f"authorization.{name} is read")
        return authorization


def _lacking(root: Entry | None) -> str:
    """Where `authorization` is missing: the key that may have been meant, else what is needed."""
    text = 'lacks "authorization"'
    for key, entry in () if root is None else root.keys():
        if nearest(key, ("authorization",)) and not entry.is_null:
            return f'{text}, did you mean it by "{key}" in line {entry.line}?'
        if nearest(key, _SECTIONS):
            return f'{text}; "{key}" in line {entry.line} must stand below it'
    return f'{text}; "authorization: {{}}" has no rules'


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
    fields = tree.section(entry, _RESOURCE_KEYS, is_strict=True, unused=_UNUSED_RESOURCE_KEYS)
    _tell_unused(tree, fields)
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


def _tell_unused(tree: Tree, fields: dict[str, Entry]) -> None:
    """What is asked instead of the keys without effect (D2)."""
    if "verb" in fields:
        verbs = ", ".join(f"{verb} for {method.decode()}" for method, verb in VERBS.items())
        tree.ignored(
            fields["verb"],
            f"the verb of the request's method is asked: {verbs}, {OTHER_VERB} for any other",
        )
    if "resourceName" in fields:
        is_named = "name" in fields
        tree.ignored(
            fields["resourceName"],
            '"name" is asked' if is_named else 'without "name" every object is asked for',
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


def _rule(tree: Tree, entry: Entry) -> tuple[StaticRule, dict[str, Entry]]:
    """The rule, and its fields as they stand in the file."""
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
    return rule, fields


def _check(tree: Tree, entry: Entry, rule: StaticRule) -> None:
    """`resourceRequest: true` if and only if there is no path (reference 2.4, FR42)."""
    if rule.is_resource_request and rule.path:
        tree.problem(entry, f'resourceRequest: true excludes path: "{rule.path}"')
    elif not rule.is_resource_request and not rule.path:
        tree.problem(entry, "needs either a path or resourceRequest: true")

"""Reads the authorization file: YAML with line and key for each problem."""

import re
import struct
from collections.abc import Iterable

from yaml import MappingNode, Node, SafeLoader, ScalarNode, ScalarToken, SequenceNode, YAMLError
from yaml.scanner import ScannerError

from pyrbacproxy.authz.attributes import (
    OTHER_VERB,
    VERBS,
    AttributeSettings,
    ResourceTemplates,
    Rewrites,
)
from pyrbacproxy.authz.authorizers import PageChecks, StaticRule, doubts
from pyrbacproxy.authz.templates import Template, literal
from pyrbacproxy.config.findings import Findings
from pyrbacproxy.values import Frozen, field

# --- yaml tree ------------------------------------------------------------------------
#
# YAML text → typed values, each problem with its file, line and key.
#
# YAML 1.1 as Go's sigs.k8s.io/yaml reads it (reference 2.1): keys match whatever their case,
# scalars turn into text where text is wanted but text never into a boolean, of equal keys the last
# one wins. The tree is walked only as deep as asked, so aliases can neither loop nor multiply.
# PyYAML's own loader reads it, not libyaml, which refuses `{static:}` (Go does not); a thousand
# rules take 0.4 s.

_TAG = "tag:yaml.org,2002:"
# Go's YAML 1.1 reads these as booleans, PyYAML does not.
_SHORT_BOOLS = {"y": True, "Y": True, "n": False, "N": False}
_BOOLS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
# PyYAML gives `=` and `<<` tags of their own, also where they are values.
_TEXT_TAGS = frozenset(f"{_TAG}{name}" for name in ("str", "timestamp", "value", "merge"))
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_INT = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NAMED_FLOATS = {".inf": "+Inf", "+.inf": "+Inf", "-.inf": "-Inf", ".nan": "NaN"}
_INFINITE = (float("inf"), float("-inf"))
# Exponents of ten that Go's %g, asked for the shortest text, writes out.
_LEAST_PLAIN, _MOST_PLAIN = -4, 5


class _Loader(SafeLoader):
    """PyYAML's loader with what Go's reads and PyYAML does not, and without what Go refuses."""

    def scan_to_next_token(self) -> None:
        """A tab is a blank where no key of a block can begin: JSON may be indented with them."""
        super().scan_to_next_token()
        while self.peek() == "\t" and (self.flow_level or not self.allow_simple_key):
            self.forward()
            super().scan_to_next_token()

    def scan_flow_scalar(self, style: str) -> ScalarToken:
        """An escape stands for a character: no half of a surrogate pair, nothing past U+10FFFF."""
        mark = self.get_mark()
        try:
            token: ScalarToken = super().scan_flow_scalar(style)
            token.value.encode()
        except (ValueError, OverflowError) as error:
            raise ScannerError(None, None, "an escape that is no character", mark) from error
        return token


# Numbers that Go's YAML 1.1 knows and PyYAML's doesn't: `1e3`, `0o17`, `08`.
_Loader.add_implicit_resolver(
    f"{_TAG}float", re.compile(rf"({_INT.pattern}|{_FLOAT.pattern})\Z"), list("-+.0123456789")
)


class NotYamlError(Exception):
    """The text cannot be read at all; says where and why on one line."""


class Entry(Frozen):
    """A value in the file, and the key under which it is known: `authorization.static[0].path`."""

    node: Node
    key: str

    @property
    def line(self) -> int:
        """Where the value stands, counted from 1."""
        return int(self.node.start_mark.line) + 1

    @property
    def is_list(self) -> bool:
        """Whether a list was written."""
        return isinstance(self.node, SequenceNode)

    @property
    def is_mapping(self) -> bool:
        """Whether a mapping was written."""
        return isinstance(self.node, MappingNode)

    def keys(self) -> list[tuple[str, "Entry"]]:
        """A mapping's keys as they are written, each with its value; of anything else none."""
        if not isinstance(self.node, MappingNode):
            return []
        return [
            (str(key.value), Entry(value, str(key.value)))
            for key, value in self.node.value
            if isinstance(key, ScalarNode)
        ]

    @property
    def is_null(self) -> bool:
        """Nothing was written, or `~`: the zero value. A word tagged as null is not meant so."""
        node = self.node
        return isinstance(node, ScalarNode) and node.tag == f"{_TAG}null" and node.value in _NULLS


class Tree:
    """One YAML document. What is wrong with it goes to `findings`."""

    def __init__(self, content: bytes, file: str, findings: Findings, *, is_strict: bool) -> None:
        self._file = file
        self._findings = findings
        self._is_strict = is_strict
        self._content = content

    def root(self) -> Entry | None:
        """The first document, None when the text is empty; raises NotYamlError."""
        try:
            loader = _Loader(self._content)
            node = loader.get_node() if loader.check_node() else None
        except (YAMLError, UnicodeError, RecursionError) as error:
            # PyYAML's name for what it was given; the caller names the file.
            words = str(error).replace('in "<byte string>", ', "at ").split()
            raise NotYamlError(" ".join(words)) from error
        if node is not None and _goes_on(loader):
            self._findings.warn(f"{self._file}: only the first YAML document is read")
        return None if node is None else Entry(node, "")

    def problem(self, entry: Entry, text: str) -> None:
        """Adds a problem with this entry."""
        self._findings.problem(self._place(entry, text))

    def warn(self, entry: Entry, text: str) -> None:
        """Adds a warning about this entry."""
        self._findings.warn(self._place(entry, text))

    def section(
        self,
        entry: Entry | None,
        known: Iterable[str],
        *,
        is_strict: bool = False,
        unused: Iterable[str] = (),
    ) -> dict[str, Entry]:
        """A mapping's entries by their known names; absent, null or no mapping is empty.

        An unknown or repeated key is a problem where losing it would let more people in
        (`is_strict`, D2), else a warning. `unused` keys are returned too, never suggested, and may
        be repeated: `ignored` tells what becomes of them.
        """
        if entry is None or entry.is_null:
            return {}
        if not isinstance(entry.node, MappingNode):
            self.problem(entry, f"must be a mapping, not {_shown(entry.node)}")
            return {}
        unused_names = {name.casefold(): name for name in unused}
        names = {name.casefold(): name for name in known}
        found: dict[str, tuple[str, Entry]] = {}
        for spelling, child in self._children(entry, entry.node):
            if unused_name := unused_names.get(spelling.casefold()):
                found[unused_name] = (spelling, child)
                continue
            name = names.get(spelling.casefold())
            if name is None:
                self._unknown(child, spelling, names.values(), is_strict=is_strict)
                continue
            before = found.get(name)
            if before is not None:
                tell = self.problem if is_strict else self.warn
                tell(child, "given more than once")
            # Of several spellings the one that sorts last wins, of equal ones the last in the file.
            if before is None or spelling.encode() >= before[0].encode():
                found[name] = (spelling, child)
        return {name: child for name, (_, child) in found.items()}

    def ignored(self, entry: Entry, why: str) -> None:
        """Says that the key has no effect; --strict-config makes that a problem."""
        if self._is_strict:
            self.problem(entry, f"has no effect: {why} (--strict-config)")
        else:
            self.warn(entry, f"ignored: {why}")

    def items(self, entry: Entry | None) -> list[Entry]:
        """A list's entries; absent or null is empty, anything else a problem."""
        if entry is None or entry.is_null:
            return []
        if not isinstance(entry.node, SequenceNode):
            self.problem(entry, f"must be a list, not {_shown(entry.node)}")
            return []
        return [Entry(node, f"{entry.key}[{at}]") for at, node in enumerate(entry.node.value)]

    def text(self, entry: Entry | None) -> str:
        """A text, or a scalar's text as Go prints it; absent or null is ""."""
        if entry is None or entry.is_null:
            return ""
        if not isinstance(entry.node, ScalarNode):
            self.problem(entry, f"must be text, not {_shown(entry.node)}")
            return ""
        try:
            return _scalar_text(entry.node)
        except (ValueError, OverflowError):
            self.problem(entry, f"must be text, not {_shown(entry.node)}")
            return ""

    def truth(self, entry: Entry | None) -> bool:
        """An unquoted boolean; absent or null is false, a quoted word is a problem."""
        if entry is None or entry.is_null:
            return False
        truth = _truth(entry.node)
        if truth is None:
            self.problem(entry, f"must be true or false, not {_shown(entry.node)}")
            return False
        return truth

    def _children(self, entry: Entry, node: MappingNode) -> list[tuple[str, Entry]]:
        """The mapping's keys as written, with `<<` resolved; what stands later comes later."""
        try:
            _merge(node)
        except (TypeError, RecursionError) as error:
            self.problem(entry, f"bad merge key: {error}")
            return []
        children = []
        for key, value in node.value:
            if not isinstance(key, ScalarNode):
                self.problem(Entry(key, entry.key), f"{_shown(key)} cannot be a key")
                continue
            path = f"{entry.key}.{key.value}" if entry.key else str(key.value)
            children.append((str(key.value), Entry(value, path)))
        return children

    def _unknown(
        self, entry: Entry, spelling: str, known: Iterable[str], *, is_strict: bool
    ) -> None:
        known = tuple(known)
        near = nearest(spelling, known)
        hint = f', did you mean "{near}"?' if near else ""
        if is_strict:
            self.problem(entry, f"unknown key{hint or '; known are ' + ', '.join(known)}")
        elif self._is_strict:
            self.problem(entry, f"unknown key{hint} (--strict-config)")
        else:
            self.warn(entry, f"unknown key, ignored{hint}")

    def _place(self, entry: Entry, text: str) -> str:
        where = f"{self._file}, line {entry.line}"
        return f"{where}: {entry.key}: {text}" if entry.key else f"{where}: {text}"


def nearest(spelling: str, known: Iterable[str]) -> str:
    """The known name that is spelled most like this, in any case; "" when none is close."""
    lowered = {name.casefold(): name for name in known}
    # Late: few starts need it.
    import difflib  # noqa: PLC0415

    near = difflib.get_close_matches(spelling.casefold(), lowered, 1)
    return lowered[near[0]] if near else ""


def _goes_on(loader: SafeLoader) -> bool:
    """Whether anything follows the document; it need not be YAML, for it is not read."""
    try:
        return bool(loader.check_node())
    except (YAMLError, UnicodeError, RecursionError):
        return True


def _merge(node: MappingNode) -> None:
    """Put what `<<` names before the mapping's own keys. Raises TypeError, or RecursionError when
    it leads in a circle.

    A key that overrides one of the same spelling in a base replaces it, and an earlier base a later
    one; what one mapping holds twice stays there twice.
    """
    own = [pair for pair in node.value if pair[0].tag != f"{_TAG}merge"]
    if len(own) == len(node.value):
        return
    inherited: list[tuple[Node, Node]] = []
    for key, value in node.value:
        if key.tag != f"{_TAG}merge":
            continue
        for base in reversed(value.value if isinstance(value, SequenceNode) else [value]):
            if not isinstance(base, MappingNode):
                raise TypeError(f"must name a mapping or a list of them, not {_shown(base)}")
            _merge(base)
            inherited = _overridden(inherited, base.value)
    node.value = _overridden(inherited, own)


def _overridden(
    pairs: list[tuple[Node, Node]], by: list[tuple[Node, Node]]
) -> list[tuple[Node, Node]]:
    names = {_identity(key) for key, _ in by}
    return [pair for pair in pairs if _identity(pair[0]) not in names] + by


def _identity(key: Node) -> str | int:
    """What two pairs of the same key share; of an invalid key, the node, lest aliases multiply
    it.
    """
    return str(key.value) if isinstance(key, ScalarNode) else id(key)


def _truth(node: Node) -> bool | None:
    """A boolean node's value; None for any other node."""
    if not isinstance(node, ScalarNode):
        return None
    if node.tag == f"{_TAG}bool":
        return _BOOLS.get(node.value.lower(), _SHORT_BOOLS.get(node.value))
    is_plain = node.tag == f"{_TAG}str" and node.style is None
    return _SHORT_BOOLS.get(node.value) if is_plain else None


def _scalar_text(node: ScalarNode) -> str:
    """The text Go would make of the scalar; ValueError for a tag that is not YAML's own, or that
    the scalar does not fit.
    """
    text = str(node.value)
    truth = _truth(node)
    if truth is not None:
        return "true" if truth else "false"
    if node.tag in _TEXT_TAGS:
        return text
    if node.tag not in (f"{_TAG}int", f"{_TAG}float"):
        raise ValueError(node.tag)
    if ":" in text:  # YAML 1.1's base 60, which Go leaves alone
        return text
    return _number_text(text.replace("_", ""), is_int=node.tag == f"{_TAG}int")


def _number_text(digits: str, *, is_int: bool) -> str:
    """The number as Go prints it: integers of 64 bits, other numbers as floats."""
    if digits.lower() in _NAMED_FLOATS:
        return _NAMED_FLOATS[digits.lower()]
    if _INT.fullmatch(digits):
        number = int(re.sub(r"^([-+]?)0[oO]?(?=[0-7])", r"\g<1>0o", digits), 0)
        if -(2**63) <= number < (2**63 if digits.startswith("+") else 2**64):
            return str(number)
    elif is_int or not _FLOAT.fullmatch(digits):
        raise ValueError(digits)
    return _float_text(digits)


def _float_text(digits: str) -> str:
    """The shortest text that is the same number for 32 bits; one beyond 64 bits is none and stays
    as it is.
    """
    number = float(digits)
    if number in _INFINITE:
        return digits
    try:
        single = struct.pack("<f", number)
    except OverflowError:
        return "-Inf" if number < 0 else "+Inf"
    (number,) = struct.unpack("<f", single)
    tries = ((places, f"{number:.{places}e}") for places in range(9))
    places, text = next(found for found in tries if struct.pack("<f", float(found[1])) == single)
    exponent = int(text.partition("e")[2])
    is_plain = _LEAST_PLAIN <= exponent <= _MOST_PLAIN
    return f"{number:.{max(places - exponent, 0)}f}" if is_plain else text


def _shown(node: Node) -> str:
    """What stands there, for a message."""
    if isinstance(node, ScalarNode):
        return f'"{node.value}"' if node.style else str(node.value) or "nothing"
    return "a list" if isinstance(node, SequenceNode) else "a mapping"


# --- authz file -----------------------------------------------------------------------
#
# The authorization file → attributes and static rules, or problems that name line and key.
#
# The structure is reference 2.2's, with two additions: `resourceAttributes` may be a list whose
# checks must all hold (N6), and groups in a static rule count (D1).

_SECTIONS = ("resourceAttributes", "rewrites", "static")
# Keys that hold checks: read nowhere but below `authorization`, so never ignored elsewhere (D2).
_CHECKS = ("resourceAttributes", "rewrites", "endpoints")
_RESOURCE_KEYS = ("namespace", "apiGroup", "apiVersion", "resource", "subresource", "name")
# Real files hold them, and the original ignores them (D2).
_UNUSED_RESOURCE_KEYS = ("verb", "resourceName")
_RULE_KEYS = ("verb", "namespace", "apiGroup", "resource", "subresource", "name", "path")


class AuthorizationFile(Frozen):
    """What the file says; without a file, nothing. When it is not whole, for a problem was found,
    nothing follows from what it lacks.
    """

    attributes: AttributeSettings = field(default_factory=AttributeSettings)
    static_rules: tuple[StaticRule, ...] = ()
    is_whole: bool = True


UNREADABLE = AuthorizationFile(is_whole=False)


def read_authorization_file(
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
    from pyrbacproxy.authz.template_parser import TemplateError, parse  # noqa: PLC0415

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

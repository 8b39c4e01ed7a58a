"""Authorizers: may this be done? By static rules, SubjectAccessReview, or a union of both."""

import re
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Protocol, TypeAlias
from urllib.parse import quote, unquote

from pyrbacproxy.authz.attributes import (
    OTHER_VERB,
    VERBS,
    Attributes,
    AttributeSettings,
    ResourceTemplates,
)
from pyrbacproxy.http1.target import Form, Target, cleaned, has_encoded_separator, is_ambiguous
from pyrbacproxy.model import (
    NonResourceAttributes,
    ResourceAttributes,
    Reviewed,
    ReviewFailed,
    SubjectAccessReview,
    SubjectAccessReviewAnswer,
)
from pyrbacproxy.values import Frozen

# --- authorizer -----------------------------------------------------------------------
# `Authorizer`: may this be done? `Decision` (allow, deny, no opinion) with its reason, or the
# review that failed; their union.


class Kind(Enum):
    """Kubernetes' three decisions."""

    ALLOW = "allow"
    DENY = "deny"
    NO_OPINION = "no opinion"


class Decision(Frozen):
    """`reason` is for logs; `source` is "static", "review" or "none" (no opinion)."""

    kind: Kind
    reason: str = ""
    source: str = "none"


NO_OPINION = Decision(Kind.NO_OPINION)

Judgement: TypeAlias = Decision | ReviewFailed


class Authorizer(Protocol):
    """Decides, or has no opinion; asks the API server by yielding."""

    def authorize(self, attributes: Attributes) -> Reviewed[Judgement]:
        """Judge one action."""
        ...


class UnionAuthorizer:
    """The first member that allows or denies decides, as in Kubernetes' union.

    A failed member is passed over, but if no member decides, its failure is the answer.
    """

    __slots__ = ("_members",)

    def __init__(self, members: tuple[Authorizer, ...]) -> None:
        self._members = members

    def authorize(self, attributes: Attributes) -> Reviewed[Judgement]:
        """The first allow or deny, else the first failure, else no opinion with the last reason."""
        failure: ReviewFailed | None = None
        undecided = NO_OPINION
        for member in self._members:
            judgement = yield from member.authorize(attributes)
            if isinstance(judgement, ReviewFailed):
                failure = failure or judgement
            elif judgement.kind is Kind.NO_OPINION:
                undecided = judgement
            else:
                return judgement
        return failure or undecided


# --- static ---------------------------------------------------------------------------
#
# Rules from the authorization file; the first match allows, none ever denies.
#
# A rule matches when every field that it sets is equal to the request's, by exact text (reference
# 2.4); what it leaves empty matches anything. Groups are honoured (D1): a rule that names some
# matches their members only. `doubts` says which rules can never match, for the same comparison.

# Attributes of a rule, and the same as keys of the file.
_RESOURCE_FIELDS = (
    ("namespace", "namespace"),
    ("api_group", "apiGroup"),
    ("resource", "resource"),
    ("subresource", "subresource"),
    ("name", "name"),
)
_ALL_VERBS = (*VERBS.values(), OTHER_VERB)
# Verbs of Kubernetes and methods of HTTP that no request is checked with, and what was meant.
_MEANT_VERBS = {
    **{method.decode(): verb for method, verb in VERBS.items()},
    **dict.fromkeys(("HEAD", "OPTIONS", "TRACE", "CONNECT"), OTHER_VERB),
    **dict.fromkeys(("LIST", "WATCH"), "get"),
}
_NOT_AUTHENTICATED = ("system:anonymous", "system:unauthenticated")
_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")
_URL = re.compile("[A-Za-z][A-Za-z0-9+.-]*://[^/]*")


class StaticRule(Frozen):
    """One allowing entry (reference 2.4, D1). An empty field matches anything; `groups` matches who
    is in at least one.
    """

    user_name: str = ""
    groups: frozenset[str] = frozenset()
    verb: str = ""
    namespace: str = ""
    api_group: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    path: str = ""
    is_resource_request: bool = False


class PageChecks(Enum):
    """What the endpoints port asks of the static rules that name a user or groups."""

    NONE = "no such port"
    PATH = "the page's path"
    RESOURCE = "a subresource of the node"


class StaticAuthorizer:
    """Allows what a rule matches and has no opinion on anything else; sends no review."""

    __slots__ = ("_path_rules", "_resource_rules")

    def __init__(self, rules: Iterable[StaticRule]) -> None:
        allowing = [
            (rule, Decision(Kind.ALLOW, f"static rule {number}", "static"))
            for number, rule in enumerate(rules, start=1)
        ]
        self._path_rules = tuple(pair for pair in allowing if not pair[0].is_resource_request)
        self._resource_rules = tuple(pair for pair in allowing if pair[0].is_resource_request)

    def authorize(self, attributes: Attributes) -> Reviewed[Judgement]:
        """Allow by the first rule that matches."""
        yield from ()
        action = attributes.action
        if isinstance(action, ResourceAttributes):
            for rule, decision in self._resource_rules:
                if _matches_resource(rule, action) and _matches_user(rule, attributes):
                    return decision
        elif attributes.is_path_exact:
            for rule, decision in self._path_rules:
                if _matches_path(rule, action) and _matches_user(rule, attributes):
                    return decision
        return NO_OPINION


def _matches_user(rule: StaticRule, attributes: Attributes) -> bool:
    user = attributes.user
    return (not rule.user_name or rule.user_name == user.name) and (
        not rule.groups or not rule.groups.isdisjoint(user.groups)
    )


def _matches_resource(rule: StaticRule, action: ResourceAttributes) -> bool:
    wanted = (
        (rule.verb, action.verb),
        (rule.namespace, action.namespace),
        (rule.api_group, action.group),
        (rule.resource, action.resource),
        (rule.subresource, action.subresource),
        (rule.name, action.name),
        (rule.path, ""),
    )
    return all(not field or field == value for field, value in wanted)


def _matches_path(rule: StaticRule, action: NonResourceAttributes) -> bool:
    # A path request has none of the resource fields, so a rule that sets one can't match it.
    return (
        (not rule.path or rule.path == action.path)
        and (not rule.verb or rule.verb == action.verb)
        and not (rule.namespace or rule.api_group or rule.resource or rule.subresource or rule.name)
    )


def doubts(
    rule: StaticRule, settings: AttributeSettings, page_checks: PageChecks
) -> Iterator[tuple[str, str]]:
    """Why a rule can match no request, or fewer than its author will have meant: the key of the
    file that is at fault, "" for the whole rule, and the text for the log.

    `settings` is what the proxy asks. `page_checks` counts for rules that open pages.
    """
    if not (rule.user_name or rule.groups):
        page_checks = PageChecks.NONE
    for name in _NOT_AUTHENTICATED:
        if name == rule.user_name or name in rule.groups:
            why = "a request without a valid credential gets 401, --ignore-paths serves it"
            yield "user", f'"{name}" never matches: {why}'
    if rule.verb not in ("", *VERBS.values()):
        yield "verb", _verb_doubt(rule.verb)
    if rule.is_resource_request:
        yield from _resource_doubts(rule, settings, page_checks)
    elif surplus := [key for field, key in _RESOURCE_FIELDS if getattr(rule, field)]:
        why = "a path is compared with no resource"
        yield "", f"never matches: {why}; leave out {', '.join(surplus)}, or path"
    elif settings.resources and page_checks is not PageChecks.PATH:
        why = "resourceRequest: true and the resource match them"
        yield "", f"a path rule never matches where resourceAttributes are configured; {why}"
    elif doubt := _path_doubt(rule.path):
        yield "path", doubt


def _verb_doubt(verb: str) -> str:
    if verb == OTHER_VERB:
        others = ", ".join(method.decode() for method in VERBS)
        every = "without verb a rule matches every method"
        return f'"{verb}" matches HEAD, OPTIONS and others, but none of {others}; {every}'
    lowered = verb.strip().lower()
    meant = lowered if lowered in _ALL_VERBS else _MEANT_VERBS.get(lowered.upper(), "")
    hint = f'did you mean "{meant}"?' if meant else f"known are {', '.join(_ALL_VERBS)}"
    return f'never matches: no request is checked with the verb "{verb}"; {hint}'


def _resource_doubts(
    rule: StaticRule, settings: AttributeSettings, page_checks: PageChecks
) -> Iterator[tuple[str, str]]:
    if page_checks is PageChecks.RESOURCE and rule.resource in ("", "nodes"):
        return
    if not settings.resources:
        why = "the path is checked then: say path, and resourceRequest: false"
        yield "", f"a resource rule never matches without resourceAttributes; {why}"
        return
    # Of several checks, the one that the author will have meant.
    nearest = min((_differences(rule, one) for one in settings.resources), key=len)
    for field, key in _RESOURCE_FIELDS:
        if field in nearest:
            asked = f'for "{nearest[field]}"' if nearest[field] else "for none"
            yield key, f'"{getattr(rule, field)}" never matches: resourceAttributes ask {asked}'


def _differences(rule: StaticRule, templates: ResourceTemplates) -> dict[str, str]:
    """The fields of the rule that no value of a rewrite makes equal, and what is asked instead."""
    asked = {
        "namespace": templates.namespace.constant,
        "api_group": templates.group.constant,
        "resource": templates.resource.constant,
        "subresource": templates.subresource.constant,
        "name": templates.name.constant,
    }
    return {
        field: constant
        for field, constant in asked.items()
        if constant is not None and getattr(rule, field) not in ("", constant)
    }


def _path_doubt(path: str) -> str:
    meant = _path_meant(path)
    hint = f'; did you mean "{meant}"?' if meant != path else ""
    if not path.startswith("/"):
        return f"never matches: the path of a request begins with /{hint}"
    raw = quote(path, safe="/\\;", errors="replace").encode()
    if has_encoded_separator(raw):
        return "never matches: no rule matches a path with a backslash or NUL (D9)"
    if cleaned(raw) != raw:
        return f"never matches: a request for it is redirected{hint}"
    if is_ambiguous(Target(Form.ORIGIN, raw, path)):
        return "never matches: a request for it can be read in two ways and gets 400 (D9)"
    if "?" in path:
        return f"the query is no part of what is compared{hint}"
    if _ESCAPE.search(path):
        return f"is compared with the decoded path{hint}"
    if path != path.rstrip():
        return f"ends with a blank, and matches only a request whose path does{hint}"
    if "*" in path:
        return "is compared as it stands: * matches only itself, and each path needs its own rule"
    if path.endswith("/") and path != "/":
        return f"matches no request without the slash at its end{hint}"
    return ""


def _path_meant(path: str) -> str:
    """The path as a request would have it."""
    text = _URL.sub("", path.strip()).partition("?")[0]
    if _ESCAPE.search(text):
        text = unquote(text)
    return cleaned(text.encode(errors="replace")).decode().rstrip("/") or "/"


# --- subject access review ------------------------------------------------------------
# `Attributes` → SubjectAccessReview → `Decision`; and the proxy's order: static rules first.

_SOURCE = "review"


class SubjectAccessReviewAuthorizer:
    """Asks the API server about every action."""

    __slots__ = ()

    def authorize(self, attributes: Attributes) -> Reviewed[Judgement]:
        """What the review says (reference 3.6); an answer of another kind is a failure."""
        answer = yield SubjectAccessReview(attributes.user, attributes.action)
        if isinstance(answer, SubjectAccessReviewAnswer):
            return _decided(answer)
        if isinstance(answer, ReviewFailed):
            return answer
        return ReviewFailed("an access review was answered by a TokenReview")


def rules_then_review(rules: Iterable[StaticRule], *, has_api_server: bool) -> Authorizer:
    """Static rules, then the API server. Where none is configured the rules alone decide: what
    they do not allow is forbidden, for no review has failed (D20).
    """
    by_rule = StaticAuthorizer(rules)
    if not has_api_server:
        return by_rule
    return UnionAuthorizer((by_rule, SubjectAccessReviewAuthorizer()))


def _decided(answer: SubjectAccessReviewAnswer) -> Judgement:
    # `evaluation_error` beside an answer is no reason to doubt it: some role was broken, another
    # one allowed.
    if answer.allowed and answer.denied:
        return ReviewFailed("the access review both allows and denies")
    if answer.allowed:
        return Decision(Kind.ALLOW, answer.reason, _SOURCE)
    reason = answer.reason or answer.evaluation_error
    return Decision(Kind.DENY if answer.denied else Kind.NO_OPINION, reason, _SOURCE)

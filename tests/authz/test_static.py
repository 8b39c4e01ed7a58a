"""Static rules: what is set must be equal, empty is any, groups count, nothing denies."""

from urllib.parse import quote

import pytest

from pyrbacproxy.authz.attributes import Attributes, AttributeSettings, ResourceTemplates, Rewrites
from pyrbacproxy.authz.authorizers import (
    NO_OPINION,
    Kind,
    PageChecks,
    StaticAuthorizer,
    StaticRule,
    doubts,
)
from pyrbacproxy.authz.template_parser import parse
from pyrbacproxy.authz.templates import literal
from pyrbacproxy.http1.target import cleaned, has_encoded_separator, is_ambiguous, parse_target
from pyrbacproxy.model import NonResourceAttributes, ResourceAttributes, UserInfo
from pyrbacproxy.values import replace
from tests.fakes import drive

CAROL = UserInfo("carol", groups=("dev", "system:authenticated"))
PATH = Attributes(CAROL, NonResourceAttributes("get", "/metrics"))
RESOURCE = Attributes(
    CAROL, ResourceAttributes("get", "default", "metrics.example", "v1", "pods", "log", "thing")
)
FULL = StaticRule(
    user_name="carol",
    groups=frozenset({"ops", "dev"}),
    verb="get",
    namespace="default",
    api_group="metrics.example",
    resource="pods",
    subresource="log",
    name="thing",
    is_resource_request=True,
)


def allows(rule: StaticRule, attributes: Attributes) -> bool:
    decision, asked = drive(StaticAuthorizer([rule]).authorize(attributes))
    assert asked == []
    assert decision == NO_OPINION or getattr(decision, "kind", None) is Kind.ALLOW
    return decision != NO_OPINION


@pytest.mark.parametrize(
    "rule",
    [
        StaticRule(path="/metrics"),
        StaticRule(user_name="carol", verb="get", path="/metrics"),
        StaticRule(groups=frozenset({"ops", "dev"}), path="/metrics"),
        StaticRule(groups=frozenset({"system:authenticated"}), path="/metrics"),
        StaticRule(),
    ],
)
def test_k_u6_a_path_rule_matches(rule: StaticRule) -> None:
    assert allows(rule, PATH)


@pytest.mark.parametrize(
    "rule",
    [
        StaticRule(path="/Metrics"),
        StaticRule(path="/metrics/"),
        StaticRule(path="/*"),
        StaticRule(path="/metrics", user_name="alice"),
        StaticRule(path="/metrics", verb="*"),
        StaticRule(path="/metrics", verb="Get"),
        StaticRule(path="/metrics", namespace="default"),
        StaticRule(path="/metrics", api_group="apps"),
        StaticRule(path="/metrics", resource="pods"),
        StaticRule(path="/metrics", subresource="log"),
        StaticRule(path="/metrics", name="x"),
        StaticRule(path="/metrics", is_resource_request=True),
        StaticRule(is_resource_request=True),
    ],
)
def test_k_u7_a_rule_that_differs_in_one_field_has_no_opinion(rule: StaticRule) -> None:
    assert not allows(rule, PATH)


@pytest.mark.parametrize(
    "rule",
    [
        StaticRule(path="/metrics", groups=frozenset({"system:masters"})),
        StaticRule(path="/metrics", user_name="carol", groups=frozenset({"ops"})),
        StaticRule(path="/metrics", user_name="alice", groups=frozenset({"dev"})),
    ],
)
def test_fr41_dec_d1_a_rule_with_groups_admits_its_members_only(rule: StaticRule) -> None:
    assert not allows(rule, PATH)


def test_k_u12_a_resource_rule_matches() -> None:
    assert allows(FULL, RESOURCE)
    assert allows(StaticRule(is_resource_request=True), RESOURCE)


@pytest.mark.parametrize(
    "field",
    ["user_name", "verb", "namespace", "api_group", "resource", "subresource", "name", "path"],
)
def test_every_field_of_a_resource_rule_is_compared(field: str) -> None:
    assert not allows(replace(FULL, **{field: "other"}), RESOURCE)  # text
    assert allows(replace(FULL, **{field: ""}), RESOURCE)  # fields only


def test_fr42_a_path_rule_never_matches_a_resource_request() -> None:
    assert not allows(StaticRule(), RESOURCE)


def test_dec_d9_no_path_rule_meets_a_path_with_an_encoded_separator() -> None:
    inexact = replace(PATH, is_path_exact=False)
    assert not allows(StaticRule(path="/metrics"), inexact)
    assert not allows(StaticRule(), inexact)


def test_the_first_match_is_named() -> None:
    rules = [StaticRule(path="/x"), StaticRule(path="/metrics"), StaticRule(user_name="carol")]
    decision, _ = drive(StaticAuthorizer(rules).authorize(PATH))
    assert repr(decision) == (
        "Decision(kind=<Kind.ALLOW: 'allow'>, reason='static rule 2', source='static')"
    )


# --- FR96: what can never match -----------------------------------------------------------


def text_of(rule: StaticRule, settings: AttributeSettings | None = None) -> list[str]:
    found = doubts(rule, settings or AttributeSettings(), PageChecks.NONE)
    return [f"{key}: {text}" for key, text in found]


@pytest.mark.parametrize("verb", ["", "get", "create", "update", "patch", "delete"])
def test_fr96_a_verb_that_is_asked_is_no_doubt(verb: str) -> None:
    assert text_of(StaticRule(path="/metrics", verb=verb)) == []


@pytest.mark.parametrize(
    ("verb", "meant"),
    [
        *(("GET", "get"), ("Get", "get"), (" get", "get"), ("POST", "create"), ("post", "create")),
        *(("PUT", "update"), ("DELETE", "delete"), ("HEAD", "*"), ("options", "*")),
        *(("list", "get"), ("watch", "get")),
    ],
)
def test_fr96_a_verb_that_is_never_asked(verb: str, meant: str) -> None:
    (text,) = text_of(StaticRule(path="/metrics", verb=verb))
    assert text.startswith("verb: never matches")
    assert text.endswith(f'did you mean "{meant}"?')


def test_fr96_an_unknown_verb_is_answered_with_those_there_are() -> None:
    (text,) = text_of(StaticRule(path="/metrics", verb="use"))
    assert text.endswith('"use"; known are get, create, update, patch, delete, *')


def test_fr96_the_verb_of_the_other_methods_is_no_wildcard() -> None:
    (text,) = text_of(StaticRule(path="/metrics", verb="*"))
    assert text.startswith('verb: "*" matches HEAD, OPTIONS and others, but none of GET, POST, PUT')


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/metrics", "/a/b", "/a.b", "/a..b", "/.well-known", "/a b", "/é", "/a;b", "/a:b@c"),
        *("/a,b", "/a#b", "/100%", "/[a]", "/a=b&c", "/~a"),
    ],
)
def test_fr96_a_path_that_requests_have_is_no_doubt(path: str) -> None:
    """And a request for it is allowed, as it is sent."""
    assert text_of(StaticRule(path=path)) == []
    target = parse_target(b"GET", quote(path, safe="/").encode())
    assert cleaned(target.raw_path) == target.raw_path
    assert not is_ambiguous(target)
    assert not has_encoded_separator(target.raw_path)
    assert target.path == path


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("metrics", 'begins with /; did you mean "/metrics"?'),
        ("metrics/", 'begins with /; did you mean "/metrics"?'),
        (" /metrics", 'begins with /; did you mean "/metrics"?'),
        ("*", 'begins with /; did you mean "/*"?'),
        ("https://h:8443/metrics?x=1", 'begins with /; did you mean "/metrics"?'),
        ("/a//b", 'is redirected; did you mean "/a/b"?'),
        ("//a", 'is redirected; did you mean "/a"?'),
        ("/./a", 'is redirected; did you mean "/a"?'),
        ("/a/../b", 'is redirected; did you mean "/b"?'),
        ("/a/..", 'is redirected; did you mean "/"?'),
        ("/a\\b", "a backslash or NUL (D9)"),
        ("/a\0b", "a backslash or NUL (D9)"),
        ("/a/..;x/b", "gets 400 (D9)"),
    ],
)
def test_fr96_a_path_that_no_request_has(path: str, said: str) -> None:
    (text,) = text_of(StaticRule(path=path))
    assert text.startswith("path: never matches")
    assert text.endswith(said)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/metrics/", 'the slash at its end; did you mean "/metrics"?'),
        ("/metrics?format=a", 'the query is no part of what is compared; did you mean "/metrics"?'),
        ("/a%20b", 'is compared with the decoded path; did you mean "/a b"?'),
        ("/metrics\n", 'whose path does; did you mean "/metrics"?'),
        ("/metrics/*", "* matches only itself, and each path needs its own rule"),
    ],
)
def test_fr96_a_path_that_hardly_any_request_has(path: str, said: str) -> None:
    (text,) = text_of(StaticRule(path=path))
    assert not text.startswith("path: never")
    assert text.endswith(said)


def resources(*names: str, rewrites: Rewrites | None = None) -> AttributeSettings:
    """Checks of these resources in the namespace `n`, or in one that a rewrite names."""
    namespace = literal("n") if rewrites is None else parse("{{ .Value }}")
    rest = (literal(""), literal("v1"))
    return AttributeSettings(
        tuple(
            ResourceTemplates(namespace, *rest, literal(name), literal(""), literal(""))
            for name in names
        ),
        rewrites,
    )


@pytest.mark.parametrize(
    ("rule", "settings", "said"),
    [
        (StaticRule(resource="pods"), resources("pods"), []),
        (StaticRule(resource="nodes"), resources("pods", "nodes"), []),
        (StaticRule(namespace="n", resource="pods"), resources("pods"), []),
        (StaticRule(namespace="x"), resources("pods", rewrites=Rewrites("ns")), []),
        (
            StaticRule(namespace="x", resource="pod"),
            resources("pods", rewrites=Rewrites("ns")),
            ['resource: "pod" never matches: resourceAttributes ask for "pods"'],
        ),
        (
            StaticRule(namespace="x", resource="nodes", api_group="g"),
            resources("pods", "nodes"),
            [
                'namespace: "x" never matches: resourceAttributes ask for "n"',
                'apiGroup: "g" never matches: resourceAttributes ask for none',
            ],
        ),
        (
            StaticRule(subresource="log", name="a"),
            resources("pods"),
            [
                'subresource: "log" never matches: resourceAttributes ask for none',
                'name: "a" never matches: resourceAttributes ask for none',
            ],
        ),
        (
            StaticRule(resource="pods"),
            AttributeSettings(),
            [
                (
                    ": a resource rule never matches without resourceAttributes; "
                    "the path is checked then: say path, and resourceRequest: false"
                )
            ],
        ),
    ],
)
def test_fr96_a_resource_that_is_never_asked(
    rule: StaticRule, settings: AttributeSettings, said: list[str]
) -> None:
    assert text_of(replace(rule, is_resource_request=True), settings) == said


def test_fr96_a_path_where_resources_are_asked() -> None:
    (text,) = text_of(StaticRule(path="/metrics", user_name="a"), resources("pods"))
    assert text.startswith(": a path rule never matches where resourceAttributes are configured")


@pytest.mark.parametrize(
    ("rule", "page_checks", "is_doubtful"),
    [
        (StaticRule(path="/statusz", user_name="a"), PageChecks.PATH, False),
        (StaticRule(path="/statusz", groups=frozenset({"a"})), PageChecks.PATH, False),
        (StaticRule(path="/statusz"), PageChecks.PATH, True),
        (StaticRule(path="/statusz", user_name="a"), PageChecks.RESOURCE, True),
        (
            StaticRule(resource="nodes", user_name="a", is_resource_request=True),
            PageChecks.RESOURCE,
            False,
        ),
        (
            StaticRule(resource="x", user_name="a", is_resource_request=True),
            PageChecks.RESOURCE,
            True,
        ),
        (
            StaticRule(resource="nodes", is_resource_request=True),
            PageChecks.RESOURCE,
            True,
        ),
        (
            StaticRule(resource="nodes", user_name="a", is_resource_request=True),
            PageChecks.PATH,
            True,
        ),
    ],
)
def test_fr96_a_rule_may_be_for_the_pages(
    rule: StaticRule, page_checks: PageChecks, *, is_doubtful: bool
) -> None:
    assert bool(list(doubts(rule, resources("pods"), page_checks))) is is_doubtful


@pytest.mark.parametrize(
    "rule",
    [
        StaticRule(path="/m", user_name="system:anonymous"),
        StaticRule(path="/m", groups=frozenset({"system:unauthenticated", "b"})),
    ],
)
def test_fr96_nobody_is_anonymous(rule: StaticRule) -> None:
    (text,) = text_of(rule)
    assert text.startswith("user: ")
    assert "--ignore-paths" in text

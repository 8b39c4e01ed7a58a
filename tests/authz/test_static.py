"""Static rules: what is set must be equal, empty is any, groups count, nothing denies."""

from dataclasses import replace

import pytest

from pyrbacproxy.authz.attributes import Attributes
from pyrbacproxy.authz.authorizer import NO_OPINION, Kind
from pyrbacproxy.authz.static import StaticAuthorizer, StaticRule
from pyrbacproxy.reviews import NonResourceAttributes, ResourceAttributes
from pyrbacproxy.user import UserInfo
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
    assert not allows(replace(FULL, **{field: "other"}), RESOURCE)  # type: ignore[arg-type]  # text
    assert allows(replace(FULL, **{field: ""}), RESOURCE)  # type: ignore[arg-type]  # fields only


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

"""Rules from the authorization file; the first match allows, none ever denies.

A rule matches when every field that it sets is equal to the request's, by exact text (reference
2.4); what it leaves empty matches anything. Groups are honoured (D1): a rule that names some
matches their members only.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from pyrbacproxy.authz.attributes import Attributes
from pyrbacproxy.authz.authorizer import NO_OPINION, Decision, Judgement, Kind
from pyrbacproxy.reviews import NonResourceAttributes, ResourceAttributes, Reviewed


@dataclass(frozen=True, slots=True)
class StaticRule:
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


class StaticAuthorizer:
    """Allows what a rule matches and has no opinion on anything else; asks nobody."""

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

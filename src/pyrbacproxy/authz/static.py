"""Rules from the authorization file; the first match allows, none ever denies."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StaticRule:
    """One allowing entry (reference 2.4, D1). An empty field matches anything; `groups` matches who is in at least one."""

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

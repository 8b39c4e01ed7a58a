"""Request head + target + user → one or more `Attributes`; verbs and rewrites. None at all is an error."""

from dataclasses import dataclass

from pyrbacproxy.authz.template import Template
from pyrbacproxy.reviews import NonResourceAttributes, ResourceAttributes
from pyrbacproxy.user import UserInfo


@dataclass(frozen=True, slots=True)
class Attributes:
    """The action to be authorized.

    `is_path_exact` is false when the raw path holds `%2F`, `%5C` or `%00`: then no static path rule matches it (D9).
    """

    user: UserInfo
    action: ResourceAttributes | NonResourceAttributes
    is_path_exact: bool = True


@dataclass(frozen=True, slots=True)
class ResourceTemplates:
    """`resourceAttributes` of the authorization file; without rewrites the texts are literal."""

    namespace: Template
    group: Template
    version: Template
    resource: Template
    subresource: Template
    name: Template


@dataclass(frozen=True, slots=True)
class Rewrites:
    """Where rewrite values come from; "" turns a source off (reference 2.3)."""

    query_parameter: str = ""
    header: str = ""


@dataclass(frozen=True, slots=True)
class AttributeSettings:
    """What is checked per request: one or more resource checks (N6: all must hold), or the path when there are none."""

    resources: tuple[ResourceTemplates, ...] = ()
    rewrites: Rewrites | None = None

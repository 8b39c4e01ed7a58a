"""Request head + target + user → one or more `Attributes`; verbs and rewrites. None at all is an
error.

Reference 2.3 and 3.5. Who gets no attributes refuses the request (400): "nothing to check" must
never become "nothing was refused". What a rewrite takes values from must go on
as it was checked, so a query or a header that could be read in two ways yields none (D7).
"""

from collections.abc import Iterator

from pyrbacproxy.authz.templates import RenderError, Template
from pyrbacproxy.http1.head import Headers, RequestHead, folded
from pyrbacproxy.http1.target import Target, has_encoded_separator, parse_query
from pyrbacproxy.model import NonResourceAttributes, ResourceAttributes, UserInfo
from pyrbacproxy.values import Frozen

# Methods are case-sensitive; whatever is not here (HEAD, OPTIONS, TRACE ...) is "*", which only
# rules for "*" grant.
VERBS = {
    b"GET": "get",
    b"POST": "create",
    b"PUT": "update",
    b"PATCH": "patch",
    b"DELETE": "delete",
}
OTHER_VERB = "*"


def verb_of(method: bytes) -> str:
    """The verb that a request of this method is authorized for (reference 3.5)."""
    return VERBS.get(method, OTHER_VERB)


class Attributes(Frozen):
    """The action to be authorized.

    `is_path_exact` is false when `%2F`, `%5C` or `%00` would be forwarded: then no static path rule
    matches (D9).
    """

    user: UserInfo
    action: ResourceAttributes | NonResourceAttributes
    is_path_exact: bool = True


class ResourceTemplates(Frozen):
    """`resourceAttributes` of the authorization file; without rewrites the texts are literal."""

    namespace: Template
    group: Template
    version: Template
    resource: Template
    subresource: Template
    name: Template


class Rewrites(Frozen):
    """Where rewrite values come from; "" turns a source off (reference 2.3)."""

    query_parameter: str = ""
    header: str = ""


class AttributeSettings(Frozen):
    """What is checked per request: one or more resource checks (N6: all must hold), or the path
    when there are none.
    """

    resources: tuple[ResourceTemplates, ...] = ()
    rewrites: Rewrites | None = None


class AttributeSource:
    """Makes attributes as the settings say."""

    __slots__ = ("_folded_header", "_header", "_is_rewritten", "_query_parameter", "_resources")

    def __init__(self, settings: AttributeSettings) -> None:
        self._resources = settings.resources
        # Rewrites without resource attributes are inert.
        rewrites = settings.rewrites if settings.resources else None
        self._is_rewritten = rewrites is not None
        self._query_parameter = rewrites.query_parameter if rewrites else ""
        header = rewrites.header.lower().encode() if rewrites else b""
        self._header = b"" if header == b"host" else header  # Go keeps Host outside the headers
        self._folded_header = folded(self._header)

    @property
    def has_query_rewrite(self) -> bool:
        """Whether a query parameter decides what is checked."""
        return self._query_parameter != ""

    def attributes(
        self, head: RequestHead, target: Target, user: UserInfo
    ) -> tuple[Attributes, ...]:
        """What must all be allowed; empty when the request lacks a rewrite value, its query or its
        rewrite header is doubtful, or a template fails on a value.
        """
        verb = verb_of(head.method)
        if not self._resources:
            is_exact = not has_encoded_separator(target.raw_path)
            return (Attributes(user, NonResourceAttributes(verb, target.path), is_exact),)
        values = self._values(head, target) if self._is_rewritten else ("",)
        try:
            return tuple(
                Attributes(user, _filled(templates, verb, value))
                for value in values
                for templates in self._resources
            )
        except RenderError:
            # The original would check an empty field, which for most of them means any.
            return ()

    def without_header(self, trailers: Headers) -> Headers:
        """The trailers without any spelling of the rewrite header: its values were not checked."""
        if not self._header:
            return trailers
        return Headers(pair for pair in trailers if folded(pair[0]) != self._folded_header)

    def _values(self, head: RequestHead, target: Target) -> tuple[str, ...]:
        """Every value of the query parameter in order, then every line of the header."""
        from_query: tuple[str, ...] = ()
        if self._query_parameter:
            query = parse_query(target.raw_query)
            if query.is_doubtful:
                return ()
            from_query = tuple(
                value for name, value in query.pairs if name == self._query_parameter
            )
        if self._header and self._is_header_doubtful(head.headers):
            return ()
        return (*from_query, *self._header_values(head))

    def _is_header_doubtful(self, headers: Headers) -> bool:
        """Whether the upstream may read other values than those that are checked: another spelling
        of the name says something else, or Connection takes the lines away (D36).
        """
        if any(folded(option) == self._folded_header for option in headers.tokens(b"connection")):
            return True
        return any(
            lowered != self._header and folded(lowered) == self._folded_header
            for lowered, _ in headers.lowered_items()
        )

    def _header_values(self, head: RequestHead) -> Iterator[str]:
        for line in head.headers.get_all(self._header):
            yield line.decode("utf-8", "surrogateescape")


def describe(attributes: Attributes) -> str:
    """The words that answers and logs of the original use; namespace, name and path stay out
    (reference 3.6).
    """
    action = attributes.action
    resource, subresource = (
        (action.resource, action.subresource)
        if isinstance(action, ResourceAttributes)
        else ("", "")
    )
    return (
        f"(user={attributes.user.name}, verb={action.verb}, "
        f"resource={resource}, subresource={subresource})"
    )


def _filled(templates: ResourceTemplates, verb: str, value: str) -> ResourceAttributes:
    return ResourceAttributes(
        verb=verb,
        namespace=templates.namespace.render(value),
        group=templates.group.render(value),
        version=templates.version.render(value),
        resource=templates.resource.render(value),
        subresource=templates.subresource.render(value),
        name=templates.name.render(value),
    )

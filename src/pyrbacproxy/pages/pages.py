"""The endpoints port: path to page, and who may see it."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TypeAlias

from pyrbacproxy.access import not_allowed, note, refused, unauthenticated
from pyrbacproxy.authn.authenticators import Authenticated, Authenticator
from pyrbacproxy.authz.attributes import Attributes
from pyrbacproxy.authz.authorizers import NO_OPINION, Authorizer, Decision, Kind, StaticRule
from pyrbacproxy.handler import Request, Respond, Verdict
from pyrbacproxy.http1.head import Headers, RequestHead, Response, text
from pyrbacproxy.http1.target import Target, has_encoded_separator
from pyrbacproxy.model import (
    Decided,
    NonResourceAttributes,
    Outcome,
    PageShown,
    ResourceAttributes,
    Reviewed,
    ReviewFailed,
    UserInfo,
)
from pyrbacproxy.pages.health import Health, Look, single
from pyrbacproxy.pages.negotiation import group_version
from pyrbacproxy.pages.status import PageSettings, Program
from pyrbacproxy.pages.statusz_flagz import Flagz, Statusz, version_page
from pyrbacproxy.values import replace

# --- attributes -----------------------------------------------------------------------
#
# A page's attributes: what must be allowed for it, never what the proxy's configuration says.
#
# Component mode asks for the path, as the API server's own components do, so that the built-in role
# `system:monitoring` works. Node mode asks for subresources of the node, by the kubelet's table, in
# order, and the first that is allowed suffices; non-resource rules do nothing there. HEAD is `get`
# in both: who may read a page may ask for its head.

PageAttributes: TypeAlias = Callable[[RequestHead, Target, UserInfo], tuple[Attributes, ...]]

# The kubelet's verbs; another method has an empty one, which only rules for "*" grant.
_NODE_VERBS = {
    b"GET": "get",
    b"HEAD": "get",
    b"POST": "create",
    b"PUT": "update",
    b"PATCH": "patch",
    b"DELETE": "delete",
}
_PROXY = ("proxy",)
# The kubelet's table (fine-grained authorization, locked on since Kubernetes 1.36), and below it
# what a kubelet doesn't serve: nobody shall need nodes/proxy, which includes exec, to read a page.
_SUBRESOURCES = {
    "/statusz": ("statusz",),
    "/flagz": ("configz",),
    "/configz": ("configz", "proxy"),
    "/healthz": ("healthz", "proxy"),
    "/pods": ("pods", "proxy"),
    "/runningpods": ("pods", "proxy"),
    "/metrics": ("metrics",),
    "/stats": ("stats",),
    "/logs": ("log",),
    "/checkpoint": ("checkpoint",),
    "/livez": ("healthz", "proxy"),
    "/readyz": ("healthz", "proxy"),
    "/version": ("statusz",),
}


def component_attributes(
    head: RequestHead, target: Target, user: UserInfo
) -> tuple[Attributes, ...]:
    """The lower-cased method on the path."""
    verb = "get" if head.method == b"HEAD" else head.method.decode("latin-1").lower()
    is_exact = not has_encoded_separator(target.raw_path)
    return (Attributes(user, NonResourceAttributes(verb, target.path), is_exact),)


def node_attributes(node_name: str) -> PageAttributes:
    """The kubelet's attributes on the node of that name."""

    def attributes(head: RequestHead, target: Target, user: UserInfo) -> tuple[Attributes, ...]:
        verb = _NODE_VERBS.get(head.method, "")
        return tuple(
            Attributes(
                user,
                ResourceAttributes(
                    verb, version="v1", resource="nodes", subresource=name, name=node_name
                ),
            )
            for name in _subresources(target.path)
        )

    return attributes


def _subresources(path: str) -> tuple[str, ...]:
    """What stands for a path: for the whole first segment only, and not for `//statusz`."""
    folder = "/" + path[1:].partition("/")[0] if path.startswith("/") else ""
    return _SUBRESOURCES.get(folder, _PROXY)


# --- access ---------------------------------------------------------------------------
# The pages' own chain: authenticate → page attributes → first allow wins → page; never redirects,
# never forwards.


def rules_for_pages(rules: Iterable[StaticRule]) -> tuple[StaticRule, ...]:
    """The static rules that may open a page: those that name a user or groups.

    A rule for everybody is meant for the upstream; it must not show our flags to all.
    """
    return tuple(rule for rule in rules if rule.user_name or rule.groups)


class PageAccess:
    """Decides who may see a page."""

    __slots__ = ("_attributes", "_authenticator", "_authorizer")

    def __init__(
        self, authenticator: Authenticator, attributes: PageAttributes, authorizer: Authorizer
    ) -> None:
        self._authenticator = authenticator
        self._attributes = attributes
        self._authorizer = authorizer

    def decide(self, request: Request) -> Reviewed[Decided | Respond]:
        """The refusal, or what was decided when the page may be shown."""
        known = yield from self._authenticator.authenticate(request)
        if not isinstance(known, Authenticated):
            return unauthenticated(known)
        user = known.user
        decided = Decided(Outcome.ALLOWED, user.name, known.source, groups=user.groups)
        wanted = self._attributes(request.head, request.target, user)
        refusal: Decision = NO_OPINION
        for attributes in wanted:
            judgement = yield from self._authorizer.authorize(attributes)
            if isinstance(judgement, ReviewFailed):
                # No fallback to the next, as in the kubelet.
                return not_allowed(attributes, judgement, decided)
            if judgement.kind is Kind.ALLOW:
                decided.decision_source = judgement.source
                return decided
            refusal = judgement
        return not_allowed(wanted[0], refusal, decided, words=_words(wanted))


def _words(wanted: tuple[Attributes, ...]) -> str:
    """The kubelet's words for all that was tried; "" for the usual ones."""
    actions = [wanting.action for wanting in wanted]
    names = [action.subresource for action in actions if isinstance(action, ResourceAttributes)]
    if not names:
        return ""
    user, action = wanted[0].user, actions[0]
    tried = " ".join(names)
    return f"(user={user.name}, verb={action.verb}, resource=nodes, subresource(s)=[{tried}])"


# --- pages ----------------------------------------------------------------------------
#
# Path → page, on the endpoints port: the exact health paths for everybody, the rest for who may see
# it.
#
# Exactly `/healthz` says `ok` to any method without credentials, as in the original. Any path but
# the health pages' is decided before it is looked up, so that a stranger learns nothing from a 404
# (E18).

Page: TypeAlias = Callable[[Request], Response]

_READING = (b"GET", b"HEAD")
# Those whose requests Kubernetes' components count.
_COUNTED = {b"/statusz": "statusz", b"/flagz": "flagz"}
# The original's answer to the letter; unlike its other texts, this one has no nosniff.
_OK = Response(200, Headers(((b"Content-Type", b"text/plain; charset=utf-8"),)), b"ok")
_NO_PATH = text(400, "Bad Request. The target has no path.\n", must_close=True)
_NOT_FOUND = text(404, "404 page not found\n")
_WRONG_METHOD = text(405, "Method Not Allowed\n", (b"Allow", b"GET, HEAD"))
_NOT_KEPT = (b"Cache-Control", b"no-cache, private")
_NOT_SNIFFED = (b"X-Content-Type-Options", b"nosniff")


def health_pages(checks: tuple[Look, ...]) -> dict[bytes, Health]:
    """`/healthz` and `/livez` with the first check alone (`ping`), `/readyz` with all."""
    some = {"healthz": checks[:1], "livez": checks[:1], "readyz": checks}
    return {f"/{name}".encode(): Health(name, looks) for name, looks in some.items()}


def page_table(
    settings: PageSettings,
    program: Program,
    *,
    delimiter: Callable[[], str],
    health: Mapping[bytes, Health],
    others: Mapping[bytes, Page],
) -> dict[bytes, Page]:
    """Every page that needs authorization, by its exact path.

    `delimiter` is one of `statusz.DELIMITERS`, any one, at each call. `others` are pages that are
    not about status, flags, health or version. `/statusz` lists what is in the table.
    """
    version = version_page(program)
    table: dict[bytes, Page] = {**others, b"/version": lambda _: version}
    table[b"/version/"] = table[b"/version"]
    for page in health.values():
        table |= {path: partial(_single, look) for path, look in page.paths.items()}
    if settings.has_flagz:
        table[b"/flagz"] = Flagz(settings.flags, delimiter())
    if settings.has_statusz:
        paths = (path.decode() for path in (*table, *health, b"/statusz"))
        table[b"/statusz"] = Statusz(program, tuple(paths), delimiter)
    return table


class Pages:
    """The pages of one listener: `health` for everybody, `table` for who may see them."""

    __slots__ = ("_access", "_health", "_known", "_table")

    def __init__(
        self, access: PageAccess, health: Mapping[bytes, Health], table: Mapping[bytes, Page]
    ) -> None:
        self._access = access
        self._health = health
        self._table = table
        # With what a gate may have taken: refusals shall not tell a stranger which gates are on.
        self._known = frozenset((*table, *health, b"/statusz", b"/flagz"))

    def handle(self, request: Request) -> Reviewed[Verdict]:
        """Answer one request; a `handler.Handler`."""
        if _is_plain_healthz(request):
            return Respond(_OK, Decided(Outcome.ALLOWED, identity_source="none"))
        raw_path = request.target.raw_path
        if not raw_path.startswith(b"/"):  # `*`, or what CONNECT names
            return refused(_NO_PATH, "the target has no path")
        health = self._health.get(raw_path)
        answered = self._open(health, request) if health else (yield from self._guarded(request))
        if resource := _COUNTED.get(raw_path):
            shown = PageShown(resource, *group_version(answered.response))
            answered.decided.page = shown
        if raw_path not in self._known:
            return answered
        return replace(answered, response=_finished(answered.response))

    def _open(self, health: Health, request: Request) -> Respond:
        """A health page, for every client."""
        decided = Decided(Outcome.ALLOWED, identity_source="none", decision_source="none")
        if request.head.method not in _READING:
            return Respond(_WRONG_METHOD, decided)
        report = health.report(request)
        if report.causes:
            name = request.target.path[1:]
            # As loud as in Kubernetes: a probe asks every few seconds.
            decided.notes = (note(2, f"{name} check failed: {report.causes}"),)
        return Respond(report.response, decided)

    def _guarded(self, request: Request) -> Reviewed[Respond]:
        """Any other path: decided first, looked up then."""
        decided = yield from self._access.decide(request)
        if isinstance(decided, Respond):
            return decided
        page = self._table.get(request.target.raw_path)
        if page is None:
            return Respond(_NOT_FOUND, decided)
        if request.head.method not in _READING:
            return Respond(_WRONG_METHOD, decided)
        return Respond(page(request), decided)


def _is_plain_healthz(request: Request) -> bool:
    """`/healthz`, unless it is read with a query, which may ask for the list of checks."""
    has_query = request.target.raw_query is not None and request.head.method in _READING
    return request.target.raw_path == b"/healthz" and not has_query


def _single(look: Look, _request: Request) -> Response:
    return single(look())


def _finished(response: Response) -> Response:
    """With the lines that all answers about a page carry, refusals included."""
    headers = response.headers.with_added(_NOT_KEPT)
    if b"x-content-type-options" not in headers:
        headers = headers.with_added(_NOT_SNIFFED)
    return replace(response, headers=headers)

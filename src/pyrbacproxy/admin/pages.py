"""Path → page, on the endpoints port: the exact health paths for everybody, the rest for who may
see it.

Exactly `/healthz` says `ok` to any method without credentials, as in the original. Any path but the
health pages' is decided before it is looked up, so that a stranger learns nothing from a 404 (E18).
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from pyrbacproxy.admin.access import PageAccess
from pyrbacproxy.admin.flagz import Flagz
from pyrbacproxy.admin.health import Health, Look, single
from pyrbacproxy.admin.negotiation import group_version
from pyrbacproxy.admin.status import PageSettings, Program
from pyrbacproxy.admin.statusz import Statusz
from pyrbacproxy.admin.version import version_page
from pyrbacproxy.handler import Request, Respond, Verdict
from pyrbacproxy.http1.head import Headers
from pyrbacproxy.http1.response import Response, text
from pyrbacproxy.record import Decided, Outcome, PageShown
from pyrbacproxy.refusals import note, refused
from pyrbacproxy.reviews import Reviewed

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
        """A health page, whoever asks."""
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

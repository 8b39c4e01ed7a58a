"""The endpoints port: exact health paths are open, all else is decided before it is looked up."""

import pytest

from pyrbacproxy.authn.authenticators import BearerTokenAuthenticator
from pyrbacproxy.authz.authorizers import SubjectAccessReviewAuthorizer
from pyrbacproxy.handler import Respond
from pyrbacproxy.http1.head import text
from pyrbacproxy.model import (
    Answer,
    Note,
    Outcome,
    PageShown,
    SubjectAccessReviewAnswer,
    TokenReviewAnswer,
    UserInfo,
)
from pyrbacproxy.pages.health import Check
from pyrbacproxy.pages.pages import (
    PageAccess,
    Pages,
    component_attributes,
    health_pages,
    page_table,
)
from pyrbacproxy.pages.status import PageSettings, Program
from tests.fakes import drive, request

TOKEN = (b"Authorization", b"Bearer t")
KNOWN = TokenReviewAnswer(authenticated=True, user=UserInfo("alice"))
ALLOWED = (KNOWN, SubjectAccessReviewAnswer(allowed=True))
FORBIDDEN = (KNOWN, SubjectAccessReviewAnswer(allowed=False))
PROGRAM = Program("0.1.0", "python3.12.3", "cpython", "linux/x86_64", 0.0)
STOPPING = Check("shutdown", is_ok=False, detail="cause")


def pages(settings: PageSettings | None = None, *checks: Check) -> Pages:
    looks = tuple(lambda check=check: check for check in (Check("ping"), *checks))
    health = health_pages(looks)
    table = page_table(
        settings or PageSettings(version="0.1.0", flags=(("v", "0"),)),
        PROGRAM,
        delimiter=lambda: "=",
        health=health,
        others={b"/metrics": lambda _: text(200, "families")},
    )
    access = PageAccess(
        BearerTokenAuthenticator(), component_attributes, SubjectAccessReviewAuthorizer()
    )
    return Pages(access, health, table)


def answered(
    target: bytes,
    *lines: tuple[bytes, bytes],
    method: bytes = b"GET",
    answers: tuple[Answer, ...] = (),
    served: Pages | None = None,
) -> Respond:
    handle = (served or pages()).handle
    verdict, _ = drive(handle(request(target, *lines, method=method)), answers)
    assert isinstance(verdict, Respond)
    return verdict


def shown(target: bytes, method: bytes = b"GET", served: Pages | None = None) -> tuple[int, bytes]:
    """Status and body for who may see everything."""
    response = answered(target, TOKEN, method=method, answers=ALLOWED, served=served).response
    return response.status, response.body


@pytest.mark.parametrize("method", [b"GET", b"HEAD", b"POST", b"DELETE"])
@pytest.mark.parametrize("target", [b"/healthz", b"http://h/healthz"])
def test_healthz_is_ok_for_everybody(method: bytes, target: bytes) -> None:
    verdict = answered(target, method=method, served=pages(None, STOPPING))
    assert (verdict.response.status, verdict.response.body) == (200, b"ok")
    assert verdict.response.headers.pairs == ((b"Content-Type", b"text/plain; charset=utf-8"),)
    assert verdict.decided.outcome is Outcome.ALLOWED


def test_healthz_lists_its_checks_to_who_asks() -> None:
    assert answered(b"/healthz?verbose").response.body == b"[+]ping ok\nhealthz check passed\n"
    assert answered(b"/healthz?verbose", method=b"POST").response.body == b"ok"


@pytest.mark.parametrize("target", [b"/livez", b"/readyz", b"/livez?verbose", b"/readyz?x"])
def test_z_e9_the_exact_health_paths_are_open(target: bytes) -> None:
    verdict = answered(target)
    assert verdict.response.status == 200
    assert (verdict.decided.identity_source, verdict.decided.decision_source) == ("none", "none")


def test_the_other_health_paths_are_read_only() -> None:
    response = answered(b"/readyz", method=b"POST").response
    assert (response.status, response.headers.get(b"allow")) == (405, b"GET, HEAD")


def test_z_g11_readyz_fails_while_livez_does_not() -> None:
    served = pages(None, STOPPING)
    verdict = answered(b"/readyz", served=served)
    assert verdict.response.status == 500
    assert b"cause" not in verdict.response.body
    assert verdict.decided.notes == (Note(2, "readyz check failed: shutdown: cause"),)
    assert answered(b"/livez", served=served).response.body == b"ok"


def test_a_single_check_needs_credentials() -> None:
    served = pages(None, STOPPING)
    assert answered(b"/readyz/shutdown", served=served).response.status == 401
    assert shown(b"/readyz/shutdown", served=served) == (500, b"internal server error: cause\n")
    assert shown(b"/healthz/ping", served=served) == (200, b"ok")
    assert shown(b"/livez/shutdown", served=served)[0] == 404


@pytest.mark.parametrize("target", [b"/", b"/healthz/", b"/healthz/x", b"/%68ealthz", b"//healthz"])
def test_dec_e18_other_paths_need_credentials_first(target: bytes) -> None:
    assert answered(target).response.status == 401
    assert answered(target, TOKEN, answers=FORBIDDEN).response.status == 403
    verdict = answered(target, TOKEN, answers=ALLOWED)
    assert (verdict.response.status, verdict.response.body) == (404, b"404 page not found\n")
    assert verdict.decided.user_name == "alice"


@pytest.mark.parametrize("target", [b"/statusz/", b"/statusz/x", b"/STATUSZ", b"/%73tatusz"])
def test_z_g4_a_page_has_one_spelling(target: bytes) -> None:
    assert shown(target)[0] == 404


@pytest.mark.parametrize("target", [b"/statusz", b"/flagz", b"/version", b"/version/", b"/metrics"])
def test_every_page_is_for_who_may_see_it(target: bytes) -> None:
    assert answered(target).response.status == 401
    assert answered(target, TOKEN, answers=FORBIDDEN).response.status == 403
    assert shown(target)[0] == 200


@pytest.mark.parametrize("method", [b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS"])
def test_z_g2_pages_are_read_only(method: bytes) -> None:
    assert answered(b"/statusz", method=method).response.status == 401
    assert answered(b"/statusz", TOKEN, method=method, answers=FORBIDDEN).response.status == 403
    response = answered(b"/statusz", TOKEN, method=method, answers=ALLOWED).response
    assert (response.status, response.body) == (405, b"Method Not Allowed\n")
    assert response.headers.get(b"allow") == b"GET, HEAD"


def test_z_a9_statusz_lists_every_page() -> None:
    assert shown(b"/statusz")[1].endswith(
        b"Paths= /flagz /healthz /livez /metrics /readyz /statusz /version\n"
    )


def test_z_g5_statusz_can_be_turned_off() -> None:
    assert shown(b"/statusz", served=pages(PageSettings(has_statusz=False)))[0] == 404


def test_z_g6_flagz_can_be_turned_off() -> None:
    served = pages(PageSettings(has_flagz=False))
    assert shown(b"/flagz", served=served)[0] == 404
    assert b"/flagz" not in shown(b"/statusz", served=served)[1]


@pytest.mark.parametrize(
    ("target", "answers"),
    [
        (b"/statusz", ALLOWED),
        (b"/version", ALLOWED),
        (b"/flagz", ()),
        (b"/statusz", FORBIDDEN),
        (b"/readyz", ()),
        (b"/healthz?verbose", ()),
        (b"/statusz", ()),
    ],
)
def test_z_g3_no_page_is_kept_or_sniffed(target: bytes, answers: tuple[Answer, ...]) -> None:
    headers = answered(target, *((TOKEN,) if answers else ()), answers=answers).response.headers
    assert headers.get_all(b"cache-control") == [b"no-cache, private"]
    assert headers.get_all(b"x-content-type-options") == [b"nosniff"]
    assert not {b"etag", b"last-modified", b"set-cookie"} & {name.lower() for name, _ in headers}


def test_a_path_that_is_no_page_is_refused_as_by_the_proxy() -> None:
    for lines, answers in (((), ()), ((TOKEN,), FORBIDDEN), ((TOKEN,), ALLOWED)):
        headers = answered(b"/healthz/", *lines, answers=answers).response.headers
        assert b"cache-control" not in headers


@pytest.mark.parametrize(
    ("target", "lines", "page"),
    [
        (b"/statusz", (), PageShown("statusz")),
        (b"/statusz", (TOKEN,), PageShown("statusz")),
        (b"/flagz?x", (TOKEN, (b"Accept", b"application/json")), PageShown("flagz")),
        (
            b"/flagz",
            (TOKEN, (b"Accept", b"application/yaml;as=Flagz;g=config.k8s.io;v=v1alpha1")),
            PageShown("flagz", "config.k8s.io", "v1alpha1"),
        ),
        (b"/version", (TOKEN,), None),
        (b"/readyz", (), None),
    ],
)
def test_z_g8_who_counts_hears_which_page_was_given(
    target: bytes, lines: tuple[tuple[bytes, bytes], ...], page: PageShown | None
) -> None:
    answers = ALLOWED if lines else ()
    assert answered(target, *lines, answers=answers).decided.page == page


def test_refusals_do_not_tell_which_gates_are_on() -> None:
    off = pages(PageSettings(has_statusz=False, has_flagz=False))
    for target in (b"/statusz", b"/flagz"):
        assert answered(target, served=off) == answered(target)


@pytest.mark.parametrize(("method", "target"), [(b"OPTIONS", b"*"), (b"CONNECT", b"h:1")])
def test_a_target_without_path_is_refused(method: bytes, target: bytes) -> None:
    verdict = answered(target, method=method)
    assert (verdict.response.status, verdict.response.must_close) == (400, True)
    assert verdict.decided.outcome is Outcome.REFUSED

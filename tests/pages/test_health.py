"""Health pages: what is listed, what decides, what stays untold."""

import pytest

from pyrbacproxy.pages.health import Check, Health, Report, single
from tests.fakes import request

WELL = Check("ping")
BAD = Check("shutdown", is_ok=False, detail="cause")
AWAY = Check("upstream", is_ok=False, detail="refused", counts_for_readiness=False)
WAITING = Check("startup-gate", detail="/etc/manifest", progress="waiting: manifest, 132s")


def report(*checks: Check, query: bytes = b"") -> Report:
    looks = [lambda check=check: check for check in checks]
    return Health("readyz", looks).report(request(b"/readyz" + query))


def test_ok_is_all_that_is_said() -> None:
    response = report(WELL).response
    assert (response.status, response.body) == (200, b"ok")
    assert response.headers.pairs == (
        (b"Content-Type", b"text/plain; charset=utf-8"),
        (b"X-Content-Type-Options", b"nosniff"),
    )


@pytest.mark.parametrize("query", [b"?verbose", b"?verbose=0", b"?a=b&verbose=x"])
def test_z_g10_verbose_lists_the_checks(query: bytes) -> None:
    response = report(WELL, Check("other"), query=query).response
    assert (response.status, response.body) == (
        200,
        b"[+]ping ok\n[+]other ok\nreadyz check passed\n",
    )


def test_z_g11_a_failure_is_listed_without_its_cause() -> None:
    found = report(WELL, BAD)
    assert found.response.status == 500
    assert found.response.body == (
        b"[+]ping ok\n[-]shutdown failed: reason withheld\nreadyz check failed\n"
    )
    assert found.causes == "shutdown: cause"


def test_what_does_not_count_is_shown_and_does_not_decide() -> None:
    assert report(WELL, AWAY).response.body == b"ok"
    found = report(WELL, AWAY, query=b"?verbose")
    assert found.response.status == 200
    assert found.response.body == (
        b"[+]ping ok\n[-]upstream failed: reason withheld (does not count)\nreadyz check passed\n"
    )
    assert found.causes == ""


def test_progress_is_for_everybody() -> None:
    body = report(WAITING, query=b"?verbose").response.body
    assert body == b"[+]startup-gate ok (waiting: manifest, 132s)\nreadyz check passed\n"


def test_z_g12_a_check_can_be_excluded() -> None:
    assert report(WELL, BAD, query=b"?exclude=shutdown").response.body == b"ok"
    body = report(WELL, BAD, query=b"?exclude=shutdown&exclude=ping&verbose").response.body
    assert body == b"[+]ping excluded: ok\n[+]shutdown excluded: ok\nreadyz check passed\n"


def test_z_g12_an_unknown_name_is_warned_about() -> None:
    assert report(WELL, query=b"?exclude=nope").response.body == b"ok"
    body = report(WELL, query=b"?exclude=nope&exclude=a%22b%FF&verbose").response.body
    assert body.decode() == (
        "[+]ping ok\nwarn: some health checks cannot be excluded: no matches for "
        '"a\\"b\\udcff","nope"\nreadyz check passed\n'
    )


def test_each_check_has_a_path() -> None:
    health = Health("livez", [lambda: WELL, lambda: AWAY])
    assert {path: look() for path, look in health.paths.items()} == {
        b"/livez/ping": WELL,
        b"/livez/upstream": AWAY,
    }


@pytest.mark.parametrize(
    ("check", "status", "body"),
    [
        (WELL, 200, b"ok"),
        (WAITING, 200, b"ok: /etc/manifest\n"),
        (AWAY, 500, b"internal server error: refused\n"),
    ],
)
def test_a_single_check_tells_the_cause(check: Check, status: int, body: bytes) -> None:
    response = single(check)
    assert (response.status, response.body) == (status, body)

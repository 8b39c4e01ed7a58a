"""The endpoints port: exactly /healthz is open, all else is decided before it is looked up."""

import pytest

from pyrbacproxy.admin.pages import Pages
from pyrbacproxy.authn.bearer_token import BearerTokenAuthenticator
from pyrbacproxy.authz.subject_access_review import SubjectAccessReviewAuthorizer
from pyrbacproxy.handler import Respond
from pyrbacproxy.record import Outcome
from pyrbacproxy.reviews import Answer, SubjectAccessReviewAnswer, TokenReviewAnswer
from pyrbacproxy.user import UserInfo
from tests.fakes import drive, request

TOKEN = (b"Authorization", b"Bearer t")
KNOWN = TokenReviewAnswer(authenticated=True, user=UserInfo("alice"))


def answered(
    target: bytes,
    *lines: tuple[bytes, bytes],
    method: bytes = b"GET",
    answers: tuple[Answer, ...] = (),
) -> Respond:
    pages = Pages(BearerTokenAuthenticator(), SubjectAccessReviewAuthorizer())
    verdict, _ = drive(pages.handle(request(target, *lines, method=method)), answers)
    assert isinstance(verdict, Respond)
    return verdict


@pytest.mark.parametrize("method", [b"GET", b"HEAD", b"POST", b"DELETE"])
@pytest.mark.parametrize("target", [b"/healthz", b"/healthz?verbose", b"http://h/healthz"])
def test_healthz_is_ok_for_everybody(method: bytes, target: bytes) -> None:
    verdict = answered(target, method=method)
    assert (verdict.response.status, verdict.response.body) == (200, b"ok")
    assert verdict.response.headers.get(b"content-type") == b"text/plain; charset=utf-8"
    assert verdict.decided.outcome is Outcome.ALLOWED


@pytest.mark.parametrize("target", [b"/", b"/healthz/", b"/healthz/x", b"/%68ealthz", b"//healthz"])
def test_dec_e18_other_paths_need_credentials_first(target: bytes) -> None:
    assert answered(target).response.status == 401
    forbidden = (KNOWN, SubjectAccessReviewAnswer(allowed=False))
    assert answered(target, TOKEN, answers=forbidden).response.status == 403
    allowed = (KNOWN, SubjectAccessReviewAnswer(allowed=True))
    verdict = answered(target, TOKEN, answers=allowed)
    assert (verdict.response.status, verdict.response.body) == (404, b"404 page not found\n")
    assert verdict.decided.user_name == "alice"


@pytest.mark.parametrize(("method", "target"), [(b"OPTIONS", b"*"), (b"CONNECT", b"h:1")])
def test_a_target_without_path_is_refused(method: bytes, target: bytes) -> None:
    verdict = answered(target, method=method)
    assert (verdict.response.status, verdict.response.must_close) == (400, True)
    assert verdict.decided.outcome is Outcome.REFUSED

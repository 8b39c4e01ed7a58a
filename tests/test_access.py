"""The chain: which check comes first, what each refusal says, what finally goes to the upstream."""

import pytest

from pyrbacproxy import access
from pyrbacproxy.access import Access, AccessSettings
from pyrbacproxy.authn.authenticators import (
    BearerTokenAuthenticator,
    ClientCertificateAuthenticator,
    UnionAuthenticator,
)
from pyrbacproxy.authn.identity_headers import IdentitySettings
from pyrbacproxy.authz.attributes import (
    AttributeSettings,
    AttributeSource,
    ResourceTemplates,
    Rewrites,
)
from pyrbacproxy.authz.authorizers import (
    StaticAuthorizer,
    StaticRule,
    SubjectAccessReviewAuthorizer,
    UnionAuthorizer,
)
from pyrbacproxy.authz.template_parser import parse
from pyrbacproxy.authz.templates import literal
from pyrbacproxy.handler import Forward, Request, Respond, Verdict
from pyrbacproxy.http1.head import Headers
from pyrbacproxy.model import (
    Answer,
    BearerToken,
    ClientCertificate,
    Decided,
    NonResourceAttributes,
    Note,
    Outcome,
    Peer,
    ResourceAttributes,
    Review,
    ReviewFailed,
    SubjectAccessReview,
    SubjectAccessReviewAnswer,
    TokenReview,
    TokenReviewAnswer,
    UserInfo,
)
from tests.fakes import drive, request

TOKEN = (b"Authorization", b"Bearer t")
HOST = (b"Host", b"proxy.test")
KNOWN = TokenReviewAnswer(authenticated=True, user=UserInfo("alice", "1", ("dev",)))
ALICE = UserInfo("alice", "1", ("dev", "system:authenticated"))
REJECTED = TokenReviewAnswer(authenticated=False)
ALLOWED = SubjectAccessReviewAnswer(allowed=True)
NOT_ALLOWED = SubjectAccessReviewAnswer(allowed=False, reason="no rule")
ASKS_WHO = TokenReview(BearerToken("t"))
CAROL = Peer("192.0.2.7", ClientCertificate("carol", ("dev",), 0.0, 999.0, "ab"))

PODS = ResourceTemplates(
    parse("{{ .Value }}"), *(literal(text) for text in ("", "v1", "pods", "", ""))
)
BY_QUERY = AttributeSettings((PODS,), Rewrites("namespace"))
BY_HEADER = AttributeSettings((PODS,), Rewrites(header="x-namespace"))
IDENTITY = AccessSettings(identity=IdentitySettings(is_enabled=True))


def may(path: str, verb: str = "get", user: UserInfo = ALICE) -> SubjectAccessReview:
    return SubjectAccessReview(user, NonResourceAttributes(verb, path))


def may_pods(namespace: str, verb: str = "get") -> SubjectAccessReview:
    action = ResourceAttributes(verb, namespace, "", "v1", "pods", "", "")
    return SubjectAccessReview(ALICE, action)


def run(
    asked: Request,
    *answers: Answer,
    settings: AccessSettings | None = None,
    attributes: AttributeSettings | None = None,
    rules: tuple[StaticRule, ...] = (),
) -> tuple[Verdict, list[Review]]:
    chain = Access(
        settings or AccessSettings(),
        UnionAuthenticator((ClientCertificateAuthenticator(), BearerTokenAuthenticator())),
        AttributeSource(attributes or AttributeSettings()),
        UnionAuthorizer((StaticAuthorizer(rules), SubjectAccessReviewAuthorizer())),
    )
    return drive(chain.handle(asked), answers)


def refused(outcome: tuple[Verdict, list[Review]]) -> tuple[int, list[Review]]:
    verdict, reviews = outcome
    assert isinstance(verdict, Respond)
    return verdict.response.status, reviews


def forwarded(outcome: tuple[Verdict, list[Review]]) -> Forward:
    verdict, _ = outcome
    assert isinstance(verdict, Forward)
    return verdict


# --- before the chain ---------------------------------------------------------------


@pytest.mark.parametrize("method", [b"OPTIONS", b"GET"])
def test_dec_d27_no_path_is_400_and_close(method: bytes) -> None:
    verdict, reviews = run(request(b"*", TOKEN, method=method))
    assert isinstance(verdict, Respond)
    assert (verdict.response.status, verdict.response.must_close, reviews) == (400, True, [])


@pytest.mark.parametrize(
    "framing", [(b"Content-Length", b"38"), (b"Transfer-Encoding", b"chunked")]
)
def test_dec_d8_an_upgrade_with_a_body_is_asked_for(framing: tuple[bytes, bytes]) -> None:
    lines = ((b"Connection", b"x, upgrade"), (b"Upgrade", b"echo"), framing)
    settings = AccessSettings(ignore_paths=("/*",))
    verdict = forwarded(run(request(b"/x", HOST, *lines, method=b"POST"), settings=settings))
    asked = [(b"Connection", b"Upgrade"), (b"Upgrade", b"echo")]
    for_ = (b"X-Forwarded-For", b"127.0.0.1")
    assert verdict.head.headers == Headers([HOST, *asked, for_])


def test_an_upgrade_to_an_unprintable_protocol_is_a_502_behind_the_checks() -> None:
    lines = ((b"Connection", b"upgrade"), (b"Upgrade", b"\xe9cho"))
    verdict, _ = run(request(b"/x", *lines))
    assert isinstance(verdict, Respond)
    assert verdict.response.status == 401
    verdict, reviews = run(request(b"/x", TOKEN, *lines), KNOWN, ALLOWED)
    assert isinstance(verdict, Respond)
    assert reviews == [ASKS_WHO, may("/x")]
    assert (verdict.response.status, verdict.response.must_close) == (502, False)
    assert verdict.decided.notes == (
        Note(0, "An upgrade to an unprintable protocol", is_error=True),
    )


def test_dec_d8_an_upgrade_without_a_body_goes_on_as_plain_http() -> None:
    lines = ((b"Connection", b"Upgrade"), (b"Upgrade", b"h2c"), (b"Content-Length", b"0"))
    settings = AccessSettings(ignore_paths=("/*",))
    verdict = forwarded(run(request(b"/x", HOST, *lines), settings=settings))
    assert verdict.head.headers == Headers([HOST, (b"X-Forwarded-For", b"127.0.0.1")])


@pytest.mark.parametrize(
    ("target", "location"),
    [
        (b"//metrics", b"/metrics"),
        (b"//evil.test/x", b"/evil.test/x"),
        (b"//evil.example/%2e%2e", b"/evil.example/%2e%2e"),
        (b"/metrics/../secret", b"/secret"),
        (b"/./metrics", b"/metrics"),
        (b"//a/?x=//y&z", b"/a/?x=//y&z"),
        (b"//a%20b", b"/a%20b"),
        (b"//\\evil.test", b"/%5Cevil.test"),
        (b"http://evil.test//x", b"/x"),
        (b"/..", b"/"),
    ],
)
@pytest.mark.parametrize("method", [b"GET", b"HEAD", b"POST"])
def test_fr03_dec_d17_an_unclean_path_is_redirected_to_this_origin(
    target: bytes, location: bytes, method: bytes
) -> None:
    settings = AccessSettings(allow_paths=("/never",))
    verdict, reviews = run(request(target, TOKEN, method=method), settings=settings)
    assert isinstance(verdict, Respond)
    assert (verdict.response.status, reviews) == (307, [])
    assert list(verdict.response.headers) == [(b"Location", location)]
    assert not verdict.response.must_close
    assert verdict.decided.outcome is Outcome.REFUSED


@pytest.mark.parametrize(
    "target",
    [
        b"/public/%2e%2e",
        b"/public/%2E.",
        b"/public/.%2e",
        b"/a/%2e%2e/metrics",
        b"/a%2f..%2fb",
        b"/public/a%2F..%2F..%2Fsecret",
        b"/metrics/%2e%2e%5csecret",
        b"/public/..;x/secret",
        b"/x%00y",
        b"/a%2f%2fb",
    ],
)
def test_fr01_dec_d9_an_ambiguous_path_is_400(target: bytes) -> None:
    for settings in (
        AccessSettings(),
        AccessSettings(allow_paths=("/public/*", "/*/*/*")),
        AccessSettings(ignore_paths=("/public/*", "/public/*/*", "/*")),
    ):
        verdict, reviews = run(request(target, TOKEN), settings=settings)
        assert isinstance(verdict, Respond)
        assert (verdict.response.status, verdict.response.must_close, reviews) == (400, False, [])


def test_the_clean_up_comes_before_the_ambiguity() -> None:
    assert refused(run(request(b"//a/%2e%2e"))) == (307, [])


# --- allow and ignore paths ---------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "status"),
    [
        (b"/metrics", 401),
        (b"/metrics?x=/other", 401),
        (b"/%6Detrics", 401),
        (b"/api/v1/label/job/values", 401),
        (b"/api%2Fv1%2Flabel%2Fx%2Fvalues", 404),
        (b"/other", 404),
        (b"/metrics/", 404),
        (b"/metrics;x=1", 404),
        (b"/metrics%23/x", 404),
    ],
)
def test_k_e9_dec_d9_what_is_not_allowed_is_404_before_authentication(
    target: bytes, status: int
) -> None:
    settings = AccessSettings(allow_paths=("/metrics", "/api/v1/label/*/values"))
    verdict, reviews = run(request(target), settings=settings)
    assert isinstance(verdict, Respond)
    assert (verdict.response.status, reviews) == (status, [])
    assert (verdict.response.body == b"404 page not found\n") == (status == 404)


def test_dec_d9_an_allowed_path_must_match_in_both_readings() -> None:
    both = AccessSettings(allow_paths=("/a/b", "/a%2Fb"))
    assert refused(run(request(b"/a%2Fb"), settings=both)) == (401, [])


def test_k_e11_ignored_paths_need_no_credentials() -> None:
    settings = AccessSettings(ignore_paths=("/metrics", "/api/v1/*"))
    for target in (b"/metrics", b"/api/v1/labels"):
        verdict, reviews = run(request(target, HOST), settings=settings)
        assert isinstance(verdict, Forward)
        assert reviews == []
        assert verdict.decided == Decided(
            Outcome.ALLOWED, identity_source="none", decision_source="none"
        )
    for target in (b"/", b"/api/v1/label/job/values", b"/api/v1/a%2fb", b"/api/v1/a%5cb"):
        assert refused(run(request(target), settings=settings)) == (401, [])


@pytest.mark.parametrize("target", [b"/open/a\\b", b"/open/a%5Cb"])
def test_dec_d9_a_backslash_opens_no_ignored_path(target: bytes) -> None:
    settings = AccessSettings(ignore_paths=("/open/*",))
    assert refused(run(request(target), settings=settings)) == (401, [])


def test_dec_d5_no_credential_and_no_forged_name_leaves_an_ignored_path() -> None:
    lines = (
        TOKEN,
        (b"Authorization", b"Basic dTpw"),
        (b"authorization", b"bearer"),
        (b"X-Remote-User", b"root"),
        (b"x_remote_groups", b"system:masters"),
    )
    expected = {
        False: [(b"Authorization", b"Basic dTpw")],
        True: [TOKEN, (b"Authorization", b"Basic dTpw"), (b"Authorization", b"bearer")],
    }
    for keeps_bearer, kept in expected.items():
        settings = AccessSettings(
            ignore_paths=("/open",),
            identity=IdentitySettings(is_enabled=True),
            keeps_bearer_on_ignored_paths=keeps_bearer,
        )
        verdict = forwarded(run(request(b"/open", *lines), settings=settings))
        assert list(verdict.head.headers) == [*kept, (b"X-Forwarded-For", b"127.0.0.1")]
        # The flag does not touch paths that are authenticated.
        verdict = forwarded(run(request(b"/x", *lines), KNOWN, ALLOWED, settings=settings))
        assert b"authorization" not in verdict.head.headers


# --- who ----------------------------------------------------------------------------


def test_a_stranger_gets_401_with_a_challenge() -> None:
    verdict, reviews = run(request())
    assert isinstance(verdict, Respond)
    assert (verdict.response.status, reviews) == (401, [])
    assert verdict.response.headers.get(b"www-authenticate") == b"Bearer"
    assert verdict.decided.outcome is Outcome.UNAUTHENTICATED
    assert verdict.decided.notes == (Note(0, "Unauthorized: the request has no credential"),)


def test_a_rejected_token_gets_401_and_is_logged_without_it() -> None:
    secret = (b"Authorization", b"Bearer s3cr3t")
    verdict, reviews = run(request(b"/", secret), ReviewFailed("API server away"))
    assert isinstance(verdict, Respond)
    assert verdict.response.status == 401
    assert reviews == [TokenReview(BearerToken("s3cr3t"))]
    line = "Unable to authenticate the request due to an error: bearer token: API server away"
    assert verdict.decided.notes == (Note(0, line, is_error=True),)
    assert "s3cr3t" not in repr(verdict)


def test_a_certificate_wins_and_the_token_beside_it_does_not_leak() -> None:
    asked = request(b"/m", HOST, TOKEN, (b"Authorization", b"Basic x"), peer=CAROL)
    verdict, reviews = run(asked, rules=(StaticRule(user_name="carol", path="/m"),))
    assert isinstance(verdict, Forward)
    assert reviews == []
    assert verdict.decided == Decided(
        Outcome.ALLOWED,
        "carol",
        "certificate",
        "static",
        groups=("dev", "system:authenticated"),
    )
    assert list(verdict.head.headers) == [
        HOST,
        (b"Authorization", b"Basic x"),
        (b"X-Forwarded-For", b"192.0.2.7"),
    ]


def test_a_denied_certificate_does_not_try_the_token() -> None:
    status, reviews = refused(run(request(b"/m", TOKEN, peer=CAROL), NOT_ALLOWED))
    credential = (("authentication.kubernetes.io/credential-id", ("X509SHA256=ab",)),)
    carol = UserInfo("carol", groups=("dev", "system:authenticated"), extra=credential)
    assert (status, reviews) == (403, [may("/m", user=carol)])


def test_an_expired_certificate_leaves_the_decision_to_the_token() -> None:
    asked = request(b"/m", TOKEN, peer=CAROL, received_at=1000.0)
    verdict = forwarded(run(asked, KNOWN, ALLOWED))
    assert (verdict.decided.user_name, verdict.decided.identity_source) == ("alice", "token")


def test_a_websocket_token_is_stripped_from_the_list() -> None:
    lines = (
        (b"Connection", b"Upgrade"),
        (b"Upgrade", b"websocket"),
        (b"Sec-WebSocket-Protocol", b"base64url.bearer.authorization.k8s.io.dA, chat"),
    )
    verdict, reviews = run(request(b"/ws", *lines), KNOWN, ALLOWED)
    assert isinstance(verdict, Forward)
    assert reviews == [ASKS_WHO, may("/ws")]
    assert verdict.head.headers.get(b"sec-websocket-protocol") == b"chat"


# --- may they -----------------------------------------------------------------------


def test_the_review_decides() -> None:
    verdict, reviews = run(request(b"/metrics", TOKEN), KNOWN, ALLOWED)
    assert isinstance(verdict, Forward)
    assert reviews == [ASKS_WHO, may("/metrics")]
    assert verdict.decided == Decided(
        Outcome.ALLOWED, "alice", "token", "review", groups=ALICE.groups
    )


def test_a_refusal_names_user_and_verb_never_the_path() -> None:
    verdict, _ = run(request(b"/refuse", TOKEN, method=b"HEAD"), KNOWN, NOT_ALLOWED)
    assert isinstance(verdict, Respond)
    said = "Forbidden (user=alice, verb=*, resource=, subresource=)"
    assert (verdict.response.status, verdict.response.body) == (403, f"{said}\n".encode())
    assert verdict.decided == Decided(
        Outcome.DENIED,
        "alice",
        "token",
        "review",
        (Note(2, f'{said}. Reason: "no rule".'),),
        groups=ALICE.groups,
        asked="* /refuse",  # FR99
    )


@pytest.mark.parametrize(
    "answer", [ReviewFailed("away"), SubjectAccessReviewAnswer(allowed=True, denied=True)]
)
def test_a_failed_or_contradictory_review_is_500(answer: Answer) -> None:
    verdict, _ = run(request(b"/x", TOKEN), KNOWN, answer)
    assert isinstance(verdict, Respond)
    said = b"Authorization error (user=alice, verb=get, resource=, subresource=)\n"
    assert (verdict.response.status, verdict.response.body) == (500, said)
    assert verdict.decided.outcome is Outcome.ERROR


def test_fr48_certificate_and_static_rule_need_no_api_server() -> None:
    rule = StaticRule(user_name="carol", verb="get", path="/metrics")
    assert run(request(b"/metrics", peer=CAROL), rules=(rule,))[1] == []


def test_fr40_head_is_not_covered_by_a_rule_for_get() -> None:
    rule = StaticRule(user_name="carol", verb="get", path="/metrics")
    asked = request(b"/metrics", method=b"HEAD", peer=CAROL)
    assert refused(run(asked, ReviewFailed("away"), rules=(rule,)))[0] == 500


def test_dec_d9_a_static_rule_does_not_meet_an_encoded_slash() -> None:
    rules = (StaticRule(path="/a/b"),)
    verdict, reviews = run(request(b"/a%2fb", TOKEN), KNOWN, NOT_ALLOWED, rules=rules)
    assert refused((verdict, reviews)) == (403, [ASKS_WHO, may("/a/b")])


def test_fr43_every_value_must_be_allowed() -> None:
    asked = request(b"/m?namespace=a&namespace=b&namespace=c", TOKEN)
    outcome = run(asked, KNOWN, ALLOWED, NOT_ALLOWED, attributes=BY_QUERY)
    assert refused(outcome) == (403, [ASKS_WHO, may_pods("a"), may_pods("b")])
    outcome = run(asked, KNOWN, ALLOWED, ALLOWED, ALLOWED, attributes=BY_QUERY)
    assert isinstance(outcome[0], Forward)


@pytest.mark.parametrize(
    "target", [b"/m", b"/m?x=y", b"/m?namespace=a&namespace=%zz", b"/m?namespace=a;b"]
)
def test_dec_d7_without_attributes_it_is_400(target: bytes) -> None:
    verdict, reviews = run(request(target, TOKEN), KNOWN, attributes=BY_QUERY)
    assert isinstance(verdict, Respond)
    body = b"Bad Request. The request or configuration is malformed.\n"
    assert (verdict.response.status, verdict.response.body) == (400, body)
    assert reviews == [ASKS_WHO]
    assert (verdict.decided.outcome, verdict.decided.user_name) == (Outcome.REFUSED, "alice")
    assert verdict.decided.groups == ALICE.groups
    assert "rewrite" in verdict.decided.notes[0].text


def test_dec_d36_a_reviewed_header_named_in_connection_is_refused() -> None:
    lines = ((b"X-Namespace", b"team"), (b"Connection", b"X-Namespace"))
    verdict, reviews = run(request(b"/m", TOKEN, *lines), KNOWN, attributes=BY_HEADER)
    assert isinstance(verdict, Respond)
    assert verdict.response.status == 400
    assert reviews == [ASKS_WHO]


def test_dec_d7_a_reviewed_header_in_two_spellings_is_doubtful() -> None:
    lines = (TOKEN, (b"X-Namespace", b"team"), (b"X_Namespace", b"other"))
    verdict, reviews = run(request(b"/m", *lines), KNOWN, attributes=BY_HEADER)
    assert isinstance(verdict, Respond)
    assert (verdict.response.status, verdict.response.must_close) == (400, False)
    assert reviews == [ASKS_WHO]


FORM = (b"Content-Type", b"Application/X-WWW-Form-Urlencoded; charset=utf-8")
MULTIPART = (b"content-type", b"multipart/form-data; boundary=x")
BODY = (b"Content-Length", b"3")


@pytest.mark.parametrize(
    ("lines", "rejects", "attributes", "is_refused"),
    [
        ((FORM, BODY), True, BY_QUERY, True),
        ((MULTIPART, BODY), True, BY_QUERY, True),
        (((b"Content-Type", b"text/plain"), FORM, BODY), True, BY_QUERY, True),
        ((FORM, (b"Transfer-Encoding", b"chunked")), True, BY_QUERY, True),
        ((FORM,), True, BY_QUERY, False),
        (((b"Content-Type", b"text/plain"), BODY), True, BY_QUERY, False),
        ((FORM, BODY), False, BY_QUERY, False),
        ((FORM, BODY, (b"X-Namespace", b"a")), True, BY_HEADER, False),
    ],
)
def test_dec_d7_form_bodies(
    lines: tuple[tuple[bytes, bytes], ...],
    attributes: AttributeSettings,
    *,
    rejects: bool,
    is_refused: bool,
) -> None:
    asked = request(b"/m?namespace=a", TOKEN, *lines, method=b"POST")
    settings = AccessSettings(rejects_form_bodies=rejects)
    answers = (KNOWN,) if is_refused else (KNOWN, ALLOWED)
    verdict, _ = run(asked, *answers, settings=settings, attributes=attributes)
    assert isinstance(verdict, Respond) == is_refused
    if isinstance(verdict, Respond):
        assert verdict.response.status == 415


# --- CONNECT ------------------------------------------------------------------------


def test_dec_d32_connect_is_checked_and_never_a_tunnel() -> None:
    path = request(b"/any/../x", TOKEN, method=b"CONNECT")
    assert refused(run(path, KNOWN, ALLOWED)) == (405, [ASKS_WHO, may("/any/../x", "*")])
    assert refused(run(path, KNOWN, NOT_ALLOWED))[0] == 403
    assert refused(run(path, REJECTED))[0] == 401
    ignored = AccessSettings(ignore_paths=("/x",))
    asked = request(b"/x", method=b"CONNECT")
    verdict, _ = run(asked, settings=ignored)
    assert isinstance(verdict, Respond)
    assert (verdict.response.status, verdict.response.must_close) == (405, True)
    assert verdict.decided.outcome is Outcome.REFUSED


def test_dec_d32_connect_without_a_path() -> None:
    asked = request(b"other.test:443", TOKEN, method=b"CONNECT")
    assert refused(run(asked, KNOWN)) == (405, [ASKS_WHO])
    assert refused(run(request(b"other.test:443", method=b"CONNECT"))) == (401, [])
    allow = AccessSettings(allow_paths=("/metrics",))
    assert refused(run(asked, settings=allow)) == (404, [])


# --- what goes on -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "sent"),
    [
        (b"/%6detrics?", b"/%6detrics?"),
        (b"/a%20b?x=%26", b"/a%20b?x=%26"),
        (b"/metrics#part", b"/metrics%23part"),
        (b"/a|b?c|d", b"/a%7Cb?c|d"),
        (b"/x%FFy", b"/x%FFy"),
        (b"http://other.test", b"/"),
        (b"http://other.test/a?b", b"/a?b"),
    ],
)
def test_fr05_the_target_goes_on_as_it_was_sent(target: bytes, sent: bytes) -> None:
    verdict = forwarded(run(request(target, TOKEN), KNOWN, ALLOWED))
    assert verdict.head.target == sent


def test_fr06_an_absolute_form_names_the_host() -> None:
    asked = request(b"http://other.test/x", HOST, TOKEN, minor=0)
    head = forwarded(run(asked, KNOWN, ALLOWED)).head
    assert (head.method, head.minor) == (b"GET", 1)
    assert head.headers.get_all(b"host") == [b"other.test"]


@pytest.mark.parametrize(
    "lines",
    [
        (),
        ((b"X-Remote-User", b"root"), (b"x-remote-user", b"admin"), (b"X_REMOTE_GROUPS", b"g")),
        ((b"Connection", b"x-remote-user, X-Remote-Groups"), (b"X-Remote-User", b"root")),
    ],
)
def test_fr19_the_identity_is_ours(lines: tuple[tuple[bytes, bytes], ...]) -> None:
    asked = request(b"/m", TOKEN, *lines)
    verdict = forwarded(run(asked, KNOWN, ALLOWED, settings=IDENTITY))
    assert list(verdict.head.headers) == [
        (b"X-Forwarded-For", b"127.0.0.1"),
        (b"X-Remote-User", b"alice"),
        (b"X-Remote-Groups", b"dev|system:authenticated"),
    ]


def test_dec_d6_a_group_with_the_separator_is_left_out_and_noted() -> None:
    known = TokenReviewAnswer(
        authenticated=True, user=UserInfo("alice", groups=("dev|admin", "ops"))
    )
    verdict = forwarded(run(request(b"/m", TOKEN), known, ALLOWED, settings=IDENTITY))
    assert verdict.head.headers.get(b"x-remote-groups") == b"ops|system:authenticated"
    note = Note(0, "Groups left out of the identity header: dev|admin")
    assert verdict.decided.notes == (note,)


def test_dec_d6_an_unfit_name_is_401_before_any_access_review() -> None:
    known = TokenReviewAnswer(authenticated=True, user=UserInfo("alice "))
    verdict, reviews = run(request(b"/m", TOKEN), known, settings=IDENTITY)
    assert isinstance(verdict, Respond)
    assert (verdict.response.status, reviews) == (401, [ASKS_WHO])
    assert "unfit" in verdict.decided.notes[0].text
    # Without identity headers nobody could misread the name.
    assert isinstance(run(request(b"/m", TOKEN), known, ALLOWED)[0], Forward)


def test_dec_d35_trailers_are_cleaned_like_headers() -> None:
    chain = Access(
        AccessSettings(),
        BearerTokenAuthenticator(),
        AttributeSource(AttributeSettings()),
        SubjectAccessReviewAuthorizer(),
    )
    sent = Headers([(b"X-Sum", b"1"), (b"X_Remote_User", b"root"), TOKEN])
    assert list(chain.clean_trailers(sent)) == [(b"X-Sum", b"1")]


def test_the_rewrite_header_is_no_trailer() -> None:
    chain = Access(
        AccessSettings(),
        BearerTokenAuthenticator(),
        AttributeSource(BY_HEADER),
        SubjectAccessReviewAuthorizer(),
    )
    sent = Headers([(b"X-Sum", b"1"), (b"x_namespace", b"a"), (b"X-Namespace", b"b")])
    assert list(chain.clean_trailers(sent)) == [(b"X-Sum", b"1")]


def test_what_is_remembered_of_paths_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "_REMEMBERED_PATHS", 2)
    monkeypatch.setattr(access, "_REMEMBERED_BYTES", 10)
    chain = Access(
        AccessSettings(allow_paths=("/a*",)),
        BearerTokenAuthenticator(),
        AttributeSource(AttributeSettings()),
        SubjectAccessReviewAuthorizer(),
    )
    expected = {b"/a": 401, b"/b": 404, b"/ab": 401, b"/a" + b"b" * 20: 401, b"/" + b"b" * 20: 404}
    for _ in range(2):
        for target, status in expected.items():
            assert refused(drive(chain.handle(request(target)))) == (status, [])
            assert len(chain._paths) <= 2
            assert all(len(path) <= 10 for path in chain._paths)

"""The endpoints port put together: its checks, and who watches for them."""

import asyncio
import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from OpenSSL import SSL

from pyrbacproxy.authn.authenticators import BearerTokenAuthenticator
from pyrbacproxy.authz.authorizers import StaticRule
from pyrbacproxy.handler import Respond
from pyrbacproxy.model import (
    Answer,
    BearerToken,
    ExchangeRecord,
    Failure,
    ResourceAttributes,
    Review,
    ReviewFailed,
    SubjectAccessReview,
    SubjectAccessReviewAnswer,
    TokenReview,
    TokenReviewAnswer,
    UserInfo,
)
from pyrbacproxy.observe.metrics import Metrics
from pyrbacproxy.pages.health import Check
from pyrbacproxy.pages.status import PageSettings
from pyrbacproxy.tls.server_context import (
    ServingPair,
    TlsSettings,
    self_signed_pair,
    server_context,
)
from pyrbacproxy.values import replace
from pyrbacproxy.wiring import (
    UpstreamWatch,
    WatchedClient,
    build_facts,
    endpoints_handler,
    go_platform,
    running_program,
    serving_certificate,
    shutdown,
    uncounted,
)
from tests.fakes import drive, request

TOKEN = (b"Authorization", b"Bearer t")
KNOWN = TokenReviewAnswer(authenticated=True, user=UserInfo("alice"))
DENIED = SubjectAccessReviewAnswer(allowed=False)


def shown(
    settings: PageSettings,
    *rules: StaticRule,
    answers: tuple[Answer, ...] = (KNOWN,),
    has_api_server: bool = True,
) -> tuple[int, list[Review]]:
    checks = (lambda: Check("ping"),)
    handler = endpoints_handler(
        settings,
        running_program(settings),
        BearerTokenAuthenticator(),
        rules,
        has_api_server=has_api_server,
        checks=checks,
        others={},
    )
    verdict, asked = drive(handler(request(b"/statusz", TOKEN)), answers)
    assert isinstance(verdict, Respond)
    return verdict.response.status, asked[1:]


def test_a_static_rule_that_names_a_user_opens_a_page() -> None:
    rule = StaticRule(user_name="alice", path="/statusz")
    assert shown(PageSettings(), rule) == (200, [])


def test_a_static_rule_for_everybody_does_not() -> None:
    rule = StaticRule(path="/statusz")
    assert shown(PageSettings(), rule, answers=(KNOWN, DENIED))[0] == 403


def test_fr95_without_an_api_server_no_rule_means_403() -> None:
    rule = StaticRule(user_name="bob", path="/statusz")
    assert shown(PageSettings(), rule, has_api_server=False) == (403, [])
    assert shown(PageSettings(node_name="n"), rule, has_api_server=False) == (403, [])


def test_a_node_name_means_node_mode() -> None:
    status, asked = shown(PageSettings(node_name="n"), answers=(KNOWN, DENIED))
    assert status == 403
    assert isinstance(asked[0], SubjectAccessReview)
    assert isinstance(asked[0].action, ResourceAttributes)
    assert asked[0].action.name == "n"


# --- checks -----------------------------------------------------------------------------


def context(pair: ServingPair) -> SSL.Context:
    return server_context(pair, TlsSettings())


@pytest.fixture(name="pair", scope="module")
def fixture_pair() -> ServingPair:
    return self_signed_pair("h")


def expired(pair: ServingPair) -> ServingPair:
    leaf = x509.load_der_x509_certificate(pair.chain[0])
    now = dt.datetime.now(dt.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(leaf.subject)
        .issuer_name(leaf.subject)
        .public_key(pair.key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=2))
        .not_valid_after(now - dt.timedelta(days=1))
    )
    certificate = builder.sign(pair.key, hashes.SHA256())
    return replace(pair, chain=(certificate.public_bytes(Encoding.DER),))


def test_a_good_pair_is_ok(pair: ServingPair) -> None:
    assert serving_certificate(context(pair), "") == Check("serving-certificate")


def test_dec_d10_a_bad_reload_shows_and_does_not_count(pair: ServingPair) -> None:
    check = serving_certificate(context(pair), "pair.pem: half")
    assert (check.is_ok, check.detail, check.counts_for_readiness) == (
        False,
        "pair.pem: half",
        False,
    )


def test_an_expired_pair_counts(pair: ServingPair) -> None:
    check = serving_certificate(context(expired(pair)), "")
    assert (check.is_ok, check.detail, check.counts_for_readiness) == (False, "expired", True)


def test_a_pair_that_is_awaited_is_the_gates_business() -> None:
    check = serving_certificate(None, "")
    assert (check.is_ok, check.counts_for_readiness) == (False, False)


def test_uncounted_checks_never_decide() -> None:
    assert uncounted("x", "") == Check("x", counts_for_readiness=False)
    assert uncounted("x", "why") == Check(
        "x", is_ok=False, detail="why", counts_for_readiness=False
    )


def test_shutdown_decides() -> None:
    assert shutdown(is_stopping=False) == Check("shutdown")
    assert shutdown(is_stopping=True) == Check("shutdown", is_ok=False, detail="shutting down")


# --- watching ---------------------------------------------------------------------------


class Scripted:
    """A client that answers in turn."""

    def __init__(self, *answers: Answer) -> None:
        self._answers: Iterator[Answer] = iter(answers)

    async def review(
        self,
        _review: Review,
        _asker: str,
        *,
        is_preferred: bool,
        within_seconds: float,
    ) -> Answer:
        assert (is_preferred, within_seconds) == (True, 5.0)
        return next(self._answers)


def test_the_last_review_says_whether_the_api_server_is_there() -> None:
    metrics, instants = Metrics(), iter((1.0, 1.5, 2.0, 2.25))
    client = WatchedClient(
        Scripted(ReviewFailed("refused"), KNOWN), metrics, clock=lambda: next(instants)
    )
    faults = []
    for expected in (ReviewFailed("refused"), KNOWN):
        review = TokenReview(BearerToken("t"))
        answer = asyncio.run(client.review(review, "peer", is_preferred=True, within_seconds=5.0))
        assert answer == expected
        faults.append(client.fault)
    assert faults == ["refused", ""]
    assert metrics.review_failures == {"TokenReview": 1, "SubjectAccessReview": 0}
    assert metrics.review_seconds["TokenReview"].total == 0.75


def test_the_last_exchange_says_whether_the_upstream_is_there() -> None:
    watch = UpstreamWatch()
    lost = ExchangeRecord("p", "GET", "/", failure=Failure.REFUSED, cause="up:1: why")
    gone = ExchangeRecord("p", "GET", "/", failure=Failure.CLIENT_GONE)
    answered = ExchangeRecord("p", "GET", "/", upstream_answered_at=1.0)
    faults = []
    for record in (gone, lost, gone, answered):
        watch.observe(record)
        faults.append(watch.fault)
    said = "upstream refused the connection (up:1: why), at the last request"
    assert faults == ["", said, said, ""]


@pytest.mark.parametrize(
    ("machine", "expected"),
    [("x86_64", "amd64"), ("aarch64", "arm64"), ("i686", "386"), ("ppc64le", "ppc64le")],
)
def test_fr89_the_platform_is_named_as_in_go(machine: str, expected: str) -> None:
    assert go_platform("linux", machine) == f"linux/{expected}"


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        (None, {}),
        ("{", {}),
        ("[]", {}),
        ('{"gitCommit": "c0ffee", "gitTreeState": "", "buildDate": 7}', {"gitCommit": "c0ffee"}),
    ],
)
def test_fr89_what_a_build_did_not_know_is_absent(
    tmp_path: Path, text: str | None, facts: dict[str, str]
) -> None:
    path = tmp_path / "build.json"
    if text is not None:
        path.write_text(text)
    assert build_facts(path) == facts

"""Bearer tokens: where one is found, what is asked, and what the answers mean."""

import base64

import pytest

from pyrbacproxy.authn.authenticators import (
    Authenticated,
    BearerTokenAuthenticator,
    Identification,
    IdTokenAuthenticator,
    Rejected,
)
from pyrbacproxy.http1.head import Headers
from pyrbacproxy.model import (
    Answer,
    BearerToken,
    Review,
    ReviewFailed,
    SubjectAccessReviewAnswer,
    TokenReview,
    TokenReviewAnswer,
    UserInfo,
)
from tests.fakes import drive, request

GOOD = TokenReviewAnswer(authenticated=True, user=UserInfo("alice", "1", ("dev",)))
ALICE = UserInfo("alice", "1", ("dev", "system:authenticated"))
BAD = TokenReviewAnswer(authenticated=False)
PREFIX = b"base64url.bearer.authorization.k8s.io."
UPGRADE = ((b"Connection", b"keep-alive, Upgrade"), (b"Upgrade", b"WebSocket"))


def authorization(value: bytes) -> tuple[bytes, bytes]:
    return (b"Authorization", value)


def protocols(value: bytes) -> tuple[bytes, bytes]:
    return (b"Sec-WebSocket-Protocol", value)


def encoded(token: bytes) -> bytes:
    return PREFIX + base64.urlsafe_b64encode(token).rstrip(b"=")


def identified(
    *lines: tuple[bytes, bytes], answers: tuple[Answer, ...] = (), audiences: tuple[str, ...] = ()
) -> tuple[Identification, list[Review]]:
    steps = BearerTokenAuthenticator(audiences).authenticate(request(b"/", *lines))
    return drive(steps, answers)


def rejection(*lines: tuple[bytes, bytes], answers: tuple[Answer, ...] = ()) -> str:
    identification, _ = identified(*lines, answers=answers)
    assert isinstance(identification, Rejected)
    return identification.reason


@pytest.mark.parametrize(
    ("value", "token"),
    [
        (b"Bearer GOOD", "GOOD"),
        (b"bearer GOOD", "GOOD"),
        (b"BEARER GOOD", "GOOD"),
        (b" \tBearer GOOD\t", "GOOD"),
        (b"Bearer GOOD x", "GOOD"),
        (b"Bearer GOOD, Basic x", "GOOD,"),
        (b"Bearer {\"a\":'<&>'}", "{\"a\":'<&>'}"),
        (b"Bearer " + b"x" * 20_000, "x" * 20_000),
        (b"Bearer \xc3\xa9", "\u00e9"),
    ],
    ids=["plain", "lower", "upper", "blanks", "third", "comma", "odd", "long", "utf-8"],
)
def test_fr38_the_second_word_is_the_token(value: bytes, token: str) -> None:
    known, asked = identified(authorization(value), answers=(GOOD,))
    assert asked == [TokenReview(BearerToken(token))]
    assert isinstance(known, Authenticated)
    assert (known.user, known.source) == (ALICE, "token")


@pytest.mark.parametrize(
    "value",
    [
        b"Basic GOOD",
        b"BearerX GOOD",
        b"GOOD",
        b"Bearer",
        b"Bearer ",
        b"Bearer  GOOD",
        b"Bearer\tGOOD",
        b"",
    ],
)
def test_fr38_what_holds_no_token_costs_no_review(value: bytes) -> None:
    assert identified(authorization(value)) == (None, [])


def test_no_header_is_nothing_to_say() -> None:
    assert identified() == (None, [])


def test_only_the_first_line_is_looked_at_and_all_go() -> None:
    first, second = authorization(b"Bearer one"), authorization(b"Basic dTpw")
    known, asked = identified(first, (b"X", b"1"), second, answers=(GOOD,))
    assert asked == [TokenReview(BearerToken("one"))]
    assert isinstance(known, Authenticated)
    assert known.head.headers == Headers([(b"X", b"1")])
    assert identified(second, first) == (None, [])


def test_a_token_that_is_no_utf8_is_rejected_without_review() -> None:
    assert identified(authorization(b"Bearer \xff")) == (Rejected("bearer token: not UTF-8"), [])


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (BAD, "not accepted"),
        (TokenReviewAnswer(authenticated=False, error="malformed"), "malformed"),
        (TokenReviewAnswer(authenticated=True), "not accepted"),
        (ReviewFailed("API server away"), "API server away"),
        (
            SubjectAccessReviewAnswer(allowed=True),
            "a TokenReview was answered by an access review",
        ),
    ],
)
def test_what_is_not_accepted_is_rejected(answer: Answer, reason: str) -> None:
    assert rejection(authorization(b"Bearer BAD"), answers=(answer,)) == f"bearer token: {reason}"


def test_fr67_an_answer_that_quotes_the_token_is_masked() -> None:
    quoting = TokenReviewAnswer(authenticated=False, error="no such token: s3cr3t")
    reason = rejection(authorization(b"Bearer s3cr3t"), answers=(quoting,))
    assert reason == "bearer token: no such token: <masked>"


@pytest.mark.parametrize(
    ("wanted", "answered", "is_accepted"),
    [
        ((), None, True),
        ((), ("other",), True),
        (("metrics",), ("metrics",), True),
        (("metrics", "second"), ("unrelated", "second"), True),
        (("metrics",), ("other",), False),
        (("metrics",), (), False),
        (("metrics",), None, False),  # DEC-D29
    ],
)
def test_dec_d29_audiences(
    wanted: tuple[str, ...], answered: tuple[str, ...] | None, *, is_accepted: bool
) -> None:
    answer = TokenReviewAnswer(authenticated=True, user=UserInfo("a"), audiences=answered)
    known, asked = identified(authorization(b"Bearer t"), answers=(answer,), audiences=wanted)
    assert asked == [TokenReview(BearerToken("t"), wanted)]
    assert isinstance(known, Authenticated) == is_accepted


def test_a_websocket_token_may_stand_in_any_line() -> None:
    lines = (*UPGRADE, protocols(encoded(b"GOOD")), protocols(b"chat, v2"))
    known, asked = identified(*lines, answers=(GOOD,))
    assert asked == [TokenReview(BearerToken("GOOD"))]
    assert isinstance(known, Authenticated)
    assert (known.user, known.head.headers) == (ALICE, Headers(lines))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (encoded(b"a"), "nothing beside the bearer token"),
        (encoded(b"a") + b"," + encoded(b"b") + b", chat", "more than one bearer token"),
        (PREFIX + b"!!!, chat", "the bearer token is no base64url"),
        (PREFIX + b"a+b/, chat", "the bearer token is no base64url"),
        (PREFIX + b"YQ==, chat", "the bearer token is no base64url"),
        (PREFIX + b"YWJjZ, chat", "the bearer token is no base64url"),
    ],
)
def test_a_doubtful_websocket_token_is_rejected(value: bytes, reason: str) -> None:
    assert identified(*UPGRADE, protocols(value)) == (
        Rejected(f"WebSocket protocol list: {reason}"),
        [],
    )


@pytest.mark.parametrize(
    "lines",
    [
        (protocols(encoded(b"GOOD") + b", chat"),),
        (UPGRADE[0], protocols(encoded(b"GOOD") + b", chat")),
        (UPGRADE[1], protocols(encoded(b"GOOD") + b", chat")),
        (UPGRADE[0], (b"Upgrade", b"echo"), protocols(encoded(b"GOOD") + b", chat")),
        (*UPGRADE, protocols(b"chat")),
        (*UPGRADE, protocols(PREFIX + b", chat")),
        UPGRADE,
    ],
    ids=["no upgrade", "no protocol", "no connection", "other", "no token", "empty", "no list"],
)
def test_the_list_counts_only_on_an_upgrade_to_websocket(
    lines: tuple[tuple[bytes, bytes], ...],
) -> None:
    assert identified(*lines) == (None, [])


def test_a_bad_header_leaves_the_decision_to_the_list() -> None:
    lines = (authorization(b"Bearer bad"), *UPGRADE, protocols(encoded(b"GOOD") + b", chat"))
    known, asked = identified(*lines, answers=(BAD, GOOD))
    assert asked == [TokenReview(BearerToken("bad")), TokenReview(BearerToken("GOOD"))]
    assert isinstance(known, Authenticated)
    assert rejection(*lines, answers=(BAD, BAD)) == (
        "bearer token: not accepted; bearer token: not accepted"
    )


def test_a_good_header_comes_first() -> None:
    lines = (authorization(b"Bearer GOOD"), *UPGRADE, protocols(encoded(b"other") + b", chat"))
    _, asked = identified(*lines, answers=(GOOD,))
    assert asked == [TokenReview(BearerToken("GOOD"))]


# --- OIDC mode --------------------------------------------------------------------------


def identified_by_issuer(
    *lines: tuple[bytes, bytes], answers: tuple[Answer, ...] = ()
) -> tuple[Identification, list[Review]]:
    return drive(IdTokenAuthenticator().authenticate(request(b"/", *lines)), answers)


def test_dec_d21_an_issuer_s_user_is_not_put_into_a_group() -> None:
    lines = (authorization(b"Bearer GOOD"), authorization(b"Basic x"), (b"Accept", b"*/*"))
    known, asked = identified_by_issuer(*lines, answers=(GOOD,))
    assert asked == [TokenReview(BearerToken("GOOD"))]
    assert isinstance(known, Authenticated)
    assert (known.user, known.source) == (UserInfo("alice", "1", ("dev",)), "oidc")
    assert known.head.headers == Headers([(b"Accept", b"*/*")])


def test_an_issuer_s_token_comes_in_no_protocol_list() -> None:
    lines = (*UPGRADE, protocols(encoded(b"GOOD") + b", chat"))
    assert identified_by_issuer(*lines) == (None, [])


def test_why_an_issuer_s_token_is_not_accepted_is_for_the_log() -> None:
    answer = TokenReviewAnswer(authenticated=False, error="expired")
    rejected, _ = identified_by_issuer(authorization(b"Bearer GOOD"), answers=(answer,))
    assert rejected == Rejected("bearer token: expired")

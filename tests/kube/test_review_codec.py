import json

import pytest

from pyrbacproxy.kube import review_codec
from pyrbacproxy.model import (
    Answer,
    BearerToken,
    NonResourceAttributes,
    ResourceAttributes,
    ReviewFailed,
    SubjectAccessReview,
    SubjectAccessReviewAnswer,
    TokenReview,
    TokenReviewAnswer,
    UserInfo,
)

ALICE = UserInfo("alice", "7", ("dev", "ops"), (("scopes", ("read", "write")),))
TOKEN = TokenReview(BearerToken("t0p.s3cret"))
ACCESS = SubjectAccessReview(ALICE, NonResourceAttributes("get", "/metrics"))


def test_each_review_has_its_place() -> None:
    assert review_codec.api_path(TOKEN) == "/apis/authentication.k8s.io/v1/tokenreviews"
    assert review_codec.api_path(ACCESS) == "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    assert review_codec.api_group(TOKEN) == "authentication.k8s.io"
    assert review_codec.api_group(ACCESS) == "authorization.k8s.io"


def test_a_token_review_without_audiences_names_none() -> None:
    assert json.loads(review_codec.encode(TOKEN)) == {
        "kind": "TokenReview",
        "apiVersion": "authentication.k8s.io/v1",
        "spec": {"token": "t0p.s3cret"},
    }


def test_audiences_keep_their_order() -> None:
    review = TokenReview(BearerToken("t"), ("b", "a"))
    assert json.loads(review_codec.encode(review))["spec"]["audiences"] == ["b", "a"]


def test_an_access_review_on_a_path() -> None:
    assert json.loads(review_codec.encode(ACCESS)) == {
        "kind": "SubjectAccessReview",
        "apiVersion": "authorization.k8s.io/v1",
        "spec": {
            "user": "alice",
            "uid": "7",
            "groups": ["dev", "ops"],
            "extra": {"scopes": ["read", "write"]},
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        },
    }


def test_an_access_review_on_a_resource_leaves_out_what_is_empty() -> None:
    action = ResourceAttributes("get", namespace="n", group="g", version="v1", resource="pods")
    spec = json.loads(review_codec.encode(SubjectAccessReview(UserInfo("bob"), action)))["spec"]
    assert spec == {
        "user": "bob",
        "resourceAttributes": {
            "verb": "get",
            "namespace": "n",
            "group": "g",
            "version": "v1",
            "resource": "pods",
        },
    }


def test_every_resource_field_travels() -> None:
    action = ResourceAttributes("get", "n", "g", "v", "r", "s", "m")
    spec = json.loads(review_codec.encode(SubjectAccessReview(UserInfo("bob"), action)))["spec"]
    assert spec["resourceAttributes"]["subresource"] == "s"
    assert spec["resourceAttributes"]["name"] == "m"


def test_bytes_that_are_no_utf8_become_replacement_characters() -> None:
    token = json.loads(review_codec.encode(TokenReview(BearerToken("a\udcff"))))
    path = json.loads(
        review_codec.encode(SubjectAccessReview(ALICE, NonResourceAttributes("get", "/\udcff")))
    )
    assert token["spec"]["token"] == "a\ufffd"
    assert path["spec"]["nonResourceAttributes"]["path"] == "/\ufffd"


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param(
            {
                "authenticated": True,
                "user": {
                    "username": "alice",
                    "uid": "7",
                    "groups": ["dev", "ops"],
                    "extra": {"scopes": ["read", "write"]},
                },
                "audiences": ["a"],
            },
            TokenReviewAnswer(True, ALICE, ("a",)),
            id="authenticated",
        ),
        pytest.param(
            {"authenticated": False, "error": "expired"},
            TokenReviewAnswer(False, error="expired"),
            id="refused with an error",
        ),
        pytest.param(
            {"authenticated": True, "user": {"username": "bob", "groups": None, "extra": None}},
            TokenReviewAnswer(True, UserInfo("bob")),
            id="nulls are nothing",
        ),
        pytest.param(
            {"authenticated": True, "user": {}, "audiences": []},
            TokenReviewAnswer(True, UserInfo(""), ()),
            id="empty audiences are not absent ones",
        ),
        pytest.param(None, TokenReviewAnswer(False), id="no status"),
    ],
)
def test_a_token_answer_is_read(status: object, expected: Answer) -> None:
    body = json.dumps({"kind": "TokenReview", "status": status}).encode()
    assert review_codec.decode(TOKEN, body) == expected


def test_extra_is_sorted_so_that_equal_users_are_equal() -> None:
    user = {"username": "u", "extra": {"b": ["2"], "a": ["1"]}}
    body = json.dumps({"status": {"authenticated": True, "user": user}}).encode()
    answer = review_codec.decode(TOKEN, body)
    assert isinstance(answer, TokenReviewAnswer)
    assert answer.user == UserInfo("u", extra=(("a", ("1",)), ("b", ("2",))))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"status": {"allowed": True}}, SubjectAccessReviewAnswer(True)),
        (
            {"status": {"allowed": False, "denied": True, "reason": "no"}},
            SubjectAccessReviewAnswer(False, denied=True, reason="no"),
        ),
        (
            {"status": {"evaluationError": "role not found"}},
            SubjectAccessReviewAnswer(False, evaluation_error="role not found"),
        ),
        ({}, SubjectAccessReviewAnswer(False)),
        ({"kind": ""}, SubjectAccessReviewAnswer(False)),
    ],
)
def test_an_access_answer_is_read(body: object, expected: Answer) -> None:
    assert review_codec.decode(ACCESS, json.dumps(body).encode()) == expected


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"<html>gateway</html>", "no JSON object"),
        (b"[]", "no JSON object"),
        (b"\xff\xfe\xfa", "no JSON object"),
        (b"[" * 100000, "no JSON object"),
        (b'{"kind": "Pod"}', "no TokenReview"),
        (b'{"kind": 1}', "no TokenReview"),
        (b'{"status": []}', "status is no object"),
        (b'{"status": {"authenticated": "true"}}', "authenticated is neither"),
        (b'{"status": {"authenticated": 1}}', "authenticated is neither"),
        (b'{"status": {"error": 1}}', "error is no string"),
        (b'{"status": {"user": "alice"}}', "user is no object"),
        (b'{"status": {"user": {"username": ["alice"]}}}', "username is no string"),
        (b'{"status": {"user": {"groups": "dev"}}}', "groups is no list"),
        (b'{"status": {"user": {"groups": [1]}}}', "groups is no list"),
        (b'{"status": {"user": {"extra": {"k": "v"}}}}', "k is no list"),
        (b'{"status": {"audiences": "a"}}', "audiences is no list"),
    ],
)
def test_a_doubtful_answer_is_none(body: bytes, said: str) -> None:
    answer = review_codec.decode(TOKEN, body)
    assert isinstance(answer, ReviewFailed)
    assert said in answer.reason


# --- FR67: logs ---------------------------------------------------------------------


def test_fr67_a_logged_review_has_no_token() -> None:
    text = review_codec.masked(TokenReview(BearerToken("t0p.s3cret"), ("a",)))
    assert "t0p.s3cret" not in text
    assert json.loads(text)["spec"] == {"token": "<masked>", "audiences": ["a"]}


def test_a_logged_access_review_is_whole() -> None:
    assert review_codec.masked(ACCESS).encode() == review_codec.encode(ACCESS)


@pytest.mark.parametrize(
    "body",
    [
        b'{"kind":"TokenReview","spec":{"token":"t0p.s3cret"}}',
        b'{"kind": "TokenReview", "spec": {"token": "t0p.s3cret"}}',
        b'{"kind": "Status", "message": "cannot read t0p.s3cret"}',
        b'{"spec": {"token": "t\\u0030p.s3cret"}, "status": {"error": "t\\u0030p.s3cret"}}',
        b'{"spec": {"token": "t0p.s3cret',
        b'"t0p.s3cret"',
        b"t0p.s3cret",
    ],
)
def test_fr67_a_logged_answer_has_no_token(body: bytes) -> None:
    assert "s3cret" not in review_codec.masked_answer(TOKEN, body)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(
            b'{"kind": "Status", "message": "no \\"t0p.s3cret\\""}', 'no "<masked>"', id="message"
        ),
        pytest.param(
            b'{"message": "%s"}' % (b"m" * 399 + b"t0p.s3cret"), "m" * 399 + "<", id="long"
        ),
        pytest.param(b'{"message": ["t0p.s3cret"]}', "", id="no text"),
        pytest.param(b"{}", "", id="none"),
        pytest.param(b'["message"]', "", id="no object"),
        pytest.param(b"s3cret", "", id="no JSON"),
    ],
)
def test_the_message_of_a_status(body: bytes, message: str) -> None:
    assert review_codec.message(TOKEN, body) == message


def test_the_message_about_a_review_without_a_token() -> None:
    assert review_codec.message(ACCESS, b'{"message": "no"}') == "no"


def test_a_token_of_odd_characters_is_masked_as_json_spells_it() -> None:
    review = TokenReview(BearerToken('a"\u00e9'))
    body = json.dumps({"status": {"error": 'bad: a"\u00e9'}}).encode()
    assert json.loads(review_codec.masked_answer(review, body)) == {
        "status": {"error": "bad: <masked>"}
    }


def test_an_empty_token_leaves_the_answer_as_it_is() -> None:
    review = TokenReview(BearerToken(""))
    assert review_codec.masked_answer(review, b'{"a": "b"}') == '{"a": "b"}'


def test_a_logged_access_answer_is_whole() -> None:
    assert review_codec.masked_answer(ACCESS, b'{"status": {}}') == '{"status": {}}'

"""Reviews to Kubernetes' JSON and back.

Reading is strict: a field of the wrong type, or an answer of another kind, is no answer at all
(doubt is refusal). Absent fields and nulls are zero values, as in Go.
"""

import json
from collections.abc import Mapping
from typing import TypeAlias

from pyrbacproxy.model import (
    Answer,
    NonResourceAttributes,
    Review,
    ReviewFailed,
    SubjectAccessReview,
    SubjectAccessReviewAnswer,
    TokenReview,
    TokenReviewAnswer,
    UserInfo,
)

Json: TypeAlias = str | list[str] | dict[str, "Json"]
Object: TypeAlias = Mapping[str, object]

MASK = "<masked>"
_MAX_MESSAGE_CHARACTERS = 400
_KINDS = {
    TokenReview: ("TokenReview", "authentication.k8s.io"),
    SubjectAccessReview: ("SubjectAccessReview", "authorization.k8s.io"),
}


class UnreadableAnswerError(ValueError):
    """The API server's answer is not the answer to the review; the text says what is wrong, not
    what was sent.
    """


def api_group(review: Review) -> str:
    """The API group that serves the review, `authentication.k8s.io` or `authorization.k8s.io`."""
    return _KINDS[type(review)][1]


def api_path(review: Review) -> str:
    """Where the review is posted to."""
    kind, group = _KINDS[type(review)]
    return f"/apis/{group}/v1/{kind.lower()}s"


def encode(review: Review) -> bytes:
    """The review as the body of a request. The token is in it: never log it, see `masked`."""
    return _document(review, _spec(review))


def masked(review: Review) -> str:
    """The body of the request for a log: with the token masked."""
    spec = _spec(review)
    return _document(review, spec | {"token": MASK} if "token" in spec else spec).decode()


def masked_answer(review: Review, body: bytes) -> str:
    """The answer's body for a log: without the token, wherever the server repeats it.

    A body that is no JSON object is not shown (reference 6.3): there is no telling what a part of
    it means.
    """
    document = _parsed(body)
    if not isinstance(document, dict):
        return f"<{len(body)} bytes that are no JSON object>"
    if isinstance(document.get("spec"), dict) and isinstance(review, TokenReview):
        document["spec"]["token"] = MASK
    return _without(json.dumps(_token(review))[1:-1], json.dumps(document))


def message(review: Review, body: bytes) -> str:
    """What the server says in a `Status` that came for an answer, without the token; "" if nothing.

    At most 400 characters. With 403 it names whom RBAC refuses what.
    """
    document = _parsed(body)
    text = document.get("message") if isinstance(document, dict) else None
    if not isinstance(text, str):
        return ""
    return _without(_token(review), text)[:_MAX_MESSAGE_CHARACTERS]


def _token(review: Review) -> str:
    return _text(review.token.reveal()) if isinstance(review, TokenReview) else ""


def _without(secret: str, text: str) -> str:
    return text.replace(secret, MASK) if secret else text


def decode(review: Review, body: bytes) -> Answer:
    """The status of the answered review; `ReviewFailed` when the body is no answer to it."""
    document = _parsed(body)
    if not isinstance(document, dict):
        return ReviewFailed("the API server's answer is no JSON object")
    kind = _KINDS[type(review)][0]
    if document.get("kind") not in (None, "", kind):
        return ReviewFailed(f"the API server's answer is no {kind}")
    try:
        status = _object(document, "status")
        return _token_answer(status) if isinstance(review, TokenReview) else _access_answer(status)
    except UnreadableAnswerError as error:
        return ReviewFailed(f"the API server's answer is malformed: {error}")


def _document(review: Review, spec: dict[str, Json]) -> bytes:
    kind, group = _KINDS[type(review)]
    document = {"kind": kind, "apiVersion": f"{group}/v1", "spec": spec}
    return json.dumps(document, separators=(",", ":")).encode()


def _spec(review: Review) -> dict[str, Json]:
    if isinstance(review, TokenReview):
        spec: dict[str, Json] = {"token": _token(review)}
        if review.audiences:
            spec["audiences"] = list(review.audiences)
        return spec
    user = review.user
    action = review.action
    fields: dict[str, Json] = {"user": user.name, "uid": user.uid, "groups": list(user.groups)}
    fields["extra"] = {key: list(values) for key, values in user.extra}
    if isinstance(action, NonResourceAttributes):
        attributes: dict[str, Json] = {"path": _text(action.path), "verb": action.verb}
        return _filled(fields) | {"nonResourceAttributes": attributes}
    attributes = {
        "namespace": _text(action.namespace),
        "verb": action.verb,
        "group": _text(action.group),
        "version": _text(action.version),
        "resource": _text(action.resource),
        "subresource": _text(action.subresource),
        "name": _text(action.name),
    }
    return _filled(fields) | {"resourceAttributes": _filled(attributes)}


def _filled(fields: dict[str, Json]) -> dict[str, Json]:
    """Without the empty ones: Kubernetes' types say `omitempty`."""
    return {key: value for key, value in fields.items() if value}


def _text(text: str) -> str:
    """Bytes from the wire that are no UTF-8 become U+FFFD, as Go's JSON makes them."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _parsed(body: bytes) -> object:
    try:
        parsed: object = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return parsed


def _token_answer(status: Object) -> TokenReviewAnswer:
    return TokenReviewAnswer(
        authenticated=_flag(status, "authenticated"),
        user=_user(_object(status, "user")) if status.get("user") is not None else None,
        audiences=_strings(status, "audiences") if status.get("audiences") is not None else None,
        error=_string(status, "error"),
    )


def _access_answer(status: Object) -> SubjectAccessReviewAnswer:
    return SubjectAccessReviewAnswer(
        allowed=_flag(status, "allowed"),
        denied=_flag(status, "denied"),
        reason=_string(status, "reason"),
        evaluation_error=_string(status, "evaluationError"),
    )


def _user(fields: Object) -> UserInfo:
    extra = _object(fields, "extra")
    return UserInfo(
        name=_string(fields, "username"),
        uid=_string(fields, "uid"),
        groups=_strings(fields, "groups"),
        extra=tuple((key, _strings(extra, key)) for key in sorted(extra)),
    )


def _object(fields: Object, key: str) -> Object:
    value = fields.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise UnreadableAnswerError(f"{key} is no object")
    return value


def _flag(fields: Object, key: str) -> bool:
    value = fields.get(key)
    if not isinstance(value, bool | None):
        raise UnreadableAnswerError(f"{key} is neither true nor false")
    return bool(value)


def _string(fields: Object, key: str) -> str:
    value = fields.get(key)
    if not isinstance(value, str | None):
        raise UnreadableAnswerError(f"{key} is no string")
    return value or ""


def _strings(fields: Object, key: str) -> tuple[str, ...]:
    value = fields.get(key)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise UnreadableAnswerError(f"{key} is no list of strings")
    return tuple(value)

"""An embedded API server: TokenReview and SubjectAccessReview over HTTP or TLS."""

import asyncio
import json
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from urllib.parse import unquote

from aiohttp import web
from multidict import CIMultiDictProxy

from pyrbacproxy.demo.documents import Document, DocumentError, document
from pyrbacproxy.demo.rbac import Permission, Policy
from pyrbacproxy.demo.tokens import TokenTable, with_authenticated
from pyrbacproxy.model import NonResourceAttributes, ResourceAttributes, TokenReviewAnswer, UserInfo
from pyrbacproxy.values import Frozen

# --- impersonation --------------------------------------------------------------------
# `Impersonate-` headers, as kube-apiserver reads them: who is meant, and what that takes.

_EXTRA = "impersonate-extra-"
_GROUP = "authentication.k8s.io"
_SERVICE_ACCOUNT = "system:serviceaccount:"


def impersonated(headers: CIMultiDictProxy[str]) -> UserInfo | None:
    """Whom the headers name, one of `system:authenticated`; None when they name no user."""
    name = headers.get("Impersonate-User")
    if name is None:
        return None
    extra: dict[str, tuple[str, ...]] = {}
    for key, value in _extra(headers):
        extra[key] = (*extra.get(key, ()), value)
    return with_authenticated(
        UserInfo(
            name,
            uid=headers.get("Impersonate-Uid", ""),
            groups=tuple(headers.getall("Impersonate-Group", ())),
            extra=tuple(extra.items()),
        )
    )


def impersonations(headers: CIMultiDictProxy[str]) -> Iterator[ResourceAttributes]:
    """What the caller must be allowed for that: each name, group and value by itself."""
    for name in headers.getall("Impersonate-User", ()):
        namespace, _, account = name.removeprefix(_SERVICE_ACCOUNT).partition(":")
        if name.startswith(_SERVICE_ACCOUNT):
            yield _permission("serviceaccounts", account, namespace=namespace)
        else:
            yield _permission("users", name)
    for group in headers.getall("Impersonate-Group", ()):
        yield _permission("groups", group)
    for uid in headers.getall("Impersonate-Uid", ()):
        yield _permission("uids", uid, group=_GROUP)
    for key, value in _extra(headers):
        yield _permission("userextras", value, group=_GROUP, subresource=key)


def _permission(
    resource: str, name: str, *, group: str = "", namespace: str = "", subresource: str = ""
) -> ResourceAttributes:
    return ResourceAttributes(
        "impersonate", namespace, group, "v1", resource, subresource=subresource, name=name
    )


def _extra(headers: CIMultiDictProxy[str]) -> Iterator[tuple[str, str]]:
    """Keys in lower case and unescaped, as Go's header names arrive at the server."""
    for name, value in headers.items():
        if name.lower().startswith(_EXTRA):
            yield unquote(name.lower().removeprefix(_EXTRA)), value


# --- api server -----------------------------------------------------------------------
#
# An embedded API server: TokenReview and SubjectAccessReview over HTTP or TLS, as kube-apiserver.
#
# It knows its callers by client certificate or bearer token, lets them act as somebody else where
# RBAC says so, demands the RBAC permission to create the review of them, answers from a token table
# and an RBAC policy, and counts what it was asked. `trouble` makes it slow, failing or mute, for
# tests. It stores nothing and serves nothing else.

_AUTHENTICATION = "authentication.k8s.io"
_AUTHORIZATION = "authorization.k8s.io"
_ANONYMOUS = UserInfo("system:anonymous", groups=("system:unauthenticated",))
# Whom an API server always lets in, whatever RBAC says.
_PRIVILEGED_GROUP = "system:masters"


class Trouble(Frozen):
    """What is wrong: it waits before each answer, gives a status instead, or hangs up."""

    delay_seconds: float = 0.0
    status: int = 0
    hangs_up: bool = False


class ReviewRecord(Frozen):
    """One review that was answered: its kind, who asked, about whom, the outcome. No secrets."""

    kind: str
    asker: str
    about: str
    outcome: str


class ApiServer:
    """The server. `counts` has the calls by kind of review, failed ones included."""

    def __init__(
        self,
        *,
        policy: Policy,
        tokens: TokenTable,
        tls: ssl.SSLContext | None = None,
        observer: Callable[[ReviewRecord], None] = lambda _: None,
    ) -> None:
        self.policy = policy
        self.tokens = tokens
        self.trouble = Trouble()
        self.counts: Counter[str] = Counter()
        self.url = ""
        self._tls = tls
        self._observer = observer
        self._runner: web.AppRunner | None = None

    async def start(self, port: int = 0) -> None:
        """Listen on 127.0.0.1; port 0 takes a free one. `url` is set after it."""
        application = web.Application()
        for group, plural, answer in (
            (_AUTHENTICATION, "tokenreviews", self._token_review),
            (_AUTHORIZATION, "subjectaccessreviews", self._access_review),
        ):
            application.router.add_post(
                f"/apis/{group}/v1/{plural}", self._guarded(group, plural, answer)
            )
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", port, ssl_context=self._tls).start()
        scheme = "https" if self._tls else "http"
        self.url = f"{scheme}://127.0.0.1:{self._runner.addresses[0][1]}"

    async def close(self) -> None:
        """Stop listening and end every connection; `start` may follow."""
        if self._runner:
            await self._runner.cleanup()
            self._runner = None

    def _guarded(
        self, group: str, plural: str, answer: Callable[[Document, UserInfo], dict[str, object]]
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        """The way of every call: trouble, who is it, may they, answer."""

        async def handle(request: web.Request) -> web.StreamResponse:
            self.counts[plural] += 1
            if self.trouble != Trouble():
                await asyncio.sleep(self.trouble.delay_seconds)
            if self.trouble.hangs_up and request.transport:
                request.transport.abort()
                return web.Response()
            if self.trouble.status:
                return _status(self.trouble.status, "InternalError", "the server is in trouble")
            caller = self._caller(request)
            if caller is None:
                return _status(401, "Unauthorized", "Unauthorized")
            user = impersonated(request.headers) or caller
            for who, action in (
                *((caller, asked) for asked in impersonations(request.headers)),
                (user, ResourceAttributes("create", "", group, "v1", plural)),
            ):
                permission = self._authorize(who, action)
                if not permission.is_allowed:
                    return _status(403, "Forbidden", _forbidden(who, action, permission.reason))
            try:
                review = document(json.loads(await request.read()))
                return web.json_response(answer(review, user), status=201)
            except (DocumentError, ValueError) as error:
                return _status(400, "BadRequest", str(error))

        return handle

    def _caller(self, request: web.Request) -> UserInfo | None:
        """The certificate's user, else the token's, else anonymous; None for a bad token."""
        secured = request.transport.get_extra_info("ssl_object") if request.transport else None
        certificate = secured.getpeercert() if secured else None
        if certificate:
            return with_authenticated(_certificate_user(certificate["subject"]))
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return _ANONYMOUS
        return self.tokens.review(token.strip(), ()).user

    def _authorize(
        self, user: UserInfo, action: ResourceAttributes | NonResourceAttributes
    ) -> Permission:
        if _PRIVILEGED_GROUP in user.groups:
            return Permission(True, "")
        return self.policy.authorize(user, action)

    def _token_review(self, review: Document, asker: UserInfo) -> dict[str, object]:
        spec = review.child("spec")
        if not spec.text("token"):
            raise DocumentError("token is required for TokenReview in authentication")
        answer = self.tokens.review(spec.text("token"), spec.texts("audiences"))
        outcome = answer.user.name if answer.user else answer.error
        self._observer(ReviewRecord("TokenReview", asker.name, "a token", outcome))
        # The answer repeats the spec, the token included, as the real one does.
        return {**review.fields, "status": _token_status(answer)}

    def _access_review(self, review: Document, asker: UserInfo) -> dict[str, object]:
        spec = review.child("spec")
        user, action = _subject(spec), _action(spec)
        permission = self._authorize(user, action)
        outcome = "allowed" if permission.is_allowed else "not allowed"
        about = f"{user.name}: {_describe(action)}"
        self._observer(ReviewRecord("SubjectAccessReview", asker.name, about, outcome))
        status: dict[str, object] = {"allowed": permission.is_allowed}
        if permission.reason:
            status["reason"] = permission.reason
        return {**review.fields, "status": status}


def _subject(spec: Document) -> UserInfo:
    if not spec.text("user") and not spec.texts("groups"):
        raise spec.error("user", "at least one of user or group must be specified")
    extra = spec.child("extra")
    return UserInfo(
        name=spec.text("user"),
        uid=spec.text("uid"),
        groups=spec.texts("groups"),
        extra=tuple((key, extra.texts(key)) for key in sorted(extra.fields)),
    )


def _action(spec: Document) -> ResourceAttributes | NonResourceAttributes:
    if spec.has("resourceAttributes") == spec.has("nonResourceAttributes"):
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        raise spec.error("resourceAttributes", text)
    if spec.has("nonResourceAttributes"):
        fields = spec.child("nonResourceAttributes")
        return NonResourceAttributes(fields.text("verb"), fields.text("path"))
    fields = spec.child("resourceAttributes")
    return ResourceAttributes(
        verb=fields.text("verb"),
        namespace=fields.text("namespace"),
        group=fields.text("group"),
        version=fields.text("version"),
        resource=fields.text("resource"),
        subresource=fields.text("subresource"),
        name=fields.text("name"),
    )


def _token_status(answer: TokenReviewAnswer) -> dict[str, object]:
    """The status as JSON; `user` is there even when empty, for Go omits no struct."""
    status: dict[str, object] = {"user": {}}
    if answer.error:
        status["error"] = answer.error
    if answer.user:
        user = {"username": answer.user.name, "groups": list(answer.user.groups)}
        uid = {"uid": answer.user.uid} if answer.user.uid else {}
        extra = {key: list(values) for key, values in answer.user.extra}
        status["authenticated"] = True
        status["user"] = user | uid | ({"extra": extra} if extra else {})
        status["audiences"] = list(answer.audiences or ())
    return status


def _certificate_user(subject: tuple[tuple[tuple[str, str], ...], ...]) -> UserInfo:
    """Kubernetes' reading: the last CN is the name, every O a group."""
    pairs = [pair for names in subject for pair in names]
    names = [value for key, value in pairs if key == "commonName"]
    groups = tuple(value for key, value in pairs if key == "organizationName")
    return UserInfo(names[-1] if names else "", groups=groups)


def _describe(action: ResourceAttributes | NonResourceAttributes) -> str:
    if isinstance(action, NonResourceAttributes):
        return f"{action.verb} {action.path}"
    resource = "/".join(filter(None, (action.resource, action.subresource)))
    return f"{action.verb} {resource}" + (f" in {action.namespace}" if action.namespace else "")


def _forbidden(user: UserInfo, action: ResourceAttributes, reason: str) -> str:
    resource = f"{action.resource}.{action.group}" if action.group else action.resource
    name = f' "{action.name}"' if action.name else ""
    text = (
        f'{resource}{name} is forbidden: User "{user.name}" cannot {action.verb} resource'
        f' "{action.resource}" in API group "{action.group}" at the cluster scope'
    )
    return f"{text}: {reason}" if reason else text


def _status(code: int, reason: str, message: str) -> web.Response:
    body: Mapping[str, object] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
    return web.json_response(body, status=code)

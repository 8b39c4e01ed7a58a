"""The embedded API server over loopback: callers, permissions, both reviews, trouble."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from pyrbacproxy.demo.api_server import ApiServer, ReviewRecord, Trouble
from pyrbacproxy.demo.manifests import read_policy
from pyrbacproxy.demo.pki import Authority, client_context, server_context
from pyrbacproxy.demo.scene import RBAC
from pyrbacproxy.demo.tokens import API_AUDIENCE, TokenEntry, TokenTable, service_account
from pyrbacproxy.model import UserInfo

TOKENS = TokenTable(
    {
        "node": TokenEntry(UserInfo("system:node:n", groups=("system:nodes",))),
        "root": TokenEntry(UserInfo("root", groups=("system:masters",))),
        "scraper": TokenEntry(service_account("monitoring", "scraper", "u-1")),
        "full": TokenEntry(UserInfo("f", extra=(("k", ("v", "w")),)), ("proxy", API_AUDIENCE)),
    }
)
TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


@asynccontextmanager
async def served(tls: ssl.SSLContext | None = None) -> AsyncIterator[ApiServer]:
    server = ApiServer(policy=read_policy(RBAC), tokens=TOKENS, tls=tls)
    await server.start()
    try:
        yield server
    finally:
        await server.close()


async def post(
    url: str,
    body: object,
    *,
    token: str | None = "node",  # noqa: S107 - a made-up token
    tls: ssl.SSLContext | bool = True,
) -> tuple[int, object]:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, json=body, headers=headers, ssl=tls) as response,
    ):
        return response.status, await response.json()


def token_review(token: str, *audiences: str) -> dict[str, object]:
    return {"kind": "TokenReview", "spec": {"token": token, "audiences": list(audiences)}}


async def status_of(server: ApiServer, path: str, body: dict[str, object]) -> object:
    code, answer = await post(server.url + path, body)
    assert code == 201
    assert isinstance(answer, dict)
    assert answer["spec"] == body["spec"]
    return answer["status"]


async def test_token_review() -> None:
    async with served() as server:
        assert await status_of(server, TOKEN_REVIEWS, token_review("scraper")) == {
            "authenticated": True,
            "audiences": [API_AUDIENCE],
            "user": {
                "username": "system:serviceaccount:monitoring:scraper",
                "uid": "u-1",
                "groups": [
                    "system:serviceaccounts",
                    "system:serviceaccounts:monitoring",
                    "system:authenticated",
                ],
            },
        }


async def test_token_review_with_audiences_and_extra() -> None:
    async with served() as server:
        assert await status_of(server, TOKEN_REVIEWS, token_review("full", "x", "proxy")) == {
            "authenticated": True,
            "audiences": ["proxy"],
            "user": {
                "username": "f",
                "groups": ["system:authenticated"],
                "extra": {"k": ["v", "w"]},
            },
        }


async def test_token_review_of_an_unknown_token() -> None:
    async with served() as server:
        assert await status_of(server, TOKEN_REVIEWS, token_review("wrong")) == {
            "user": {},
            "error": "invalid bearer token",
        }


def access_review(**spec: object) -> dict[str, object]:
    return {"kind": "SubjectAccessReview", "spec": spec}


SCRAPER = "system:serviceaccount:monitoring:scraper"
GET_METRICS = {"verb": "get", "path": "/metrics"}
CREATE_REVIEWS = {"verb": "create", "group": "authentication.k8s.io", "resource": "tokenreviews"}
ACCESS = {
    "URL allowed": (
        {"user": SCRAPER, "nonResourceAttributes": GET_METRICS},
        {
            "allowed": True,
            "reason": 'RBAC: allowed by ClusterRoleBinding "scraper-reads-metrics" of ClusterRole'
            ' "metrics-reader" to ServiceAccount "scraper/monitoring"',
        },
    ),
    "URL not allowed": (
        {"user": "x", "groups": ["g"], "nonResourceAttributes": GET_METRICS},
        {"allowed": False},
    ),
    "resource allowed by group": (
        {"groups": ["system:nodes"], "resourceAttributes": CREATE_REVIEWS},
        {
            "allowed": True,
            "reason": 'RBAC: allowed by ClusterRoleBinding "nodes-review" of ClusterRole'
            ' "reviewer" to Group "system:nodes"',
        },
    ),
    "resource in a namespace": (
        {
            "user": "x",
            "uid": "1",
            "extra": {"k": ["v"]},
            "resourceAttributes": {**CREATE_REVIEWS, "namespace": "n", "subresource": "s"},
        },
        {"allowed": False},
    ),
    "masters": (
        {"user": "x", "groups": ["system:masters"], "nonResourceAttributes": GET_METRICS},
        {"allowed": True},
    ),
}


@pytest.mark.parametrize(("spec", "status"), ACCESS.values(), ids=ACCESS.keys())
async def test_access_review(spec: dict[str, object], status: dict[str, object]) -> None:
    async with served() as server:
        assert await status_of(server, ACCESS_REVIEWS, access_review(**spec)) == status


BAD = {
    "no token": (TOKEN_REVIEWS, token_review(""), "token is required"),
    "no mapping": (TOKEN_REVIEWS, [1], "document: want a mapping"),
    "audiences": (TOKEN_REVIEWS, {"spec": {"token": "t", "audiences": "a"}}, "spec.audiences"),
    "nobody": (ACCESS_REVIEWS, access_review(nonResourceAttributes=GET_METRICS), "spec.user: at"),
    "nothing": (ACCESS_REVIEWS, access_review(user="x"), "spec.resourceAttributes: exactly one"),
    "both": (
        ACCESS_REVIEWS,
        access_review(
            user="x", nonResourceAttributes=GET_METRICS, resourceAttributes=CREATE_REVIEWS
        ),
        "spec.resourceAttributes: exactly one",
    ),
}


@pytest.mark.parametrize(("path", "body", "message"), BAD.values(), ids=BAD.keys())
async def test_bad_review(path: str, body: object, message: str) -> None:
    async with served() as server:
        code, answer = await post(server.url + path, body)
    assert isinstance(answer, dict)
    assert (code, answer["kind"], answer["reason"]) == (400, "Status", "BadRequest")
    assert answer["message"].startswith(message)


def cannot_create(user: str) -> str:
    return (
        f'tokenreviews.authentication.k8s.io is forbidden: User "{user}" cannot create resource'
        ' "tokenreviews" in API group "authentication.k8s.io" at the cluster scope'
    )


CALLERS = {
    "node": ("node", 201, None),
    "master": ("root", 201, None),
    "unknown token": ("wrong", 401, "Unauthorized"),
    "no credentials": (None, 403, cannot_create("system:anonymous")),
    "without the role": ("full", 403, cannot_create("f")),
}


@pytest.mark.parametrize(("token", "code", "message"), CALLERS.values(), ids=CALLERS.keys())
async def test_callers_by_token(token: str | None, code: int, message: str | None) -> None:
    async with served() as server:
        status, answer = await post(server.url + TOKEN_REVIEWS, token_review("x"), token=token)
    assert isinstance(answer, dict)
    assert (status, answer.get("message")) == (code, message)


async def test_a_broken_binding_is_told_to_the_caller() -> None:
    binding = """
        apiVersion: rbac.authorization.k8s.io/v1
        kind: ClusterRoleBinding
        metadata: {name: b}
        roleRef: {kind: ClusterRole, name: gone}
        subjects: [{kind: User, name: f}]
        """
    async with served() as server:
        server.policy = read_policy(binding)
        _, answer = await post(server.url + TOKEN_REVIEWS, token_review("x"), token="full")
    assert isinstance(answer, dict)
    assert answer["message"].endswith(
        ': RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found'
    )


@pytest.mark.parametrize(("group", "code"), [("system:nodes", 201), ("other", 403)])
async def test_callers_by_certificate(tmp_path: Path, group: str, code: int) -> None:
    authority = Authority(tmp_path)
    client = client_context(authority, authority.client("c", "system:node:n", (group,)))
    async with served(server_context(authority.serving("s"), authority)) as server:
        assert server.url.startswith("https://127.0.0.1:")
        status, _ = await post(
            server.url + TOKEN_REVIEWS, token_review("x"), token=None, tls=client
        )
    assert status == code


async def test_counts_and_tells_without_secrets() -> None:
    told: list[ReviewRecord] = []
    server = ApiServer(policy=read_policy(RBAC), tokens=TOKENS, observer=told.append)
    await server.start()
    try:
        await post(server.url + TOKEN_REVIEWS, token_review("scraper"))
        await post(server.url + TOKEN_REVIEWS, token_review("scraper"), token="wrong")
        spec = {"user": SCRAPER, "nonResourceAttributes": GET_METRICS}
        await post(server.url + ACCESS_REVIEWS, access_review(**spec))
        spec = {"user": "x", "resourceAttributes": {**CREATE_REVIEWS, "namespace": "n"}}
        await post(server.url + ACCESS_REVIEWS, access_review(**spec))
    finally:
        await server.close()
    assert server.counts == {"tokenreviews": 2, "subjectaccessreviews": 2}
    assert told == [
        ReviewRecord("TokenReview", "system:node:n", "a token", SCRAPER),
        ReviewRecord("SubjectAccessReview", "system:node:n", f"{SCRAPER}: get /metrics", "allowed"),
        ReviewRecord(
            "SubjectAccessReview", "system:node:n", "x: create tokenreviews in n", "not allowed"
        ),
    ]


async def test_trouble_with_a_status() -> None:
    async with served() as server:
        server.trouble = Trouble(status=503)
        assert (await post(server.url + TOKEN_REVIEWS, token_review("scraper")))[0] == 503
        server.trouble = Trouble()
        assert (await post(server.url + TOKEN_REVIEWS, token_review("scraper")))[0] == 201


async def test_trouble_that_hangs_up() -> None:
    async with served() as server:
        server.trouble = Trouble(hangs_up=True)
        with pytest.raises(aiohttp.ClientConnectionError):
            await post(server.url + TOKEN_REVIEWS, token_review("scraper"))


async def test_trouble_that_waits() -> None:
    async with served() as server:
        server.trouble = Trouble(delay_seconds=60)
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=0.2)) as session:
            with pytest.raises(TimeoutError):
                await session.post(server.url + TOKEN_REVIEWS, json=token_review("scraper"))
        assert server.counts["tokenreviews"] == 1


async def test_comes_back_on_its_port() -> None:
    async with served() as server:
        url = server.url
        await server.close()
        with pytest.raises(aiohttp.ClientConnectionError):
            await post(url + TOKEN_REVIEWS, token_review("scraper"))
        await server.start(int(url.rpartition(":")[2]))
        assert server.url == url
        assert (await post(url + TOKEN_REVIEWS, token_review("scraper")))[0] == 201

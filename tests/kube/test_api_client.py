import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from pyrbacproxy.demo.pki import Authority
from pyrbacproxy.kube.api_client import ApiClient
from pyrbacproxy.kube.credentials import Credentials, source_of
from pyrbacproxy.kube.kubeconfig import ApiServer, KubeSettings
from pyrbacproxy.kube.memory import Cause, FailedAttempt
from pyrbacproxy.model import (
    BearerToken,
    ReviewFailed,
    SubjectAccessReviewAnswer,
    TokenReview,
    TokenReviewAnswer,
    UserInfo,
)
from pyrbacproxy.values import replace
from tests.kube.parties import (
    ACCESS,
    TOKEN,
    ApiStub,
    api_server,
    kubeconfig,
    rotate,
    server_context,
    service_account,
)
from tests.kube.raw_server import until

GOOD = TokenReviewAnswer(True, UserInfo("alice", "7"))


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test is decided by how busy the machine is."""
    monkeypatch.setattr("pyrbacproxy.kube.api_client.CONNECT_SECONDS", 60.0)


class CountedSource:
    """The source of the settings."""

    def __init__(self, settings: KubeSettings) -> None:
        self.reads = 0
        self._source = source_of(settings)

    def read(self, *, is_refused: bool = False) -> ApiServer:
        self.reads += 1
        return self._source.read(is_refused=is_refused)

    def close(self) -> None:
        self._source.close()


class World:
    """A client, its API server, and the clock by which credentials grow old."""

    def __init__(self, stub: ApiStub, settings: KubeSettings) -> None:
        self.stub = stub
        self.now = 0.0
        self.source = CountedSource(settings)
        credentials = Credentials(self.source, clock=lambda: self.now)
        self.client = ApiClient(settings, credentials)

    async def ask(self, within_seconds: float = 60.0) -> Any:
        return await self.client.review(TOKEN, "10.0.0.1", within_seconds=within_seconds)


@asynccontextmanager
async def in_cluster(tmp_path: Path) -> AsyncIterator[World]:
    authority = Authority(tmp_path)
    async with api_server(server_context(authority)) as stub:
        ca = authority.certificate_file.read_bytes()
        world = World(stub, service_account(tmp_path, stub.url, ca))
        yield world
        await world.client.close()


async def test_reviews_are_answered_with_the_service_account(tmp_path: Path) -> None:
    async with in_cluster(tmp_path) as world:
        assert await world.ask() == GOOD
        answer = await world.client.review(ACCESS, "10.0.0.1")
        assert answer == SubjectAccessReviewAnswer(True)
        assert world.stub.authorizations == ["Bearer own-1"] * 2


# --- FR39: our own credential -------------------------------------------------------


async def test_fr39_a_rewritten_token_is_used_within_a_minute(tmp_path: Path) -> None:
    async with in_cluster(tmp_path) as world:
        await world.ask()
        (tmp_path / "token").write_text("own-2")
        world.now += 60.0
        assert await world.ask() == GOOD
        assert world.stub.authorizations == ["Bearer own-1", "Bearer own-2"]


async def test_fr39_a_refused_token_is_read_again_and_the_review_asked_once_more(
    tmp_path: Path,
) -> None:
    async with in_cluster(tmp_path) as world:
        await world.ask()
        (tmp_path / "token").write_text("own-2")
        world.stub.accepts = lambda request: request.headers["Authorization"] == "Bearer own-2"
        assert await world.ask() == GOOD
        assert world.stub.authorizations == ["Bearer own-1", "Bearer own-1", "Bearer own-2"]


async def test_fr39_a_new_token_that_is_refused_too_is_not_tried_for_ever(tmp_path: Path) -> None:
    async with in_cluster(tmp_path) as world:
        await world.ask()
        (tmp_path / "token").write_text("own-2")
        world.stub.accepts = lambda _: False
        assert (await world.ask()).reason == "the API server answered 401"
        assert len(world.stub.reviews) == 3


async def test_a_refused_token_that_has_not_changed_is_not_sent_again(tmp_path: Path) -> None:
    async with in_cluster(tmp_path) as world:
        world.stub.accepts = lambda _: False
        assert (await world.ask()).reason == "the API server answered 401"
        assert len(world.stub.reviews) == 1


async def test_fr39_a_new_ca_is_used_within_a_minute(tmp_path: Path) -> None:
    async with in_cluster(tmp_path) as world:
        right = (tmp_path / "ca.crt").read_bytes()
        (tmp_path / "ca.crt").write_bytes(
            Authority(tmp_path, "other-ca").certificate_file.read_bytes()
        )
        assert "can't be reached" in (await world.ask()).reason
        (tmp_path / "ca.crt").write_bytes(right)
        world.now += 60.0
        assert await world.ask() == GOOD


async def test_fr39_a_rotated_client_certificate_drops_pooled_connections(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    for name in ("old", "new"):
        authority.client(name, f"proxy-{name}")
    link = tmp_path / "current.pem"
    link.symlink_to(tmp_path / "old.pem")
    user = {"client-certificate": "current.pem", "client-key": "current.pem"}
    cluster = {"certificate-authority": "demo-ca.crt"}
    async with api_server(server_context(authority, asks_for_certificate=True)) as stub:
        kubeconfig(tmp_path / "kc", cluster | {"server": stub.url}, user)
        world = World(stub, KubeSettings(kubeconfig=str(tmp_path / "kc")))
        await world.ask()
        await world.ask()
        rotate(link, tmp_path / "new.pem")
        stub.accepts = lambda _: stub.certificates[-1] == "proxy-new"
        assert await world.ask() == GOOD
        assert stub.certificates == ["proxy-old", "proxy-old", "proxy-old", "proxy-new"]
        assert len({stub.peers[0], stub.peers[1], stub.peers[2]}) == 1
        assert stub.peers[3] != stub.peers[0]
        await world.client.close()


async def test_fr39_a_rotated_token_file_of_a_kubeconfig_is_used_within_a_minute(
    tmp_path: Path,
) -> None:
    (tmp_path / "first").write_text("own-1")
    (tmp_path / "second").write_text("own-2")
    (tmp_path / "token").symlink_to("first")
    authority = Authority(tmp_path)
    ca = {"certificate-authority": str(authority.certificate_file)}
    async with api_server(server_context(authority)) as stub:
        kubeconfig(tmp_path / "kc", {"server": stub.url} | ca, {"tokenFile": "token"})
        world = World(stub, KubeSettings(kubeconfig=str(tmp_path / "kc")))
        await world.ask()
        rotate(tmp_path / "token", tmp_path / "second")
        world.now += 60.0
        await world.ask()
        assert stub.authorizations == ["Bearer own-1", "Bearer own-2"]
        await world.client.close()


async def test_no_credential_is_a_failed_review_and_the_file_s_return_heals_it(
    tmp_path: Path,
) -> None:
    async with in_cluster(tmp_path) as world:
        (tmp_path / "token").rename(tmp_path / "away")
        answer = await world.ask()
        assert isinstance(answer, ReviewFailed)
        assert "token cannot be read" in answer.reason
        (tmp_path / "away").rename(tmp_path / "token")
        world.now += 5.0
        assert await world.ask() == GOOD


@pytest.mark.parametrize("content", ["junk", "", "\n"])
async def test_fr39_a_ca_that_turns_bad_is_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: str
) -> None:
    async with in_cluster(tmp_path) as world:
        await world.ask()
        (tmp_path / "ca.crt").write_text(content)
        world.now += 60.0
        assert await world.ask() == GOOD
        assert world.client.generation == 0
    assert "ca.crt holds no certificate" in caplog.text


class JunkSource:
    """A credential that is none, and that nobody judged."""

    def read(self, *, is_refused: bool = False) -> ApiServer:  # noqa: ARG002 -- as it is called
        return ApiServer("https://a", ca="junk")

    def close(self) -> None:
        """Nothing lasts."""


async def test_an_unusable_ca_is_a_failed_review() -> None:
    client = ApiClient(KubeSettings(), Credentials(JunkSource()))
    answer = await client.review(TOKEN, "10.0.0.1", within_seconds=60.0)
    text = "https://a: the CA or client certificate is unusable"
    assert answer == FailedAttempt(text, cause=Cause.NOT_ASKED)


# --- D15: whose fault it is, and in whom we trust ---------------------------------------


class LateCredentials(Credentials):
    """Reads for so long after a refusal that the deadline comes first."""

    async def after_refusal(self, refused: ApiServer) -> ApiServer:  # noqa: ARG002 -- as it is called
        raise TimeoutError


async def test_a_credential_that_is_waited_for_after_a_401_is_our_own_fault(
    tmp_path: Path,
) -> None:
    async with api_server() as stub:
        stub.respond = lambda _: web.Response(status=401)
        settings = service_account(
            tmp_path, stub.url, Authority(tmp_path).certificate_file.read_bytes()
        )
        client = ApiClient(settings, LateCredentials(source_of(settings)))
        answer = await client.review(TOKEN, "10.0.0.1", within_seconds=60.0)
        await client.close()
    text = "the API server gave no answer within 60.0 s"
    assert answer == FailedAttempt(text, cause=Cause.NOT_ASKED)


async def test_no_credential_is_our_own_fault(tmp_path: Path) -> None:
    async with in_cluster(tmp_path) as world:
        (tmp_path / "token").unlink()
        assert (await world.ask()).cause is Cause.NOT_ASKED


async def test_a_new_ca_is_another_generation_a_new_token_is_not(tmp_path: Path) -> None:
    async with in_cluster(tmp_path) as world:
        await world.ask()
        first = world.client.generation
        (tmp_path / "token").write_text("own-2")
        world.now += 60.0
        await world.ask()
        assert world.client.generation == first
        with (tmp_path / "ca.crt").open("ab") as file:
            file.write(b"\n")
        world.now += 60.0
        await world.ask()
        assert world.client.generation != first


# --- FR47, FR48: rate and deadline --------------------------------------------------


async def test_fr48_a_server_that_does_not_answer_is_given_up_and_dialled_anew(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with in_cluster(tmp_path) as world:
        await world.ask()
        world.stub.delay.clear()
        with monkeypatch.context() as patch:
            patch.setattr("pyrbacproxy.kube.api_client.CONNECT_SECONDS", 0.0)
            answer = await world.ask(within_seconds=0.05)
        assert answer.reason == "the API server gave no answer within 0.1 s"
        assert (answer.is_transient, answer.cause) == (False, Cause.AWAY)
        world.stub.delay.set()
        assert await world.ask() == GOOD
        assert world.stub.peers[-1] != world.stub.peers[0]


async def test_d15_a_server_that_had_no_time_is_not_away(tmp_path: Path) -> None:
    """What was left of it after our own turn, or after a wait that the server had asked for."""
    async with in_cluster(tmp_path) as world:
        await world.ask()
        world.stub.delay.clear()
        answer = await world.ask(within_seconds=0.05)
        world.stub.delay.set()
        assert answer.cause is Cause.NOT_ASKED


def distinct(number: int) -> TokenReview:
    return TokenReview(BearerToken(f"token-{number}"))


@asynccontextmanager
async def limited(tmp_path: Path, **settings: Any) -> AsyncIterator[World]:
    async with api_server() as stub:
        account = service_account(
            tmp_path, stub.url, Authority(tmp_path).certificate_file.read_bytes()
        )
        world = World(stub, replace(account, **settings))
        yield world
        await world.client.close()


async def test_fr47_a_burst_of_a_hundred_waits_for_nobody(tmp_path: Path) -> None:
    async with limited(tmp_path, qps=0.001) as world:
        reviews = (world.client.review(distinct(number), "10.0.0.1") for number in range(100))
        assert await asyncio.gather(*reviews) == [GOOD] * 100


async def test_fr47_the_flags_are_obeyed_and_waiting_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyrbacproxy.kube.rate.WAIT_SECONDS", 0.05)
    async with limited(tmp_path, qps=0.001, burst=5) as world:
        reviews = (world.client.review(distinct(number), "10.0.0.1") for number in range(20))
        answers = await asyncio.gather(*reviews)
        failed = [answer for answer in answers if isinstance(answer, FailedAttempt)]
        refused = [answer.reason for answer in failed if answer.cause is Cause.NOT_ASKED]
        assert len(world.stub.reviews) == 5
        assert len(refused) == 15
        assert "our own rate left no room" in refused[0]


@pytest.mark.parametrize("is_shared", [False, True])
async def test_each_api_group_has_its_rate_unless_shared(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_shared: bool,  # noqa: FBT001
) -> None:
    monkeypatch.setattr("pyrbacproxy.kube.rate.WAIT_SECONDS", 0.05)
    async with limited(tmp_path, qps=0.001, burst=1, is_rate_shared=is_shared) as world:
        await world.ask()
        answer = await world.client.review(ACCESS, "10.0.0.1")
        assert isinstance(answer, ReviewFailed) == is_shared


# --- before the first review, and after -----------------------------------------------


async def test_the_credential_can_be_read_early(tmp_path: Path) -> None:
    async with in_cluster(tmp_path) as world:
        world.client.warm()
        await until(lambda: world.source.reads == 1)
        assert await world.ask() == GOOD
        assert world.source.reads == 1


async def test_a_credential_that_cannot_be_read_early_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with in_cluster(tmp_path) as world:
        (tmp_path / "token").unlink()
        world.client.warm()
        world.client.warm()
        assert isinstance(await world.ask(), ReviewFailed)
        assert isinstance(await world.ask(), ReviewFailed)
    assert len(caplog.records) == 1


def test_fr48_nothing_heavy_is_imported_before_the_first_review() -> None:
    program = (
        "import sys\n"
        "from pyrbacproxy.kube.api_client import ApiClient\n"
        "from pyrbacproxy.kube.kubeconfig import KubeSettings\n"
        "from pyrbacproxy.kube.reviewer import Reviewer\n"
        "Reviewer(ApiClient(KubeSettings()), KubeSettings())\n"
        "print({'aiohttp', 'kubernetes_asyncio', 'cryptography'} & set(sys.modules))\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert found.stdout == "set()\n"


REVIEWING = """
import asyncio, sys
import pyrbacproxy.serve
from pyrbacproxy.kube.api_client import ApiClient
from pyrbacproxy.kube.kubeconfig import KubeSettings
from pyrbacproxy.model import BearerToken, TokenReview

async def main():
    client = ApiClient(KubeSettings(kubeconfig=sys.argv[1]))
    answer = await client.review(TokenReview(BearerToken("t")), "10.0.0.1", within_seconds=60.0)
    await client.close()
    print(answer.authenticated, {"aiohttp", "kubernetes_asyncio"} & set(sys.modules))

asyncio.run(main())
"""


async def test_nothing_heavy_is_imported_by_the_first_review_either(tmp_path: Path) -> None:
    path = tmp_path / "kc"
    async with api_server() as stub:
        kubeconfig(path, {"server": stub.url}, {"token": "own-1"})
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", REVIEWING, path, stdout=asyncio.subprocess.PIPE
        )
        output, _ = await child.communicate()
    assert output == b"True set()\n"

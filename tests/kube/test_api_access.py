"""What a kubeconfig can say, by reviews that reach an API server over TLS (reference 6.3, FR39).

The children and the plugins are real programs.
"""

import asyncio
import json
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pyrbacproxy.demo.api_server import ApiServer
from pyrbacproxy.demo.manifests import read_policy
from pyrbacproxy.demo.pki import Authority, server_context
from pyrbacproxy.demo.tokens import TokenEntry, TokenTable
from pyrbacproxy.kube.api_client import ApiClient
from pyrbacproxy.kube.credentials import Credentials, source_of
from pyrbacproxy.kube.kubeconfig import KubeSettings
from pyrbacproxy.model import ReviewFailed, TokenReviewAnswer, UserInfo
from tests.egress_world import world
from tests.kube.parties import TOKEN, ApiStub, Held, api_server, kubeconfig, text_of
from tests.kube.parties import server_context as plain_context

PROXY = UserInfo("pyrbacproxy")
RBAC = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reviewer}
rules: [{apiGroups: [authentication.k8s.io], resources: [tokenreviews], verbs: [create]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: proxy-reviews}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reviewer}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: pyrbacproxy}]
"""
V1 = "client.authentication.k8s.io/v1"
PLUGIN = {"exec": {"command": "./plugin", "apiVersion": V1, "interactiveMode": "Never"}}
# The plugin prints its status file, and counts how often it was asked.
PRINTS = """
import json, pathlib, sys
print("our s3cret", file=sys.stderr)
here = pathlib.Path(sys.argv[0]).parent
with (here / "runs").open("a") as runs:
    runs.write("x")
status = json.loads((here / "status").read_text())
version = "client.authentication.k8s.io/v1"
print(json.dumps({"kind": "ExecCredential", "apiVersion": version, "status": status}))
"""
# What of a proxy reads a kubeconfig.
READS = """
import sys
from pyrbacproxy.kube.credentials import Kubeconfig
Kubeconfig(sys.argv[1]).read()
"""


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test is decided by how busy the machine is."""
    monkeypatch.setattr("pyrbacproxy.kube.api_client.CONNECT_SECONDS", 60.0)
    monkeypatch.setattr("pyrbacproxy.kube.credentials.CHILD_SECONDS", 60.0)


class World:
    """An embedded API server, a folder with a plugin and a kubeconfig, a clock of our own."""

    def __init__(self, folder: Path, authority: Authority) -> None:
        self.folder = folder
        self.authority = authority
        self.tokens = {"own-1": TokenEntry(PROXY), "cl1ent.s3cret": TokenEntry(UserInfo("alice"))}
        tls = server_context(authority.serving("api"), authority)
        self.server = ApiServer(policy=read_policy(RBAC), tokens=TokenTable(self.tokens), tls=tls)
        self.now = 0.0
        plugin = folder / "plugin"
        plugin.write_text(f"#!{sys.executable}\n{PRINTS}")
        plugin.chmod(0o755)
        source = source_of(KubeSettings(kubeconfig=str(folder / "kc")))
        settings = KubeSettings()
        self.client = ApiClient(settings, Credentials(source, clock=lambda: self.now))

    def write(self, user: dict[str, Any], **cluster: Any) -> None:
        """The kubeconfig."""
        ca = {"certificate-authority": str(self.authority.certificate_file)}
        kubeconfig(self.folder / "kc", {"server": self.server.url} | ca | cluster, user)

    def status(self, **status: str) -> None:
        """What the plugin will say."""
        (self.folder / "status").write_text(json.dumps(status))

    @property
    def runs(self) -> int:
        """How often the plugin was run."""
        return len((self.folder / "runs").read_text())

    async def ask(self) -> str:
        """The user whom a review found, or why it failed."""
        answer = await self.client.review(TOKEN, "10.0.0.1", within_seconds=60.0)
        if isinstance(answer, ReviewFailed):
            return answer.reason
        assert isinstance(answer, TokenReviewAnswer)
        assert answer.user is not None
        return answer.user.name


@pytest.fixture(name="access")
async def _access(tmp_path: Path) -> AsyncIterator[World]:
    access = World(tmp_path, Authority(tmp_path))
    await access.server.start()
    try:
        yield access
    finally:
        await access.client.close()
        await access.server.close()


# --- exec plugins ---------------------------------------------------------------------


async def test_a_plugin_s_token_opens_the_door(
    access: World, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    access.write(PLUGIN)
    access.status(token="own-1")
    assert await access.ask() == "alice"
    access.now += 3600
    assert await access.ask() == "alice"
    assert access.runs == 1  # a credential that names no end is good until it is refused
    assert "s3cret" not in f"{caplog.text}{capfd.readouterr()}"


async def test_a_plugin_s_certificate_opens_the_door(access: World) -> None:
    certificate, key = text_of(access.authority.client("me", "pyrbacproxy"))
    access.write(PLUGIN)
    access.status(clientCertificateData=certificate, clientKeyData=key)
    assert await access.ask() == "alice"


async def test_fr39_a_plugin_is_run_again_when_its_credential_has_expired(access: World) -> None:
    access.write(PLUGIN)
    access.status(token="own-1", expirationTimestamp="2001-01-01T00:00:00Z")
    assert await access.ask() == "alice"
    access.tokens["own-2"] = access.tokens.pop("own-1")
    access.status(token="own-2", expirationTimestamp="2901-01-01T00:00:00Z")
    access.now += 5
    assert await access.ask() == "alice"
    access.now += 3600
    assert await access.ask() == "alice"
    assert access.runs == 2


async def test_fr39_a_plugin_is_run_again_on_a_401_but_not_for_every_one(access: World) -> None:
    access.write(PLUGIN)
    access.status(token="own-1")
    await access.ask()
    access.tokens["own-2"] = access.tokens.pop("own-1")
    access.status(token="own-2")
    assert await access.ask() == "alice"
    assert access.runs == 2
    del access.tokens["own-2"]
    for _ in range(5):
        assert await access.ask() == "the API server answered 401"
    assert access.runs == 2  # it was run for a refusal a moment ago


async def test_a_plugin_that_fails_is_a_failed_review_and_heals(
    access: World, caplog: pytest.LogCaptureFixture
) -> None:
    access.write(PLUGIN)
    assert "exec: './plugin' ended with status 1" in await access.ask()
    access.status()
    access.now += 5
    assert "neither a token nor a certificate" in await access.ask()
    access.status(token="own-1")
    access.now += 5
    assert await access.ask() == "alice"
    assert "s3cret" not in caplog.text


async def test_what_the_kubeconfig_itself_says_goes_before_the_plugin(access: World) -> None:
    certificate, key = text_of(access.authority.client("you", "somebody else"))
    access.write(PLUGIN | {"token": "own-1"})
    access.status(clientCertificateData=certificate, clientKeyData=key)
    assert await access.ask() == "alice"


async def test_fr39_a_plugin_s_bad_certificate_is_not_kept(access: World) -> None:
    access.write(PLUGIN)
    access.status(clientCertificateData="s3cret", clientKeyData="s3cret")
    assert "its certificate is no readable PEM" in await access.ask()
    access.status(token="own-1")
    access.now += 5
    assert await access.ask() == "alice"


async def test_closing_does_not_wait_for_a_plugin_and_leaves_none(access: World) -> None:
    held = Held(access.folder / "pipe")
    (access.folder / "plugin").write_text(f"#!{sys.executable}\n{held.program}\n")
    access.write(PLUGIN)
    asking = asyncio.create_task(access.ask())
    await held.is_up()
    await access.client.close()
    await held.is_gone()
    asking.cancel()


async def test_a_plugin_that_hangs_ends_with_a_proxy_that_is_killed(access: World) -> None:
    held = Held(access.folder / "pipe")
    (access.folder / "plugin").write_text(f"#!{sys.executable}\n{held.program}\n")
    access.write(PLUGIN)
    proxy = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", READS, str(access.folder / "kc"))
    )
    await held.is_up()
    proxy.kill()
    await held.is_gone()
    await proxy.wait()


# --- the rest of a user and of a cluster ------------------------------------------------


@asynccontextmanager
async def stubbed(
    tmp_path: Path, user: dict[str, Any], context: ssl.SSLContext | None = None, **cluster: Any
) -> AsyncIterator[tuple[ApiStub, ApiClient]]:
    async with api_server(context) as stub:
        kubeconfig(tmp_path / "kc", {"server": stub.url} | cluster, user)
        client = ApiClient(KubeSettings(kubeconfig=str(tmp_path / "kc")))
        yield stub, client
        await client.close()


async def answered(client: ApiClient) -> TokenReviewAnswer:
    answer = await client.review(TOKEN, "10.0.0.1", within_seconds=60.0)
    assert isinstance(answer, TokenReviewAnswer), answer
    return answer


@pytest.mark.parametrize(
    ("user", "sent"),
    [
        ({"username": "me", "password": "pass:word"}, "Basic bWU6cGFzczp3b3Jk"),
        ({"username": "me"}, "Basic bWU6"),
    ],
)
async def test_a_name_with_a_password(tmp_path: Path, user: dict[str, Any], sent: str) -> None:
    authority = Authority(tmp_path)
    ca = {"certificate-authority": str(authority.certificate_file)}
    async with stubbed(tmp_path, user, plain_context(authority), **ca) as (stub, client):
        await answered(client)
        assert stub.authorizations == [sent]


async def test_a_server_without_tls_gets_no_credential(tmp_path: Path) -> None:
    user = {"token": "s3cret", "as": "admin"}
    async with stubbed(tmp_path, user) as (stub, client):
        await answered(client)
        assert stub.authorizations == [""]
        assert stub.headers[0]["Impersonate-User"] == "admin"


async def test_somebody_else_is_acted_as(tmp_path: Path) -> None:
    extra = {"acme.com/scope": ["b"]}
    user = {"as": "admin", "as-uid": "7", "as-groups": ["g"], "as-user-extra": extra}
    async with stubbed(tmp_path, user | {"token": "own-1"}) as (stub, client):
        await answered(client)
        sent = {name: text for name, text in stub.headers[0].items() if "Impersonate" in name}
    assert sent == {
        "Impersonate-User": "admin",
        "Impersonate-Uid": "7",
        "Impersonate-Group": "g",
        "Impersonate-Extra-acme.com%2Fscope": "b",
    }


async def test_the_server_may_have_another_name(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.serving("api", ["other.test"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate_file, pair.key_file)
    named: list[str | None] = []
    context.sni_callback = lambda _socket, name, _context: named.append(name)
    ca = {"certificate-authority": str(authority.certificate_file)}
    async with stubbed(tmp_path, {}, context, **ca) as (_, client):
        assert isinstance(await client.review(TOKEN, "10.0.0.1"), ReviewFailed)
    async with stubbed(tmp_path, {}, context, **ca, **{"tls-server-name": "other.test"}) as (
        _,
        client,
    ):
        await answered(client)
    assert named[-1] == "other.test"


async def test_a_proxy_of_the_kubeconfig_is_taken_even_on_this_machine(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    context = plain_context(authority)
    async with api_server(context) as stub, world(is_tls=True) as egress:
        egress.answer = b"HTTP/1.1 403 Forbidden\r\n\r\n"
        cluster = {
            "server": stub.url,
            "certificate-authority": str(authority.certificate_file),
            "proxy-url": f"http://me:it@127.0.0.1:{egress.proxy_port}",
        }
        kubeconfig(tmp_path / "kc", cluster)
        client = ApiClient(KubeSettings(kubeconfig=str(tmp_path / "kc")))
        answer = await client.review(TOKEN, "10.0.0.1", within_seconds=60.0)
        await client.close()
    assert isinstance(answer, ReviewFailed)
    assert "refused the tunnel" in answer.reason
    assert egress.asked[0].startswith(f"CONNECT {stub.url.removeprefix('https://')} ".encode())
    assert b"Proxy-Authorization: Basic bWU6aXQ=" in egress.asked[0]


async def test_another_context_is_used_within_a_minute(access: World) -> None:
    access.write({"token": "gone"})
    assert await access.ask() == "the API server answered 401"
    document = json.loads((access.folder / "kc").read_text())
    document["users"].append({"name": "other", "user": {"token": "own-1"}})
    document["contexts"].append({"name": "else", "context": {"cluster": "there", "user": "other"}})
    document["current-context"] = "else"
    (access.folder / "kc").write_text(json.dumps(document))
    access.now += 60
    assert await access.ask() == "alice"

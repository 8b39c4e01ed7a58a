"""Every way of a kubeconfig to reach the API server, by a scrape that needs both reviews.

With `KUBEBUILDER_ASSETS` it is a real one that knows the proxy, or refuses it (reference 6.3).
"""

import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml

from pyrbacproxy.demo.pki import Authority
from tests.e2e.cluster import (
    OPERATOR_USER,
    PROXY_ACCOUNT,
    PROXY_USER,
    READER_ACCOUNT,
    STRANGER_ACCOUNT,
    Cluster,
)
from tests.e2e.programs import Programs
from tests.e2e.proxy import Proxies
from tests.egress_world import World, world

pytestmark = pytest.mark.e2e

User = dict[str, Any]
# A real server names whom it refuses, and what.
REFUSED = r"the API server answered 403: (\S+).* is forbidden: User .+ cannot (create|impersonate) "


class Kubeconfig:
    """A kubeconfig to be written, and what it takes to be believed."""

    def __init__(self, folder: Path, authority: Authority, cluster: Cluster) -> None:
        self.folder = folder
        self.file = folder / "kubeconfig-of-test"
        self.authority = authority
        self.cluster = cluster

    def write(self, user: User, **cluster: str) -> str:
        """Relative paths count from its folder; returns the flag."""
        (self.folder / "ca.crt").write_bytes(self.authority.certificate_file.read_bytes())
        reached = {"server": self.cluster.url, "certificate-authority": "ca.crt", **cluster}
        other = {"server": "https://127.0.0.1:1"}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": reached}, {"name": "other", "cluster": other}],
            "users": [{"name": "u", "user": user}],
            "contexts": [
                {"name": "other", "context": {"cluster": "other", "user": "u"}},
                {"name": "this", "context": {"cluster": "c", "user": "u"}},
            ],
            "current-context": "this",
        }
        self.file.write_text(yaml.safe_dump(document))
        return f"--kubeconfig={self.file}"

    def certificate_user(self, name: str) -> User:
        pair = self.authority.client(f"kubeconfig-{name}", name)
        return {"client-certificate": str(pair.certificate_file), "client-key": str(pair.key_file)}

    async def plugin(self, account: str) -> User:
        """An exec plugin that knows the account's token."""
        status = {"token": await self.cluster.token(account)}
        version = "client.authentication.k8s.io/v1"
        answer = {"apiVersion": version, "kind": "ExecCredential", "status": status}
        plugin = self.folder / "plugin"
        plugin.write_text(f"#!{sys.executable}\nprint({json.dumps(answer)!r})\n")
        plugin.chmod(0o755)
        return {"exec": {"command": "./plugin", "apiVersion": version, "interactiveMode": "Never"}}

    async def token_file(self, account: str) -> User:
        (self.folder / "token").write_text(await self.cluster.token(account))
        return {"tokenFile": "token"}


@pytest.fixture
def kubeconfig(authority: Authority, cluster: Cluster, programs: Programs) -> Kubeconfig:
    # In this order: the programs end before the API server does.
    return Kubeconfig(programs.folder, authority, cluster)


Scrape: TypeAlias = Callable[[str], Awaitable[int]]


@pytest.fixture
def scrape(proxies: Proxies, cluster: Cluster, node_exporter: str) -> Scrape:
    """One scrape by the reader, through a proxy with this flag; its status."""

    async def scraped(flag: str) -> int:
        proxy = await proxies.start(node_exporter, flag)
        status, _ = await proxy.get(token=await cluster.token(READER_ACCOUNT))
        if status != 200:
            await proxy.program.logged(REFUSED)
        return status

    return scraped


async def test_a_token_by_itself(kubeconfig: Kubeconfig, scrape: Scrape, cluster: Cluster) -> None:
    flag = kubeconfig.write({"token": await cluster.token(PROXY_ACCOUNT)})
    assert await scrape(flag) == 200


@pytest.mark.parametrize(
    ("account", "status"), [(PROXY_ACCOUNT, 200), (STRANGER_ACCOUNT, 401)], ids=str
)
@pytest.mark.parametrize("way", ["token_file", "plugin"])
async def test_a_token_by_file_or_plugin(
    kubeconfig: Kubeconfig,
    scrape: Scrape,
    way: str,
    account: str,
    status: int,
) -> None:
    user = await getattr(kubeconfig, way)(account)
    assert await scrape(kubeconfig.write(user)) == status


@pytest.mark.parametrize(
    ("user", "status"),
    [
        pytest.param({"as": PROXY_USER}, 200, id="may"),
        pytest.param({"as": "somebody"}, 401, id="may not be that one"),
        pytest.param({"as": PROXY_USER, "as-groups": ["system:masters"]}, 401, id="nor of them"),
    ],
)
async def test_somebody_else_is_acted_as(
    kubeconfig: Kubeconfig,
    scrape: Scrape,
    user: User,
    status: int,
) -> None:
    flag = kubeconfig.write({**kubeconfig.certificate_user(OPERATOR_USER), **user})
    assert await scrape(flag) == status


async def test_a_server_by_another_name_and_through_a_proxy(
    kubeconfig: Kubeconfig,
    scrape: Scrape,
    programs: Programs,
) -> None:
    user = kubeconfig.certificate_user(PROXY_USER)
    port = int(kubeconfig.cluster.url.rpartition(":")[2])
    async with world(is_tls=False) as egress:
        egress.server_port = port
        flag = kubeconfig.write(
            user,
            server=f"https://api.example.com:{port}",
            **{
                "tls-server-name": "localhost",
                "proxy-url": f"http://127.0.0.1:{egress.proxy_port}",
            },
        )
        assert await scrape(flag) == 200
        assert asked_for(egress) == {f"CONNECT api.example.com:{port} HTTP/1.1"}
        # The tunnels end with the proxy.
        programs.stop()


def asked_for(egress: World) -> set[str]:
    return {request.decode().partition("\r\n")[0] for request in egress.asked}

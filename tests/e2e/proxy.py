"""The proxy under test, as a process with flags, and requests to it."""

import sys
from dataclasses import dataclass

import aiohttp

from pyrbacproxy.demo.pki import Authority, Pair, client_context
from pyrbacproxy.demo.scene import kubeconfig_text
from tests.e2e.cluster import PROXY_USER
from tests.e2e.programs import Program, Programs, free_port


@dataclass(frozen=True, slots=True)
class Proxy:
    """A running proxy; `address` is HOST:PORT."""

    address: str
    program: Program
    authority: Authority

    @property
    def url(self) -> str:
        """Its root, without the slash at the end."""
        return f"https://{self.address}"

    async def get(
        self, path: str = "/metrics", *, token: str = "", pair: Pair | None = None
    ) -> tuple[int, str]:
        """One GET over a connection of its own; status and body."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        trust = client_context(self.authority, pair)
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{self.url}{path}", headers=headers, ssl=trust) as response,
        ):
            return response.status, await response.text()


class Proxies:
    """Starts proxies that know the cluster and serve with the authority's certificates."""

    def __init__(self, authority: Authority, api_server: str, programs: Programs) -> None:
        self._authority = authority
        self._programs = programs
        self._serving = authority.serving("proxy")
        self._kubeconfig = programs.folder / "kubeconfig"
        client = authority.client("proxy-client", PROXY_USER)
        text = kubeconfig_text(api_server, authority.certificate_file, client)
        self._kubeconfig.write_text(text)

    async def start(self, upstream: str, *flags: str, config: str = "") -> Proxy:
        """Start one with these flags more; `config` is an authorization file's text."""
        port = free_port()
        more = list(flags)
        if config:
            config_file = self._programs.folder / f"authorization-{port}.yaml"
            config_file.write_text(config)
            more.append(f"--config-file={config_file}")
        program = self._programs.start(
            "proxy",
            *(sys.executable, "-m", "pyrbacproxy"),
            f"--secure-listen-address=127.0.0.1:{port}",
            f"--upstream={upstream}",
            f"--kubeconfig={self._kubeconfig}",
            f"--tls-cert-file={self._serving.combined_file}",
            f"--tls-private-key-file={self._serving.combined_file}",
            *more,
        )
        # Its own word: somebody else may have taken the port meanwhile, and would answer there.
        await program.logged(rf"Listening securely on (127\.0\.0\.1:{port})\b")
        return Proxy(f"127.0.0.1:{port}", program, self._authority)

"""What an impostor gets to read, of the upstream, API server, issuer and egress proxy: nothing.

Each server has a certificate that Go would refuse, too. The handshake fails, so that no byte of a
request, a credential or a client's data goes out.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import cast

import pytest
from cryptography import x509

from pyrbacproxy.dialing import Route, dial
from pyrbacproxy.egress import EgressProxies, ProxyAddress
from pyrbacproxy.kube.api_client import open_link
from pyrbacproxy.kube.kubeconfig import ApiServer
from pyrbacproxy.oidc.issuer import FetchError, fetch
from pyrbacproxy.proxy.connector import Dialler
from pyrbacproxy.proxy.exchange import Limits
from pyrbacproxy.tls.client_context import client_context
from pyrbacproxy.tls.upstream_context import upstream_context
from tests.egress_world import SECONDS, Talker, world
from tests.kube.parties import TOKEN
from tests.tls.parties import CLIENT, SERVER, Issued, authority, issue

# OpenSSL reads the real clock: these are valid for years around it.
YEARS = (-100_000, 100_000)
ROOT = authority("CN=root", hours=YEARS)
NAMESAKE = authority("CN=root", hours=YEARS)


def names(*hosts: str) -> tuple[x509.ExtensionType, bool]:
    return x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts]), False


def server(
    issuer: Issued = ROOT,
    *extensions: tuple[x509.ExtensionType, bool],
    purposes: tuple[x509.ObjectIdentifier, ...] = SERVER,
    hours: tuple[int, int] = YEARS,
) -> Issued:
    extensions = extensions or (names("localhost"),)
    return issue(
        "CN=localhost", issuer=issuer, purposes=purposes, hours=hours, extensions=extensions
    )


def below(issuer: Issued = ROOT, **more: object) -> Issued:
    """An authority below another."""
    usual = {"is_authority": True, "issuer": issuer, "hours": YEARS}
    return issue("CN=below", **{**usual, **more})  # type: ignore[arg-type] # as `issue` has them


_SHORT = below(path_length=0)
_LONG = below(_SHORT)
_ELSEWHERE = below(
    extensions=(
        (x509.NameConstraints([x509.DNSName("elsewhere.test")], excluded_subtrees=None), True),
    )
)
_NONE = below(is_authority=False)
_NO_SIGNER = below(
    extensions=(
        (
            x509.KeyUsage(
                digital_signature=True,
                key_cert_sign=False,
                **dict.fromkeys(
                    (
                        *("content_commitment", "key_encipherment", "data_encipherment"),
                        *("key_agreement", "crl_sign", "encipher_only", "decipher_only"),
                    ),
                    False,
                ),
            ),
            True,
        ),
    )
)
_UNKNOWN = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"\x05\x00")
# What is shown, leaf first.
IMPOSTORS = {
    "a stranger's authority": (server(NAMESAKE),),
    "signed by itself": (server(authority("CN=self", hours=YEARS)),),
    "another name": (server(ROOT, names("elsewhere.test")),),
    "the name in the CN alone": (server(ROOT, (x509.SubjectKeyIdentifier(b"1"), False)),),
    "a client's purpose": (server(purposes=CLIENT),),
    "expired": (server(hours=(-100_000, -90_000)),),
    "not valid yet": (server(hours=(90_000, 100_000)),),
    "an unknown critical extension": (server(ROOT, names("localhost"), (_UNKNOWN, True)),),
    "an issuer that is no authority": (server(_NONE), _NONE),
    "an issuer that must not sign": (server(_NO_SIGNER), _NO_SIGNER),
    "too long a path": (server(_LONG), _LONG, _SHORT),
    "a name that its authority may not vouch for": (server(_ELSEWHERE), _ELSEWHERE),
}


class Listening(asyncio.Protocol):
    """A server of one connection, which keeps what it can decrypt, and closes at the first byte."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.heard = b""
        self.is_left = asyncio.Event()
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        self._incoming.write(data)
        # An alert of the client's, or bytes that are yet to come.
        with contextlib.suppress(ssl.SSLError):
            self._tls.do_handshake()
            self.heard += self._tls.read(65_536)
        self._transport.write(self._outgoing.read())
        if self.heard:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.is_left.set()


@contextlib.asynccontextmanager
async def talking() -> AsyncIterator[Talker]:
    """Says hello once it is connected; ends when the server closes."""
    talker = Talker()
    yield talker
    await talker.is_left.wait()


async def to_upstream(port: int, ca: Path) -> None:
    dialler = Dialler(
        Limits(connect_seconds=SECONDS),
        is_tls=True,
        host="localhost",
        port=port,
        proxy=None,
        context=lambda: upstream_context(str(ca), "", ""),
    )
    async with talking() as talker:
        await dialler.dial(talker)


async def to_upstream_through_a_tunnel(port: int, ca: Path) -> None:
    """The egress proxy is plain, and connects to the impostor."""
    async with world(is_tls=False) as made:
        made.server_port = port
        proxy = ProxyAddress("http", "127.0.0.1", made.proxy_port)
        context = upstream_context(str(ca), "", "")
        async with talking() as talker:
            await dial(Route("localhost", 443, proxy), talker, context=context)


async def to_api_server(port: int, ca: Path) -> None:
    authorities = await asyncio.to_thread(ca.read_text)
    found = ApiServer(
        f"https://localhost:{port}", ca=authorities, authorization="Bearer own-s3cret"
    )
    link = await open_link(found, EgressProxies())
    await link.post(TOKEN)
    link.retire()


async def to_issuer(port: int, ca: Path) -> None:
    context = upstream_context(str(ca), "", "")
    with contextlib.suppress(FetchError):
        await fetch(f"https://localhost:{port}/x", context=context, proxies=EgressProxies())


async def to_egress_proxy(port: int, _ca: Path) -> None:
    """Its authorities are the system's: `SSL_CERT_FILE` names them."""
    proxy = ProxyAddress("https", "localhost", port, "Basic s3cret")
    async with talking() as talker:
        await dial(Route("api.test", 443, proxy), talker, context=client_context())


PARTIES = [to_upstream, to_upstream_through_a_tunnel, to_api_server, to_issuer, to_egress_proxy]
EVERY_PARTY = pytest.mark.parametrize("connect", PARTIES, ids=lambda to: to.__name__)
EVERY_VERSION = pytest.mark.parametrize(
    "version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=lambda version: version.name
)
Connect = Callable[[int, Path], Awaitable[None]]


@pytest.fixture(name="ca")
def _ca(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "ca"
    path.write_bytes(ROOT.pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    return path


async def heard_by(
    connect: Connect, ca: Path, chain: tuple[Issued, ...], version: ssl.TLSVersion
) -> bytes:
    pair = ca.with_name("pair")
    await asyncio.to_thread(
        pair.write_bytes, b"".join(shown.pem for shown in chain) + chain[0].key_pem()
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = version
    context.load_cert_chain(pair)
    made = Listening(context)
    loop = asyncio.get_running_loop()
    async with (
        asyncio.timeout(60),
        await loop.create_server(lambda: made, "127.0.0.1", 0) as server,
    ):
        with contextlib.suppress(OSError):
            await connect(server.sockets[0].getsockname()[1], ca)
        await made.is_left.wait()
    return made.heard


@EVERY_VERSION
@EVERY_PARTY
@pytest.mark.parametrize("impostor", IMPOSTORS)
async def test_fr73_an_impostor_gets_not_one_byte(
    ca: Path, impostor: str, connect: Connect, version: ssl.TLSVersion
) -> None:
    assert await heard_by(connect, ca, IMPOSTORS[impostor], version) == b""


@EVERY_VERSION
@EVERY_PARTY
async def test_fr73_the_server_itself_does(
    ca: Path, connect: Connect, version: ssl.TLSVersion
) -> None:
    """Or the test above would count nothing whatever was sent."""
    between = below()
    assert await heard_by(connect, ca, (server(between), between), version) != b""

"""An OpenID provider on loopback over TLS, its keys, and what it signs."""

import asyncio
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import jwt
import trustme
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from pyrbacproxy.oidc import tokens as key_set
from pyrbacproxy.oidc.settings import ALGORITHMS, OidcSettings
from pyrbacproxy.oidc.tokens import KeySet

CLIENT_ID = "proxy"
NOW = 1_000_000.0
SETTINGS = OidcSettings(
    "https://issuer.test/realm", CLIENT_ID, username_claim="sub", algorithms=ALGORITHMS
)
PATIENCE_SECONDS = 30.0

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
Document = dict[str, Any]
_CURVES = {"P-256": ec.SECP256R1(), "P-384": ec.SECP384R1(), "P-521": ec.SECP521R1()}


@cache
def private_key(name: str) -> PrivateKey:
    """A key, the same at each call: `rsa-...`, `rsa1024-...` or a curve's name and more."""
    for curve, made in _CURVES.items():
        if name.startswith(curve):
            return ec.generate_private_key(made)
    return rsa.generate_private_key(65537, 1024 if name.startswith("rsa1024") else 2048)


def jwk(name: str, **changes: object) -> Document:
    """The public half as an issuer publishes it; a change to None takes the field out."""
    key = private_key(name).public_key()
    if isinstance(key, rsa.RSAPublicKey):
        document = RSAAlgorithm.to_jwk(key, as_dict=True)
    else:
        document = ECAlgorithm.to_jwk(key, as_dict=True)
    made = {**document, "kid": name, "use": "sig", **changes}
    made.pop("key_ops", None) if "key_ops" not in changes else None
    return {field: value for field, value in made.items() if value is not None}


def key_text(*keys: object) -> bytes:
    return json.dumps({"keys": keys}).encode()


def keys(*names: str) -> KeySet:
    return key_set.parse_key_set(key_text(*(jwk(name) for name in names)))


def claims(**changes: object) -> Document:
    """What a good token of SETTINGS says at NOW; a change to None takes the claim out."""
    usual = {"iss": SETTINGS.issuer, "aud": CLIENT_ID, "exp": NOW + 60, "sub": "alice"}
    return {name: value for name, value in (usual | changes).items() if value is not None}


def signed(payload: Document, key: str = "rsa-1", algorithm: str = "RS256", **header: Any) -> str:
    """A token; a header field that is None is left out."""
    fields = {"kid": key} | header
    return jwt.encode(
        payload,
        private_key(key),
        algorithm,
        headers={name: value for name, value in fields.items() if value is not None},
    )


class Provider:
    """The issuer: what it publishes, how it answers, what it was asked.

    `published` are names of keys; `respond` may answer a path in its stead; while `gate` is closed
    it keeps whoever asks for keys waiting.
    """

    def __init__(self, context: ssl.SSLContext) -> None:
        self.port = 0
        self.issuer = ""
        self.published: tuple[str, ...] = ("rsa-1",)
        self.headers: dict[str, str] = {}
        self.discovery: Document = {}
        self.asked: list[str] = []
        self.respond: Callable[[web.Request], web.StreamResponse | None] = lambda _: None
        self.gate = threading.Event()
        self.gate.set()
        self.context = context
        self._loop = asyncio.new_event_loop()
        self._is_ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        assert self._is_ready.wait(PATIENCE_SECONDS)

    @property
    def key_questions(self) -> int:
        return self.asked.count("/keys")

    def token(self, key: str = "rsa-1", algorithm: str = "RS256", **changes: object) -> str:
        """A token that is good now, but for the changes."""
        usual: Document = {"iss": self.issuer, "exp": int(time.time()) + 600}
        return signed(claims(**{**usual, **changes}), key, algorithm)

    def wait_for(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            assert time.monotonic() < deadline, self.asked
            time.sleep(0.01)

    def close(self) -> None:
        self.gate.set()
        if self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_SECONDS)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        application = web.Application()
        application.router.add_get("/{path:.*}", self._handle)
        runner = web.AppRunner(application, shutdown_timeout=0.1, access_log=None)
        self._loop.run_until_complete(runner.setup())
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=self.context)
        self._loop.run_until_complete(site.start())
        self.port = runner.addresses[0][1]
        self.issuer = f"https://localhost:{self.port}"
        self._is_ready.set()
        self._loop.run_forever()
        self._loop.run_until_complete(runner.cleanup())
        self._loop.close()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.path)
        own = self.respond(request)
        if own is not None:
            return own
        if request.path == "/keys":
            published = key_text(*(jwk(name) for name in self.published))
            await self._loop.run_in_executor(None, self.gate.wait, PATIENCE_SECONDS)
            return web.Response(body=published, headers=self.headers)
        document = {"issuer": self.issuer, "jwks_uri": f"{self.issuer}/keys"}
        return web.json_response({**document, **self.discovery})


def serving(ca: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("localhost", "issuer.test").configure_cert(context)
    return context


@contextmanager
def provider(ca: trustme.CA) -> Iterator[Provider]:
    made = Provider(serving(ca))
    try:
        yield made
    finally:
        made.close()

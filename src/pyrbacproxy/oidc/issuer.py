"""The issuer's keys, kept fresh: discovery until it works, then its key set as its headers say.

One task does all the asking, so that there is never more than one question under way. A key that
nobody knows makes it ask before its time, but at most every 10 s: forged names of keys are no storm
(D14's idea for bad tokens). When the issuer cannot be reached, the keys at hand stay in use.
"""

import asyncio
import logging
import ssl
import time
from collections.abc import Callable

from pyrbacproxy.background import Activity
from pyrbacproxy.oidc import discovery, key_set
from pyrbacproxy.oidc.fetch import Fetched, FetchError, fetch
from pyrbacproxy.oidc.key_set import KeySet
from pyrbacproxy.oidc.settings import OidcSettings

_LOG = logging.getLogger(__name__)

RETRY_SECONDS = 10.0  # reference 3.4
# Below Prometheus's usual scrape timeout of 10 s, as for reviews (D14).
MAX_WAIT_SECONDS = 8.0
MAX_WAITING = 256


class Issuer:
    """Asks as long as `run` runs; `keys` is None until discovery worked.

    `context` gives the TLS context of the moment, `retry_seconds` is the shortest time between two
    questions. Keys that were found again are the same object.
    """

    def __init__(
        self,
        settings: OidcSettings,
        context: Callable[[], ssl.SSLContext],
        *,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self._settings = settings
        self._context = context
        self._retry_seconds = retry_seconds
        self._key_set_url = ""
        self._fault = ""
        self._asked_at = 0.0
        self._is_asking = False
        self._wanted = asyncio.Event()
        self._waiting: list[Callable[[], None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self.keys: KeySet | None = None
        self.activity = Activity("OIDC keys")

    def newer_keys(self, then: Callable[[], None]) -> bool:
        """Call `then` once the issuer was asked for its keys again, or after 8 s without its word.

        False if it won't be asked: not discovered yet, asked a moment ago, or too many wait.
        """
        loop = asyncio.get_running_loop()
        is_due = self._is_asking or loop.time() >= self._asked_at + self._retry_seconds
        if self.keys is None or not is_due or len(self._waiting) >= MAX_WAITING:
            return False
        self._waiting.append(then)
        self._wanted.set()
        if self._timer is None:
            self._timer = loop.call_later(MAX_WAIT_SECONDS, self._answer)
        return True

    async def run(self) -> None:
        """Ask, and ask again in time, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            self._is_asking = True
            seconds = await self.activity.attempt(self._asked)
            self._is_asking = False
            self._asked_at = loop.time()
            # Whoever came meanwhile has their answer with the others.
            self._wanted.clear()
            self._answer()
            try:
                async with asyncio.timeout(seconds):
                    await self._wanted.wait()
            except TimeoutError:
                pass  # nobody wanted it earlier

    def _answer(self) -> None:
        """Tell those who wait to look again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            try:
                then()
            except Exception as error:  # noqa: BLE001 - the others must not wait for it
                self.activity.failed(error, "a request that waited")

    async def _asked(self) -> float:
        """Put newer keys to use, or say why not; the seconds until the next time."""
        try:
            return await self._renewed()
        except (FetchError, ValueError) as error:
            # Its key set may have moved.
            self._key_set_url = ""
            if str(error) != self._fault:
                self._fault = str(error)
                _LOG.error("OIDC issuer %s: %s", self._settings.issuer, error)
            return self._retry_seconds

    async def _renewed(self) -> float:
        issuer = self._settings.issuer
        if not self._key_set_url:
            document = await self._fetched(discovery.discovery_url(issuer), "discovery document")
            self._key_set_url = discovery.key_set_url(document.body, issuer)
        document = await self._fetched(self._key_set_url, "key set")
        keys = key_set.parse(document.body)
        if self._fault or self.keys is None:
            self._fault = ""
            _LOG.info("OIDC issuer %s: its keys are known, %d usable", issuer, len(keys.keys))
        if keys != self.keys:
            self.keys = keys
        return discovery.fresh_seconds(document.headers, time.time())

    async def _fetched(self, url: str, what: str) -> Fetched:
        try:
            return await fetch(url, context=self._context(), proxies=self._settings.proxies)
        except FetchError as error:
            raise FetchError(f"{what}: {error}") from error

"""Changed content → new context or pool; a bad file keeps the old one and says so (D10, D11).

A context or pool in use is never changed, only replaced: new connections take the new context,
those that live keep theirs, and a new pool holds for every later request.
"""

import logging
import math
import time
from collections.abc import Callable, Sequence

from OpenSSL import SSL

from pyrbacproxy.background import Activity
from pyrbacproxy.tls.certificate import instant_text, name_text
from pyrbacproxy.tls.client_chain import ClientCaPool
from pyrbacproxy.tls.files import TlsFileError, WatchedFiles
from pyrbacproxy.tls.server_context import TlsSettings, parse_pair, parse_pool, server_context

_LOG = logging.getLogger(__name__)

SERVING_PAIR = "serving certificate"
CLIENT_CA = "client CA"


class TlsReloader:
    """Keeps the serving pair, the client CA pool and `others` as fresh as their files.

    Without files (self-signed pair, no client CA) there is nothing to call `on_context` or
    `on_pool` for. `others` are checked at the same interval (the upstream's CA and pair). With
    `is_pair_awaited` the serving pair may come later, when `load_pair` finds it; likewise with
    `is_client_ca_awaited`. `clock` tells the time in epoch seconds.
    """

    def __init__(
        self,
        settings: TlsSettings,
        on_context: Callable[[SSL.Context], None],
        on_pool: Callable[[ClientCaPool], None],
        others: Sequence[WatchedFiles] = (),
        *,
        is_pair_awaited: bool = False,
        is_client_ca_awaited: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._interval_seconds = settings.reload_seconds
        self.activity = Activity("certificate reload")
        self._watched = list(others)
        # By name: those that may come later.
        self._awaited: dict[str, WatchedFiles] = {}
        if settings.certificate_file and is_pair_awaited:
            self._awaited[SERVING_PAIR] = _serving_pair(settings, on_context, clock)
        elif settings.certificate_file:
            self._watched.append(_serving_pair(settings, on_context, clock))
        if settings.client_ca_file and is_client_ca_awaited:
            self._awaited[CLIENT_CA] = _client_ca(settings.client_ca_file, on_pool)
        elif settings.client_ca_file:
            self._watched.append(_client_ca(settings.client_ca_file, on_pool))

    def load(self) -> None:
        """Read everything, for the start. Raises TlsFileError."""
        for watched in self._watched:
            watched.load()

    def load_pair(self) -> None:
        """Read the awaited pair; once it is whole it is kept fresh as the rest.

        Raises TlsFileError.
        """
        self._load_awaited(SERVING_PAIR)

    def load_client_ca(self) -> None:
        """The same for the client CA."""
        self._load_awaited(CLIENT_CA)

    def _load_awaited(self, name: str) -> None:
        if name in self._awaited:
            self._awaited[name].load()
            self._watched.append(self._awaited.pop(name))

    def check(self) -> None:
        """Put to use what has changed; log what is bad.

        Raises an ExceptionGroup, after all files, of what is unforeseen.
        """
        unforeseen: list[Exception] = []
        for watched in self._watched:
            try:
                watched.check()
            except Exception as error:  # noqa: BLE001 - the other files must not wait for it
                unforeseen.append(error)
        if unforeseen:
            raise ExceptionGroup("files that could not be put to use", unforeseen)

    @property
    def watched(self) -> tuple[WatchedFiles, ...]:
        """All that is kept fresh by now."""
        return tuple(self._watched)

    def faults(self) -> dict[str, str]:
        """What is wrong with the newest content of which files; `SERVING_PAIR` is one key."""
        awaited = dict.fromkeys(self._awaited, "not there yet")
        return awaited | {one.name: one.fault for one in self._watched if one.fault}

    async def run(self) -> None:
        """Check at every interval, until cancelled."""
        await self.activity.repeat(self._checked, self._interval_seconds)

    async def _checked(self) -> float:
        self.check()
        return self._interval_seconds


class _ServingPair:
    """Puts the newest pair to use, but no expired one in the place of one that is valid (D39)."""

    def __init__(
        self,
        settings: TlsSettings,
        on_context: Callable[[SSL.Context], None],
        clock: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._on_context = on_context
        self._clock = clock
        # When the pair in use expires, in epoch seconds.
        self._not_after = -math.inf

    def use(self, contents: tuple[bytes, ...]) -> None:
        """Serve the pair in the files' contents. Raises TlsFileError."""
        settings = self._settings
        path = settings.certificate_file
        # One file for both is read once.
        pair = parse_pair(contents[0], path, contents[-1], settings.key_file)
        leaf, now = pair.leaf, self._clock()
        subject, end = name_text(leaf.subject_attributes), instant_text(leaf.not_after)
        expiry = f"the certificate of {subject} expired at {end}"
        is_expired = now > leaf.not_after
        if is_expired and now <= self._not_after:
            still = instant_text(self._not_after)
            raise TlsFileError(path, f"{expiry}, the one in use is valid until {still}")
        self._on_context(server_context(pair, settings))
        self._not_after = leaf.not_after
        if is_expired:
            _LOG.warning("%s: %s: clients that verify it will refuse it", path, expiry)
        _warn_of_headers(path, pair.with_headers)


def _serving_pair(
    settings: TlsSettings, on_context: Callable[[SSL.Context], None], clock: Callable[[], float]
) -> WatchedFiles:
    certificate_file, key_file = settings.certificate_file, settings.key_file
    paths = (certificate_file,) if certificate_file == key_file else (certificate_file, key_file)
    return WatchedFiles(SERVING_PAIR, paths, _ServingPair(settings, on_context, clock).use)


def _client_ca(path: str, on_pool: Callable[[ClientCaPool], None]) -> WatchedFiles:
    def use(contents: tuple[bytes, ...]) -> None:
        pool = parse_pool(contents[0], path)
        on_pool(pool)
        _warn_of_headers(path, pool.with_headers)

    return WatchedFiles(CLIENT_CA, (path,), use)


def _warn_of_headers(path: str, numbers: tuple[int, ...]) -> None:
    for number in numbers:
        _LOG.warning("%s: certificate %d is not used, for it has PEM headers", path, number)

"""POST one review to the API server: rate, deadline, credential; failure → `ReviewFailed`.

It neither decides nor remembers answers; trying again is `kube.reviewer`'s.
"""

import asyncio

from pyrbacproxy.kube import review_codec
from pyrbacproxy.kube.attempt import FailedAttempt
from pyrbacproxy.kube.credentials import CredentialError, Credentials, source_of
from pyrbacproxy.kube.kubeconfig import ApiServer, KubeSettings
from pyrbacproxy.kube.link import UNAUTHORIZED, Link, open_link
from pyrbacproxy.kube.turns import WAIT_SECONDS, Turns
from pyrbacproxy.reviews import Answer, Review, ReviewFailed

CALL_SECONDS = 8.0  # below Prometheus's usual scrape timeout of 10 s (D14)


class NoApiServer:
    """Stands for the API server that nobody has configured (D20): every review fails."""

    async def review(
        self,
        _review: Review,
        _asker: str,
        *,
        is_preferred: bool = False,  # noqa: ARG002 -- the client's signature
        within_seconds: float = CALL_SECONDS,  # noqa: ARG002 -- likewise
    ) -> Answer:
        """A failure."""
        return ReviewFailed("no API server is configured")

    def warm(self) -> None:
        """Nothing to read."""

    async def close(self) -> None:
        """Nothing to close."""


class ApiClient:
    """The API server of the settings."""

    def __init__(self, settings: KubeSettings, credentials: Credentials | None = None) -> None:
        self._credentials = credentials or Credentials(source_of(settings))
        self._proxies = settings.proxies
        self._authentication = Turns(per_second=settings.qps, burst=settings.burst)
        self._authorization = (
            self._authentication
            if settings.is_rate_shared
            else Turns(per_second=settings.qps, burst=settings.burst)
        )
        self._link: Link | None = None
        self._linking = asyncio.Lock()

    async def review(
        self,
        review: Review,
        asker: str,
        *,
        is_preferred: bool = False,
        within_seconds: float = CALL_SECONDS,
    ) -> Answer:
        """One call, or two when the first was refused with a credential that has been replaced
        since.

        `asker` is the peer's address: peers take turns when the rate is reached, those who are
        `is_preferred` first.
        """
        try:
            async with asyncio.timeout(within_seconds):
                turns = self._turns(review)
                if not await turns.turn(asker, is_preferred=is_preferred):
                    return FailedAttempt(f"our own rate left no room within {WAIT_SECONDS:g} s")
                return await self._asked(review)
        except TimeoutError:
            return FailedAttempt(f"the API server gave no answer within {within_seconds:.1f} s")
        except CredentialError as error:
            return FailedAttempt(str(error))

    def warm(self) -> None:
        """Begin to read the credential, so that the first review need not wait for it.

        For whoever knows that reviews will come. A failure is logged by `Credentials`, once.
        """
        self._credentials.begin_reading()

    async def close(self) -> None:
        """Close every connection, and end a reading of the credential."""
        self._credentials.close()
        self._drop_link()

    def _turns(self, review: Review) -> Turns:
        is_token = review_codec.api_group(review) == "authentication.k8s.io"
        return self._authentication if is_token else self._authorization

    async def _asked(self, review: Review) -> Answer:
        server = await self._credentials.current()
        answer, status = await self._posted(server, review)
        if status == UNAUTHORIZED:
            renewed = await self._credentials.after_refusal(server)
            if renewed != server:
                answer, _ = await self._posted(renewed, review)
        return answer

    async def _posted(self, server: ApiServer, review: Review) -> tuple[Answer, int]:
        try:
            link = await self._link_to(server)
        except OSError:  # ssl.SSLError is one
            return FailedAttempt(f"{server.url}: the CA or client certificate is unusable"), 0
        return await link.post(review)

    async def _link_to(self, server: ApiServer) -> Link:
        """The connections with this credential; those with another are closed when their last call
        is over.
        """
        async with self._linking:
            if self._link is None or self._link.server != server or self._link.is_dead:
                self._drop_link()
                self._link = await open_link(server, self._proxies)
            return self._link

    def _drop_link(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.retire()

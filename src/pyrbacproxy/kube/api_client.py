"""POST one review to the API server: rate, deadline, credential; failure → `ReviewFailed`.

It neither decides nor remembers answers; trying again is `kube.reviewer`'s.
"""

import asyncio
from dataclasses import dataclass

from pyrbacproxy.background import Activity
from pyrbacproxy.kube import review_codec
from pyrbacproxy.kube.attempt import Cause, FailedAttempt
from pyrbacproxy.kube.credentials import CredentialError, Credentials, source_of
from pyrbacproxy.kube.kubeconfig import ApiServer, KubeSettings
from pyrbacproxy.kube.link import CONNECT_SECONDS, UNAUTHORIZED, Link, open_link
from pyrbacproxy.kube.turns import WAIT_SECONDS, Turns
from pyrbacproxy.reviews import Answer, Review

CALL_SECONDS = 8.0  # below Prometheus's usual scrape timeout of 10 s (D14)


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

    @property
    def activity(self) -> Activity:
        """The reading of our credential."""
        return self._credentials.activity

    @property
    def generation(self) -> int:
        """Changes when another API server is asked, or another CA vouches for it."""
        return self._credentials.generation

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
        deadline = _Deadline(asyncio.get_running_loop().time() + within_seconds, within_seconds)
        try:
            async with asyncio.timeout_at(deadline.at):
                turns = self._turns(review)
                if not await turns.turn(asker, is_preferred=is_preferred):
                    text = f"our own rate left no room within {WAIT_SECONDS:g} s"
                    return FailedAttempt(text, cause=Cause.NOT_ASKED)
                server = await self._credentials.current()
            return await self._asked(server, review, deadline)
        except TimeoutError:
            # Not the API server's time: our own turn's, or a credential's.
            return deadline.failure(Cause.NOT_ASKED)
        except CredentialError as error:
            return FailedAttempt(str(error), cause=Cause.NOT_ASKED)

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

    async def _asked(self, server: ApiServer, review: Review, deadline: "_Deadline") -> Answer:
        answer, status = await self._posted(server, review, deadline)
        if status == UNAUTHORIZED:
            async with asyncio.timeout_at(deadline.at):
                renewed = await self._credentials.after_refusal(server)
            if renewed != server:
                answer, _ = await self._posted(renewed, review, deadline)
        return answer

    async def _posted(
        self, server: ApiServer, review: Review, deadline: "_Deadline"
    ) -> tuple[Answer, int]:
        try:
            async with asyncio.timeout_at(deadline.at):
                link = await self._link_to(server)
        except TimeoutError:
            raise
        except OSError:  # ssl.SSLError is one
            text = f"{server.url}: the CA or client certificate is unusable"
            return FailedAttempt(text, cause=Cause.NOT_ASKED), 0
        # Waiting for our turn, for a credential or between two tries is no silence of the server's.
        had_time = deadline.at - asyncio.get_running_loop().time() >= CONNECT_SECONDS
        try:
            async with asyncio.timeout_at(deadline.at):
                return await link.post(review)
        except TimeoutError:
            return deadline.failure(Cause.AWAY if had_time else Cause.NOT_ASKED), 0

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


@dataclass(frozen=True, slots=True)
class _Deadline:
    """When a call must be over, in the loop's time, and the seconds that it had."""

    at: float
    seconds: float

    def failure(self, cause: Cause) -> FailedAttempt:
        """It is over without an answer."""
        text = f"the API server gave no answer within {self.seconds:.1f} s"
        return FailedAttempt(text, cause=cause)

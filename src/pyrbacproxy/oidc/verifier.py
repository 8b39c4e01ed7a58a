"""Answers a TokenReview in the API server's stead, by the issuer's keys and the time.

Nothing is remembered: a token is judged anew for each request, so no answer outlives the token's
expiry or the key set that it was given by (reference 3.4: "no result cache").
"""

from collections.abc import Callable
from typing import Protocol

from pyrbacproxy.oidc.claims import Refused
from pyrbacproxy.oidc.key_set import KeySet
from pyrbacproxy.oidc.settings import OidcSettings
from pyrbacproxy.oidc.token import judge
from pyrbacproxy.reviews import Answer, TokenReview, TokenReviewAnswer
from pyrbacproxy.user import UserInfo

NEVER_AGAIN = 0.0


class KeySource(Protocol):
    """The issuer's keys: `oidc.issuer.Issuer`."""

    @property
    def keys(self) -> KeySet | None:
        """Those at hand, the same object as long as they stay the same; None while there are none
        yet.
        """
        ...

    def newer_keys(self, then: Callable[[], None]) -> bool:
        """Call `then` when there may be newer ones; False if that won't be."""
        ...


class Verifier:
    """Judges tokens. `wall_clock` tells seconds since the epoch."""

    def __init__(
        self, settings: OidcSettings, source: KeySource, wall_clock: Callable[[], float]
    ) -> None:
        self._settings = settings
        self._source = source
        self._wall_clock = wall_clock

    def ask(
        self, review: TokenReview, resume: Callable[[Answer, float], None]
    ) -> tuple[Answer, float] | None:
        """The answer, and that it can't be used again; None: then `resume` gets both later.

        Only a token of our issuer that is signed by a key we have not seen may have to wait, while
        the issuer is asked for newer keys.
        """
        token = review.token.reveal()
        keys, judged = self._source.keys, self._judged(token)
        if isinstance(judged, Refused) and judged.is_key_unknown:

            def judge_again() -> None:
                # Forged tokens wait in numbers, and are told all at once: by the same keys none is
                # looked at twice.
                is_news = self._source.keys is not keys
                resume(_answer(self._judged(token) if is_news else judged), NEVER_AGAIN)

            if self._source.newer_keys(judge_again):
                return None
        return _answer(judged), NEVER_AGAIN

    def _judged(self, token: str) -> UserInfo | Refused:
        keys = self._source.keys
        if keys is None:
            return Refused("the issuer's keys are not known yet")
        return judge(token, keys, self._settings, self._wall_clock())


def _answer(judged: UserInfo | Refused) -> TokenReviewAnswer:
    if isinstance(judged, Refused):
        return TokenReviewAnswer(authenticated=False, error=judged.reason)
    return TokenReviewAnswer(authenticated=True, user=judged)

"""Stands for the API server that nobody has configured (D20): every review fails."""

from pyrbacproxy.reviews import Answer, Review, ReviewFailed


class NoApiServer:
    """A `reviewer.Client`; apart from the real one, whose parts a proxy without it never needs."""

    async def review(
        self,
        _review: Review,
        _asker: str,
        *,
        is_preferred: bool,  # noqa: ARG002 -- the client's signature
        within_seconds: float,  # noqa: ARG002 -- likewise
    ) -> Answer:
        """A failure."""
        return ReviewFailed("no API server is configured")

    def warm(self) -> None:
        """Nothing to read."""

    async def close(self) -> None:
        """Nothing to close."""

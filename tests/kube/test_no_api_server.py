"""Reviews without an API server."""

from pyrbacproxy.kube.reviewer import Client, NoApiServer
from pyrbacproxy.model import BearerToken, ReviewFailed, TokenReview


async def test_d20_without_an_api_server_every_review_fails() -> None:
    nobody: Client = NoApiServer()
    review = TokenReview(BearerToken("t"))
    answer = await nobody.review(review, "10.0.0.1", is_preferred=False, within_seconds=1.0)
    assert answer == ReviewFailed("no API server is configured")
    NoApiServer().warm()
    await NoApiServer().close()

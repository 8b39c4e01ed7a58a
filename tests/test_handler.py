"""The seam: any function from `Request` to a verdict is a handler, what drives one a runner."""

from collections.abc import Callable
from typing import TypeVar

from pyrbacproxy.handler import Forward, Handler, Request, Respond, Runner, Verdict
from pyrbacproxy.http1.head import text
from pyrbacproxy.model import BearerToken, Decided, Outcome, Reviewed, ReviewFailed, TokenReview
from tests.fakes import drive, request

T = TypeVar("T")


def teapot(request: Request) -> Reviewed[Verdict]:
    """Answers 418 to who has no token, forwards the others."""
    if b"authorization" not in request.head.headers:
        return Respond(text(418, "short\n"), Decided(Outcome.REFUSED))
    yield TokenReview(BearerToken("t"))
    return Forward(request.head, Decided(Outcome.ALLOWED))


class FailingRunner:
    """Fails every review at once."""

    def run(
        self, steps: Reviewed[T], asker: str, done: Callable[[T, float, tuple[str, ...]], None]
    ) -> Callable[[], None]:
        try:
            next(steps)
            while True:
                steps.send(ReviewFailed(f"nobody answers {asker}"))
        except StopIteration as stop:
            done(stop.value, 0.0, ("TokenReview",))
        return list[None]().clear


def test_a_handler_responds_or_forwards() -> None:
    handler: Handler = teapot
    verdict, asked = drive(handler(request()))
    assert isinstance(verdict, Respond)
    assert (verdict.response.status, asked) == (418, [])
    verdict, asked = drive(handler(request(b"/", (b"Authorization", b"x"))), [ReviewFailed("no")])
    assert isinstance(verdict, Forward)
    assert len(asked) == 1


def test_a_runner_calls_back_with_the_result() -> None:
    results: list[tuple[Verdict, float, tuple[str, ...]]] = []
    runner: Runner = FailingRunner()
    runner.run(
        teapot(request(b"/", (b"Authorization", b"x"))), "192.0.2.1", lambda *r: results.append(r)
    )
    assert [(type(verdict), *rest) for verdict, *rest in results] == [
        (Forward, 0.0, ("TokenReview",))
    ]

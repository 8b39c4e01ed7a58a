"""The seam between data plane and decisions: `Request` in, `Forward` or `Respond` out.

The data plane knows nothing of who decides; a handler knows nothing of sockets. `Runner` drives a
handler's generator and asks the API server on its behalf.
"""

from collections.abc import Callable
from typing import Protocol, TypeAlias, TypeVar

from pyrbacproxy.http1.head import RequestHead, Response
from pyrbacproxy.http1.target import Target
from pyrbacproxy.model import Decided, Peer, Reviewed
from pyrbacproxy.values import Frozen

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class Request(Frozen):
    """One request as the handler sees it. `received_at` is seconds since the epoch."""

    head: RequestHead
    target: Target
    peer: Peer
    received_at: float


class Forward(Frozen):
    """Pass the request on with this finished head: stripped, identity set, nothing left to decide.

    `head.target` is origin-form and not yet joined to the upstream's base path.
    """

    head: RequestHead
    decided: Decided


class Respond(Frozen):
    """Answer this and forward nothing."""

    response: Response
    decided: Decided


Verdict: TypeAlias = Forward | Respond
Handler: TypeAlias = Callable[[Request], Reviewed[Verdict]]


class Runner(Protocol):
    """Drives a `Reviewed[T]` to its end."""

    def run(
        self, steps: Reviewed[T], asker: str, done: Callable[[T, float, tuple[str, ...]], None]
    ) -> Callable[[], None]:
        """Run `steps`, then call `done(result, usable_until, waited_for)`: before returning if
        every answer was at hand, later otherwise.

        `asker` is the peer's address, for fairness among peers. `usable_until` (monotonic seconds)
        is how long the same steps would get the same answers: infinity when nothing was asked, 0.0
        when an answer may not be reused. `waited_for` names the kinds of review (`TokenReview`,
        `SubjectAccessReview`) whose answers were not at hand. The returned function cancels: `done`
        is not called after it. An exception that `steps` raises before the first wait propagates;
        later ones are given to the event loop's exception handler.
        """
        ...

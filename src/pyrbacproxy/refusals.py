"""The answers 401, 403 and 500 and what the log says beside them, the same for every chain.

Statuses, bodies and lines are the original's (reference 3.8), with the challenge that RFC 9110
§15.5.2 demands (D26). The client learns user, verb and resource, never the path, the reason, or why
its credential is no good.
"""

import json

from pyrbacproxy.authn.authenticator import Rejected
from pyrbacproxy.authz.attributes import Attributes, describe
from pyrbacproxy.authz.authorizer import Decision
from pyrbacproxy.handler import Respond
from pyrbacproxy.http1.response import Response, text
from pyrbacproxy.record import Decided, Note, Outcome
from pyrbacproxy.reviews import ReviewFailed

_UNAUTHORIZED = text(401, "Unauthorized\n", (b"WWW-Authenticate", b"Bearer"))


def refused(response: Response) -> Respond:
    """An answer to a request that nobody's credential would help."""
    return Respond(response, Decided(Outcome.REFUSED))


def unauthenticated(rejected: Rejected | None) -> Respond:
    """401; the log says why, unless there was no credential at all."""
    notes: tuple[Note, ...] = ()
    if rejected:
        line = f"Unable to authenticate the request due to an error: {rejected.reason}"
        notes = (note(0, line, is_error=True),)
    return Respond(_UNAUTHORIZED, Decided(Outcome.UNAUTHENTICATED, notes=notes))


def not_allowed(
    attributes: Attributes,
    judgement: Decision | ReviewFailed,
    decided: Decided,
    *,
    words: str = "",
) -> Respond:
    """403 for a decision that does not allow, 500 for a review that failed; completes `decided`.

    `words` replace the usual ones about the attributes, where more than one was tried.
    """
    words = words or describe(attributes)
    if isinstance(judgement, ReviewFailed):
        said = f"Authorization error {words}"
        decided.outcome = Outcome.ERROR
        decided.decision_source = "review"
        decided.notes = (note(0, f"{said}: {judgement.reason}", is_error=True),)
        return Respond(_spoken(500, said), decided)
    said = f"Forbidden {words}"
    decided.outcome = Outcome.DENIED
    decided.decision_source = judgement.source
    reason = json.dumps(judgement.reason, ensure_ascii=False)
    decided.notes = (note(2, f"{said}. Reason: {reason}."),)
    return Respond(_spoken(403, said), decided)


def note(level: int, line: str, *, is_error: bool = False) -> Note:
    """One line, whatever names from the wire hold."""
    return Note(level, line if line.isprintable() else ascii(line), is_error)


def _spoken(status: int, said: str) -> Response:
    # Names from the wire may hold bytes that are no UTF-8; in an answer they become "?".
    return text(status, said.encode(errors="replace").decode() + "\n")

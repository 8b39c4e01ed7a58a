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
from pyrbacproxy.reviews import NonResourceAttributes, ReviewFailed

_UNAUTHORIZED = text(401, "Unauthorized\n", (b"WWW-Authenticate", b"Bearer"))


def refused(response: Response, why: str = "") -> Respond:
    """An answer to a request that nobody's credential would help; the log says `why`."""
    notes = (note(0, f"Refused: {why}"),) if why else ()
    return Respond(response, Decided(Outcome.REFUSED, notes=notes))


def unauthenticated(rejected: Rejected | None) -> Respond:
    """401; the log says why."""
    notes = (note(0, "Unauthorized: the request has no credential"),)
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
    decided.asked = _asked(attributes)
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


def _asked(attributes: Attributes) -> str:
    """All that was asked for, unlike `describe`, which the client gets too."""
    action = attributes.action
    if isinstance(action, NonResourceAttributes):
        return f"{action.verb} {action.path}"
    parts = (action.group, action.version, action.resource, action.subresource)
    named = (("namespace", action.namespace), ("name", action.name))
    where = "".join(f" {key} {value}" for key, value in named if value)
    return f"{action.verb} {'/'.join(part for part in parts if part)}{where}"


def note(level: int, line: str, *, is_error: bool = False) -> Note:
    """One line, whatever names from the wire hold."""
    return Note(level, line if line.isprintable() else ascii(line), is_error)


def _spoken(status: int, said: str) -> Response:
    # Names from the wire may hold bytes that are no UTF-8; in an answer they become "?".
    return text(status, said.encode(errors="replace").decode() + "\n")

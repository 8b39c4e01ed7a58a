"""What is no request, for it breaks the protocol: our answer to it, and its record."""

from http import HTTPStatus

from pyrbacproxy.http1.response import Response, text
from pyrbacproxy.record import Decided, ExchangeRecord, Failure, Note, Outcome


def refusal(status: int) -> Response:
    """Our answer to a client that broke the protocol: the status in words; the connection ends."""
    return text(status, f"{status} {HTTPStatus(status).phrase}", must_close=True)


def malformed(
    peer_address: str, status: int, instant: float, why: object = "malformed request"
) -> ExchangeRecord:
    """The record of a request that never became an exchange; `instant` is monotonic seconds.

    `status` is 0 for what gets no answer. `why` is for the log, in our own words.
    """
    return ExchangeRecord(
        peer_address,
        "",
        "",
        decided=Decided(Outcome.REFUSED, notes=(Note(0, f"Refused: {why}"),)),
        status=status,
        started_at=instant,
        ended_at=instant,
        failure=Failure.MALFORMED_REQUEST,
    )

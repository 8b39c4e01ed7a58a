"""`/statusz`: what runs here, since when, and which pages there are (KEP-4827).

The text is for eyes alone: its delimiter changes from one request to the next, so that nobody
scrapes it. Programs ask for the structured form.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from pyrbacproxy.admin.negotiation import GROUP, Text, negotiated, structured
from pyrbacproxy.admin.status import COMPONENT, Program, Status, status_at
from pyrbacproxy.admin.structured import Value
from pyrbacproxy.handler import Request
from pyrbacproxy.http1.response import Response, text

KIND = "Statusz"
DELIMITERS = (":", ": ", "=", " ")
WARNING = (
    "Warning: This endpoint is not meant to be machine parseable, "
    "has no formatting compatibility guarantees and is for debugging purposes only."
)
# Names of our own: strftime's depend on the locale.
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = (*("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),)
# Go's html.EscapeString.
_ESCAPES = str.maketrans({"<": "&lt;", ">": "&gt;", "&": "&amp;", "'": "&#39;", '"': "&#34;"})


@dataclass(frozen=True, slots=True)
class Statusz:
    """The page. `delimiter` gives one of `DELIMITERS`, any one, at each call."""

    program: Program
    paths: tuple[str, ...]
    delimiter: Callable[[], str]

    def __call__(self, request: Request) -> Response:
        """The page as the request wants it."""
        status = status_at(self.program, self.paths, request.received_at)
        form = negotiated(request, KIND)
        if isinstance(form, Response):
            return form
        if isinstance(form, Text):
            return text(200, _text(status, self.delimiter()))
        return structured(form, KIND, _object(status, form.version))


def _text(status: Status, delimiter: str) -> str:
    program = status.program
    minutes, seconds = divmod(status.uptime_seconds, 60)
    hours, minutes = divmod(minutes, 60)
    lines = (
        ("Started", _unix_date(status.started_at)),
        ("Up", f"{hours} hr {minutes:02} min {seconds:02} sec"),
        ("Python version", program.language),
        ("Binary version", program.version),
        ("Emulation version", program.emulation),
        ("Paths", " ".join(status.paths)),
    )
    shown = (
        f"{label}{delimiter} {value.translate(_ESCAPES)}" if value else "" for label, value in lines
    )
    return "\n".join(("", f"{COMPONENT} statusz", WARNING, "", *shown, ""))


def _object(status: Status, version: str) -> dict[str, Value]:
    program = status.program
    started_at = datetime.fromtimestamp(status.started_at, UTC)
    emulation: dict[str, Value] = (
        {"emulationVersion": program.emulation} if program.emulation else {}
    )
    return {
        "kind": KIND,
        "apiVersion": f"{GROUP}/{version}",
        "metadata": {"name": COMPONENT},
        "startTime": f"{started_at:%Y-%m-%dT%H:%M:%SZ}",
        "uptimeSeconds": status.uptime_seconds,
        "goVersion": program.language,
        "binaryVersion": program.version,
        **emulation,
        "paths": status.paths,
    }


def _unix_date(seconds: int) -> str:
    """Go's UnixDate, always in UTC."""
    at = datetime.fromtimestamp(seconds, UTC)
    day, month = _DAYS[at.weekday()], _MONTHS[at.month - 1]
    return f"{day} {month} {at.day:2} {at:%H:%M:%S} UTC {at.year}"

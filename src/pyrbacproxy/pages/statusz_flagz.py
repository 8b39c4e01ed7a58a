"""The pages `/statusz` (KEP-4827), `/flagz` (KEP-4828) and `/version`."""

import re
from collections.abc import Callable
from datetime import UTC, datetime

from pyrbacproxy.handler import Request
from pyrbacproxy.http1.head import Headers, Response, text
from pyrbacproxy.pages.negotiation import (
    GROUP,
    Object,
    Text,
    Value,
    json_text,
    negotiated,
    structured,
)
from pyrbacproxy.pages.status import COMPONENT, Program, Status, status_at
from pyrbacproxy.values import Frozen

# --- statusz --------------------------------------------------------------------------
#
# `/statusz`: what runs here, since when, and which pages there are (KEP-4827).
#
# The text is for eyes alone: its delimiter changes from one request to the next, so that nobody
# scrapes it. Programs ask for the structured form.

STATUSZ_KIND = "Statusz"
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


class Statusz(Frozen):
    """The page. `delimiter` gives one of `DELIMITERS`, any one, at each call."""

    program: Program
    paths: tuple[str, ...]
    delimiter: Callable[[], str]

    def __call__(self, request: Request) -> Response:
        """The page as the request wants it."""
        status = status_at(self.program, self.paths, request.received_at)
        form = negotiated(request, STATUSZ_KIND)
        if isinstance(form, Response):
            return form
        if isinstance(form, Text):
            return text(200, _text(status, self.delimiter()))
        return structured(form, STATUSZ_KIND, _object(status, form.version))


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
        "kind": STATUSZ_KIND,
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


# --- flagz ----------------------------------------------------------------------------
#
# `/flagz`: every flag with its current value, secrets masked (KEP-4828).
#
# The text is made once, so that its delimiter never changes.

FLAGZ_KIND = "Flagz"


class Flagz:
    """The page. `flags` are name and value as they may be shown, sorted by name."""

    __slots__ = ("_flags", "_text")

    def __init__(self, flags: tuple[tuple[str, str], ...], delimiter: str) -> None:
        self._flags = dict(flags)
        lines = (f"{name}{delimiter}{value}" for name, value in flags)
        self._text = "\n".join(("", f"{COMPONENT} flagz", WARNING, *lines, ""))

    def __call__(self, request: Request) -> Response:
        """The page as the request wants it."""
        form = negotiated(request, FLAGZ_KIND)
        if isinstance(form, Response):
            return form
        if isinstance(form, Text):
            return text(200, self._text)
        value: Object = {
            "kind": FLAGZ_KIND,
            "apiVersion": f"{GROUP}/{form.version}",
            "metadata": {"name": COMPONENT},
            "flags": self._flags,
        }
        return structured(form, FLAGZ_KIND, value)


# --- version --------------------------------------------------------------------------
# `/version`: Kubernetes' version.Info about ourselves.

_NUMBERS = re.compile(r"([0-9]+)\.([0-9]+)")
_HEADERS = Headers(((b"Content-Type", b"application/json"),))


def version_info(program: Program) -> dict[str, str]:
    """The fields of version.Info, in their order, without those that the build did not know."""
    found = _NUMBERS.match(program.version)
    major, minor = found.groups() if found else ("", "")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"v{program.version}",
        **program.build,
        "goVersion": program.language,
        "compiler": program.implementation,
        "platform": program.platform,
    }


def version_page(program: Program) -> Response:
    """The page; nothing on it changes while the program runs."""
    written = json_text({**version_info(program)}, is_pretty=True)
    return Response(200, _HEADERS, written.encode())

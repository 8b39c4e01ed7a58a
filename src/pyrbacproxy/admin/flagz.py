"""`/flagz`: every flag with its current value, secrets masked (KEP-4828).

The text is made once, so that its delimiter never changes.
"""

from typing import assert_never

from pyrbacproxy.admin.negotiation import GROUP, Structured, Text, negotiated, plain, structured
from pyrbacproxy.admin.status import COMPONENT
from pyrbacproxy.admin.statusz import WARNING
from pyrbacproxy.handler import Request
from pyrbacproxy.http1.response import Response

KIND = "Flagz"


class Flagz:
    """The page. `flags` are name and value as they may be shown, sorted by name."""

    __slots__ = ("_flags", "_text")

    def __init__(self, flags: tuple[tuple[str, str], ...], delimiter: str) -> None:
        self._flags = dict(flags)
        lines = (f"{name}{delimiter}{value}" for name, value in flags)
        self._text = "\n".join(("", f"{COMPONENT} flagz", WARNING, *lines, ""))

    def __call__(self, request: Request) -> Response:
        """The page as the request wants it."""
        form = negotiated(request, KIND)
        match form:
            case Response():
                return form
            case Text():
                return plain(self._text)
            case Structured():
                return structured(
                    form,
                    KIND,
                    {
                        "kind": KIND,
                        "apiVersion": f"{GROUP}/{form.version}",
                        "metadata": {"name": COMPONENT},
                        "flags": self._flags,
                    },
                )
            case _:
                assert_never(form)

"""`/flagz`: every flag with its current value, secrets masked (KEP-4828).

The text is made once, so that its delimiter never changes.
"""

from pyrbacproxy.admin.negotiation import GROUP, Text, negotiated, structured
from pyrbacproxy.admin.status import COMPONENT
from pyrbacproxy.admin.statusz import WARNING
from pyrbacproxy.admin.structured import Object
from pyrbacproxy.handler import Request
from pyrbacproxy.http1.response import Response, text

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
        if isinstance(form, Response):
            return form
        if isinstance(form, Text):
            return text(200, self._text)
        value: Object = {
            "kind": KIND,
            "apiVersion": f"{GROUP}/{form.version}",
            "metadata": {"name": COMPONENT},
            "flags": self._flags,
        }
        return structured(form, KIND, value)

"""`Response`: a complete short answer of our own."""

from dataclasses import dataclass

from pyrbacproxy.http1.head import Headers

_TEXT = ((b"Content-Type", b"text/plain; charset=utf-8"), (b"X-Content-Type-Options", b"nosniff"))
_NONE = Headers()


@dataclass(frozen=True, slots=True)
class Response:
    """Status, headers and the whole body; the writer adds Date, Content-Length and Connection."""

    status: int
    headers: Headers = _NONE
    body: bytes = b""
    must_close: bool = False


def text(
    status: int, body: str, *headers: tuple[bytes, bytes], must_close: bool = False
) -> Response:
    """A plain-text answer with the headers that all texts of the original carry (reference 3.8).

    What no encoding has, such as bytes of a path on a command line, is shown as `?`.
    """
    lines = Headers((*_TEXT, *headers))
    return Response(status, lines, body.encode(errors="replace"), must_close=must_close)

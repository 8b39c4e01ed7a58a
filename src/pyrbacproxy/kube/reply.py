"""The bytes of one answer to a POST → `Reply`: what of it matters to whoever asked."""

from dataclasses import dataclass, field

from pyrbacproxy.http1.head import ResponseHead
from pyrbacproxy.http1.parser import END, ResponseEvent, ResponseParser, ResponseReceived

_MAX_HEAD_BYTES = 65_536
_SWITCHING_PROTOCOLS = 101


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer, or one that was cut because it is too long.

    `retry_after` is the header as sent, "" without one. `keeps_connection` says that the connection
    is good for another request.
    """

    status: int
    retry_after: str
    body: bytes = field(repr=False)  # may repeat a token
    keeps_connection: bool


class ReplyReader:
    """Reads one answer, passing over the interim ones (1xx) before it.

    A body that is longer than `max_body_bytes` is cut somewhere behind that.
    """

    def __init__(self, *, max_body_bytes: int) -> None:
        self._max_body_bytes = max_body_bytes
        self._parser = ResponseParser(request_method=b"POST", max_head_bytes=_MAX_HEAD_BYTES)
        self._head: ResponseHead | None = None
        self._body = bytearray()
        self.has_begun = False

    def feed(self, data: bytes) -> Reply | None:
        """The answer, if it has ended. Raises RemoteProtocolError."""
        self.has_begun = True
        reply = self._taken(self._parser.feed(data))
        if reply is None and self._parser.fault is not None:
            raise self._parser.fault
        return reply

    def feed_eof(self) -> Reply | None:
        """The server has closed: the answer, if that is how it ends. Raises RemoteProtocolError."""
        return self._taken(self._parser.feed_eof(), is_closed=True)

    def _taken(self, events: list[ResponseEvent], *, is_closed: bool = False) -> Reply | None:
        for event in events:
            if isinstance(event, ResponseReceived):
                self._head = event.head
            elif isinstance(event, bytes):
                self._body += event
        head = self._head
        is_too_long = len(self._body) > self._max_body_bytes
        if head is None or not (is_too_long or END in events):
            return None
        retry_after = head.headers.get(b"retry-after") or b""
        return Reply(
            status=head.status,
            retry_after=retry_after.decode("latin-1"),
            body=bytes(self._body),
            keeps_connection=not is_too_long
            and not is_closed
            and head.is_persistent
            and head.status != _SWITCHING_PROTOCOLS
            # Bytes that nobody asked for would be the next answer.
            and not self._parser.leftover,
        )

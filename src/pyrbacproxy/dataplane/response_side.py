"""The response's half of an exchange with an HTTP/1 client: from the upstream's events to bytes.

What comes in one read goes out in one write: a head waits for the first bytes of its body, until
`flush` at the latest. Short pieces are joined, so that they fill one TLS record; long ones are
passed on without a copy.
"""

from pyrbacproxy.dataplane.heads import relayed_trailers, same_trailers
from pyrbacproxy.dataplane.response_state import ResponseProgress, ResponseState
from pyrbacproxy.dataplane.services import Services
from pyrbacproxy.dataplane.sinks import ByteSink, Piece
from pyrbacproxy.http1 import forwarding, writer
from pyrbacproxy.http1.head import Headers, RequestHead, ResponseHead
from pyrbacproxy.http1.parser import ResponseReceived
from pyrbacproxy.http1.response import Response
from pyrbacproxy.record import ExchangeRecord

_CONTINUE = 100
# One TLS record. Joining longer pieces would cost more than the record that it saves.
_JOINED_BYTES = 16_384
# As in `request_side`.
_RELAYING = ResponseState.RELAYING
_DONE = ResponseState.DONE


class ResponseSide(ResponseProgress):
    """Writes one response to an HTTP/1 client; a `sinks.ClientResponse`."""

    __slots__ = (
        "_client",
        "_has_gone_ahead",
        "_has_long",
        "_is_chunked",
        "_is_head",
        "_minor",
        "_out",
        "_record",
        "_services",
        "_trailers",
    )

    def __init__(
        self, services: Services, client: ByteSink, record: ExchangeRecord, request: RequestHead
    ) -> None:
        super().__init__()
        self._services = services
        self._client = client
        self._record = record
        self._is_head = request.method == b"HEAD"
        self._minor = request.minor
        self._out: list[Piece] = []
        self._has_long = False
        self._trailers: Headers | None = None
        self._is_chunked = False
        self._has_gone_ahead = False

    def whole(self, response: Response, *, closes: bool) -> None:
        """An answer of our own instead of the upstream's."""
        self.step(_DONE)
        self._record.status = response.status
        if not self._is_head:
            self._record.sent_bytes = len(response.body)
        self._client.write(
            writer.whole(
                response,
                date=self._services.date(),
                is_head=self._is_head,
                close=closes,
                minor=self._minor,
            )
        )

    def go_ahead(self) -> None:
        """A 100 (Continue), once and before the answer; never to HTTP/1.0 (RFC 9110 §15.2)."""
        is_early = self.state < _RELAYING
        if is_early and self._minor and not self._has_gone_ahead:
            self._has_gone_ahead = True
            self._client.write(writer.GO_AHEAD)

    def interim(self, head: ResponseHead) -> None:
        """Pass a 1xx on."""
        if head.status == _CONTINUE:
            self.go_ahead()
        elif self._minor:
            headers = forwarding.response_headers(head.headers)
            interim = ResponseHead(head.status, head.reason, headers)
            self._client.write(writer.response_head(interim))

    def head(self, received: ResponseReceived, *, closes: bool) -> bool:
        """Begin the final response; true if only the connection's end can end its body."""
        self.step(_RELAYING)
        head = self._services.heads.response(
            received,
            minor=self._minor,
            closes=closes,
            date=self._services.date(),
        )
        self._is_chunked = head.is_chunked
        self._record.status = received.head.status
        self._out.append(head.raw)
        return head.must_close

    def body(self, data: Piece) -> None:
        """Body bytes, without framing."""
        size = len(data)
        self._record.sent_bytes += size
        self._has_long = self._has_long or size > _JOINED_BYTES
        if self._is_chunked:
            self._out += (b"%x\r\n" % size, data, b"\r\n")
        else:
            self._out.append(data)

    def trailers(self, trailers: Headers) -> None:
        """What follows the upstream's chunked body."""
        self._trailers = relayed_trailers(trailers, same_trailers)

    def ended(self) -> None:
        """The response is complete."""
        if self._is_chunked:
            self._out.append(writer.last_chunk(self._trailers))
        self.flush()
        self.step(_DONE)

    def flush(self) -> None:
        """Send the client what was gathered."""
        out = self._out
        if not out:
            return
        if self._has_long:
            self._has_long = False
            self._client.write(*out)
        else:
            self._client.write(b"".join(out))
        out.clear()

"""The response's half of an exchange with an HTTP/2 client: from the upstream's events to frames.

A head waits for what follows it, until `flush` at the latest, so that one without a body ends its
stream by itself.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from pyrbacproxy.dataplane.heads import relayed_trailers, same_trailers
from pyrbacproxy.dataplane.response_state import ResponseProgress, ResponseState
from pyrbacproxy.dataplane.sinks import Piece
from pyrbacproxy.http1.head import Headers, RequestHead, ResponseHead
from pyrbacproxy.http1.parser import ResponseReceived
from pyrbacproxy.http1.response import Response
from pyrbacproxy.http2.head_block import Fields
from pyrbacproxy.http2.response_head import (
    interim_fields,
    own_fields,
    relayed_fields,
    trailer_fields,
)
from pyrbacproxy.record import ExchangeRecord

_CONTINUE = 100
# gRPC's PROTOCOL-HTTP2.md; the kind of message follows behind a +.
_GRPC = b"application/grpc"
_GO_AHEAD: Fields = [(b":status", b"100")]


class FrameSink(Protocol):
    """One stream, as the response needs it. What is sent on a stream that was reset vanishes."""

    def send_head(self, fields: Fields, *, ends: bool) -> None:
        """A head, interim or final; `ends`: it is the whole response."""
        ...

    def send_body(self, data: Piece) -> None:
        """Some of the body."""
        ...

    def send_end(self, trailers: Fields) -> None:
        """The end of the body, with trailers if there are any."""
        ...

    def flush(self) -> None:
        """That was all for now."""
        ...


def response_to(
    request: RequestHead, stream: FrameSink, record: ExchangeRecord, *, date: Callable[[], bytes]
) -> "Http2Response":
    """What writes the response to this request."""
    content_type = request.headers.get(b"content-type") or b""
    return Http2Response(
        stream,
        record,
        date=date,
        is_head=request.method == b"HEAD",
        is_grpc=content_type.startswith(_GRPC),
    )


class Http2Response(ResponseProgress):
    """Writes one response to an HTTP/2 client; a `sinks.ClientResponse`. `date` is an HttpDate.

    `is_head`, `is_grpc`: what was asked for.
    """

    __slots__ = (
        "_date",
        "_has_gone_ahead",
        "_head",
        "_is_grpc",
        "_is_head",
        "_record",
        "_stream",
        "_trailers",
    )

    def __init__(
        self,
        stream: FrameSink,
        record: ExchangeRecord,
        *,
        date: Callable[[], bytes],
        is_head: bool,
        is_grpc: bool = False,
    ) -> None:
        super().__init__()
        self._stream = stream
        self._record = record
        self._date = date
        self._is_head = is_head
        self._is_grpc = is_grpc
        self._has_gone_ahead = False
        # What still waits for the first bytes of its body.
        self._head: Fields | None = None
        self._trailers: Fields = []

    def whole(self, response: Response, *, closes: bool) -> None:  # noqa: ARG002 - a stream always ends
        """An answer of our own instead of the upstream's."""
        self.step(ResponseState.DONE)
        self._record.status = response.status
        if self._is_grpc:
            # Its clients show no text, and the end of one may reach them before its status does:
            # they tell of an unknown error then, and not of a refusal.
            response = replace(response, body=b"")
        fields = own_fields(response, self._date())
        body = b"" if self._is_head else response.body
        self._record.sent_bytes = len(body)
        self._stream.send_head(fields, ends=not body)
        if body:
            self._stream.send_body(body)
            self._stream.send_end([])
        self._stream.flush()

    def go_ahead(self) -> None:
        """A 100 (Continue), once and before the answer."""
        if self.state < ResponseState.RELAYING and not self._has_gone_ahead:
            self._has_gone_ahead = True
            self._stream.send_head(_GO_AHEAD, ends=False)
            self._stream.flush()

    def interim(self, head: ResponseHead) -> None:
        """Pass a 1xx on."""
        if head.status == _CONTINUE:
            self.go_ahead()
        else:
            self._stream.send_head(interim_fields(head), ends=False)
            self._stream.flush()

    def head(self, received: ResponseReceived, *, closes: bool) -> bool:  # noqa: ARG002 - a stream always ends
        """Begin the final response; never true, for its end can be told."""
        self.step(ResponseState.RELAYING)
        self._head = relayed_fields(received, self._date())
        self._record.status = received.head.status
        return False

    def body(self, data: Piece) -> None:
        """Body bytes, without framing."""
        self._record.sent_bytes += len(data)
        self._send_head(ends=False)
        self._stream.send_body(data)

    def trailers(self, trailers: Headers) -> None:
        """What follows the upstream's body."""
        self._trailers = trailer_fields(relayed_trailers(trailers, same_trailers))

    def ended(self) -> None:
        """The response is complete."""
        is_all = self._head is not None and not self._trailers
        self._send_head(ends=is_all)
        if not is_all:
            self._stream.send_end(self._trailers)
        self._stream.flush()
        self.step(ResponseState.DONE)

    def flush(self) -> None:
        """Send the client what was gathered."""
        self._send_head(ends=False)
        self._stream.flush()

    def _send_head(self, *, ends: bool) -> None:
        fields, self._head = self._head, None
        if fields is not None:
            self._stream.send_head(fields, ends=ends)

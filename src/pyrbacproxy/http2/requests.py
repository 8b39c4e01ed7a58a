"""A stream that a client opens → an exchange that is decided on, or an answer at once."""

import asyncio
from collections.abc import Callable

from pyrbacproxy.dataplane.decisions import Decisions
from pyrbacproxy.dataplane.malformed import malformed, refusal
from pyrbacproxy.dataplane.services import Services
from pyrbacproxy.http1.errors import RemoteProtocolError
from pyrbacproxy.http1.parser import RequestReceived
from pyrbacproxy.http1.response import Response
from pyrbacproxy.http2.errors import MalformedStreamError
from pyrbacproxy.http2.head_block import Fields
from pyrbacproxy.http2.request_head import misplaced_field, read_head, written_head
from pyrbacproxy.http2.response import Http2Response
from pyrbacproxy.http2.stream import Http2Stream, Streams
from pyrbacproxy.peer import Peer

_TOO_LARGE = 431
# What is remembered is held for as long as the connection lives.
_LONGEST_KNOWN = 8192


class Requests:
    """Puts the requests of one connection to the decisions; `peer` is asked for each.

    `window` is what a stream may send ahead, in bytes.
    """

    __slots__ = ("_known_fields", "_known_raw", "_loop", "_peer", "_services", "_window")

    def __init__(
        self,
        services: Services,
        peer: Callable[[], Peer],
        *,
        window: int,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._services = services
        self._peer = peer
        self._window = window
        self._loop = loop
        # A client mostly asks the same again, and then `head_block` gives the same fields.
        self._known_fields: Fields | None = None
        self._known_raw = b""

    def stream(self, streams: Streams, number: int, *, is_whole: bool) -> Http2Stream:
        """A stream that was opened; `is_whole`: no body follows its head."""
        stream = Http2Stream(number, streams, self._services, window=self._window, loop=self._loop)
        stream.has_whole_request = is_whole
        return stream

    def begin(self, stream: Http2Stream, fields: Fields | None) -> None:
        """Take a head (None: it was too large). Raises MalformedStreamError."""
        peer = self._peer()
        try:
            self._begin(stream, fields, peer)
        except MalformedStreamError:
            services = self._services
            services.observe(malformed(peer.address, 0, services.clock()))
            raise

    def _begin(self, stream: Http2Stream, fields: Fields | None, peer: Peer) -> None:
        misplaced = refusal(_TOO_LARGE) if fields is None else misplaced_field(fields)
        if misplaced is not None:
            why = "the head is too large" if fields is None else "a misplaced header field"
            self._refuse(stream, misplaced, peer, fields, why)
            return
        assert fields is not None, "a head that is too large was refused"  # noqa: S101 - for the type
        decisions = Decisions(self._services, stream)
        try:
            raw = self._written(fields, is_whole=stream.has_whole_request)
            known = decisions.recall(raw, peer)
            received = self._read(raw) if known is None else known.question.received
        except RemoteProtocolError as fault:
            self._refuse(stream, refusal(fault.status), peer, fields, fault)
            return
        if stream.has_whole_request and received.framing.has_body:
            raise MalformedStreamError("a body shorter than its length")
        if known is not None:
            exchange = decisions.reopen(known)
            stream.begin(exchange)
            exchange.forward(known.decided, known.upstream_head)
        else:
            exchange, question = decisions.open(received, peer)
            stream.begin(exchange)
            decisions.ask(exchange, question)

    def _written(self, fields: Fields, *, is_whole: bool) -> bytes:
        if is_whole and fields is self._known_fields:
            return self._known_raw
        raw = written_head(fields, is_whole=is_whole)
        if is_whole and len(raw) <= _LONGEST_KNOWN:
            self._known_fields, self._known_raw = fields, raw
        return raw

    def _read(self, raw: bytes) -> RequestReceived:
        return read_head(raw, max_bytes=self._services.limits.max_header_bytes)

    def _refuse(
        self,
        stream: Http2Stream,
        response: Response,
        peer: Peer,
        fields: Fields | None,
        why: object,
    ) -> None:
        """Answer a head that is not valid."""
        services = self._services
        record = malformed(peer.address, response.status, services.clock(), why)
        is_head = (b":method", b"HEAD") in (fields or ())
        answer = Http2Response(stream, record, date=services.date, is_head=is_head)
        answer.whole(response, closes=True)
        services.observe(record)

"""One HTTP/1.1 connection to the API server: one call at a time."""

import asyncio
from collections.abc import Callable
from typing import cast

from pyrbacproxy.http1.errors import RemoteProtocolError
from pyrbacproxy.kube.reply import Reply, ReplyReader


class UnansweredError(Exception):
    """The server closed the connection instead of answering.

    `is_reused`: other calls had been answered on it, so that it only means that the server had
    enough of waiting.
    """

    def __init__(self, *, is_reused: bool) -> None:
        super().__init__("closed without an answer")
        self.is_reused = is_reused


class Connection(asyncio.Protocol):
    """`on_closed` is called, possibly twice, when it can't be used for another call.

    `is_reused`: a call has been answered on it.
    """

    def __init__(self, on_closed: Callable[["Connection"], None]) -> None:
        self._on_closed = on_closed
        self._transport: asyncio.Transport | None = None
        self._reader: ReplyReader | None = None
        self._reply: asyncio.Future[Reply] | None = None
        self.is_reused = False

    @property
    def is_open(self) -> bool:
        """Whether a call may go over it, as far as we know."""
        return self._transport is not None

    async def exchange(self, request: bytes, *, max_body_bytes: int) -> Reply:
        """Send a request and read its answer; who is cancelled meanwhile closes the connection.

        Raises UnansweredError, RemoteProtocolError (a cut answer is one) and OSError.
        """
        transport = self._transport
        if transport is None:
            raise UnansweredError(is_reused=self.is_reused)
        self._reader = ReplyReader(max_body_bytes=max_body_bytes)
        self._reply = asyncio.get_running_loop().create_future()
        transport.write(request)
        try:
            reply = await self._reply
        except BaseException:
            self._abort()
            raise
        finally:
            self._reader = self._reply = None
        # An answer to half a request: what is left of it would be taken for the next one.
        if not reply.keeps_connection or transport.get_write_buffer_size():
            self._abort()
        self.is_reused = True
        return reply

    def close(self) -> None:
        """Close in good order. No call may be under way."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.close()
            self._on_closed(self)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connected, TLS handshake included."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Some of an answer, or what nobody asked for."""
        reader = self._reader
        if reader is None:
            self.close()
        else:
            self._read(lambda: reader.feed(data))

    def eof_received(self) -> None:
        """The server ended its sending: an answer may end so, and the transport closes."""
        if self._reader is None:
            self.close()  # the usual end of an idle one
        else:
            self._end(self._reader)

    def connection_lost(self, exc: Exception | None) -> None:
        """Closed, by whomever."""
        self._transport = None
        if self._reader is not None:
            if exc is None:
                self._end(self._reader)
            else:
                self._settle(exc)
        self._on_closed(self)

    def _end(self, reader: ReplyReader) -> None:
        if reader.has_begun:
            self._read(reader.feed_eof)
        else:
            self._settle(UnansweredError(is_reused=self.is_reused))

    def _read(self, read: Callable[[], Reply | None]) -> None:
        try:
            outcome: Reply | RemoteProtocolError | None = read()
        except RemoteProtocolError as error:
            outcome = error
        if outcome is not None:
            self._settle(outcome)

    def _settle(self, outcome: Reply | Exception) -> None:
        """The call is over; what comes now belongs to none."""
        self._reader = None
        if self._reply is None or self._reply.done():
            return
        if isinstance(outcome, Reply):
            self._reply.set_result(outcome)
        else:
            self._reply.set_exception(outcome)

    def _abort(self) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
            self._on_closed(self)

"""The open streams of one HTTP/2 connection, and all that is written to it, each in its turn."""

import asyncio
from collections.abc import Callable

from pyrbacproxy.dataplane.sinks import ByteSink, Piece
from pyrbacproxy.http2.budget import Budget
from pyrbacproxy.http2.engine import Engine
from pyrbacproxy.http2.errors import Code
from pyrbacproxy.http2.head_block import Fields
from pyrbacproxy.http2.stream import Http2Stream
from pyrbacproxy.record import ExchangeRecord, Failure

_MOST_GATHERED_BYTES = 65_536


class OpenStreams:
    """A `stream.Streams`.

    `turned` is called once at the end of each turn of the loop in which anything was sent or is
    over: to `write`, all in one go. `is_write_paused`: the connection's write buffer is over its
    mark.
    """

    __slots__ = (
        "_budget",
        "_by_number",
        "_engine",
        "_has_turned",
        "_loop",
        "_sink",
        "_turned",
        "is_write_paused",
    )

    def __init__(
        self,
        engine: Engine,
        sink: ByteSink,
        budget: Budget,
        *,
        loop: asyncio.AbstractEventLoop,
        turned: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._sink = sink
        self._budget = budget
        self._loop = loop
        self._turned = turned
        self._has_turned = True
        self._by_number: dict[int, Http2Stream] = {}
        self.is_write_paused = False

    def __len__(self) -> int:
        return len(self._by_number)

    def awaiting(self) -> list[ExchangeRecord]:
        """The exchanges that have a request at the upstream and no answer yet."""
        exchanges = (stream.exchange for stream in self._by_number.values())
        return [found.record for found in exchanges if found is not None and found.is_awaiting]

    def add(self, stream: Http2Stream) -> None:
        """One more."""
        self._by_number[stream.number] = stream

    def get(self, number: int) -> Http2Stream | None:
        """The stream of that number, if it is not over."""
        return self._by_number.get(number)

    def drop(self, number: int) -> Http2Stream | None:
        """The client ended it: forget it. It is for the caller to tell it so."""
        return self._by_number.pop(number, None)

    def end_all(self, failure: Failure | None = None) -> None:
        """The connection is over; `failure`: by us, for this reason.

        What one of them leaves behind may be another's chance to go on: so all are closed before,
        and who waits, mostly the newest, goes first.
        """
        streams = list(reversed(self._by_number.values()))
        self._by_number.clear()
        for stream in streams:
            stream.close()
        for stream in streams:
            stream.gone(failure)

    # stream.Streams

    def send_head(self, stream: int, fields: Fields, *, ends: bool) -> None:
        """A head, or trailers."""
        self._engine.send_head(stream, fields, ends=ends)

    def send_data(self, stream: int, data: Piece, *, ends: bool) -> None:
        """Body bytes for which there is room."""
        self._engine.send_data(stream, data, ends=ends)
        self._budget.moved(len(data))

    def room(self, stream: int) -> int:
        """How many bytes of body may go out now; none while the connection's buffer is full."""
        return 0 if self.is_write_paused else self._engine.room(stream)

    def credit(self, stream: int, size: int) -> None:
        """The client may send so much more on the stream."""
        self._engine.credit(stream, size)
        self.flush()

    def reset(self, stream: int, code: Code) -> None:
        """End the stream early."""
        self._engine.reset(stream, code)
        self._over(stream)

    def answered(self, stream: int) -> None:
        """The whole response is sent; what more the client sends of its request is for nobody."""
        self._budget.answered()
        if not self._by_number[stream].has_whole_request:
            self._engine.reset(stream, Code.NO_ERROR)
        self._over(stream)

    def flush(self) -> None:
        """Send what was gathered when the turn ends, or now if it is much."""
        if self._has_turned:
            self._has_turned = False
            self._loop.call_soon(self._turn)
        self._write_much()

    # All together

    def write(self) -> None:
        """Send what was gathered."""
        data = self._engine.outgoing()
        if data:
            self._sink.write(data)

    @property
    def is_overfull(self) -> bool:
        """Whether the client must first take what it was sent; what was gathered counts, if much.

        Bodies wait for windows, but nothing else that is written does: heads, acknowledgements.
        """
        self._write_much()
        return self.is_write_paused

    def pump(self) -> None:
        """A window has opened: a frame of each stream that waits, in turns."""
        waiting = [stream for stream in self._by_number.values() if stream.is_write_paused]
        sending = waiting
        while sending:
            sending = [stream for stream in sending if stream.send_one()]
            self.write()
        for stream in waiting:
            stream.watch()

    def _over(self, stream: int) -> None:
        self._by_number.pop(stream, None)
        self.flush()

    def _turn(self) -> None:
        self._has_turned = True
        self._turned()

    def _write_much(self) -> None:
        """So that the connection's buffer tells in time that it is full."""
        if self._engine.gathered > _MOST_GATHERED_BYTES:
            self.write()

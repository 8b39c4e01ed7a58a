"""The body of one message on its way in: counted, chunked, or lasting until the connection closes.

All three are fed bytes and give back the data among them; whole reads are handed through without a
copy.
"""

from typing import Protocol

from pyrbacproxy.http1.errors import RemoteProtocolError
from pyrbacproxy.http1.framing import Framing, Kind
from pyrbacproxy.http1.head import Headers
from pyrbacproxy.http1.llhttp import ChunkedBody

_NO_FIELDS = Headers()


class Body(Protocol):
    """What the parsers know of a body."""

    @property
    def is_complete(self) -> bool:
        """Whether its end was seen."""
        ...

    @property
    def fault(self) -> RemoteProtocolError | None:
        """Why it can't be read on, if it can't."""
        ...

    @property
    def trailers(self) -> Headers:
        """The fields behind it; to be read when it is complete."""
        ...

    def feed(self, data: bytes, start: int) -> tuple[bytes, int]:
        """Read `data` from `start`: the body data in it, and where in `data` reading ended."""
        ...


class CountedBody:
    """A body of known length."""

    __slots__ = ("_left_bytes",)

    fault = None
    trailers = _NO_FIELDS

    def __init__(self, length: int) -> None:
        self._left_bytes = length

    @property
    def is_complete(self) -> bool:
        """Whether its end was seen."""
        return self._left_bytes == 0

    def feed(self, data: bytes, start: int) -> tuple[bytes, int]:
        """As `Body.feed`."""
        stop = min(len(data), start + self._left_bytes)
        self._left_bytes -= stop - start
        # A slice over the whole of a bytes object is that object.
        return data[start:stop], stop


class UntilCloseBody:
    """A body that ends with its connection: whoever sees that end knows that it is complete."""

    __slots__ = ()

    is_complete = False
    fault = None
    trailers = _NO_FIELDS

    def feed(self, data: bytes, start: int) -> tuple[bytes, int]:
        """As `Body.feed`."""
        return data[start:], len(data)


def body_of(framing: Framing) -> Body:
    """The reader for a body so framed, where there is one."""
    if framing.kind is Kind.CHUNKED:
        return ChunkedBody()
    if framing.kind is Kind.LENGTH:
        return CountedBody(framing.length)
    return UntilCloseBody()

"""What `h2` decodes an upstream's header blocks with: `head_block`, under the library's name.

The library's own copies the rest of the block for each literal: a megabyte of small ones, which is
within the limit for heads, held the loop for half a minute.
"""

from collections.abc import Iterable

from hpack.exceptions import HPACKDecodingError, OversizedHeaderListError
from hpack.hpack import Decoder
from hpack.struct import HeaderTuple

from pyrbacproxy.http2.errors import ConnectionFaultError
from pyrbacproxy.http2.head_block import HeadBlockDecoder

# Towards an upstream of HTTP/1.1 the head's size is the only limit; no head has more in earnest.
_MOST_FIELDS = 10_000


class UpstreamDecoder(Decoder):
    """The header blocks of one upstream's connection, in their order."""

    def __init__(self, *, max_list_bytes: int) -> None:
        super().__init__(max_list_bytes)
        self._blocks = HeadBlockDecoder(max_list_bytes=max_list_bytes, most_fields=_MOST_FIELDS)

    def decode(self, data: bytes, raw: bool = False) -> Iterable[HeaderTuple]:  # noqa: ARG002, FBT001, FBT002 - the library's signature
        """The fields in order. Raises HPACKDecodingError, also for too many or too long ones."""
        try:
            fields = self._blocks.decode(bytes(data))
        except ConnectionFaultError as fault:
            raise HPACKDecodingError(str(fault)) from fault
        if fields is None:
            raise OversizedHeaderListError("a header list that is too large")
        return [HeaderTuple(name, value) for name, value in fields]

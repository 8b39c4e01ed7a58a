"""The `h2` library as either end of a connection: it judges no heads, and keeps little.

Its encoder takes the square of a value's length for Huffman code, a minute for 400 KB, keeps as
much as the peer allows, and works as long for the same head again; of 65,536 streams it would
remember how they ended.
"""

from collections.abc import Iterable
from typing import TypeAlias

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.settings import Settings
from hpack.hpack import Encoder

from pyrbacproxy.http2.head_block import TABLE_BYTES

Field: TypeAlias = tuple[bytes, bytes]


def connection(settings: Settings, *, is_client: bool) -> H2Connection:
    """Our end, with our settings. A client's secrets stay out of the peer's table."""
    made = _Connection(
        H2Configuration(
            client_side=is_client,
            header_encoding=None,
            validate_inbound_headers=False,
            normalize_inbound_headers=False,
            validate_outbound_headers=False,
            normalize_outbound_headers=is_client,
        )
    )
    made.local_settings = settings
    made.encoder = _Encoder()
    return made


class _Connection(H2Connection):
    MAX_CLOSED_STREAMS = 1024


class _Encoder(Encoder):
    """Never keeps more than 4096 bytes, uses no Huffman code, and remembers the last block."""

    def __init__(self) -> None:
        super().__init__()
        # It left the table as it was: one head mostly follows another that is the same.
        self._known_fields: list[Field] = []
        self._known_block = b""

    @property
    def header_table_size(self) -> int:
        return self.header_table.maxsize

    @header_table_size.setter
    def header_table_size(self, value: int) -> None:
        """RFC 7541 §4.2: between two blocks the least size and the last one are told. The library
        forgets them when the same size comes twice.
        """
        size = min(value, TABLE_BYTES)
        if size != self.header_table.maxsize:
            self.header_table.maxsize = size
            least = min((*self.table_size_changes, size))
            self.table_size_changes = [least, size] if least < size else [size]

    def encode(  # type: ignore[override] # of the forms of a header h2 uses one
        self,
        headers: Iterable[Field],
        huffman: bool = False,  # noqa: ARG002, FBT001, FBT002 - the library's signature
    ) -> bytes:
        fields = list(headers)
        table = self.header_table
        if fields == self._known_fields and not table.resized:
            return self._known_block
        before = table.resized, [*table.dynamic_entries]
        block = super().encode(fields, huffman=False)
        is_known = before == (False, [*table.dynamic_entries]) and len(block) <= TABLE_BYTES
        self._known_fields, self._known_block = (fields, block) if is_known else ([], b"")
        return block

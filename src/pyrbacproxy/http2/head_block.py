"""A header block → fields, as HPACK says (RFC 7541); bounded against bombs.

The library's own decoder copies what is left of the block for each literal, so that a megabyte of
small ones would hold the loop for minutes, and writes values to a debug log. Tables and Huffman
code are the library's. A block that is too large is read to its end all the same: it changes the
table that the next ones refer to, and its stream can be answered with 431.
"""

from typing import TypeAlias

from hpack.exceptions import HPACKError
from hpack.huffman_table import decode_huffman
from hpack.table import HeaderTable

from pyrbacproxy.http2.errors import Code, ConnectionFaultError

Fields: TypeAlias = list[tuple[bytes, bytes]]

TABLE_BYTES = 4096
# RFC 7541 §4.1: what an entry counts beside its octets.
_ENTRY_BYTES = 32
# Go's limit for the lines of a head (reference 15.1) and room for the pseudo-headers; four times as
# many are no mistake.
_MOST_FIELDS = 506
_BOMB_FACTOR = 4
# A tenth of a second, in which nobody else is served: the library reads it letter by letter.
_MOST_HUFFMAN_BYTES = 131_072
# What is longer is in no table, for a letter takes 30 bits at most: it need not be known.
_LONGEST_IN_TABLE = TABLE_BYTES * 30 // 8
# RFC 7541 §4.2: at most two updates make sense.
_MOST_TABLE_UPDATES = 2
# What is remembered is held for as long as the connection lives.
_LONGEST_KNOWN = 4096
# 2**28 is far above all that is allowed here.
_MOST_INTEGER_BYTES = 4


class HeadBlockDecoder:
    """The header blocks of one peer, in their order."""

    __slots__ = (
        "_has_table_changed",
        "_huffman_left",
        "_known_block",
        "_known_fields",
        "_max_list",
        "_most_fields",
        "_table",
    )

    def __init__(self, *, max_list_bytes: int, most_fields: int = _MOST_FIELDS) -> None:
        self._max_list = max_list_bytes
        self._most_fields = most_fields
        self._table = HeaderTable()
        self._has_table_changed = False
        self._huffman_left = 0
        # The last block, if it left the table as it was: a client mostly asks the same again.
        self._known_block = b""
        self._known_fields: Fields = []

    def decode(self, block: bytes) -> Fields | None:
        """The fields in order, in the same list as before if a block comes again; None if there are
        too many, or too long ones (431).

        Raises ConnectionFaultError: the table is no longer what the client thinks that it is.
        """
        if block == self._known_block:
            return self._known_fields
        self._has_table_changed = False
        self._huffman_left = _MOST_HUFFMAN_BYTES
        try:
            fields = self._decode(block)
        except (HPACKError, IndexError) as error:
            message = "a header block that cannot be read"
            raise ConnectionFaultError(Code.COMPRESSION_ERROR, message) from error
        if fields is None or self._has_table_changed or len(block) > _LONGEST_KNOWN:
            self._known_block, self._known_fields = b"", []
        else:
            self._known_block, self._known_fields = block, fields
        return fields

    def _decode(self, block: bytes) -> Fields | None:
        fields: Fields = []
        position = size = count = updates = 0
        while position < len(block):
            if block[position] & 0xE0 == 0x20:  # noqa: PLR2004 - the bits 001 of RFC 7541 §6.3
                updates += 1
                if count or updates > _MOST_TABLE_UPDATES:
                    raise HPACKError("a table size update out of place")
                position = self._resize(block, position)
                continue
            field, position = self._field(block, position)
            count += 1
            if count > _BOMB_FACTOR * self._most_fields:
                raise ConnectionFaultError(Code.ENHANCE_YOUR_CALM, "a header block of many fields")
            size += len(field[0]) + len(field[1]) + _ENTRY_BYTES
            if size <= self._max_list and count <= self._most_fields:
                fields.append(field)
        return fields if len(fields) == count else None

    def _resize(self, block: bytes, position: int) -> int:
        size, position = _integer(block, position, 5)
        if size > TABLE_BYTES:
            raise HPACKError("a table larger than ours")
        self._table.maxsize = size
        self._has_table_changed = True
        return position

    def _field(self, block: bytes, position: int) -> tuple[tuple[bytes, bytes], int]:
        first = block[position]
        if first & 0x80:
            index, position = _integer(block, position, 7)
            return self._table.get_by_index(index), position
        is_kept = bool(first & 0x40)
        index, position = _integer(block, position, 6 if is_kept else 4)
        if index:
            name = self._table.get_by_index(index)[0]
        else:
            name, position = self._string(block, position)
        value, position = self._string(block, position)
        if is_kept:
            self._table.add(name, value)
            self._has_table_changed = True
        return (name, value), position

    def _string(self, block: bytes, position: int) -> tuple[bytes, int]:
        """A string (RFC 7541 §5.2) and where it ends."""
        is_huffman = block[position] & 0x80
        length, position = _integer(block, position, 7)
        end = position + length
        if end > len(block):
            raise HPACKError("a string that is cut short")
        text = block[position:end]
        return (self._spelled(text) if is_huffman else text), end

    def _spelled(self, code: bytes) -> bytes:
        """What Huffman code says; of too much of it, something that makes the list too large."""
        if len(code) <= self._huffman_left:
            self._huffman_left -= len(code)
            return decode_huffman(code)
        if len(code) <= _LONGEST_IN_TABLE:
            raise ConnectionFaultError(Code.ENHANCE_YOUR_CALM, "a header block of Huffman code")
        return bytes(self._max_list)


def _integer(block: bytes, position: int, prefix_bits: int) -> tuple[int, int]:
    """An integer (RFC 7541 §5.1) and where it ends. Raises IndexError where the block is cut."""
    most = (1 << prefix_bits) - 1
    number = block[position] & most
    position += 1
    if number < most:
        return number, position
    for shift in range(0, 7 * _MOST_INTEGER_BYTES, 7):
        byte = block[position]
        position += 1
        number += (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the last one lacks the top bit
            return number, position
    raise HPACKError("an integer that is too large")

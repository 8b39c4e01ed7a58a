import pytest
from hpack.hpack import Encoder, encode_integer
from hpack.struct import HeaderTuple, NeverIndexedHeaderTuple

from pyrbacproxy.http2.codec import HeadBlockDecoder
from pyrbacproxy.http2.limits import Code, ConnectionFaultError

FIELDS = [
    (b":method", b"GET"),
    (b":path", b"/metrics?x=1"),
    (b"authorization", b"Bearer made-up"),
    (b"x-long", b"y" * 300),
    (b"x-empty", b""),
]


def decoder(max_list_bytes: int = 10_000) -> HeadBlockDecoder:
    return HeadBlockDecoder(max_list_bytes=max_list_bytes)


@pytest.mark.parametrize("huffman", [True, False])
def test_what_the_library_encodes_is_read_again_and_again(*, huffman: bool) -> None:
    encoder, made = Encoder(), decoder()
    for size in (4096, 0, 2048):
        encoder.header_table_size = size
        for _ in range(3):
            fields = [
                *(HeaderTuple(*field) for field in FIELDS),
                NeverIndexedHeaderTuple(b"x-secret", b"1"),
            ]
            block = encoder.encode(fields, huffman=huffman)
            assert made.decode(block) == [*FIELDS, (b"x-secret", b"1")]


def test_a_block_that_comes_again_is_the_same_list_while_the_table_is_the_same() -> None:
    made = decoder()
    assert made.decode(b"\x40\x01a\x011") == [(b"a", b"1")]
    known = made.decode(b"\xbe")
    assert known == [(b"a", b"1")]
    assert made.decode(b"\xbe") is known
    assert made.decode(b"\x40\x01a\x012") == [(b"a", b"2")]
    assert made.decode(b"\xbe") == [(b"a", b"2")]
    assert made.decode(b"\x20\x82") == [(b":method", b"GET")]
    with pytest.raises(ConnectionFaultError):
        made.decode(b"\xbe")


def test_what_is_remembered_of_a_block_is_bounded() -> None:
    made = decoder()
    block = b"\x00\x01a\x7f\x81\x1f" + b"v" * 4096
    assert made.decode(block) is not made.decode(block)


def spelled(count: int) -> bytes:
    """Huffman code of so many bytes, a multiple of five: zeros, in five bits each."""
    size = encode_integer(count, 7)
    size[0] |= 0x80
    return bytes(size) + bytes(count)


def test_what_is_not_read_of_huffman_code_is_a_list_that_is_too_large() -> None:
    """Reading a megabyte of it held the loop for a second, for who has no credential."""
    made = decoder(10**6)
    assert made.decode(b"\x00\x01a" + spelled(131_070)) == [(b"a", b"0" * (131_070 * 8 // 5))]
    assert made.decode(b"\x40\x01a" + spelled(500_000) + b"\x40\x01b\x012") is None
    assert made.decode(b"\xbe") == [(b"b", b"2")]
    with pytest.raises(ConnectionFaultError):
        made.decode(b"\xbf")


def test_a_value_that_is_not_read_leaves_those_behind_it_to_be_read() -> None:
    """It costs nothing: a client with one huge cookie is answered, for the connection goes on."""
    made = decoder(10**6)
    huge = b"\x00\x01a" + spelled(500_000)
    assert made.decode(huge * 2 + b"\x40\x01b" + spelled(5)) is None
    assert made.decode(b"\xbe") == [(b"b", b"0" * 8)]


def test_what_the_table_may_need_of_it_is_read_or_the_connection_over() -> None:
    made = decoder(10**6)
    with pytest.raises(ConnectionFaultError) as fault:
        made.decode((b"\x00\x01a" + spelled(15_000)) * 9)
    assert fault.value.code == Code.ENHANCE_YOUR_CALM


def test_a_literal_that_is_not_kept_may_have_an_indexed_name() -> None:
    assert decoder().decode(b"\x04\x02/x") == [(b":path", b"/x")]


def test_a_block_that_is_too_large_still_counts_for_the_table() -> None:
    encoder, made = Encoder(), decoder(max_list_bytes=100)
    assert made.decode(encoder.encode([(b"x-a", b"1"), (b"x-b", b"y" * 100)])) is None
    assert made.decode(encoder.encode([(b"x-a", b"1")])) == [(b"x-a", b"1")]


def test_at_most_so_many_fields() -> None:
    assert len(decoder(10**6).decode(b"\x82" * 506) or ()) == 506
    assert decoder(10**6).decode(b"\x82" * 507) is None


def test_a_bomb_ends_the_connection() -> None:
    entry = Encoder().encode([(b"x-a", b"y" * 4000)])
    with pytest.raises(ConnectionFaultError) as fault:
        decoder(10**6).decode(entry + b"\xbe" * 2024)
    assert fault.value.code == Code.ENHANCE_YOUR_CALM


def test_a_megabyte_of_small_literals_is_read_in_no_time() -> None:
    """The library's decoder copies the rest for each of them: 30 GB. Here it is the bomb's limit
    that tells, after 2,024 of them.
    """
    with pytest.raises(ConnectionFaultError, match="many fields"):
        decoder(2**20).decode(b"\x00\x01a\x00" * 250_000)


BROKEN = {
    "an index of nothing": b"\x80",
    "an index outside the table": b"\xff\x00",
    "a cut index": b"\xff",
    "an integer without end": b"\xff" + b"\x80" * 10 + b"\x01",
    "a cut name": b"\x40\x05ab",
    "a cut value": b"\x40\x01a\x05b",
    "no value": b"\x40\x01a",
    "bad Huffman code": b"\x40\x81\xff\x00",
    "a table larger than ours": b"\x3f\xe2\x1f",
    "a table update behind a field": b"\x82\x20",
    "three table updates": b"\x20\x20\x20\x82",
}


@pytest.mark.parametrize("block", BROKEN.values(), ids=BROKEN)
def test_what_cannot_be_read_ends_the_connection(block: bytes) -> None:
    with pytest.raises(ConnectionFaultError) as fault:
        decoder().decode(block)
    assert fault.value.code == Code.COMPRESSION_ERROR

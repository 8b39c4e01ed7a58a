import pytest
from h2.connection import H2Connection
from h2.settings import Settings
from hpack.hpack import Decoder
from hpack.struct import NeverIndexedHeaderTuple

from pyrbacproxy.http2.codec import new_h2_connection
from tests.http2.talk import request

LONG = b"a" * 10_000


def made(*, is_client: bool = True) -> H2Connection:
    return new_h2_connection(Settings(client=is_client), is_client=is_client)


def head(*lines: tuple[bytes, bytes]) -> bytes:
    """What a client's end writes for a head, but for preface and settings."""
    h2 = made()
    h2.initiate_connection()
    h2.data_to_send()
    h2.send_headers(1, request(b"/", *lines), end_stream=True)
    return h2.data_to_send()


def test_it_uses_no_huffman_code() -> None:
    """The library takes the square of a value's length for it: minutes for the largest head."""
    assert LONG in head((b"x-long", LONG))


def test_a_secret_stays_out_of_the_table() -> None:
    secret = head((b"authorization", b"Bearer made-up"))
    # RFC 7541 §6.2.3: never indexed, name 23.
    assert b"\x1f\x08\x0eBearer made-up" in secret


def test_the_same_head_again_is_the_same_whatever_became_of_the_table() -> None:
    """The last block is remembered only while it means the same."""
    encoder, decoder = made().encoder, Decoder()
    decoder.max_allowed_table_size = 4096
    first, second = [(b":status", b"200"), (b"x-a", b"1")], [(b"x-b", b"2" * 3000)]
    large = [(b"x-c", b"3" * 5000)]
    for fields in (first, first, first, second, first, first, large, large, first, first):
        assert decoder.decode(encoder.encode(fields), raw=True) == fields
    for size in (64, 4096, 0):
        encoder.header_table_size = size
        decoder.max_allowed_table_size = 4096
        for fields in (first, first, second, second, first):
            assert decoder.decode(encoder.encode(fields), raw=True) == fields
    secret = [NeverIndexedHeaderTuple(b"x-d", b"4" * 5000)]
    assert encoder.encode(secret) == encoder.encode(secret)


@pytest.mark.parametrize("is_client", [True, False])
def test_it_remembers_little_of_what_is_over(*, is_client: bool) -> None:
    h2 = made(is_client=is_client)
    assert h2.MAX_CLOSED_STREAMS < H2Connection.MAX_CLOSED_STREAMS


def test_its_encoder_keeps_no_more_than_4096_bytes_whatever_the_peer_allows() -> None:
    encoder = made().encoder
    for allowed, kept in ((2**30, 4096), (100, 100), (2**30, 4096)):
        encoder.header_table_size = allowed
        assert encoder.header_table_size == kept
    # RFC 7541 §4.2: the least size and then the last one are told.
    assert encoder.encode([(b":status", b"200")]) == b"\x3f\x45\x3f\xe1\x1f\x88"


@pytest.mark.parametrize(
    ("allowed", "told"),
    [
        ([100, 100], b"\x3f\x45"),
        ([4096, 4096], b""),
        ([0, 4096, 0, 4096], b"\x20\x3f\xe1\x1f"),
        ([100, 4096, 200, 0], b"\x20"),
    ],
    ids=["the same twice", "nothing new", "to and fro", "the least is the last"],
)
def test_every_size_of_the_table_that_a_peer_allows_in_a_row_is_heeded(
    allowed: list[int], told: bytes
) -> None:
    """A peer that was told no size update would read the table wrongly, or end the connection."""
    encoder = made().encoder
    for size in allowed:
        encoder.header_table_size = size
    assert encoder.encode([(b":status", b"200")]) == told + b"\x88"

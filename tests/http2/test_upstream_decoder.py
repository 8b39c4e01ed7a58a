import pytest
from hpack.exceptions import HPACKDecodingError, OversizedHeaderListError
from hpack.hpack import Encoder

from pyrbacproxy.http2.upstream import UpstreamDecoder

FIELDS = [(b":status", b"200"), (b"x-a", b"b")]
SMALL = b"\x00\x01a\x00"


def test_fields_come_out_as_they_went_in_and_are_remembered() -> None:
    encoder, decoder = Encoder(), UpstreamDecoder(max_list_bytes=1000)
    for _ in range(2):
        assert list(decoder.decode(encoder.encode(FIELDS), raw=True)) == FIELDS


@pytest.mark.parametrize(
    ("block", "error"),
    [
        (SMALL * 40, OversizedHeaderListError),
        (b"\xff", HPACKDecodingError),
        # With the library's decoder: for half a minute.
        (SMALL * 250_000, HPACKDecodingError),
    ],
    ids=["too long", "cut", "a bomb"],
)
def test_what_cannot_be_taken_is_told(block: bytes, error: type[HPACKDecodingError]) -> None:
    with pytest.raises(error) as raised:
        UpstreamDecoder(max_list_bytes=1000).decode(block)
    assert raised.type is error


def test_a_head_may_have_more_fields_than_a_request() -> None:
    fields = UpstreamDecoder(max_list_bytes=1_048_576).decode(SMALL * 9_000)
    assert list(fields) == [(b"a", b"")] * 9_000

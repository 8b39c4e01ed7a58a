import pytest

from pyrbacproxy.http2.limits import Http2Limits, limits_of

MIB = 1_048_576
CASES = {
    "the flags' defaults": (100, 262_144, Http2Limits()),
    "given": (7, 65_536, Http2Limits(7, 65_536, 65_536, 7 * 65_536)),
    "none and tiny: the window stays": (0, 5, Http2Limits(250, MIB, 5, MIB)),
    "nothing": (100, 0, Http2Limits(100, MIB, MIB, MIB)),
    "too large for a frame": (2, 2**24, Http2Limits(2, MIB, 2**24, 2**25)),
    "the largest frame": (1, 2**24 - 1, Http2Limits(1, 2**24 - 1, 2**24 - 1, 2**24 - 1)),
    "too large for a window": (1, 2**31, Http2Limits(1, MIB, MIB, MIB)),
    "together too large": (1000, 2**24, Http2Limits(1000, MIB, 2**24, MIB)),
    "together too small": (3, 20_000, Http2Limits(3, 20_000, 20_000, MIB)),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_dec_d19_the_original_s_mapping(case: tuple[int, int, Http2Limits]) -> None:
    streams, size, limits = case
    assert limits_of(streams, size) == limits

from pyrbacproxy.proxy.exchange import Limits


def test_a_connection_holds_about_a_mebibyte_at_most() -> None:
    """FR56: what waits in both write buffers, and one read above each mark."""
    limits = Limits()
    assert 4 * limits.write_high_water_bytes <= 1 << 20

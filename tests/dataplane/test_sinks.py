from pyrbacproxy.dataplane.exchange import Exchange
from pyrbacproxy.dataplane.sinks import ClientSink, Connector, Ending, UpstreamSink, UpstreamUser
from tests.dataplane.dialogue import ClientTape, ConnectorTape, Dialogue, UpstreamTape


def test_the_tapes_and_the_exchange_fit_the_seams() -> None:
    """Mypy says so; this keeps it from being undone without a word."""
    client: ClientSink = ClientTape()
    upstream: UpstreamSink = UpstreamTape()
    connector: Connector = ConnectorTape()
    user: UpstreamUser = Dialogue().exchange
    assert isinstance(user, Exchange)
    assert not client.must_close
    assert not client.is_write_paused
    assert not upstream.is_reused
    connector.connect(user, is_fresh=True)
    assert len(Ending) == 3

from pyrbacproxy.model import Peer
from pyrbacproxy.proxy.decisions import PeerSource
from pyrbacproxy.tls.client_chain import ClientCaPool, ClientChains
from tests.tls.parties import CLIENT, NOON, issue

CA = issue("CN=ca", is_authority=True)
ALICE = issue("CN=alice", issuer=CA, purposes=CLIENT)
LATER = issue("CN=alice", issuer=CA, purposes=CLIENT, hours=(0, 1))
HOUR = 3600.0


def source(
    chains: ClientChains, now: list[float], chain: tuple[bytes, ...] = (ALICE.der,)
) -> PeerSource:
    return PeerSource(chains, address="192.0.2.1", chain=chain, wall_clock=lambda: now[0])


def test_nothing_changed_is_the_same_object() -> None:
    now = [NOON.timestamp()]
    for chains, chain in (
        (ClientChains(ClientCaPool.from_pem(CA.pem)), (ALICE.der,)),
        (ClientChains(ClientCaPool.from_pem(ALICE.pem)), (LATER.der,)),
        (ClientChains(), ()),
        (ClientChains(), (ALICE.der,)),
    ):
        peer = source(chains, now, chain)
        assert peer() is peer()
        assert peer().address == "192.0.2.1"


def test_expiry_bites_on_a_live_connection() -> None:
    now = [NOON.timestamp()]
    peer = source(ClientChains(ClientCaPool.from_pem(CA.pem)), now)
    assert peer().certificate is not None
    now[0] += HOUR + 1
    assert peer().certificate is None
    assert "expired" in peer().refusal


def test_a_certificate_may_become_valid() -> None:
    now = [NOON.timestamp() - HOUR / 2]
    peer = source(ClientChains(ClientCaPool.from_pem(CA.pem)), now, (LATER.der,))
    assert "not yet" in peer().refusal
    now[0] += HOUR
    assert peer().certificate is not None


def test_a_new_pool_bites_on_a_live_connection() -> None:
    now = [NOON.timestamp()]
    chains = ClientChains(ClientCaPool.from_pem(CA.pem))
    peer = source(chains, now)
    first = peer()
    chains.replace_pool(ClientCaPool.from_pem(CA.pem))
    assert peer() is first, "the same verdict is the same peer"
    chains.replace_pool(ClientCaPool.from_pem(issue("CN=ca", is_authority=True).pem))
    assert peer().certificate is None
    assert peer() == Peer("192.0.2.1", None, peer().refusal)

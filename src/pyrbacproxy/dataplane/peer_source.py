"""The peer of one connection, judged again when the client CA pool or the time asks for it.

Asked for each request, so that a changed pool and an expiry bite on live connections. Nothing
changed means the same object, by which remembered requests know their peer again.
"""

from collections.abc import Callable

from pyrbacproxy.peer import Peer
from pyrbacproxy.tls.client_chain import ClientChains


class PeerSource:
    """Call it for the current `Peer`. `chain` is what the client presented, DER, leaf first."""

    __slots__ = ("_address", "_chain", "_chains", "_generation", "_peer", "_wall_clock")

    def __init__(
        self,
        chains: ClientChains,
        *,
        address: str,
        chain: tuple[bytes, ...],
        wall_clock: Callable[[], float],
    ) -> None:
        self._chains = chains
        self._address = address
        self._chain = chain
        self._wall_clock = wall_clock
        self._generation = chains.generation
        self._peer = chains.judge(address, chain, wall_clock())

    def __call__(self) -> Peer:
        """The peer as of now."""
        peer = self._peer
        if not self._chain:
            return peer
        now = self._wall_clock()
        certificate = peer.certificate
        if (
            certificate is not None
            and self._generation == self._chains.generation
            and certificate.not_before <= now <= certificate.not_after
        ):
            return peer
        # A refusal may end with time too (not yet valid): asked anew, the chains remember.
        self._generation = self._chains.generation
        judged = self._chains.judge(self._address, self._chain, now)
        if judged != peer:
            self._peer = peer = judged
        return peer

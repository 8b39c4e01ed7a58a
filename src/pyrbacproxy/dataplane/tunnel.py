"""Bytes both ways behind a 101, until either side ends; what passes is not looked at.

What one side sends goes to the other at once, and a side that takes no more pauses the reading of
the other, so that little waits here (reference 6.4).

When a side ends its sending, the other is told so if that can be said without a close, and bytes
still pass in the other direction. If it can't, when both have ended, or when one is lost, the
tunnel is over, and the exchange that it came from with it. A side whose partner was lost in the
middle is cut, so that it can't take what it got for all.

No time limit of HTTP applies. A shutdown leaves a tunnel alone until its grace period ends.
"""

from collections.abc import Iterable

from pyrbacproxy.dataplane.services import Services
from pyrbacproxy.dataplane.sinks import Released, Side, Use
from pyrbacproxy.record import ExchangeRecord, Failure


class TunnelEnd:
    """What comes from `side` goes to `other`; a `sinks.Inner`.

    `lost` says in the record that this side was lost.
    """

    __slots__ = ("_tunnel", "carried_bytes", "has_ended", "lost", "other", "side")

    def __init__(self, tunnel: "Tunnel", side: Side, other: Side, lost: Failure) -> None:
        self._tunnel = tunnel
        self.side = side
        self.other = other
        self.lost = lost
        self.has_ended = False
        self.carried_bytes = 0

    def begin(self, released: Released) -> None:
        """Take over what HTTP left behind."""
        if released.is_write_paused:
            self.pause_writing()
        if released.waiting:
            self.data_received(released.waiting)
        if released.has_ended:
            self.eof_received()

    @property
    def use(self) -> Use:
        """A tunnel is never idle: what its protocol waits for is not known."""
        return Use.BUSY

    def say_goodbye(self) -> None:
        """What the protocol's word for it would be is not known."""

    def awaiting(self) -> Iterable[ExchangeRecord]:
        """The upstream has answered, by its 101."""
        return ()

    def data_received(self, data: bytes) -> None:
        """Some bytes."""
        if not self._tunnel.is_over:
            self.carried_bytes += len(data)
            self.other.write(data)

    def eof_received(self) -> bool:
        """This side sends no more; false: nor does it get any more."""
        self.has_ended = True
        return self._tunnel.goes_on_without(self)

    def connection_lost(self, failure: Failure | None = None) -> None:
        """Closed, by whomever; `failure`: by us, for this reason."""
        self._tunnel.lose(self, failure or self.lost)

    def pause_writing(self) -> None:
        """This side's write buffer is over its mark."""
        self.other.pause_reading()

    def resume_writing(self) -> None:
        """This side's write buffer is low again."""
        self.other.resume_reading()

    def drain(self) -> None:
        """Nobody in a tunnel can be asked to come to an end."""


class Tunnel:
    """Both ends. `record` is completed and observed, once, when it is over."""

    __slots__ = ("_client", "_record", "_services", "_upstream", "is_over")

    def __init__(
        self, services: Services, record: ExchangeRecord, client: Side, upstream: Side
    ) -> None:
        self._services = services
        self._record = record
        self._client = TunnelEnd(self, client, upstream, Failure.CLIENT_GONE)
        self._upstream = TunnelEnd(self, upstream, client, Failure.CONNECTION_LOST)
        self.is_over = False

    def begin(self, client: Released, upstream: Released) -> None:
        """Bytes pass from now on; those that came too early for it go first."""
        client.side.serve(self._client)
        upstream.side.serve(self._upstream)
        self._upstream.begin(upstream)
        self._client.begin(client)

    def goes_on_without(self, ended: TunnelEnd) -> bool:
        """This end sends no more: whether bytes still pass the other way."""
        if self.is_over:
            return False
        if not (self._client.has_ended and self._upstream.has_ended) and ended.other.end_sending():
            return True
        self._end(None)
        ended.side.close()
        ended.other.close()
        return False

    def lose(self, lost: TunnelEnd, failure: Failure | None) -> None:
        """This end is gone: so is the other, once it has what is its own."""
        if self.is_over:
            return
        self._end(None if lost.has_ended else failure)
        if lost.has_ended:
            # It may still be sending, and must not lose what it was sent by a reset.
            lost.other.linger()
        else:
            lost.other.cut()

    def _end(self, failure: Failure | None) -> None:
        self.is_over = True
        record = self._record
        record.failure = failure
        record.received_bytes += self._client.carried_bytes
        record.sent_bytes += self._upstream.carried_bytes
        record.ended_at = self._services.clock()
        self._services.observe(record)


def begin_tunnel(
    services: Services, record: ExchangeRecord, client: Released, upstream: Released
) -> None:
    """Connect two connections that HTTP has let go of."""
    Tunnel(services, record, client.side, upstream.side).begin(client, upstream)

"""What becomes of an exchange whose client ended its sending after a whole request.

It may still read, and then it gets its answer (FR34); or it is gone, and then the upstream's
work is for nobody (FR51). TCP tells the two apart only to who writes: a client that is gone
answers with a reset.

Before the response head the bytes for that are a 100 (Continue), which whoever still reads discards
(RFC 9110 §15.2.1). They are sent again, at growing distances: the loop no longer looks at a socket
that was read to its end, so it is the write after the reset that fails and ends the connection.
HTTP/1.0 has no 100: such a client is waited for blindly, but not for ever.

Later there is nothing to send but the response: while it comes the writes tell, and when it rests
the client is taken for gone, as by the original at once.
"""

from pyrbacproxy.dataplane.exchange import Exchange
from pyrbacproxy.dataplane.limits import Limits
from pyrbacproxy.dataplane.response_state import ResponseState
from pyrbacproxy.dataplane.sinks import ByteSink, ClientSink
from pyrbacproxy.http1 import writer


class HalfClosed:
    """Looks after one exchange; asks the client's side to call `woken` after a while."""

    __slots__ = (
        "_client",
        "_exchange",
        "_is_blind",
        "_limits",
        "_probe_seconds",
        "_sent_bytes",
        "_transport",
    )

    def __init__(
        self, exchange: Exchange, client: ClientSink, transport: ByteSink, limits: Limits
    ) -> None:
        self._exchange = exchange
        self._client = client
        self._transport = transport
        self._limits = limits
        self._is_blind = False
        self._probe_seconds = limits.half_closed_seconds
        self._sent_bytes = exchange.record.sent_bytes
        is_relaying = exchange.response_side.state is ResponseState.RELAYING
        client.wake_after(
            limits.half_closed_rest_seconds if is_relaying else limits.half_closed_seconds
        )

    def woken(self) -> None:
        """Make a client that is gone tell so."""
        exchange = self._exchange
        if exchange.response_side.state is not ResponseState.RELAYING:
            self._probe()
            return
        sent = exchange.record.sent_bytes
        if sent == self._sent_bytes and not self._client.is_write_paused:
            exchange.client_gone()
            return
        self._sent_bytes = sent
        self._client.wake_after(self._limits.half_closed_rest_seconds)

    def _probe(self) -> None:
        is_full = self._client.is_write_paused
        if is_full or self._exchange.request_side.head.minor:
            # A full write buffer tells by itself: it stalls, or its client is gone.
            if not is_full:
                self._transport.write(writer.GO_AHEAD)
            self._client.wake_after(self._probe_seconds)
            self._probe_seconds *= 2
        elif self._is_blind:
            self._exchange.client_gone()
        else:
            self._is_blind = True
            self._client.wake_after(self._limits.half_closed_blind_seconds)

"""`Services`: what all exchanges of a listener share."""

from collections.abc import Callable
from dataclasses import dataclass, field

from pyrbacproxy.dataplane.decision_memory import DecisionMemory
from pyrbacproxy.dataplane.heads import Heads, same_trailers
from pyrbacproxy.dataplane.limits import Limits
from pyrbacproxy.dataplane.sinks import Connector
from pyrbacproxy.handler import Handler, Runner
from pyrbacproxy.http1.head import Headers
from pyrbacproxy.record import ExchangeRecord


@dataclass(slots=True)
class Services:
    """Made once per listener by the composition root.

    Everything but `handler` stays as it is. A reload assigns a new `handler`; another object there,
    even an equal one, also ends all that `memory` holds of earlier decisions. So keep one and the
    same object otherwise: a bound method such as `access.handle` is a new one each time it
    is looked up.

    `heads` writes for the destination that `connector` connects to.
    `observe` gets each exchange's record once. `clock` tells monotonic seconds (on
    the event loop's scale, whose own clock moves in steps of a millisecond), `wall_clock` seconds
    since the epoch, `date` is an `HttpDate`. `clean_trailers` takes identity names and Bearer lines
    out of request trailers (D35).
    """

    handler: Handler
    runner: Runner
    connector: Connector
    heads: Heads
    observe: Callable[[ExchangeRecord], None]
    limits: Limits
    clock: Callable[[], float]
    wall_clock: Callable[[], float]
    date: Callable[[], bytes]
    clean_trailers: Callable[[Headers], Headers] = same_trailers
    memory: DecisionMemory = field(default_factory=DecisionMemory)

"""How long a client's HTTP/1 connection goes on, and how it ends (RFC 9112 §9.3, §9.6).

While an exchange runs, its times are its own business; between two of them, and after our last
word, each thing that is waited for has one time in `Limits`.
"""

import asyncio
from collections.abc import Callable

from pyrbacproxy.dataplane.deadline import Deadline
from pyrbacproxy.dataplane.limits import Limits
from pyrbacproxy.dataplane.request_queue import RequestQueue
from pyrbacproxy.dataplane.sinks import Side


class Persistence:
    """Ends the connection that `transport` is; `due` is told when a time is over, whosesoever.

    `is_open`: requests are taken. `has_served`: one was. `has_ended`: the client sends no
    more. `is_draining`: we are shutting down.
    """

    __slots__ = (
        "_deadline",
        "_is_in_head",
        "_limits",
        "_queue",
        "_transport",
        "has_ended",
        "has_served",
        "is_draining",
        "is_open",
    )

    def __init__(
        self,
        transport: Side,
        queue: RequestQueue,
        limits: Limits,
        *,
        loop: asyncio.AbstractEventLoop,
        due: Callable[[], None],
    ) -> None:
        self._transport = transport
        self._queue = queue
        self._limits = limits
        self._deadline = Deadline(loop, due)
        self._is_in_head = False
        self.has_served = False
        self.has_ended = False
        self.is_draining = False
        self.is_open = True
        self.idle()

    @property
    def is_last(self) -> bool:
        """Whether no request may follow the one that is served."""
        return self.is_draining or (self.has_ended and not self._queue.has_more)

    # What is waited for

    def begin(self) -> None:
        """An exchange begins."""
        self.has_served = True
        self._is_in_head = False
        self._deadline.clear()

    def wake_after(self, seconds: float) -> None:
        """The exchange's own time."""
        self._deadline.set(seconds)

    def idle(self) -> None:
        """Nothing was asked for yet."""
        self._deadline.set(self._limits.idle_seconds)

    def wait(self) -> None:
        """Wait for the next request, or for its rest; close if none may come."""
        if self._queue.has_begun_head and not self.has_ended:
            if not self._is_in_head:
                self._is_in_head = True  # once for each head, not for each byte of it (FR58)
                self._deadline.set(self._limits.read_header_seconds)
        elif self.is_draining and not (self.has_served or self.has_ended):
            self._deadline.set(self._limits.first_request_seconds)
        elif self.is_last:
            self.close()
        else:
            self.idle()

    # How it ends

    def close(self) -> None:
        """All is said."""
        self.is_open = False
        self._deadline.clear()
        self._transport.close()

    def linger(self) -> None:
        """Our last word is said, but the client may still be talking."""
        self.is_open = False
        self._queue.clear()
        self._deadline.clear()
        self._transport.linger()

    def cut(self) -> None:
        """The client is to see that the end is missing."""
        self.is_open = False
        self._transport.cut()

    def let_go(self) -> None:
        """The connection is lost, or somebody else's."""
        self.is_open = False
        self._deadline.cancel()

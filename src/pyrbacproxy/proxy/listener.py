"""Listening sockets: accept, connection limit, running out of descriptors, graceful drain."""

import asyncio
import errno
import heapq
import logging
import socket
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence

import _cffi_backend as cffi

from pyrbacproxy.model import ExchangeRecord, Failure
from pyrbacproxy.proxy.exchange import Limits, Use
from pyrbacproxy.proxy.transport import ClientTransport, Deadline

# --- heap -----------------------------------------------------------------------------
#
# The C library's heap: what it keeps of freed memory goes back to the kernel when told so.
#
# glibc gives back only the top of its heap. One small object that was made while large buffers lay
# below it keeps all of them resident for good: 4 MiB after sixteen downloads of 10 MB.

# pyOpenSSL's way to C. The standard library's, `ctypes`, would cost what this is to spare.


def c_function(name: str) -> Callable[[int], int] | None:
    """The C library's function of that name, size_t to int; None where it has none (musl)."""
    number, size = cffi.new_primitive_type("int"), cffi.new_primitive_type("size_t")
    kind = cffi.new_function_type((size,), number, False)
    try:
        function: Callable[[int], int] = cffi.load_library(None, 0).load_function(kind, name)
    except AttributeError:
        return None
    return function


_malloc_trim = c_function("malloc_trim")  # malloc_trim(3)


def trim() -> None:
    """Give back every page that nothing lies on: 0.2 ms of a heap of 10 MiB."""
    if _malloc_trim is not None:
        _malloc_trim(0)


# --- listener -------------------------------------------------------------------------
# Sockets (dual stack), accept, connection limit, running out of descriptors, graceful drain.

_LOG = logging.getLogger(__name__)
_BACKLOG = 1024
# Connections taken in one turn of the loop, so that a flood of them leaves time for the others.
_BATCH = 64
# The kernel has no more to give: the connection stays in the backlog, and trying at once again
# would spin (FR60).
_EXHAUSTED = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
_PAUSE_SECONDS = 1.0
_V2 = 20 - 2
# Go takes the IPv4 one for both families, too: manifests say 0.0.0.0 on IPv6 nodes.
_EVERYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 - what was asked for
# At the connection limit all connections may be looked at to choose some to close: no sooner again
# than after so long for each of them (5,000: 0.1 s), which is several times what a look takes.
_LOOK_SECONDS_EACH = 20e-6
_MOST_CHOSEN = 1024
# Connections that were told to go and have not gone: beyond so many they are aborted.
_MOST_LEAVING = 256
# How often it is logged that connections are closed for others.
_TOLD_SECONDS = 60.0
# No connection was closed for so long: time to look what those that were have left.
_QUIET_SECONDS = 0.2


def bind(host: str, port: int) -> list[socket.socket]:
    """Listening sockets for an address.

    `host` "" means every address of both families on one port (FR65), as do "::" and "0.0.0.0"; a
    name binds its first IPv4 address, else its first one, as Go does. The port is never shared with
    another process (FR64). Raises OSError whose text names address and port.
    """
    try:
        if host in _EVERYWHERE:
            return [_bind_everywhere(port)]
        # As bytes: text would load the tables of international names, and Go looks up what it gets.
        name = host.encode()
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        found.sort(key=lambda entry: entry[0] is not socket.AF_INET)
        family, _, _, _, address = found[0]
        return [_listen(family, address)]
    except OSError as error:
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        text = f"cannot listen on {where}: {error.strerror or error}"
        raise OSError(error.errno, text) from error


def _bind_everywhere(port: int) -> socket.socket:
    try:
        return _listen(socket.AF_INET6, ("::", port))
    except OSError as error:
        # A host without IPv6.
        if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
            raise
        return _listen(socket.AF_INET, ("0.0.0.0", port))  # noqa: S104 - what was asked for


def _listen(family: int, address: tuple[object, ...]) -> socket.socket:
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setblocking(False)
        # Without it a restart would wait for the last connections' TIME_WAIT to pass.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # For every address, and for an IPv4 one that is written as IPv6.
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listening.bind(address)
        listening.listen(_BACKLOG)
    except BaseException:
        listening.close()
        raise
    return listening


class Listener:
    """Accepts on bound sockets; `make_transport(on_closed)` makes what serves a connection.

    That is a `ClientTransport` or `SecureTransport` to be connected, which calls
    `on_closed(itself)` at its end. `accepted` counts connections since the start.

    At `max_connections` an unused connection is closed for each new one (D52): first those that
    have asked for nothing, the oldest first; then kept ones of the address that holds most,
    its newest first, for it is the old ones that a scraper came with before the flood. While all
    are busy accepting pauses. Nothing is kept about requests: what a connection is used for is
    asked for at the limit alone.
    """

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        make_transport: Callable[[Callable[[ClientTransport], None]], ClientTransport],
        limits: Limits,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._sockets = list(sockets)
        self._make_transport = make_transport
        self._limits = limits
        self._loop = loop or asyncio.get_running_loop()
        # Each with its client's address.
        self._connections: dict[ClientTransport, str] = {}
        # Those of them that may have asked for nothing, and all by their address; oldest first.
        self._new: OrderedDict[ClientTransport, None] = OrderedDict()
        self._of_address: dict[str, dict[ClientTransport, None]] = {}
        self._leaving: set[ClientTransport] = set()
        # The next to be closed comes last. Not looked for again before `_look_again_at`.
        self._chosen: list[ClientTransport] = []
        self._look_again_at = 0.0
        self._full_told_at = -_TOLD_SECONDS
        self._admissions: set[asyncio.Task[None]] = set()
        self._retry: asyncio.TimerHandle | None = None
        self._told_at = -_PAUSE_SECONDS
        self._quiet = Deadline(self._loop, trim)
        self._is_accepting = False
        self._is_stopped = False
        self.accepted = 0
        self._emptied: asyncio.Event = asyncio.Event()

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._connections)

    @property
    def port(self) -> int:
        """The port that it is bound to, also when any free one was asked for."""
        return int(self._sockets[0].getsockname()[1])

    def awaiting(self) -> Iterator[ExchangeRecord]:
        """The exchanges that have a request at the upstream and no answer yet."""
        for connection in tuple(self._connections):
            yield from connection.awaiting()

    def start(self) -> None:
        """Begin to accept."""
        if self._is_accepting or self._is_stopped or self._retry is not None:
            return
        self._is_accepting = True
        for listening in self._sockets:
            self._loop.add_reader(listening, self._accept, listening)

    def stop_accepting(self) -> None:
        """Close the listening sockets, for good; connections live on."""
        self._pause()
        self._is_stopped = True
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        for listening in self._sockets:
            listening.close()
        self._sockets.clear()

    async def drain(self, grace_seconds: float) -> None:
        """Stop accepting, close idle connections, wait for the others, cut what is left (FR63)."""
        self.stop_accepting()
        for connection in tuple(self._connections):
            connection.drain()
        if self._connections:
            self._emptied.clear()
            try:
                async with asyncio.timeout(grace_seconds):
                    await self._emptied.wait()
            except TimeoutError:
                _LOG.warning("%d connections are cut at the grace period", self.connections)
                self.abort()

    def abort(self) -> None:
        """Cut every connection at once."""
        self.stop_accepting()
        for connection in tuple(self._connections):
            connection.abort(Failure.CUT_AT_SHUTDOWN)

    def _pause(self) -> None:
        if self._is_accepting:
            self._is_accepting = False
            for listening in self._sockets:
                self._loop.remove_reader(listening)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_BATCH):
            is_full = self._is_full
            leaver = self._least_used() if is_full else None
            if is_full and leaver is None:
                # The kernel's backlog holds the others until one closes or is unused.
                self._pause()
                self._retry_after(0.0 if self._new else self._look_seconds)
                return
            try:
                connection, address = listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                self._accept_failed(error)
                return
            if leaver is not None:
                self._dismiss(leaver)
            self._admit(connection, str(address[0]))

    def _accept_failed(self, error: OSError) -> None:
        if error.errno in _EXHAUSTED:
            now = self._loop.time()
            if now - self._told_at >= _PAUSE_SECONDS:
                self._told_at = now
                _LOG.error("cannot accept connections for now: %s", error.strerror)
            self._pause()
            self._retry_after(_PAUSE_SECONDS)
        else:
            # The connection was gone before it was taken; the next one is another matter.
            _LOG.log(_V2, "accept: %s", error.strerror)

    def _retry_after(self, seconds: float) -> None:
        if self._retry is not None:
            self._retry.cancel()
        self._retry = self._loop.call_later(seconds, self._try_again)

    def _try_again(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        try:
            self.start()
        except Exception as error:  # noqa: BLE001 - nothing would ever be accepted again
            self._is_accepting = False
            self._loop.call_exception_handler({"message": "accepting again", "exception": error})
            self._retry = self._loop.call_later(_PAUSE_SECONDS, self._try_again)

    # At the limit

    @property
    def _is_full(self) -> bool:
        return len(self._connections) - len(self._leaving) >= self._limits.max_connections

    def _least_used(self) -> ClientTransport | None:
        """The connection to be closed for the next one; None while there is none."""
        if len(self._leaving) >= _MOST_LEAVING:
            for connection in self._leaving:
                connection.abort()
            return None
        leaver = self._oldest_new()
        # What has just come, and was not read yet, can be judged a turn of the loop later.
        return leaver if leaver is not None or self._new else self._next_idle()

    def _oldest_new(self) -> ClientTransport | None:
        """A connection leaves `_new` for good when it is seen here after its first request."""
        for _ in range(min(_BATCH, len(self._new))):
            connection = next(iter(self._new))
            if connection.use is not Use.NEW:
                del self._new[connection]
            elif connection.is_quiet:
                return connection
            else:
                # What it has just sent may be its request.
                self._new.move_to_end(connection)
        return None

    @property
    def _look_seconds(self) -> float:
        return _LOOK_SECONDS_EACH * len(self._connections)

    def _next_idle(self) -> ClientTransport | None:
        now = self._loop.time()
        if now >= self._look_again_at:
            self._look_again_at = now + self._look_seconds
            self._chosen = self._choose()
        while self._chosen:
            connection = self._chosen[-1]
            if self._is_idle(connection):
                return connection
            self._chosen.pop()
        return None

    def _choose(self) -> list[ClientTransport]:
        """Idle connections, always from the address that holds most then; the first comes last.

        No address is taken below half of what the first one holds: more of those may have come by
        the time that the list is used up, and an address with few connections would pay for them.
        """
        addresses = reversed(self._of_address.values())
        held = [
            (-len(own), rank, filter(self._is_idle, reversed(own)))
            for rank, own in enumerate(addresses)
        ]
        heapq.heapify(held)
        chosen: list[ClientTransport] = []
        most = 0
        while held and len(chosen) < _MOST_CHOSEN:
            negative_count, rank, idle = held[0]
            if most > 1 and -negative_count <= most // 2:
                break
            connection = next(idle, None)
            if connection is None:
                heapq.heappop(held)
            else:
                most = most or -negative_count
                chosen.append(connection)
                heapq.heapreplace(held, (negative_count + 1, rank, idle))
        chosen.reverse()
        return chosen

    def _is_idle(self, connection: ClientTransport) -> bool:
        return (
            connection in self._connections
            and connection not in self._leaving
            and connection.use is Use.IDLE
            and connection.is_quiet
        )

    def _dismiss(self, connection: ClientTransport) -> None:
        now = self._loop.time()
        if now - self._full_told_at >= _TOLD_SECONDS:
            self._full_told_at = now
            _LOG.warning(
                "%d connections, as many as --max-connections allows: "
                "unused ones are closed for new ones",
                self._limits.max_connections,
            )
        self._new.pop(connection, None)
        self._leaving.add(connection)
        connection.evict()

    # One connection

    def _admit(self, connection: socket.socket, address: str) -> None:
        self.accepted += 1
        connection.setblocking(False)
        transport = self._make_transport(self._closed)
        self._connections[transport] = address
        self._new[transport] = None
        self._of_address.setdefault(address, {})[transport] = None
        task = self._loop.create_task(self._connect(transport, connection))
        self._admissions.add(task)
        task.add_done_callback(self._admissions.discard)

    async def _connect(self, transport: ClientTransport, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: transport, connection)
        except OSError as error:
            _LOG.log(_V2, "accept: %s", error.strerror)
            connection.close()
            self._closed(transport)
        if self._is_stopped:
            transport.drain()

    def _closed(self, transport: ClientTransport) -> None:
        self._forget(transport)
        self._quiet.set(_QUIET_SECONDS)
        if not self._connections:
            self._emptied.set()
        if not self._is_full:
            # It gave a descriptor back too, so there is no need to wait.
            self._try_again()

    def _forget(self, transport: ClientTransport) -> None:
        address = self._connections.pop(transport, None)
        if address is None:
            return
        self._new.pop(transport, None)
        self._leaving.discard(transport)
        own = self._of_address[address]
        del own[transport]
        if not own:
            del self._of_address[address]

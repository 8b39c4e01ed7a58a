"""Sockets (dual stack), accept, connection limit, running out of descriptors, graceful drain."""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable, Sequence

from pyrbacproxy import heap
from pyrbacproxy.dataplane.client_transport import ClientTransport
from pyrbacproxy.dataplane.deadline import Deadline
from pyrbacproxy.dataplane.limits import Limits

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
        self._connections: set[ClientTransport] = set()
        self._admissions: set[asyncio.Task[None]] = set()
        self._retry: asyncio.TimerHandle | None = None
        self._told_at = -_PAUSE_SECONDS
        self._quiet = Deadline(self._loop, heap.trim)
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
            connection.cut_off()

    def _pause(self) -> None:
        if self._is_accepting:
            self._is_accepting = False
            for listening in self._sockets:
                self._loop.remove_reader(listening)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_BATCH):
            if len(self._connections) >= self._limits.max_connections:
                # The kernel's backlog holds the others until one closes.
                self._pause()
                return
            try:
                connection, _ = listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                self._accept_failed(error)
                return
            self._admit(connection)

    def _accept_failed(self, error: OSError) -> None:
        if error.errno in _EXHAUSTED:
            now = self._loop.time()
            if now - self._told_at >= _PAUSE_SECONDS:
                self._told_at = now
                _LOG.error("cannot accept connections for now: %s", error.strerror)
            self._pause()
            self._retry = self._loop.call_later(_PAUSE_SECONDS, self._try_again)
        else:
            # The connection was gone before it was taken; the next one is another matter.
            _LOG.log(_V2, "accept: %s", error.strerror)

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

    def _admit(self, connection: socket.socket) -> None:
        self.accepted += 1
        connection.setblocking(False)
        transport = self._make_transport(self._closed)
        self._connections.add(transport)
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
        self._connections.discard(transport)
        self._quiet.set(_QUIET_SECONDS)
        if not self._connections:
            self._emptied.set()
        if len(self._connections) < self._limits.max_connections:
            # It gave a descriptor back too, so there is no need to wait.
            self._try_again()

"""A client connection with TLS: the `asyncio.Protocol` over TCP that runs a TLS engine.

A sink and a source of plaintext. It knows no HTTP, with one exception: a client that speaks
plain HTTP is told so.
"""

import asyncio
import logging
from collections.abc import Callable

from OpenSSL import SSL

from pyrbacproxy.dataplane.client_transport import ClientTransport
from pyrbacproxy.dataplane.deadline import Deadline
from pyrbacproxy.dataplane.limits import Limits
from pyrbacproxy.dataplane.sinks import Inner
from pyrbacproxy.tls.engine import PlainHttpError, ServerEngine, TlsError

_LOG = logging.getLogger(__name__)
# What every port scanner can cause is no error of ours (FR51).
_V2 = 20 - 2


class SecureTransport(ClientTransport):
    """One TLS connection of a client; `make_inner` is called when the handshake is done.

    `context` gives the server context of the moment, once per connection. `on_handshake` is called
    once, with the version agreed on or with one word for the failure: `plain_http`, `tls_error`,
    `timeout`, `connection_lost`.
    """

    def __init__(
        self,
        make_inner: Callable[["SecureTransport"], Inner],
        *,
        context: Callable[[], SSL.Context],
        limits: Limits,
        loop: asyncio.AbstractEventLoop,
        on_closed: Callable[[ClientTransport], None],
        on_handshake: Callable[[str, str], None],
    ) -> None:
        super().__init__(lambda _: make_inner(self), limits=limits, loop=loop, on_closed=on_closed)
        self._engine = ServerEngine(context())
        self._on_handshake = on_handshake
        self._is_handshaking = True
        self._is_draining = False
        self._handshake = Deadline(loop, self._handshake_is_late)

    def peer_chain(self) -> tuple[bytes, ...]:
        """The certificates that the client presented (DER, leaf first), none of them verified."""
        return self._engine.peer_chain()

    def alpn(self) -> bytes:
        """The protocol agreed on, b"" if none."""
        return self._engine.alpn()

    def cipher(self) -> str:
        """The cipher suite, by OpenSSL's name."""
        return self._engine.cipher

    def data_received(self, data: bytes) -> None:
        """Some ciphertext."""
        transport = self._transport
        if self._is_deaf:
            self._swallow(data)
            return
        if transport is None:
            return
        engine = self._engine
        try:
            plaintext = engine.receive(data)
        except TlsError as error:
            self._refuse(transport, error)
            return
        answer = engine.outgoing()
        if answer:
            transport.writelines(answer)
        inner = self._inner
        if inner is None:
            if not engine.is_ready:
                return
            self._handshake.cancel()
            self._tell_handshake(engine.version)
            inner = self._inner = self._make_inner(self)
            if self._is_draining:
                inner.drain()
        if plaintext:
            inner.data_received(plaintext)
        if engine.is_peer_closed:
            self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        """TCP is gone."""
        self._handshake.cancel()
        self._tell_handshake(failure="connection_lost")
        super().connection_lost(exc)
        # The collector, which finds this transport's cycles, knows nothing of OpenSSL's memory.
        del self._engine

    def write(self, *pieces: bytes | memoryview) -> None:
        """Encrypt and send."""
        if self._transport is not None:
            engine = self._engine
            if len(pieces) == 1:
                self._transport.writelines(engine.sealed(pieces[0]))
                return
            for piece in pieces:
                engine.send(piece)
            self._transport.writelines(engine.outgoing())

    def end_sending(self) -> bool:
        """Flush and say close_notify, without TCP's end: TLS may still have to answer."""
        if self._transport is not None:
            self._say_goodbye(self._transport)
        return True

    def cut(self) -> None:
        """Flush and close without close_notify: the client sees that the end is missing."""
        if self._transport is not None and not self._transport.is_closing():
            self._shut(self._transport)

    def drain(self) -> None:
        """Finish what is running, then close; who is shaking hands is about to ask."""
        self._is_draining = True
        if self._inner is None:
            self._handshake.set(self._limits.first_request_seconds)
        super().drain()

    def _connected(self) -> None:
        self._handshake.set(self._limits.handshake_seconds)

    def _say_goodbye(self, transport: asyncio.Transport) -> None:
        """Say close_notify; an answer to it is not waited for (RFC 8446 §6.1)."""
        self._engine.shutdown()
        goodbye = self._engine.outgoing()
        if goodbye:
            transport.writelines(goodbye)

    def _is_between_messages(self, transport: asyncio.Transport) -> bool:
        return super()._is_between_messages(transport) and not self._engine.has_partial_record

    def _refuse(self, transport: asyncio.Transport, error: TlsError) -> None:
        """Garbage, or a failed handshake: send the alert that OpenSSL made of it, and close.

        Before there is an exchange the client gets time to read it: it may still be sending.
        """
        _LOG.log(_V2, "TLS handshake error from %s: %s", self.peer_address, error)
        last = b"".join(self._engine.outgoing())
        is_plain = isinstance(error, PlainHttpError)
        self._tell_handshake(failure="plain_http" if is_plain else "tls_error")
        if is_plain:
            last += PlainHttpError.ANSWER
        if last:
            transport.write(last)
        if self._inner is None:
            self._handshake.cancel()
            self._linger(transport)
        else:
            self._shut(transport)

    def _handshake_is_late(self) -> None:
        _LOG.log(_V2, "TLS handshake error from %s: too slow", self.peer_address)
        self._tell_handshake(failure="timeout")
        self.abort()

    def _tell_handshake(self, version: str = "", failure: str = "") -> None:
        if self._is_handshaking:
            self._is_handshaking = False
            self._on_handshake(version, failure)

"""One TLS connection towards a client, in memory: ciphertext in, plaintext and ciphertext out.

It never sees a socket or a clock, and never refuses a client certificate: what was presented is
handed out by `peer_chain` and judged elsewhere, for each request.

OpenSSL works on two memory BIOs. Each call into it costs about a microsecond and each "want read"
exception two more, so the usual case, a read that holds exactly one TLS record, is recognised by
the record's own length and takes two calls and no exception.
"""

from OpenSSL import SSL, crypto

# A record's header: type, version (2 bytes), length (2 bytes) (RFC 8446 section 5.1).
_HEADER_BYTES = 5
_RECORD_BYTES = 16384
# More than any suite adds to a record: header, explicit nonce, MAC, padding, and TLS 1.0's split
# first byte.
_OVERHEAD_BYTES = 160
# The memory BIOs keep the largest size that they ever had, so they are fed and emptied in pieces.
# Half the size would halve what a connection keeps, and cost a 100 KB answer a twentieth more.
_PIECE_BYTES = 131_072
_PIECE_OVERHEAD_BYTES = _OVERHEAD_BYTES * (1 + _PIECE_BYTES // _RECORD_BYTES)
# Room for what OpenSSL writes of its own accord: handshake flights, alerts, key updates.
_FLIGHT_BYTES = 8192

_NOTHING: list[bytes] = []

# What Go's server takes for the start of a plain HTTP request (crypto/tls,
# recordHeaderLooksLikeHTTP).
_HTTP_STARTS = frozenset((b"GET /", b"HEAD ", b"POST ", b"PUT /", b"OPTIO"))


class TlsError(Exception):
    """The connection cannot go on: garbage, a fatal alert, no common version or suite.

    `outgoing` may hold an alert that should still be sent.
    """


class PlainHttpError(TlsError):
    """Plain HTTP was spoken; `ANSWER` is what goes back, in plain text (reference 3.0.1)."""

    ANSWER = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"


class _Connection(SSL.Connection):
    """pyOpenSSL's, which looks for an error after each call, those that went well included."""

    def _raise_ssl_error(self, ssl: object, result: int) -> None:
        # A positive result is success (SSL_read(3), SSL_write(3)): looking twice cost each request
        # a microsecond and a half.
        if result <= 0:
            super()._raise_ssl_error(ssl, result)


class ServerEngine:
    """The server's side of one connection; after any call, `outgoing` is due to the client.

    `is_ready` tells that the handshake is done, `is_peer_closed` that the client sent close_notify:
    it may still read.
    """

    __slots__ = (
        "_connection",
        "_fragment",
        "_missing_bytes",
        "_owed_bytes",
        "_pieces",
        "_start",
        "is_peer_closed",
        "is_ready",
    )

    def __init__(self, context: SSL.Context) -> None:
        connection = _Connection(context, None)
        connection.set_accept_state()
        self._connection = connection
        self.is_ready = False
        self.is_peer_closed = False
        # The first bytes received, at most a record header.
        self._start = b""
        # Where the input stands: bytes of a record that are still to come, or the incomplete header
        # of one.
        self._missing_bytes = 0
        self._fragment = b""
        # An upper bound of what waits in the outgoing BIO: 0 spares the call. `_pieces` was taken
        # out of it already.
        self._owed_bytes = 0
        self._pieces: list[bytes] = []

    @property
    def has_partial_record(self) -> bool:
        """Whether a record has begun to come and is not whole."""
        return bool(self._missing_bytes or self._fragment)

    def receive(self, ciphertext: bytes) -> bytes:
        """What the client said, decrypted; b"" if nothing yet. Raises TlsError, PlainHttpError."""
        if (
            self.is_ready
            and not self._missing_bytes
            and not self._fragment
            and len(ciphertext) > _HEADER_BYTES
            and len(ciphertext) == _HEADER_BYTES + (ciphertext[3] << 8 | ciphertext[4])
        ):
            connection = self._connection
            try:
                connection.bio_write(ciphertext)
                return connection.recv(len(ciphertext))
            except SSL.WantReadError:
                # Not application data; a key update wants an answer.
                self._owed_bytes += _FLIGHT_BYTES
                return b""
            except (SSL.Error, SSL.ZeroReturnError) as error:
                self._end(error)
                return b""
        return self._receive_in_pieces(ciphertext)

    def send(self, plaintext: bytes | memoryview) -> None:
        """Encrypt, once `is_ready`; `outgoing` then has it. Raises TlsError after `shutdown`."""
        size = len(plaintext)
        if size > _PIECE_BYTES:
            self._send_in_pieces(plaintext)
        elif size:
            try:
                self._connection.send(plaintext)
            except SSL.Error as error:
                raise TlsError(_reason(error)) from error
            self._owed_bytes += size + _OVERHEAD_BYTES * (1 + size // _RECORD_BYTES)

    def sealed(self, plaintext: bytes | memoryview) -> list[bytes]:
        """`send` and `outgoing` in one, for the usual short answer when nothing else is due."""
        size = len(plaintext)
        if 0 < size <= _RECORD_BYTES and not (self._owed_bytes or self._pieces):
            connection = self._connection
            try:
                connection.send(plaintext)
            except SSL.Error as error:
                raise TlsError(_reason(error)) from error
            return [connection.bio_read(size + _OVERHEAD_BYTES)]
        self.send(plaintext)
        return self.outgoing()

    def outgoing(self) -> list[bytes]:
        """The ciphertext due to the client, in pieces; what was handed out is forgotten."""
        if self._owed_bytes:
            self._take_out()
        pieces = self._pieces
        if pieces:
            self._pieces = []
            return pieces
        return _NOTHING

    def shutdown(self) -> None:
        """Say close_notify (RFC 8446 section 6.1), once `is_ready`; the client may still send."""
        if not self.is_ready:
            return
        self._owed_bytes += _FLIGHT_BYTES
        try:
            self._connection.shutdown()
        except SSL.Error:
            # The connection failed earlier: no alert can be sent.
            return

    def peer_chain(self) -> tuple[bytes, ...]:
        """The certificates presented, unverified: DER, leaf first, then as sent; () if none."""
        leaf = self._connection.get_peer_certificate()
        if leaf is None:
            return ()
        # On the server's side OpenSSL's chain lacks the leaf.
        others = self._connection.get_peer_cert_chain() or []
        return tuple(
            crypto.dump_certificate(crypto.FILETYPE_ASN1, certificate)
            for certificate in (leaf, *others)
        )

    def alpn(self) -> bytes:
        """The protocol agreed on by ALPN, b"" if the client asked for none."""
        return self._connection.get_alpn_proto_negotiated()

    @property
    def version(self) -> str:
        """The protocol version, such as "TLSv1.3"."""
        return self._connection.get_protocol_version_name()

    @property
    def cipher(self) -> str:
        """The cipher suite by OpenSSL's name, once `is_ready`."""
        return self._connection.get_cipher_name() or ""

    def _send_in_pieces(self, plaintext: bytes | memoryview) -> None:
        send, read = self._connection.send, self._connection.bio_read
        # What waits already leaves with the first piece.
        room = self._owed_bytes + _PIECE_BYTES + _PIECE_OVERHEAD_BYTES
        self._owed_bytes = 0
        with memoryview(plaintext) as view:
            for start in range(0, len(view), _PIECE_BYTES):
                try:
                    send(view[start : start + _PIECE_BYTES])
                except SSL.Error as error:
                    raise TlsError(_reason(error)) from error
                self._pieces.append(read(room))

    def _receive_in_pieces(self, ciphertext: bytes) -> bytes:
        if len(self._start) < _HEADER_BYTES:
            self._start += ciphertext[: _HEADER_BYTES - len(self._start)]
        self._owed_bytes += _FLIGHT_BYTES
        plaintext: list[bytes] = []
        try:
            for start in range(0, len(ciphertext), _PIECE_BYTES):
                self._connection.bio_write(ciphertext[start : start + _PIECE_BYTES])
                self._read_all(plaintext)
        except (SSL.Error, SSL.ZeroReturnError) as error:
            # What came before the end is still the client's word; a broken record ends all.
            self._end(error)
        self._follow_records(ciphertext)
        return plaintext[0] if len(plaintext) == 1 else b"".join(plaintext)

    def _read_all(self, plaintext: list[bytes]) -> None:
        connection = self._connection
        try:
            if not self.is_ready:
                connection.do_handshake()
                self.is_ready = True
            while True:
                plaintext.append(connection.recv(_RECORD_BYTES))
        except SSL.WantReadError:
            return

    def _follow_records(self, ciphertext: bytes) -> None:
        """Walk over the record headers, to know whether the next read starts at one."""
        if self._fragment:
            ciphertext = self._fragment + ciphertext
        position = self._missing_bytes
        end = len(ciphertext)
        while position + _HEADER_BYTES <= end:
            length = ciphertext[position + 3] << 8 | ciphertext[position + 4]
            position += _HEADER_BYTES + length
        self._missing_bytes = max(position - end, 0)
        self._fragment = ciphertext[position:]

    def _take_out(self) -> None:
        size = self._owed_bytes
        self._owed_bytes = 0
        try:
            while True:
                piece = self._connection.bio_read(size)
                self._pieces.append(piece)
                if len(piece) < size:
                    return
        except SSL.WantReadError:
            return

    def _end(self, error: Exception) -> None:
        """Note a close_notify; raise for every other end."""
        if isinstance(error, SSL.ZeroReturnError):
            self.is_peer_closed = True
            return
        self._owed_bytes += _FLIGHT_BYTES
        if not self.is_ready and self._start in _HTTP_STARTS:
            # OpenSSL's alert would stand before the plain answer.
            self._take_out()
            self._pieces.clear()
            raise PlainHttpError("the client sent an HTTP request to an HTTPS server") from error
        raise TlsError(_reason(error)) from error


def _reason(error: Exception) -> str:
    """OpenSSL's own words; its errors hold no data of the connection."""
    entries = error.args[0] if error.args else None
    if isinstance(entries, list) and entries:
        return str(entries[0][-1])
    return type(error).__name__

"""A client of TLS 1.2 that shows any bytes as its certificate.

OpenSSL refuses to load a certificate whose extensions it can't read, so that a test of what a
server makes of one needs a client of its own. It speaks ECDHE-ECDSA with AES-128-GCM and P-256, and
judges nothing that the server shows.
"""

import hashlib
import hmac
import secrets
import socket
import struct
from collections.abc import Sequence

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_CHANGE_CIPHER, _ALERT, _HANDSHAKE, _DATA = 20, 21, 22, 23
_CLIENT_HELLO, _SERVER_HELLO, _CERTIFICATE, _SERVER_KEY, _HELLO_DONE = 1, 2, 11, 12, 14
_CERTIFICATE_VERIFY, _CLIENT_KEY, _FINISHED = 15, 16, 20
_VERSION = b"\x03\x03"
_ECDHE_ECDSA_AES_128_GCM = b"\xc0\x2b"
_P256, _ECDSA_P256_SHA256 = b"\x00\x17", b"\x04\x03"
_POINT = (serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)


def _sized(count: int, *parts: bytes) -> bytes:
    """The parts, with their length in `count` octets before them."""
    body = b"".join(parts)
    return len(body).to_bytes(count, "big") + body


def _derived(secret: bytes, label: bytes, seed: bytes, size: int) -> bytes:
    """RFC 5246, section 5."""
    seed = step = label + seed
    made = b""
    while len(made) < size:
        step = hmac.digest(secret, step, "sha256")
        made += hmac.digest(secret, step + seed, "sha256")
    return made[:size]


class _Direction:
    """The records of one side once it has changed to the new keys."""

    def __init__(self, key: bytes, salt: bytes) -> None:
        self._cipher = AESGCM(key)
        self._salt = salt
        self._number = 0

    def seal(self, kind: int, text: bytes) -> bytes:
        explicit, extra = self._next(kind, len(text))
        return explicit + self._cipher.encrypt(self._salt + explicit, text, extra)

    def open(self, kind: int, body: bytes) -> bytes:
        _, extra = self._next(kind, len(body) - 24)
        return self._cipher.decrypt(self._salt + body[:8], body[8:], extra)

    def _next(self, kind: int, size: int) -> tuple[bytes, bytes]:
        number = struct.pack(">Q", self._number)
        self._number += 1
        return number, number + bytes([kind]) + _VERSION + struct.pack(">H", size)


class BareTls:
    """A connection, shaken; it has the methods of a socket that the harness uses.

    Raises ConnectionError when the server ends the handshake.
    """

    def __init__(
        self, raw: socket.socket, chain: Sequence[bytes], key: ec.EllipticCurvePrivateKey
    ) -> None:
        self._raw = raw
        self._in: _Direction | None = None
        self._out: _Direction | None = None
        self._transcript = b""
        self._messages = b""
        self._shake(chain, key)

    # --- what a socket has --------------------------------------------------------------

    def sendall(self, data: bytes) -> None:
        self._write(_DATA, data)

    def recv(self, _size: int) -> bytes:
        try:
            kind, body = self._record()
        except EOFError:
            return b""
        return body if kind == _DATA else b""

    def settimeout(self, seconds: float | None) -> None:
        self._raw.settimeout(seconds)

    def close(self) -> None:
        self._raw.close()

    # --- the handshake ------------------------------------------------------------------

    def _shake(self, chain: Sequence[bytes], key: ec.EllipticCurvePrivateKey) -> None:
        random, own = secrets.token_bytes(32), ec.generate_private_key(ec.SECP256R1())
        extensions = {10: _sized(2, _P256), 11: b"\x01\x00", 13: _sized(2, _ECDSA_P256_SHA256)}
        self._say(
            _CLIENT_HELLO,
            *(_VERSION, random, b"\x00", _sized(2, _ECDHE_ECDSA_AES_128_GCM), b"\x01\x00"),
            _sized(
                2, *(struct.pack(">H", kind) + _sized(2, text) for kind, text in extensions.items())
            ),
        )
        heard = {}
        while _HELLO_DONE not in heard:
            kind, body = self._hear()
            heard[kind] = body
        randoms = random + heard[_SERVER_HELLO][2:34]
        point = heard[_SERVER_KEY][4 : 4 + heard[_SERVER_KEY][3]]
        theirs = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
        master = _derived(own.exchange(ec.ECDH(), theirs), b"master secret", randoms, 48)
        self._say(_CERTIFICATE, _sized(3, *(_sized(3, shown) for shown in chain)))
        self._say(_CLIENT_KEY, _sized(1, own.public_key().public_bytes(*_POINT)))
        signature = key.sign(self._transcript, ec.ECDSA(hashes.SHA256()))
        self._say(_CERTIFICATE_VERIFY, _ECDSA_P256_SHA256, _sized(2, signature))
        keys = _derived(master, b"key expansion", randoms[32:] + randoms[:32], 40)
        self._write(_CHANGE_CIPHER, b"\x01")
        self._out = _Direction(keys[:16], keys[32:36])
        digest = hashlib.sha256(self._transcript).digest()
        self._say(_FINISHED, _derived(master, b"client finished", digest, 12))
        while self._hear(_Direction(keys[16:32], keys[36:40]))[0] != _FINISHED:
            pass

    def _say(self, kind: int, *parts: bytes) -> None:
        message = bytes([kind]) + _sized(3, *parts)
        self._transcript += message
        self._write(_HANDSHAKE, message)

    def _hear(self, changed: _Direction | None = None) -> tuple[int, bytes]:
        """The next message; `changed` is used once the server has changed its keys."""
        while len(self._messages) < 4 or len(self._messages) < self._size():
            kind, body = self._record()
            if kind == _CHANGE_CIPHER:
                self._in = changed
            elif kind == _ALERT:
                raise ConnectionAbortedError(f"alert {body.hex()}")
            else:
                self._messages += body
        message, self._messages = self._messages[: self._size()], self._messages[self._size() :]
        self._transcript += message
        return message[0], message[4:]

    def _size(self) -> int:
        return 4 + int.from_bytes(self._messages[1:4], "big")

    # --- records ------------------------------------------------------------------------

    def _write(self, kind: int, text: bytes) -> None:
        body = self._out.seal(kind, text) if self._out else text
        self._raw.sendall(bytes([kind]) + _VERSION + _sized(2, body))

    def _record(self) -> tuple[int, bytes]:
        head = self._read(5)
        body = self._read(int.from_bytes(head[3:], "big"))
        return head[0], self._in.open(head[0], body) if self._in else body

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            block = self._raw.recv(size - len(data))
            if not block:
                raise EOFError("the server closed the connection")
            data += block
        return data

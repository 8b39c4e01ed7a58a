"""Sends one request to the proxy as a client on this node would, with or without a credential."""

import http.client
import io
import socket
import ssl
import time
from typing import TYPE_CHECKING, cast

from pyrbacproxy.node.facts import (
    METRICS_PATH,
    SERIES_PREFIX,
    Answer,
    Asked,
    Certificate,
    CertificateFile,
    NoAnswer,
    NotSeen,
)
from pyrbacproxy.tls.certificate import from_der, name_text
from pyrbacproxy.tls.pem import certificates, key_block
from pyrbacproxy.values import Frozen, field

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


# --- certificates ---------------------------------------------------------------------
# A PEM file → the certificates in it, and whether a key is there; the key itself is not kept.


def certificate_file(content: bytes, path: str) -> CertificateFile:
    """What the file holds; `problem` is set when it holds no certificate or a broken one."""
    try:
        found = tuple(_certificate(der) for der in certificates(content).ders)
    except ValueError:
        return CertificateFile(path, problem="holds a certificate that cannot be read")
    if not found:
        return CertificateFile(path, problem="holds no certificate")
    return CertificateFile(path, found, has_key=key_block(content) is not None)


def fingerprint(der: bytes) -> str:
    """SHA-256 of a certificate, as `Certificate` has it. Raises ValueError."""
    return from_der(der).fingerprint


def _certificate(der: bytes) -> Certificate:
    certificate = from_der(der)
    return Certificate(
        name_text(certificate.subject_attributes),
        certificate.not_before,
        certificate.not_after,
        certificate.fingerprint,
    )


# --- scrape ---------------------------------------------------------------------------
#
# One request to the proxy, with a credential or without, as a client on this node sends it.
#
# A token is sent only to a server that is known: by an authority that vouches for it, or because it
# shows the very certificate of the node's serving pair.

_WAIT_SECONDS = 10.0
_ALL_SECONDS = 30.0
_MOST_BYTES = 64 * 2**20
_PIECE_BYTES = 2**16
_UNKNOWN_SERVER = (
    "the token was not sent: the server's certificate is not that of the serving pair; "
    "--ca-file names who vouches for it"
)


class Credential(Frozen):
    """What to scrape with: a token, or a client certificate with its key, or both."""

    token: str = field(default="", repr=False)
    certificate_file: str = ""
    key_file: str = ""


class CredentialError(Exception):
    """A file of credentials or authorities cannot be used; says which and why."""


class _EndlessError(Exception):
    """An answer is larger or slower than any of CRI-O's."""


class _Hurried(io.RawIOBase):
    """What a socket receives until an instant of the monotonic clock; then _EndlessError.

    A socket's own limit holds for each piece, so that one byte every few seconds would last for
    ever, in a status line or between chunks.
    """

    def __init__(self, connection: socket.socket, until: float) -> None:
        super().__init__()
        self._connection = connection
        self._until = until

    def makefile(self, _mode: str) -> io.BufferedReader:
        """All that HTTPResponse wants of a socket."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        """Some bytes, 0 at the end. Raises OSError and _EndlessError."""
        if time.monotonic() > self._until:
            raise _EndlessError
        return self._connection.recv_into(buffer)


def client_context(credential: Credential | None = None, ca_file: str = "") -> ssl.SSLContext:
    """A client's context. Raises CredentialError.

    No name is compared: we ask on loopback, for which no serving certificate is made.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if ca_file:
        try:
            context.load_verify_locations(cafile=ca_file)
        except OSError as error:  # ssl.SSLError is one
            raise CredentialError(_text(ca_file, error, "holds no certificate")) from None
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.verify_mode = ssl.CERT_REQUIRED
    if credential and credential.certificate_file:
        _load_pair(context, credential)
    return context


def ask(
    address: str,
    port: int,
    context: ssl.SSLContext,
    *,
    token: str = "",
    known_fingerprint: str = "",
) -> Asked:
    """GET the metrics, within 40 s. A token goes only to a known server, else it is NotSeen."""
    until = time.monotonic() + _ALL_SECONDS
    connection = http.client.HTTPSConnection(address, port, timeout=_WAIT_SECONDS, context=context)
    try:
        connection.connect()
        shown = _shown(connection)
        is_vouched_for = context.verify_mode is ssl.CERT_REQUIRED
        # A certificate that cannot be read has no fingerprint, nor has one that is not in sight.
        if token and not is_vouched_for and (not shown or shown != known_fingerprint):
            return NotSeen(_UNKNOWN_SERVER)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        connection.request("GET", METRICS_PATH, headers=headers)
        hurried = cast("socket.socket", _Hurried(connection.sock, until))
        response = http.client.HTTPResponse(hurried, method="GET")
        response.begin()
        return Answer(response.status, shown, _series(response))
    except TimeoutError:
        return NoAnswer(f"silence for {_WAIT_SECONDS:.0f} s")
    except ssl.SSLError as error:
        return NoAnswer(f"TLS: {error.reason or error}")
    except OSError as error:
        return NoAnswer(error.strerror or str(error))
    except _EndlessError:
        return NoAnswer("the answer does not end")
    except http.client.HTTPException as error:
        return NoAnswer(f"no HTTP: {type(error).__name__}")
    finally:
        connection.close()


def _shown(connection: http.client.HTTPSConnection) -> str:
    der = connection.sock.getpeercert(binary_form=True)
    try:
        return fingerprint(der or b"")
    except ValueError:
        return ""


def _series(response: http.client.HTTPResponse) -> int:
    """How many of CRI-O's series the body holds.

    Raises OSError, HTTPException and _EndlessError.
    """
    prefix, count, rest, left = SERIES_PREFIX.encode(), 0, b"", _MOST_BYTES
    while piece := response.read1(_PIECE_BYTES):
        left -= len(piece)
        if left < 0:
            raise _EndlessError
        *whole, rest = (rest + piece).split(b"\n")
        count += sum(line.startswith(prefix) for line in whole)
    if response.length:  # what is still to come of a body with a length
        raise http.client.IncompleteRead(b"", response.length)
    return count + rest.startswith(prefix)


def _load_pair(context: ssl.SSLContext, credential: Credential) -> None:
    file, key = credential.certificate_file, credential.key_file or credential.certificate_file
    try:
        # An encrypted key must not make us ask on the terminal.
        context.load_cert_chain(file, key, password=lambda: "")
    except OSError as error:
        shown = file if key == file else f"{file} with {key}"
        raise CredentialError(_text(shown, error, "no certificate with its key")) from None


def _text(file: str, error: OSError, otherwise: str) -> str:
    why = otherwise if isinstance(error, ssl.SSLError) else error.strerror
    return f"{file}: {why}"

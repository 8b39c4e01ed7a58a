"""`TlsSettings` → an OpenSSL context: versions, suites, ALPN; no client certificate is refused.

A context is made whole and never changed afterwards: a live one that is given a pair that does not
match breaks every later handshake (FR26).
"""

import datetime as dt
import functools
import ipaddress
import logging
import time
from collections.abc import Callable
from typing import NamedTuple

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from OpenSSL import SSL, _util, crypto

from pyrbacproxy.tls import pem
from pyrbacproxy.tls.certificate import Certificate, from_der
from pyrbacproxy.tls.client_chain import ClientCaPool
from pyrbacproxy.tls.files import TlsFileError, read_file
from pyrbacproxy.tls.names import DEFAULT_CIPHERS, GROUPS, TLS13_CIPHERS
from pyrbacproxy.values import Frozen, field

_LOG = logging.getLogger(__name__)
_V1 = 20 - 1

HTTP2 = b"h2"
HTTP1 = b"http/1.1"
PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey
# TLS 1.3 has signatures with these curves alone (RFC 8446 section 4.2.3), and so have Go's clients
# and browsers for TLS 1.2.
_CURVES = (ec.SECP256R1, ec.SECP384R1, ec.SECP521R1)

# pyOpenSSL sets this mode and has no name for it. With it, a send of 100 KB would write only one
# record of 16 KB.
_MODE_ENABLE_PARTIAL_WRITE = 0x1
_OPTIONS = (
    # A renegotiation could change the client's certificate during an exchange, and costs the server
    # more than the client.
    SSL.OP_NO_RENEGOTIATION | SSL.OP_NO_COMPRESSION | SSL.OP_CIPHER_SERVER_PREFERENCE
)
# TLS 1.0 and 1.1 sign with SHA-1, which OpenSSL 3 allows at level 0 only.
_LEGACY_LEVEL = "@SECLEVEL=0"


class TlsSettings(Frozen):
    """How a listener speaks TLS.

    `certificate_file` and `key_file` are both set, or both "" for a self-signed pair made in
    memory. `minimum` is an OpenSSL protocol number (0x0301 ... 0x0304). `cipher_list` is OpenSSL's
    list for TLS 1.2 and below: None for the default list, "" when none of the suites asked for
    exists (TLS 1.3 only, D33). `client_ca_file` "" turns certificate login off.
    """

    certificate_file: str = ""
    key_file: str = ""
    minimum: int = 0x0303
    cipher_list: str | None = None
    alpn: tuple[bytes, ...] = (HTTP1,)
    client_ca_file: str = ""
    reload_seconds: float = 60.0


class ServingPair(Frozen):
    """A private key and the chain that belongs to it, in DER, leaf first.

    `with_headers` are the numbers, from 1, of the file's certificates that are not used because
    their blocks have headers.
    """

    chain: tuple[bytes, ...]
    leaf: Certificate = field(repr=False)
    key: PrivateKey = field(repr=False)
    with_headers: tuple[int, ...] = ()


class NamedFile(NamedTuple):
    """A file, and the flag that names it."""

    flag: str
    path: str


def read_pair(certificate_file: str, key_file: str) -> ServingPair:
    """The pair in two PEM files, or in one file that holds both. Raises TlsFileError."""
    certificate_text = read_file(certificate_file)
    same = key_file == certificate_file
    key_text = certificate_text if same else read_file(key_file)
    return parse_pair(certificate_text, certificate_file, key_text, key_file)


def parse_pair(
    certificate_text: bytes, certificate_file: str, key_text: bytes, key_file: str
) -> ServingPair:
    """The pair in the files' content; the names are for the error. Raises TlsFileError."""
    found, leaf = _chain(certificate_text, certificate_file)
    key = _key(key_text, key_file)
    if leaf.key is None:
        raise TlsFileError(certificate_file, "the certificate's key is neither RSA nor ECDSA")
    if leaf.key != key.public_key():
        raise TlsFileError(key_file, f"the private key does not match {certificate_file}")
    return ServingPair(found.ders, leaf, key, found.with_headers)


def self_signed_pair(hostname: str) -> ServingPair:
    """A pair signed by a throw-away authority, never renewed (reference 5.1).

    It is valid for a year from an hour ago.
    """
    # Imported late: a proxy with a pair of files does not need it.
    from cryptography import x509  # noqa: PLC0415

    now = time.time()
    start = dt.datetime.fromtimestamp(int(now) - 3600, dt.UTC)

    def common_name(text: str) -> x509.Name:
        # X.520 bounds a common name to 64 characters; a host name may be as long.
        return x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, text[-64:])])

    def unsigned(subject: x509.Name, key: rsa.RSAPublicKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(authority_name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(start)
            .not_valid_after(start + dt.timedelta(days=365))
        )

    authority_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    authority_name = common_name(f"{hostname}-ca@{int(now)}")
    authority = (
        unsigned(authority_name, authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    try:
        name: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(hostname))
    except ValueError:
        name = x509.DNSName(hostname)
    purpose = x509.ExtendedKeyUsage([x509.oid.ExtendedKeyUsageOID.SERVER_AUTH])
    leaf = (
        unsigned(common_name(f"{hostname}@{int(now)}"), key.public_key())
        .add_extension(x509.SubjectAlternativeName([name]), critical=False)
        .add_extension(purpose, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    chain = (leaf.public_bytes(Encoding.DER), authority.public_bytes(Encoding.DER))
    return ServingPair(chain, from_der(chain[0]), key)


def server_context(pair: ServingPair, settings: TlsSettings) -> SSL.Context:
    """A new context that serves the pair. Raises TlsFileError when OpenSSL finds it too weak."""
    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    context.clear_mode(_MODE_ENABLE_PARTIAL_WRITE)
    # Without it an idle connection holds 30 KiB more.
    context.set_mode(SSL.MODE_RELEASE_BUFFERS)
    context.set_options(_OPTIONS)
    context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
    _set_suites(context, settings)
    _set_groups(context, offered_groups())
    # Every client is asked for a certificate, with an empty list of authorities; any is accepted in
    # the handshake and judged for each request (reference 5.5).
    context.set_verify(SSL.VERIFY_PEER, _accept_any)
    context.set_tlsext_servername_callback(_no_ticket)
    context.set_alpn_select_callback(_alpn_choice(settings.alpn))
    try:
        _set_chain(context, pair.chain)
        context.use_privatekey(pair.key)
        context.check_privatekey()
    except (SSL.Error, crypto.Error) as error:
        reason = error.args[0][0][-1] if error.args and error.args[0] else "refused"
        raise TlsFileError(settings.certificate_file, f"OpenSSL: {reason}") from error
    return context


def problems(settings: TlsSettings) -> list[str]:
    """What keeps a listener with these settings from starting, naming flag and file."""
    found = []
    certificate = NamedFile("--tls-cert-file", settings.certificate_file)
    key = NamedFile("--tls-private-key-file", settings.key_file)
    if certificate.path and key.path:
        found += pair_problems(certificate, key, lambda pair: server_context(pair, settings))
    elif certificate.path:
        found.append(f"{certificate.flag}={certificate.path} needs {key.flag}")
    elif key.path:
        found.append(f"{key.flag}={key.path} needs {certificate.flag}")
    if settings.client_ca_file:
        try:
            parse_pool(read_file(settings.client_ca_file), settings.client_ca_file)
        except TlsFileError as error:
            found.append(f"--client-ca-file: {error}")
    return found


def pair_problems(
    certificate: NamedFile, key: NamedFile, use: Callable[[ServingPair], object]
) -> list[str]:
    """What is wrong with a pair, naming flag and file.

    Each file is judged alone, so that a bad one does not hide the other; then both together, and
    by `use`, which raises TlsFileError.
    """
    found = []
    for named, judge in ((certificate, _chain), (key, _key)):
        try:
            judge(read_file(named.path), named.path)
        except TlsFileError as error:
            found.append(f"{named.flag}: {error}")
            if certificate.path == key.path:
                break  # of one file, the wrong one or unreadable, once is enough
    if found:
        return found
    try:
        use(read_pair(certificate.path, key.path))
    except TlsFileError as error:
        flag = certificate.flag if error.path == certificate.path else key.flag
        found.append(f"{flag}: {error}")
    return found


def parse_pool(text: bytes, path: str) -> ClientCaPool:
    """The client CA pool in a file's content; the name is for the error. Raises TlsFileError."""
    try:
        return ClientCaPool.from_pem(text)
    except ValueError as error:
        raise TlsFileError(path, str(error)) from error


def _chain(text: bytes, path: str) -> tuple[pem.Certificates, Certificate]:
    """The certificates of a pair's file, and the first of them read. Raises TlsFileError."""
    try:
        found = pem.certificates(text)
    except ValueError as error:
        raise TlsFileError(path, str(error)) from error
    if not found.ders:
        raise TlsFileError(path, "holds no certificate")
    leaf = None
    for number, der in found.numbered():
        try:
            leaf = leaf or from_der(der)
            _openssl_certificate(der)
        except ValueError as error:
            raise TlsFileError(path, f"bad certificate: number {number}: {error}") from error
    assert leaf is not None  # noqa: S101 -- there is a first one
    return found, leaf


def _openssl_certificate(der: bytes) -> crypto.X509:
    """As OpenSSL reads it, which is what clients are shown. Raises ValueError."""
    try:
        certificate = crypto.load_certificate(crypto.FILETYPE_ASN1, der)
    except crypto.Error as error:
        raise ValueError("OpenSSL cannot read it") from error
    # It leaves out what follows the certificate.
    if crypto.dump_certificate(crypto.FILETYPE_ASN1, certificate) != der:
        raise ValueError("it is not in DER, or has trailing octets")
    return certificate


def _set_chain(context: SSL.Context, chain: tuple[bytes, ...]) -> None:
    """Show clients this chain. Raises SSL.Error or crypto.Error."""
    # Not by pyOpenSSL's methods: they take certificates of `cryptography` alone, which refuses to
    # read some that Go and OpenSSL serve (FR72).
    lib = _util.lib
    for number, der in enumerate(chain):
        handle = _openssl_certificate(der)._x509  # noqa: SLF001
        if number == 0:
            is_set = lib.SSL_CTX_use_certificate(context._context, handle)  # noqa: SLF001
        else:
            handle = lib.X509_dup(handle)
            is_set = lib.SSL_CTX_add_extra_chain_cert(context._context, handle)  # noqa: SLF001
            if is_set != 1:
                lib.X509_free(handle)
        if is_set != 1:
            _util.exception_from_error_queue(SSL.Error)


def _key(text: bytes, path: str) -> PrivateKey:
    block = pem.key_block(text)
    if block is None:
        raise TlsFileError(path, "holds no private key")
    try:
        key = load_pem_private_key(block, password=None)
    except TypeError:
        raise TlsFileError(path, "the private key is encrypted") from None
    except (ValueError, UnsupportedAlgorithm):
        # The library's own words stay out: they could quote the key.
        raise TlsFileError(path, "bad private key") from None
    if not isinstance(key, PrivateKey):
        raise TlsFileError(path, "the private key is neither RSA, ECDSA nor Ed25519")
    if isinstance(key, ec.EllipticCurvePrivateKey) and not isinstance(key.curve, _CURVES):
        raise TlsFileError(
            path,
            f"the private key is on the curve {key.curve.name}, which no client takes: "
            "use P-256, P-384 or P-521",
        )
    return key


def _set_suites(context: SSL.Context, settings: TlsSettings) -> None:
    minimum = settings.minimum
    suites = DEFAULT_CIPHERS if settings.cipher_list is None else settings.cipher_list
    if not suites:
        # OpenSSL refuses an empty list.
        minimum = SSL.TLS1_3_VERSION
        suites = DEFAULT_CIPHERS
    if minimum < SSL.TLS1_2_VERSION:
        suites = f"{suites}:{_LEGACY_LEVEL}"
    context.set_min_proto_version(minimum)
    context.set_cipher_list(suites.encode())
    context.set_tls13_ciphersuites(TLS13_CIPHERS.encode())


@functools.cache
def offered_groups() -> tuple[str, ...]:
    """The groups of GROUPS that the OpenSSL at hand has; none if that can't be found out."""
    for groups in (GROUPS, GROUPS[1:], GROUPS[2:]):
        if _set_groups(SSL.Context(SSL.TLS_SERVER_METHOD), groups):
            if groups != GROUPS:
                _LOG.log(_V1, "TLS groups: OpenSSL lacks %s", ", ".join({*GROUPS} - {*groups}))
            return groups
    _LOG.log(_V1, "TLS groups: OpenSSL's own")
    return ()


def _set_groups(context: SSL.Context, groups: tuple[str, ...]) -> bool:
    """Offer these alone; false when that can't be had, and the context is as it was.

    OpenSSL's own list has finite fields too, which cost a server most, and makes clients say hello
    again for its favourite.
    """
    # pyOpenSSL has no name for it, cryptography's bindings have.
    choose = getattr(_util.lib, "SSL_CTX_set1_curves_list", None)
    if choose is None or not groups:
        return False
    is_chosen = choose(context._context, ":".join(groups).encode()) == 1  # noqa: SLF001 -- as above
    _util.lib.ERR_clear_error()
    return bool(is_chosen)


def _accept_any(
    _connection: SSL.Connection, _certificate: crypto.X509, _error: int, _depth: int, _ok: int
) -> bool:
    return True


def _no_ticket(connection: SSL.Connection) -> None:
    """Keep OpenSSL from making tickets; called within each handshake, with a server name or not.

    A resumed session would come without the presented chain, or fail for want of a session id
    context. Were the option the context's, TLS 1.3 would still make two tickets that no client can
    use, for a tenth of the handshake's cost: only where it is found set after this callback, none
    is made.
    """
    connection.set_options(SSL.OP_NO_TICKET)


def _alpn_choice(served: tuple[bytes, ...]) -> Callable[[SSL.Connection, list[bytes]], bytes]:
    """Ours first; without a common protocol the handshake is refused (reference 15.12).

    HTTP/2 is none below TLS 1.2 (RFC 9113 §9.2).
    """

    def choose(connection: SSL.Connection, offered: list[bytes]) -> bytes:
        is_old = connection.get_protocol_version() < SSL.TLS1_2_VERSION
        for protocol in served:
            if protocol in offered and not (is_old and protocol == HTTP2):
                return protocol
        # pyOpenSSL turns what is raised here into the alert no_application_protocol and raises it
        # again from the handshake.
        raise SSL.Error([("SSL routines", "", "no application protocol")])

    return choose

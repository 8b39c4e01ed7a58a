"""Presented chain + current client CA pool + time → `ClientCertificate` or why not.

OpenSSL joins names and signatures, path lengths, name constraints, key usage and unknown critical
extensions. What its store does not know as Go does is decided here, before it sees a certificate:
time, purpose along the whole chain, strength of keys and signatures (reference 5.6). So an
unusable certificate never hides a usable one of the same name.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from OpenSSL import crypto

from pyrbacproxy.peer import ClientCertificate, Peer
from pyrbacproxy.tls import pem
from pyrbacproxy.tls.certificate import from_der, from_pem

# X509_V_FLAG_NO_CHECK_TIME, which pyOpenSSL has no name for: the clock is not OpenSSL's to read.
_NO_CHECK_TIME = 0x200000
_STORE_FLAGS = crypto.X509StoreFlags.PARTIAL_CHAIN | _NO_CHECK_TIME
# More than any real chain; both bound what a stranger can make us do and remember.
_MAX_PRESENTED = 16
_MAX_PRESENTED_BYTES = 32768
# Go checks no signature below 1024 bits, and no client's key above 8192.
_RSA_BITS = range(1024, 8192 + 1)
_STRONG_HASHES = (hashes.SHA256, hashes.SHA384, hashes.SHA512)
_CLIENT_PURPOSES = (ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE)
# What the library raises where it first looks at a key, a signature or the extensions.
_UNREADABLE = (
    ValueError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)
# Strangers can present what they like: their chains never push out the trusted ones.
_MAX_TRUSTED = 256
_MAX_REFUSED = 64


@dataclass(frozen=True, slots=True)
class _Link:
    """One certificate, as both libraries see it; names in DER, validity in epoch seconds."""

    certificate: x509.Certificate
    openssl: crypto.X509
    subject: bytes
    issuer: bytes
    not_before: float
    not_after: float


@dataclass(frozen=True, slots=True)
class _Anchor:
    link: _Link
    # A store of its own: of several anchors with one name OpenSSL would try only the first.
    store: crypto.X509Store


@dataclass(frozen=True, slots=True)
class _Verdict:
    """It holds between `since` and `until`, not at them: there a validity begins or ends."""

    certificate: ClientCertificate | None
    refusal: str
    since: float
    until: float


class ClientCaPool:
    """The authorities that may vouch for clients: each is an anchor, self-signed or not."""

    __slots__ = ("anchors", "boundaries")

    def __init__(self, certificates: list[x509.Certificate]) -> None:
        self.anchors = tuple(_anchor(certificate) for certificate in certificates)
        self.boundaries = _boundaries([anchor.link for anchor in self.anchors])

    @classmethod
    def from_pem(cls, text: bytes) -> "ClientCaPool":
        """Every certificate in the text; other blocks and blocks with headers are skipped.

        Raises ValueError when there is none, or one that cannot be read (reference 5.7).
        """
        blocks = pem.certificate_blocks(text)
        if not blocks:
            raise ValueError("holds no certificate")
        try:
            return cls([from_pem(block) for block in blocks])
        except (ValueError, crypto.Error) as error:
            raise ValueError(f"bad certificate: {error}") from error


class ClientChains:
    """Judges presented chains against the current pool, and remembers.

    `generation` changes with the pool: whoever keeps a `Peer` asks again then, and when its
    certificate's time is over. Without a pool certificate login is off, and nobody is refused.
    """

    __slots__ = ("_pool", "_refused", "_trusted", "generation")

    def __init__(self, pool: ClientCaPool | None = None) -> None:
        self._pool = pool
        self._trusted: dict[tuple[bytes, ...], _Verdict] = {}
        self._refused: dict[tuple[bytes, ...], _Verdict] = {}
        self.generation = 0

    def replace_pool(self, pool: ClientCaPool) -> None:
        """Judge by this pool alone from now on."""
        self._pool = pool
        self._trusted.clear()
        self._refused.clear()
        self.generation += 1

    def judge(self, address: str, chain: tuple[bytes, ...], now: float) -> Peer:
        """The peer with this address and chain (DER, leaf first) at `now`, in epoch seconds."""
        if not chain or self._pool is None:
            return Peer(address)
        verdict = self._trusted.get(chain) or self._refused.get(chain)
        if verdict is None or not verdict.since < now < verdict.until:
            if len(chain) > _MAX_PRESENTED or sum(map(len, chain)) > _MAX_PRESENTED_BYTES:
                return Peer(address, refusal="the client presents too many certificates")
            verdict = _judge(self._pool, chain, now)
            self._remember(chain, verdict)
        return Peer(address, verdict.certificate, verdict.refusal)

    def _remember(self, chain: tuple[bytes, ...], verdict: _Verdict) -> None:
        self._trusted.pop(chain, None)
        self._refused.pop(chain, None)
        memory, limit = (
            (self._trusted, _MAX_TRUSTED) if verdict.certificate else (self._refused, _MAX_REFUSED)
        )
        if len(memory) >= limit:
            del memory[next(iter(memory))]
        memory[chain] = verdict


def _judge(pool: ClientCaPool, chain: tuple[bytes, ...], now: float) -> _Verdict:
    try:
        links = [_link(from_der(der)) for der in chain]
        outcome = _verify(pool, links, now)
    except (*_UNREADABLE, crypto.Error) as error:
        # Parsed by OpenSSL in the handshake, but not by the stricter library.
        refusal = f"the client's certificates cannot be read: {error}"
        return _Verdict(None, refusal, -math.inf, math.inf)
    boundaries = pool.boundaries + _boundaries(links)
    since = max((instant for instant in boundaries if instant <= now), default=-math.inf)
    until = min((instant for instant in boundaries if instant >= now), default=math.inf)
    if isinstance(outcome, ClientCertificate):
        return _Verdict(outcome, "", since, until)
    serial = links[0].certificate.serial_number
    return _Verdict(None, f"client certificate with serial {serial:x}: {outcome}", since, until)


def _verify(pool: ClientCaPool, links: list[_Link], now: float) -> ClientCertificate | str:
    """The client's certificate, or why none of the anchors vouches for it."""
    leaf = links[0]
    if fault := _fault(leaf, now) or _weak_signature(leaf):
        return fault
    between = [
        link
        for link in links[1:]
        if not (_fault(link, now) or _weak_signature(link) or _not_an_authority(link))
    ]
    sent = [link.openssl for link in between]
    reason = "is signed by an unknown authority"
    for anchor in _candidates(pool, leaf, between, now):
        try:
            verified = crypto.X509StoreContext(
                anchor.store, leaf.openssl, sent
            ).get_verified_chain()
        except crypto.X509StoreContextError as error:
            reason = str(error)
            continue
        return _client_certificate(leaf, [item.to_cryptography() for item in verified])
    return reason


def _candidates(
    pool: ClientCaPool, leaf: _Link, between: list[_Link], now: float
) -> Iterator[_Anchor]:
    """The anchors that could end a chain: the leaf itself, or named as somebody's issuer."""
    issuers = {leaf.issuer, *(link.issuer for link in between)}
    for anchor in pool.anchors:
        link = anchor.link
        if link.certificate == leaf.certificate or (
            link.subject in issuers and not (_fault(link, now) or _not_an_authority(link))
        ):
            yield anchor


def _fault(link: _Link, now: float) -> str:
    """Why no certificate of a chain may be like this, "" if it may."""
    if now < link.not_before:
        return "is not yet valid"
    if now > link.not_after:
        return "has expired"
    try:
        return _unfitness(link.certificate)
    except _UNREADABLE as error:
        # One such certificate says nothing of the others of its name.
        return f"cannot be read: {error}"


def _unfitness(certificate: x509.Certificate) -> str:
    """What is wrong with its purpose or its key, "" for nothing. Raises `_UNREADABLE`."""
    purposes = _purposes(certificate)
    if purposes is not None and not any(purpose in purposes for purpose in _CLIENT_PURPOSES):
        return "is not meant for clients (extended key usage)"
    key = certificate.public_key()
    if isinstance(key, rsa.RSAPublicKey):
        return "" if key.key_size in _RSA_BITS else f"has an RSA key of {key.key_size} bits"
    if not isinstance(key, ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey):
        return "has a key that is neither RSA, ECDSA nor Ed25519"
    return ""


def _weak_signature(link: _Link) -> str:
    """Why its signature proves nothing, "" if it may. An anchor's own is never asked for."""
    try:
        algorithm = link.certificate.signature_hash_algorithm
    except UnsupportedAlgorithm as error:
        return f"cannot be read: {error}"
    # Ed25519 has its hash built in.
    if algorithm is None or isinstance(algorithm, _STRONG_HASHES):
        return ""
    return f"is signed with {algorithm.name}"


def _not_an_authority(link: _Link) -> bool:
    """Whether it says that it may not sign others; OpenSSL alone is content with less."""
    certificate = link.certificate
    try:
        basic = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    except x509.ExtensionNotFound:
        # Version 1 has no extensions to say it with.
        return certificate.version is not x509.Version.v1
    return not basic.value.ca


def _purposes(certificate: x509.Certificate) -> x509.ExtendedKeyUsage | None:
    try:
        return certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return None


def _client_certificate(leaf: _Link, verified: list[x509.Certificate]) -> ClientCertificate:
    names = _values(leaf, NameOID.COMMON_NAME)
    return ClientCertificate(
        common_name=names[-1] if names else "",
        organizations=_values(leaf, NameOID.ORGANIZATION_NAME),
        not_before=max(item.not_valid_before_utc for item in verified).timestamp(),
        not_after=min(item.not_valid_after_utc for item in verified).timestamp(),
        fingerprint=leaf.certificate.fingerprint(hashes.SHA256()).hex(),
    )


def _values(link: _Link, attribute: x509.ObjectIdentifier) -> tuple[str, ...]:
    return tuple(
        value
        for item in link.certificate.subject.get_attributes_for_oid(attribute)
        if isinstance(value := item.value, str)
    )


def _link(certificate: x509.Certificate) -> _Link:
    return _Link(
        certificate=certificate,
        openssl=crypto.X509.from_cryptography(certificate),
        subject=certificate.subject.public_bytes(),
        issuer=certificate.issuer.public_bytes(),
        not_before=certificate.not_valid_before_utc.timestamp(),
        not_after=certificate.not_valid_after_utc.timestamp(),
    )


def _anchor(certificate: x509.Certificate) -> _Anchor:
    link = _link(certificate)
    store = crypto.X509Store()
    store.set_flags(_STORE_FLAGS)
    store.add_cert(link.openssl)
    return _Anchor(link, store)


def _boundaries(links: list[_Link]) -> tuple[float, ...]:
    return tuple(instant for link in links for instant in (link.not_before, link.not_after))

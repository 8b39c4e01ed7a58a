"""Verifies a client's certificate chain against the current client CA pool at a given time."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa

from pyrbacproxy.model import ClientCertificate, Peer
from pyrbacproxy.tls import pem
from pyrbacproxy.tls.certificate import (
    COMMON_NAME,
    ORGANIZATION,
    AlternativeNames,
    Certificate,
    Mailbox,
    Subtrees,
    from_der,
    is_address,
    is_domain,
    mailbox,
    name_text,
    uri_host,
)
from pyrbacproxy.values import Frozen

# More than any real chain; both bound the work and the memory that a client can cause.
_MAX_PRESENTED = 16
_MAX_PRESENTED_BYTES = 32768
# As many signatures as Go checks for one chain.
_MAX_SIGNATURES = 100
# Go compares more names with more constraints in the same time.
_MAX_COMPARISONS = 100_000
# Go checks no signature below 1024 bits, and no client's key above 8192.
_RSA_BITS = range(1024, 8192 + 1)
_MAX_RSA_EXPONENT = (1 << 31) - 1
_CLIENT_PURPOSES = (
    b"\x2b\x06\x01\x05\x05\x07\x03\x02",  # clientAuth
    b"\x55\x1d\x25\x00",  # anyExtendedKeyUsage
)
# Two memories: refused chains, of which a client can present any number, never evict trusted ones.
_MAX_TRUSTED = 256
_MAX_REFUSED = 64

_Name = TypeVar("_Name")
_Subtree = TypeVar("_Subtree")
_IsWithin = Callable[[_Subtree, _Name], bool]

Hash = hashes.SHA256 | hashes.SHA384 | hashes.SHA512
_HASHES: tuple[Hash, ...] = (hashes.SHA256(), hashes.SHA384(), hashes.SHA512())
# AlgorithmIdentifiers begin with the OID, tag and length included.
_RSA_PKCS1 = {
    b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01" + last: algorithm
    for last, algorithm in zip((b"\x0b", b"\x0c", b"\x0d"), _HASHES, strict=True)
}
_ECDSA = {
    b"\x06\x08\x2a\x86\x48\xce\x3d\x04\x03" + last: algorithm
    for last, algorithm in zip((b"\x02", b"\x03", b"\x04"), _HASHES, strict=True)
}
_ED25519 = b"\x06\x03\x2b\x65\x70"
_RSA_PSS = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0a"
_WEAK = {
    b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x04": "MD5",
    b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x05": "SHA-1",
    b"\x06\x07\x2a\x86\x48\xce\x3d\x04\x01": "SHA-1",
}


def _pss_parameters(last: bytes, salt: int) -> Iterator[bytes]:
    """How the parameters of a PSS signature may be written that Go takes: one hash for both, a salt
    of its size, the trailer that RFC 4055 has as default, written out or not.
    """

    def sequence(*parts: bytes) -> bytes:
        content = b"".join(parts)
        return bytes((0x30, len(content))) + content

    def explicit(number: int, content: bytes) -> bytes:
        return bytes((0xA0 | number, len(content))) + content

    oid = b"\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02" + last
    for null in (b"\x05\x00", b""):
        for inner_null in (b"\x05\x00", b""):
            mask = sequence(
                b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x08", sequence(oid, inner_null)
            )
            for trailer in (b"", b"\xa3\x03\x02\x01\x01"):
                yield sequence(
                    explicit(0, sequence(oid, null)),
                    explicit(1, mask),
                    explicit(2, bytes((2, 1, salt))),
                    trailer,
                )


_PSS = {
    parameters: algorithm
    for last, algorithm in zip((b"\x01", b"\x02", b"\x03"), _HASHES, strict=True)
    for parameters in _pss_parameters(last, algorithm.digest_size)
}


class _Verdict(Frozen):
    """It holds between `since` and `until`, not at them: there a validity begins or ends."""

    certificate: ClientCertificate | None
    refusal: str
    since: float
    until: float


class ClientCaPool:
    """The authorities for client certificates: each is a trust anchor, self-signed or not.

    `with_headers` are the numbers, from 1, of the file's certificates that are not used because
    their blocks have headers.
    """

    __slots__ = ("anchors", "boundaries", "by_subject", "ders", "with_headers")

    def __init__(
        self, certificates: Iterable[Certificate], with_headers: tuple[int, ...] = ()
    ) -> None:
        self.anchors = tuple(certificates)
        self.with_headers = with_headers
        self.boundaries = _boundaries(self.anchors)
        self.by_subject = _by_subject(self.anchors)
        self.ders = frozenset(anchor.der for anchor in self.anchors)

    @classmethod
    def from_pem(cls, text: bytes) -> "ClientCaPool":
        """Every certificate in the text; other blocks and blocks with headers are skipped.

        Raises ValueError when there is none, or one that cannot be read (reference 5.7).
        """
        found = pem.certificates(text)
        if not found.ders:
            raise ValueError("holds no certificate")
        anchors = []
        for number, der in found.numbered():
            try:
                anchors.append(from_der(der))
            except ValueError as error:
                raise ValueError(f"bad certificate: number {number}: {error}") from error
        return cls(anchors, found.with_headers)


class ClientChains:
    """Judges presented chains against the current pool, and caches the verdicts.

    `generation` changes with the pool: a `Peer` that is kept is judged again then, and when
    its certificate's validity ends. Without a pool certificate login is off: no client is refused.
    """

    __slots__ = ("_pool", "_refused", "_trusted", "generation")

    def __init__(self, pool: ClientCaPool | None = None) -> None:
        self._pool = pool
        self._trusted: dict[tuple[bytes, ...], _Verdict] = {}
        self._refused: dict[tuple[bytes, ...], _Verdict] = {}
        self.generation = 0

    def replace_pool(self, pool: ClientCaPool) -> None:
        """Judge by this pool alone from now on; cached verdicts are dropped."""
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
        links = [from_der(der) for der in chain]
        outcome = _Verification(pool, links, now).outcome()
    except Exception as error:  # noqa: BLE001 -- whatever a client's certificate raises refuses it
        refusal = f"the client's certificates cannot be read: {str(error) or type(error).__name__}"
        return _Verdict(None, refusal, -math.inf, math.inf)
    boundaries = pool.boundaries + _boundaries(links)
    since = max((instant for instant in boundaries if instant <= now), default=-math.inf)
    until = min((instant for instant in boundaries if instant >= now), default=math.inf)
    if isinstance(outcome, ClientCertificate):
        return _Verdict(outcome, "", since, until)
    leaf = links[0]
    subject, issuer = name_text(leaf.subject_attributes), name_text(leaf.issuer_attributes)
    described = f"{subject or 'no name'}, issued by {issuer or 'no name'}, serial {leaf.serial:x}"
    return _Verdict(None, f"client certificate of {described}: {outcome}", since, until)


class _Verification:
    """One search for a chain from the presented leaf to an anchor."""

    def __init__(self, pool: ClientCaPool, links: list[Certificate], now: float) -> None:
        self._pool = pool
        self._links = links
        self._now = now
        self._between = _by_subject(links[1:])
        self._signatures = 0
        # The first candidate's fault is reported: it is the likeliest issuer.
        self._reason = ""

    def outcome(self) -> ClientCertificate | str:
        """The client's certificate, or why no chain leads to an anchor."""
        leaf = self._links[0]
        if fault := _fault(leaf, self._now) or _unfit_key(leaf):
            return fault
        chain = [leaf] if leaf.der in self._pool.ders else self._chain((leaf,))
        if chain is None:
            return self._reason or "is signed by an unknown authority"
        return _client_certificate(leaf, chain)

    def _chain(self, chain: tuple[Certificate, ...]) -> Sequence[Certificate] | None:
        """This chain completed up to an anchor, None if there is no such chain."""
        child = chain[-1]
        for anchor in _likeliest_first(self._pool.by_subject.get(child.issuer, ()), child):
            if self._extends(chain, anchor, is_anchor=True):
                return (*chain, anchor)
        for link in _likeliest_first(self._between.get(child.issuer, ()), child):
            if self._extends(chain, link, is_anchor=False):
                found = self._chain((*chain, link))
                if found is not None:
                    return found
        return None

    def _extends(
        self, chain: tuple[Certificate, ...], candidate: Certificate, *, is_anchor: bool
    ) -> bool:
        if any(_is_same(candidate, link) for link in chain):
            return False
        authority = name_text(candidate.subject_attributes) or "without a name"
        fault = _fault(candidate, self._now) or _unfit_to_sign(
            candidate, chain, is_anchor=is_anchor
        )
        if fault:
            reason = f"its authority {authority} {fault}"
        else:
            reason = self._bad_signature(chain, candidate, authority)
        if not reason and (fault := _outside_constraints(chain, candidate)):
            reason = f"its authority {authority} {fault}"
        self._reason = self._reason or reason
        return not reason

    def _bad_signature(
        self, chain: tuple[Certificate, ...], signer: Certificate, authority: str
    ) -> str:
        """Why the signer has not signed the last of the chain, "" if it has."""
        self._signatures += 1
        if self._signatures > _MAX_SIGNATURES:
            self._reason = "has too many possible authorities"
            return self._reason
        child = chain[-1]
        weak = _WEAK.get(_algorithm(child)[0])
        if weak:
            who = (
                "" if child is chain[0] else f"its authority {name_text(child.subject_attributes)} "
            )
            return f"{who}is signed with {weak}"
        if _is_signed_by(child, signer):
            return ""
        return f"is signed by an unknown authority: the signature is not one of {authority}"


def _algorithm(certificate: Certificate) -> tuple[bytes, bytes]:
    """The signature's OID, with tag and length, and the parameters."""
    algorithm = certificate.signature_algorithm
    end = algorithm[1] + 2
    return algorithm[:end], algorithm[end:]


def _likeliest_first(candidates: Sequence[Certificate], child: Certificate) -> list[Certificate]:
    """In the order of the key identifiers: the same, none, another (RFC 5280 section 4.2.1.1)."""
    wanted = child.extensions.authority_key

    def rank(candidate: Certificate) -> int:
        own = candidate.extensions.subject_key
        return 1 if not wanted or not own else 0 if own == wanted else 2

    return sorted(candidates, key=rank)


def _is_same(one: Certificate, other: Certificate) -> bool:
    """Whether both stand for the same authority: name, key and alternative names."""
    return (one.subject, one.key_info, one.extensions.alternative_names) == (
        other.subject,
        other.key_info,
        other.extensions.alternative_names,
    )


def _fault(certificate: Certificate, now: float) -> str:
    """Why this certificate can't be part of any chain, "" if it can."""
    extensions = certificate.extensions
    if extensions.unhandled:
        return f"has an extension that is not supported, {extensions.unhandled[0]}"
    if now < certificate.not_before:
        return "is not yet valid"
    if now > certificate.not_after:
        return "has expired"
    purposes = extensions.purposes
    if purposes and not any(purpose in purposes for purpose in _CLIENT_PURPOSES):
        return "is not meant for clients (extended key usage)"
    return ""


def _unfit_key(certificate: Certificate) -> str:
    """Why no signature by its key is accepted, "" if there is no reason."""
    key = certificate.key
    if key is None:
        return "has a key that is neither RSA, ECDSA nor Ed25519, or none that can be used"
    if isinstance(key, rsa.RSAPublicKey):
        if key.key_size not in _RSA_BITS:
            return f"has an RSA key of {key.key_size} bits"
        if key.public_numbers().e > _MAX_RSA_EXPONENT:
            return "has an RSA key with too large an exponent"
    return ""


def _unfit_to_sign(
    candidate: Certificate, chain: tuple[Certificate, ...], *, is_anchor: bool
) -> str:
    """Why it may not have issued the last of the chain, "" if it may."""
    extensions = candidate.extensions
    # Version 1 has no extensions, hence no basic constraints: only an anchor may be of it.
    is_authority = extensions.is_authority
    if is_authority is None:
        is_authority = is_anchor and candidate.version < 3  # noqa: PLR2004 -- as the comment says
    if not is_authority:
        return "is no authority (basic constraints)"
    if not extensions.may_sign:
        return "may not sign certificates (key usage)"
    if extensions.path_length is not None and len(chain) - 1 > extensions.path_length:
        return "allows no chain of this length (path length)"
    return _unfit_key(candidate)


def _is_signed_by(child: Certificate, signer: Certificate) -> bool:
    verify = _verifier(child, signer)
    if verify is None:
        return False
    try:
        verify(child.signature, child.signed)
    except (InvalidSignature, ValueError, UnsupportedAlgorithm):
        return False
    return True


def _verifier(child: Certificate, signer: Certificate) -> Callable[[bytes, bytes], object] | None:
    """What raises InvalidSignature when a signature and its text don't belong together; None where
    Go knows no such algorithm, or the key is of another kind.
    """
    key = signer.key
    oid, parameters = _algorithm(child)
    if isinstance(key, ed25519.Ed25519PublicKey):
        return key.verify if oid == _ED25519 and not parameters else None
    if isinstance(key, ec.EllipticCurvePublicKey) and (digest := _ECDSA.get(oid)):
        return lambda signature, text: key.verify(signature, text, ec.ECDSA(digest))
    if isinstance(key, rsa.RSAPublicKey):
        if pkcs1 := _RSA_PKCS1.get(oid):
            return lambda signature, text: key.verify(signature, text, padding.PKCS1v15(), pkcs1)
        if oid == _RSA_PSS and (pss := _PSS.get(parameters)):
            scheme = padding.PSS(padding.MGF1(pss), pss.digest_size)
            return lambda signature, text: key.verify(signature, text, scheme, pss)
    return None


def _outside_constraints(chain: tuple[Certificate, ...], authority: Certificate) -> str:
    """Which name in the chain the authority's constraints forbid (RFC 5280 section 4.2.1.10)."""
    constraints = authority.extensions.constraints
    if constraints is None:
        return ""
    permitted, excluded = constraints.permitted, constraints.excluded
    per_name = sum(
        len(getattr(subtrees, kind))
        for subtrees in (permitted, excluded)
        for kind in ("emails", "domains", "uris", "networks")
    )
    listed = [link.extensions.names for link in chain if link.extensions.names is not None]
    count = sum(
        len(names.emails) + len(names.domains) + len(names.uris) + len(names.addresses)
        for names in listed
    )
    if count * per_name > _MAX_COMPARISONS:
        return "has too many name constraints"
    for names in listed:
        if fault := _forbidden(names, permitted, excluded):
            return fault
    return ""


def _forbidden(names: AlternativeNames, permitted: Subtrees, excluded: Subtrees) -> str:
    try:
        hosts = [_constrained_host(uri) for uri in names.uris]
    except ValueError:
        return "has name constraints, and a URI has no host name to compare"
    mailboxes = [mailbox(email) for email in names.emails]
    known = [one for one in mailboxes if one is not None]
    if len(known) < len(mailboxes) or not all(is_domain(domain) for domain in names.domains):
        return "has name constraints, and a name cannot be compared"
    is_permitted = (
        _all_within(names.addresses, permitted.networks, _is_in_network)
        and _all_within(names.domains, permitted.domains, _is_below)
        and _all_within(hosts, permitted.uris, _is_below)
        and _all_within(known, permitted.emails, _is_mailbox_of)
    )
    if not is_permitted:
        return "may not vouch for such a name (permitted subtrees)"
    is_excluded = (
        _any_within(names.addresses, excluded.networks, _is_in_network)
        or _any_within(names.domains, excluded.domains, _is_below_or_wildcard)
        or _any_within(hosts, excluded.uris, _is_below)
        or _any_within(known, excluded.emails, _is_mailbox_of)
    )
    return "may not vouch for such a name (excluded subtrees)" if is_excluded else ""


def _all_within(
    names: Sequence[_Name], subtrees: Sequence[_Subtree], is_within: _IsWithin[_Subtree, _Name]
) -> bool:
    """Whether each name is within one of the subtrees, if there are any."""
    return not subtrees or all(any(is_within(tree, name) for tree in subtrees) for name in names)


def _any_within(
    names: Sequence[_Name], subtrees: Sequence[_Subtree], is_within: _IsWithin[_Subtree, _Name]
) -> bool:
    return any(is_within(tree, name) for tree in subtrees for name in names)


def _constrained_host(uri: str) -> str:
    """The host, without port. Raises ValueError where there is none, or an address."""
    host = uri_host(uri)
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    if not name or name.startswith("[") or is_address(name):
        raise ValueError("no host name")
    return name


def _is_in_network(network: tuple[bytes, bytes], address: bytes) -> bool:
    base, mask = network
    return len(base) == len(address) and all(
        one & bits == other & bits for one, other, bits in zip(base, address, mask, strict=True)
    )


def _is_below(domain: str, name: str) -> bool:
    """Whether the name is the domain's or below it; only below if the domain begins with "."."""
    domain, name = domain.lower(), name.lower()
    if domain.startswith("."):
        return len(name) > len(domain) and name.endswith(domain)
    return not domain or name == domain or name.endswith(f".{domain}")


def _is_below_or_wildcard(domain: str, name: str) -> bool:
    """Whether the name, or one that its wildcard stands for, is below the domain."""
    wildcard, _, parent = name.lower().partition(".")
    is_parent = wildcard == "*" and parent != "" and domain.lower().partition(".")[2] == parent
    return is_parent or _is_below(domain, name)


def _is_mailbox_of(constraint: str, mail: Mailbox) -> bool:
    """Whether it is this mailbox, or one at this host; "." at the front means the hosts below."""
    if "@" in constraint:
        return mailbox(constraint) == mail
    host = constraint.lower()
    return _is_below(host, mail.domain) if host.startswith(".") else host in ("", mail.domain)


def _client_certificate(leaf: Certificate, chain: Sequence[Certificate]) -> ClientCertificate | str:
    names: list[str] = []
    organizations: list[str] = []
    for attribute in leaf.subject_attributes:
        kept = {COMMON_NAME: names, ORGANIZATION: organizations}.get(attribute.oid)
        if kept is None:
            continue
        if attribute.value is None:
            # Go leaves it out. A missing group could lift a rule that forbids.
            return "has a name or organization that is no string"
        kept.append(attribute.value)
    return ClientCertificate(
        common_name=names[-1] if names else "",
        organizations=tuple(organizations),
        not_before=max(link.not_before for link in chain),
        not_after=min(link.not_after for link in chain),
        fingerprint=leaf.fingerprint,
    )


def _by_subject(certificates: Iterable[Certificate]) -> dict[bytes, list[Certificate]]:
    found: dict[bytes, list[Certificate]] = {}
    for certificate in certificates:
        found.setdefault(certificate.subject, []).append(certificate)
    return found


def _boundaries(certificates: Iterable[Certificate]) -> tuple[float, ...]:
    return tuple(instant for link in certificates for instant in (link.not_before, link.not_after))

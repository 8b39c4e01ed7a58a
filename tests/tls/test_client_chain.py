import ipaddress
from collections.abc import Callable, Sequence

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from pyrbacproxy.model import ClientCertificate, Peer
from pyrbacproxy.tls.client_chain import ClientCaPool, ClientChains
from tests.tls import asn1
from tests.tls import old_certificates as old
from tests.tls.parties import (
    ANY,
    CLIENT,
    NOON,
    SERVER,
    Issued,
    as_pem,
    authority,
    issue,
    rsa_key,
    with_version,
)

NOW = NOON.timestamp()
HOUR = 3600
CA = authority("CN=ca")
OTHER_CA = authority("CN=other-ca")
NAMESAKE_CA = authority("CN=ca")
BETWEEN = authority("CN=between", issuer=CA)
DEEP = authority("CN=deep", issuer=BETWEEN)
EXPIRED = authority("CN=expired", issuer=CA, hours=(-3, -2))
ALICE = issue("O=dev", "CN=alice", issuer=CA, purposes=CLIENT)
UNKNOWN_EXTENSION = x509.UnrecognizedExtension(
    x509.ObjectIdentifier("1.3.6.1.4.1.99999.1"), b"\x05\x00"
)
TWO_UNKNOWN = tuple(
    (x509.UnrecognizedExtension(x509.ObjectIdentifier(name), b"\x05\x00"), False)
    for name in ("1.2.3.4", "1.2.3.5")
)
ONLY_EXAMPLE_ORG = x509.NameConstraints([x509.DNSName("example.org")], None)
NO_SIGNING = x509.KeyUsage(
    digital_signature=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=False,
    crl_sign=False,
    encipher_only=False,
    decipher_only=False,
)


def pool(*anchors: Issued) -> ClientCaPool:
    return ClientCaPool.from_pem(b"".join(anchor.pem for anchor in anchors))


def judge(anchors: tuple[Issued, ...], *presented: Issued, now: float = NOW) -> Peer:
    chain = tuple(link.der for link in presented)
    return ClientChains(pool(*anchors)).judge("192.0.2.1", chain, now)


def under(issuer: Issued) -> Issued:
    return issue("CN=alice", issuer=issuer, purposes=CLIENT)


def between(**kind: object) -> tuple[Issued, Issued]:
    """A leaf under an intermediate of a certain kind, and that intermediate."""
    link = issue("CN=special", issuer=CA, **kind)  # type: ignore[arg-type] # the cases name them
    return under(link), link


def der(pem: bytes) -> bytes:
    return x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)


def twice_extended(certificate: bytes) -> bytes:
    """With one extension twice, where it had the two unknown ones (DER)."""
    return certificate.replace(b"\x2a\x03\x05", b"\x2a\x03\x04")


def with_odd_key(certificate: bytes) -> bytes:
    """With a key of a kind that nobody knows, in the place of id-ecPublicKey."""
    return certificate.replace(b"\x2a\x86\x48\xce\x3d\x02\x01", b"\x2a\x86\x48\xce\x3d\x02\x63")


def with_odd_signature(certificate: bytes) -> bytes:
    """Signed by an algorithm that nobody knows, in the place of ecdsa-with-SHA256."""
    return certificate.replace(b"\xce\x3d\x04\x03\x02", b"\xce\x3d\x04\x03\x63")


def test_a_certificate_makes_name_groups_validity_and_fingerprint() -> None:
    assert judge((CA,), ALICE) == Peer(
        address="192.0.2.1",
        certificate=ClientCertificate(
            common_name="alice",
            organizations=("dev",),
            not_before=NOW - HOUR,
            not_after=NOW + HOUR,
            fingerprint=ALICE.certificate.fingerprint(SHA256()).hex(),
        ),
    )


# FR32
@pytest.mark.parametrize(
    ("subject", "name", "groups"),
    [
        pytest.param(
            ("O=first", "O=second", "CN=alice", "O=third, with comma"),
            "alice",
            ("first", "second", "third, with comma"),
            id="every organization in order",
        ),
        pytest.param(("CN=first", "O=dev", "CN=last"), "last", ("dev",), id="the last name"),
        pytest.param(("O=dev",), "", ("dev",), id="no name"),
        pytest.param(("CN=zoë", "O=café"), "zoë", ("café",), id="UTF-8"),
        pytest.param(
            ("CN=system:serviceaccount:openshift-monitoring:prometheus-k8s",),
            "system:serviceaccount:openshift-monitoring:prometheus-k8s",
            (),
            id="no group",
        ),
    ],
)
def test_the_subject_is_read_as_kubernetes_does(
    subject: tuple[str, ...], name: str, groups: tuple[str, ...]
) -> None:
    certificate = judge((CA,), issue(*subject, issuer=CA)).certificate
    assert certificate is not None
    assert (certificate.common_name, certificate.organizations) == (name, groups)


@pytest.mark.parametrize(
    ("anchors", "presented"),
    [
        pytest.param((CA,), (issue("CN=a", issuer=CA),), id="no purpose"),
        pytest.param((CA,), (issue("CN=a", issuer=CA, purposes=ANY),), id="any purpose"),
        pytest.param((CA,), (issue("CN=a", issuer=CA, purposes=SERVER + CLIENT),), id="both"),
        pytest.param((CA,), (issue("CN=a", issuer=CA, key=rsa_key()),), id="RSA"),
        pytest.param(
            (CA,),
            (issue("CN=a", issuer=CA, key=ed25519.Ed25519PrivateKey.generate()),),
            id="Ed25519",
        ),
        pytest.param(
            (CA,),
            (issue("CN=a", issuer=CA, key=ec.generate_private_key(ec.SECP521R1())),),
            id="P-521",
        ),
        pytest.param((CA,), (under(BETWEEN), BETWEEN), id="sent intermediate"),
        pytest.param((CA,), (under(DEEP), DEEP, BETWEEN), id="two"),
        pytest.param((CA,), (under(DEEP), BETWEEN, DEEP), id="in any order"),
        pytest.param((CA,), (under(DEEP), OTHER_CA, BETWEEN, CA, DEEP), id="among others"),
        pytest.param((CA,), between(is_authority=True, purposes=CLIENT), id="nested purpose"),
        pytest.param((BETWEEN,), (under(BETWEEN),), id="an anchor need not be self-signed"),
        pytest.param((CA, BETWEEN), (under(BETWEEN),), id="an intermediate in the file"),
        pytest.param((CA, OTHER_CA), (under(OTHER_CA),), id="any of the anchors"),
        pytest.param((NAMESAKE_CA, CA), (under(CA),), id="of two namesakes the right one"),
        pytest.param((CA, NAMESAKE_CA), (under(NAMESAKE_CA),), id="in either order"),
        pytest.param((ALICE,), (ALICE,), id="the certificate itself is in the file"),
    ],
)
def test_a_chain_is_found(anchors: tuple[Issued, ...], presented: tuple[Issued, ...]) -> None:
    peer = judge(anchors, *presented)
    assert peer.refusal == ""
    assert peer.certificate is not None


@pytest.mark.parametrize(
    ("presented", "reason"),
    [
        pytest.param((under(OTHER_CA),), "unknown authority", id="other authority"),
        pytest.param((under(NAMESAKE_CA),), "signature", id="only the issuer's name is right"),
        pytest.param((issue("CN=alice"),), "unknown authority", id="self-signed"),
        pytest.param((under(BETWEEN),), "unknown authority", id="intermediate not sent"),
        pytest.param((issue("CN=a", issuer=CA, hours=(-3, -2)),), "expired", id="expired"),
        pytest.param((issue("CN=a", issuer=CA, hours=(2, 3)),), "not yet valid", id="future"),
        pytest.param((under(EXPIRED), EXPIRED), "CN=expired has expired", id="expired above"),
        pytest.param((issue("CN=a", issuer=CA, purposes=SERVER),), "not meant", id="for servers"),
        pytest.param(
            between(is_authority=True, purposes=SERVER),
            "authority CN=special is not meant for clients",
            id="intermediate for servers",
        ),
        pytest.param(
            (issue("CN=a", issuer=CA, extensions=((UNKNOWN_EXTENSION, True),)),),
            "extension that is not supported",
            id="unknown critical extension",
        ),
        pytest.param(
            between(is_authority=True, extensions=((UNKNOWN_EXTENSION, True),)),
            "extension that is not supported",
            id="unknown critical extension above",
        ),
        pytest.param((under(ALICE), ALICE), "no authority", id="a leaf cannot issue"),
        pytest.param(between(is_authority=False), "no authority", id="nor who says so"),
        pytest.param(
            between(is_authority=True, extensions=((NO_SIGNING, True),)),
            "may not sign",
            id="nor without that key usage",
        ),
        pytest.param(
            (
                under(
                    below := authority(
                        "CN=below",
                        issuer=(
                            short := issue("CN=short", issuer=CA, is_authority=True, path_length=0)
                        ),
                    )
                ),
                below,
                short,
            ),
            "path length",
            id="too deep",
        ),
        pytest.param(
            (
                issue(
                    "CN=a",
                    issuer=(
                        narrow := issue(
                            "CN=narrow",
                            issuer=CA,
                            is_authority=True,
                            extensions=((ONLY_EXAMPLE_ORG, True),),
                        )
                    ),
                    extensions=((x509.SubjectAlternativeName([x509.DNSName("evil.test")]), False),),
                ),
                narrow,
            ),
            "subtree",
            id="outside the name constraints",
        ),
        pytest.param(
            (issue("CN=a", issuer=CA, key=dsa.generate_private_key(1024)),),
            "neither RSA",
            id="DSA key",
        ),
        pytest.param((ALICE, *[CA] * 16), "too many", id="too many certificates"),
    ],
)
def test_a_chain_is_refused(presented: tuple[Issued, ...], reason: str) -> None:
    peer = judge((CA,), *presented)
    assert peer.certificate is None
    assert reason in peer.refusal


@pytest.mark.parametrize(
    ("anchor", "leaf", "reason"),
    [
        pytest.param(old.OLD_CA, old.SIGNED_WITH_SHA1, "signed with SHA-1", id="SHA-1"),
        pytest.param(old.OLD_CA, old.SMALL_KEY, "RSA key of 768 bits", id="small key"),
        pytest.param(old.VERSION_1_CA, old.UNDER_VERSION_1, "", id="anchor of version 1"),
        pytest.param(old.OLD_CA, old.UNDER_VERSION_1, "unknown authority", id="another anchor"),
    ],
)
def test_old_certificates(anchor: bytes, leaf: bytes, reason: str) -> None:
    peer = ClientChains(ClientCaPool.from_pem(anchor)).judge("192.0.2.1", (der(leaf),), NOW)
    assert reason in peer.refusal
    assert (peer.certificate is None) == bool(reason)


@pytest.mark.parametrize(
    "chain",
    [
        (b"",),
        (b"garbage",),
        (ALICE.der, b"garbage"),
        (ALICE.der[:-1],),
        (with_version(ALICE.der, 1),),
        (ALICE.der, with_version(CA.der, 5)),
        (twice_extended(issue("CN=alice", issuer=CA, extensions=TWO_UNKNOWN).der),),
    ],
)
def test_what_cannot_be_read_is_refused(chain: tuple[bytes, ...]) -> None:
    peer = ClientChains(pool(CA)).judge("192.0.2.1", chain, NOW)
    assert peer.certificate is None
    assert "cannot be read" in peer.refusal


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(with_odd_key(NAMESAKE_CA.der), id="key"),
        pytest.param(with_odd_signature(NAMESAKE_CA.der), id="signature"),
    ],
)
def test_an_odd_one_that_go_reads_hides_none_of_its_name(odd: bytes) -> None:
    both = ClientCaPool.from_pem(as_pem(odd) + CA.pem)
    assert ClientChains(both).judge("192.0.2.1", (ALICE.der,), NOW).certificate
    assert ClientChains(pool(CA)).judge("192.0.2.1", (ALICE.der, odd), NOW).certificate
    alone = ClientChains(ClientCaPool.from_pem(as_pem(odd))).judge("192.0.2.1", (ALICE.der,), NOW)
    assert (alone.certificate, bool(alone.refusal)) == (None, True)


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        pytest.param(with_odd_key(ALICE.der), "neither RSA", id="key"),
        pytest.param(with_odd_signature(ALICE.der), "not one of CN=ca", id="signature"),
    ],
)
def test_a_client_with_an_odd_algorithm_is_refused(odd: bytes, reason: str) -> None:
    peer = ClientChains(pool(CA)).judge("192.0.2.1", (odd,), NOW)
    assert (peer.certificate, reason in peer.refusal) == (None, True)


def test_validity_is_the_whole_chains() -> None:
    early = authority("CN=early", issuer=CA, hours=(-9, 1))
    late = authority("CN=late", issuer=early, hours=(-1, 9))
    leaf = issue("CN=a", issuer=late, hours=(-5, 5))
    certificate = judge((CA,), leaf, late, early).certificate
    assert certificate is not None
    assert certificate.not_before == NOW - HOUR
    assert certificate.not_after == NOW + HOUR


def test_time_bites_on_what_is_remembered() -> None:
    chains = ClientChains(pool(CA))
    leaf = issue("CN=a", issuer=CA, hours=(-1, 1))

    def is_trusted(now: float) -> bool:
        return chains.judge("192.0.2.1", (leaf.der,), now).certificate is not None

    start, end = NOW - HOUR, NOW + HOUR
    times = [start - 1, start, NOW, end, end + 1, NOW, start - 1]
    assert [is_trusted(now) for now in times] == [False, True, True, True, False, True, False]


def test_an_expired_anchor_vouches_no_more() -> None:
    assert judge((EXPIRED,), under(EXPIRED)).certificate is None
    # A renewed one with the same name and key does.
    renewed = issue("CN=expired", issuer=CA, key=EXPIRED.key, is_authority=True)
    assert judge((EXPIRED, renewed), under(EXPIRED)).certificate is not None


# FR30
def test_without_a_pool_nobody_is_trusted_or_refused() -> None:
    assert ClientChains().judge("192.0.2.1", (ALICE.der,), NOW) == Peer("192.0.2.1")


def test_without_a_certificate_there_is_nothing_to_refuse() -> None:
    assert judge((CA,)) == Peer("192.0.2.1")


def test_a_pool_is_replaced_whole() -> None:
    chains = ClientChains(pool(CA))
    before = chains.generation
    assert chains.judge("192.0.2.1", (ALICE.der,), NOW).certificate
    chains.replace_pool(pool(OTHER_CA))
    assert chains.generation != before
    assert chains.judge("192.0.2.1", (ALICE.der,), NOW).refusal
    chains.replace_pool(pool(CA))
    assert chains.judge("192.0.2.1", (ALICE.der,), NOW).certificate


def test_a_verdict_is_remembered_for_every_address() -> None:
    chains = ClientChains(pool(CA))
    first = chains.judge("192.0.2.1", (ALICE.der,), NOW)
    second = chains.judge("192.0.2.2", (ALICE.der,), NOW + 1)
    assert second.address == "192.0.2.2"
    assert second.certificate is first.certificate


@pytest.mark.parametrize(
    ("make", "limit"),
    [
        pytest.param(lambda: issue("CN=a", issuer=CA, key=ALICE.key), 256, id="trusted"),
        pytest.param(lambda: issue("CN=a", key=ALICE.key), 64, id="refused"),
    ],
)
def test_memory_is_bounded(make: Callable[[], Issued], limit: int) -> None:
    chains = ClientChains(pool(CA))
    for _ in range(limit + 10):
        chains.judge("192.0.2.1", (make().der,), NOW)
    assert len(chains._trusted) + len(chains._refused) == limit


def test_strangers_push_out_no_trusted_verdict() -> None:
    chains = ClientChains(pool(CA))
    first = chains.judge("192.0.2.1", (ALICE.der,), NOW)
    for number in range(100):
        chains.judge("192.0.2.9", (b"garbage %d" % number,), NOW)
    assert chains.judge("192.0.2.1", (ALICE.der,), NOW).certificate is first.certificate


def test_too_large_a_chain_is_refused() -> None:
    oid = x509.ObjectIdentifier("1.3.6.1.4.1.99999.2")

    def padded(size: int) -> Issued:
        padding = x509.UnrecognizedExtension(oid, b"x" * size)
        return issue("CN=a", issuer=CA, extensions=((padding, False),))

    assert judge((CA,), padded(32_000)).certificate is not None
    assert "too many certificates" in judge((CA,), padded(33_000)).refusal


def test_other_blocks_and_certificates_with_headers_are_skipped() -> None:
    with_header = OTHER_CA.pem.replace(b"TE-----\n", b"TE-----\nKey: value\n\n", 1)
    text = b"# comment\n" + with_header + CA.key_pem() + CA.pem
    assert len(ClientCaPool.from_pem(text).anchors) == 1


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"", "holds no certificate"),
        (b"half written\n", "holds no certificate"),
        (CA.key_pem(), "holds no certificate"),
        (CA.pem[:-20], "certificate 1 has no END line"),
        (CA.pem + as_pem(with_version(CA.der, 1)), "bad certificate: number 2: trailing octets"),
        (
            CA.pem + b"-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----\n",
            "bad certificate: number 2: malformed certificate",
        ),
    ],
)
def test_a_bad_pool_is_an_error(text: bytes, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        ClientCaPool.from_pem(text)


# --- as Go's crypto/x509 verifies ------------------------------------------------------


def constrained(
    permitted: Sequence[x509.GeneralName] | None,
    excluded: Sequence[x509.GeneralName] | None,
    *names: x509.GeneralName,
) -> Peer:
    """The verdict on a leaf with these names below an authority with these constraints."""
    constraints = x509.NameConstraints(permitted, excluded)
    narrow = issue("CN=narrow", issuer=CA, is_authority=True, extensions=((constraints, True),))
    leaf = issue("CN=a", issuer=narrow, extensions=((x509.SubjectAlternativeName(names), False),))
    return judge((CA,), leaf, narrow)


def net(text: str) -> x509.GeneralName:
    return x509.IPAddress(ipaddress.ip_network(text))


def ip(text: str) -> x509.GeneralName:
    return x509.IPAddress(ipaddress.ip_address(text))


DNS, MAIL, URI = x509.DNSName, x509.RFC822Name, x509.UniformResourceIdentifier


@pytest.mark.parametrize(
    ("permitted", "excluded", "name", "is_let_in"),
    [
        (DNS("b.c"), None, DNS("a.b.c"), True),
        (DNS("b.c"), None, DNS("B.C"), True),
        (DNS("b.c"), None, DNS("ab.c"), False),
        (DNS(".b.c"), None, DNS("a.b.c"), True),
        (DNS(".b.c"), None, DNS("b.c"), False),
        (DNS(""), None, DNS("any"), True),
        (DNS("b.c"), None, MAIL("a@other"), True),
        (None, DNS("b.c"), DNS("a.b.c"), False),
        (None, DNS("b.c"), DNS("ab.c"), True),
        (None, DNS("a.b.c"), DNS("*.b.c"), False),
        (None, DNS("a.b.c"), DNS("*.c"), True),
        (MAIL("b.c"), None, MAIL("a@B.c"), True),
        (MAIL("b.c"), None, MAIL("a@x.b.c"), False),
        (MAIL(".b.c"), None, MAIL("a@x.b.c"), True),
        (MAIL("a@b.c"), None, MAIL("a@b.c"), True),
        (MAIL("a@b.c"), None, MAIL("A@b.c"), False),
        (None, MAIL("b.c"), MAIL("a@b.c"), False),
        (None, MAIL("x"), MAIL("no address"), False),
        (URI("b.c"), None, URI("spiffe://a.b.c/x"), True),
        (URI("b.c"), None, URI("https://u@b.c:443/x?y#z"), True),
        (URI("b.c"), None, URI("https://other/"), False),
        (URI("b.c"), None, URI("urn:x"), False),
        (URI("b.c"), None, URI("https://192.0.2.1/"), False),
        (URI("b.c"), None, URI("https://[2001:db8::1]:1/"), False),
        (None, URI("b.c"), URI("https://b.c"), False),
        (net("10.0.0.0/8"), None, ip("10.1.2.3"), True),
        (net("10.0.0.0/8"), None, ip("11.1.2.3"), False),
        (net("10.0.0.0/8"), None, ip("2001:db8::1"), False),
        (None, net("10.0.0.0/8"), ip("10.1.2.3"), False),
        (None, net("10.0.0.0/8"), ip("2001:db8::1"), True),
    ],
)
def test_name_constraints(
    permitted: x509.GeneralName | None,
    excluded: x509.GeneralName | None,
    name: x509.GeneralName,
    *,
    is_let_in: bool,
) -> None:
    peer = constrained([permitted] if permitted else None, [excluded] if excluded else None, name)
    assert (peer.certificate is not None) == is_let_in, peer.refusal


def test_constraints_hold_for_every_name_and_for_intermediates() -> None:
    assert constrained([DNS("b.c"), DNS("d")], None, DNS("d"), DNS("b.c")).certificate
    assert not constrained([DNS("b.c")], None, DNS("b.c"), DNS("d")).certificate
    top = issue(
        "CN=top",
        issuer=CA,
        is_authority=True,
        extensions=((x509.NameConstraints([DNS("b.c")], None), True),),
    )
    named = ((x509.SubjectAlternativeName([DNS("d")]), False),)
    below = issue("CN=below", issuer=top, is_authority=True, extensions=named)
    assert not judge((CA,), under(below), below, top).certificate


def test_too_many_constraints_are_not_compared() -> None:
    many = [DNS(f"{number}.c") for number in range(400)]
    assert "too many name constraints" in constrained(None, many, *many).refusal


# FR73
@pytest.mark.parametrize(
    "identifier",
    [
        pytest.param(
            x509.AuthorityKeyIdentifier(
                None, [x509.DirectoryName(OTHER_CA.certificate.subject)], 5
            ),
            id="issuer and serial",
        ),
        pytest.param(x509.AuthorityKeyIdentifier(b"other", None, None), id="key identifier"),
    ],
)
def test_an_authority_key_identifier_is_a_hint(identifier: x509.AuthorityKeyIdentifier) -> None:
    own = ((x509.SubjectKeyIdentifier(b"own"), False),)
    ca = issue("CN=ca", key=CA.key, is_authority=True, extensions=own)
    leaf = issue("CN=a", issuer=ca, extensions=((identifier, False),))
    assert judge((ca,), leaf).certificate
    assert judge((NAMESAKE_CA, ca), leaf).certificate


def test_the_authority_that_the_identifier_names_is_tried_first() -> None:
    # More namesakes than signatures are checked for one chain.
    others = [authority("CN=ca").pem for _ in range(120)]
    own = ((x509.SubjectKeyIdentifier(b"own"), False),)
    right = issue("CN=ca", is_authority=True, extensions=own)
    crowd = ClientCaPool.from_pem(b"".join([*others, right.pem]))
    identifier = x509.AuthorityKeyIdentifier(b"own", None, None)
    found = issue("CN=a", issuer=right, extensions=((identifier, False),))
    assert ClientChains(crowd).judge("192.0.2.1", (found.der,), NOW).certificate
    without = issue("CN=a", issuer=right)
    assert "too many" in ClientChains(crowd).judge("192.0.2.1", (without.der,), NOW).refusal


def test_certificates_that_issue_each_other_end_the_search() -> None:
    one = issue("CN=one", is_authority=True)
    two = issue("CN=two", issuer=one, is_authority=True)
    circle = issue("CN=one", issuer=two, key=one.key, is_authority=True)
    assert "unknown authority" in judge((CA,), under(two), two, circle).refusal


@pytest.mark.parametrize("digest", [SHA256(), hashes.SHA384(), hashes.SHA512()])
@pytest.mark.parametrize("is_pss", [False, True])
def test_rsa_signatures(digest: SHA256 | hashes.SHA384 | hashes.SHA512, *, is_pss: bool) -> None:
    key = rsa_key()
    ca = issue("CN=rsa-ca", key=key, is_authority=True)
    scheme = padding.PSS(padding.MGF1(digest), digest.digest_size) if is_pss else None
    assert judge((ca,), _signed(ALICE, ca, digest, scheme)).certificate


def test_a_pss_signature_with_another_salt_is_refused() -> None:
    ca = issue("CN=rsa-ca", key=rsa_key(), is_authority=True)
    scheme = padding.PSS(padding.MGF1(SHA256()), 20)
    assert judge((ca,), _signed(ALICE, ca, SHA256(), scheme)).refusal


def test_a_key_on_another_curve_or_of_another_kind_did_not_sign() -> None:
    for key in (rsa_key(), ed25519.Ed25519PrivateKey.generate()):
        other = issue("CN=ca", key=key, is_authority=True)
        assert "not one of CN=ca" in judge((other,), ALICE).refusal


def test_a_signature_by_another_kind_of_key_is_none() -> None:
    edwards = issue("CN=ca", key=ed25519.Ed25519PrivateKey.generate(), is_authority=True)
    assert "not one of CN=ca" in judge((CA,), issue("CN=a", issuer=edwards)).refusal


def test_an_rsa_key_with_a_large_exponent_is_refused() -> None:
    parts = rsa_key().public_key().public_numbers()
    large = rsa.RSAPublicNumbers((1 << 32) + 1, parts.n).public_key()
    info = large.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    odd = asn1.changed(ALICE, lambda parts: parts.__setitem__(asn1.KEY, info), CA.key)
    peer = ClientChains(pool(CA)).judge("192.0.2.1", (odd,), NOW)
    assert "too large an exponent" in peer.refusal


def _signed(
    like: Issued,
    ca: Issued,
    digest: SHA256 | hashes.SHA384 | hashes.SHA512,
    scheme: padding.PSS | None,
) -> Issued:
    assert isinstance(ca.key, rsa.RSAPrivateKey)
    builder = (
        x509.CertificateBuilder()
        .subject_name(like.certificate.subject)
        .issuer_name(ca.certificate.subject)
        .public_key(like.key.public_key())
        .serial_number(1)
        .not_valid_before(like.certificate.not_valid_before_utc)
        .not_valid_after(like.certificate.not_valid_after_utc)
    )
    return Issued(builder.sign(ca.key, digest, rsa_padding=scheme), like.key)


# FR71: a group less can be a rule less that forbids.
@pytest.mark.parametrize("oid", [asn1.COMMON_NAME, asn1.ORGANIZATION])
@pytest.mark.parametrize("tag", [0x03, 0x04, 0x1A, 0x1C])
def test_a_name_or_organization_that_is_no_string_is_refused(oid: bytes, tag: int) -> None:
    name = asn1.name((asn1.COMMON_NAME, 0x0C, b"a"), (oid, tag, b"\0\0\0a"))
    odd = asn1.changed(ALICE, lambda parts: parts.__setitem__(asn1.SUBJECT, name), CA.key)
    peer = ClientChains(pool(CA)).judge("192.0.2.1", (odd,), NOW)
    assert (peer.certificate, "is no string" in peer.refusal) == (None, True)


@pytest.mark.parametrize(
    ("tag", "value", "text"),
    [
        pytest.param(0x14, b"caf\xe9", "café", id="T61String"),
        pytest.param(0x1E, "café".encode("utf-16-be"), "café", id="BMPString"),
        pytest.param(0x16, b"a@b", "a@b", id="IA5String"),
        pytest.param(0x12, b"12", "12", id="NumericString"),
    ],
)
def test_names_and_groups_of_every_string_type(tag: int, value: bytes, text: str) -> None:
    name = asn1.name((asn1.ORGANIZATION, tag, value), (asn1.COMMON_NAME, tag, value))
    odd = asn1.changed(ALICE, lambda parts: parts.__setitem__(asn1.SUBJECT, name), CA.key)
    certificate = ClientChains(pool(CA)).judge("192.0.2.1", (odd,), NOW).certificate
    assert certificate is not None
    assert (certificate.common_name, certificate.organizations) == (text, (text,))


def test_whatever_is_raised_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(_: bytes) -> None:
        raise RuntimeError

    monkeypatch.setattr("pyrbacproxy.tls.client_chain.from_der", raises)
    peer = ClientChains(ClientCaPool([])).judge("192.0.2.1", (ALICE.der,), NOW)
    assert peer == Peer("192.0.2.1", None, "the client's certificates cannot be read: RuntimeError")

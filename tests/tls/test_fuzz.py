"""Mutated certificates and PEM files: nothing but a verdict comes out, and never a wrong trust.

FUZZ_INPUTS is the number of inputs of each test, FUZZ_SEED where they begin (`make fuzz`).
"""

import os
import random
from collections.abc import Iterator

import pytest

from pyrbacproxy.model import ClientCertificate
from pyrbacproxy.tls.certificate import Certificate, from_der, name_text
from pyrbacproxy.tls.client_chain import ClientCaPool, ClientChains, _Verification
from pyrbacproxy.tls.files import TlsFileError
from pyrbacproxy.tls.pem import certificates
from pyrbacproxy.tls.server_context import TlsSettings, parse_pair, server_context
from tests.tls import asn1
from tests.tls.asn1 import OCTETS, OID, SEQUENCE, TRUE, extension, tlv
from tests.tls.parties import CLIENT, NOON, Issued, as_pem, authority, issue, rsa_key

INPUTS = int(os.environ.get("FUZZ_INPUTS", "400"))
SEED = int(os.environ.get("FUZZ_SEED", "71"))
NOW = NOON.timestamp()
CA = authority("CN=ca", "O=trust")
BETWEEN = authority("CN=between", issuer=CA)
ALICE = issue("O=dev", "CN=alice", issuer=BETWEEN, purposes=CLIENT)
RSA = issue("CN=rsa", issuer=CA, key=rsa_key(2048), purposes=CLIENT)
# One of each extension that is read, so that mutations reach all of the reader.
FULL = [
    extension(b"\x55\x1d\x0f", b"\x03\x02\x01\x86", TRUE),
    extension(b"\x55\x1d\x0e", tlv(OCTETS, b"key")),
    extension(b"\x55\x1d\x23", tlv(SEQUENCE, tlv(0x80, b"key"))),
    extension(
        b"\x55\x1d\x11",
        tlv(
            SEQUENCE,
            *(tlv(0x81, b"a@b.c"), tlv(0x82, b"*.b.c"), tlv(0x86, b"spiffe://b.c/%41?#f")),
            *(tlv(0x87, b"\x0a\0\0\1"), tlv(0x87, bytes(16)), tlv(0xA4, asn1.name())),
        ),
    ),
    extension(
        b"\x55\x1d\x1e",
        tlv(
            SEQUENCE,
            *(
                tlv(tag, *(tlv(SEQUENCE, one) for one in trees))
                for tag, trees in (
                    (
                        0xA0,
                        (
                            *(tlv(0x82, b".b.c"), tlv(0x81, b"a@b.c"), tlv(0x81, b".b.c")),
                            *(tlv(0x86, b"b.c"), tlv(0x87, b"\x0a\0\0\0\xff\0\0\0")),
                            tlv(0x87, bytes(32)),
                        ),
                    ),
                    (
                        0xA1,
                        (tlv(0x82, b"x.c"), tlv(0x81, b"x"), tlv(0x87, b"\x0b\0\0\0\xff\0\0\0")),
                    ),
                )
            ),
        ),
        TRUE,
    ),
    extension(b"\x55\x1d\x20", tlv(SEQUENCE, tlv(SEQUENCE, tlv(OID, b"\x55\x1d\x20\0")))),
    extension(b"\x55\x1d\x24", tlv(SEQUENCE, tlv(0x80, b"\1"), tlv(0x81, b"\1"))),
    extension(b"\x55\x1d\x1f", tlv(SEQUENCE, tlv(SEQUENCE, tlv(0xA0, tlv(0xA0, tlv(0x86, b"u")))))),
    extension(b"\x2b\x06\x01\x05\x05\x07\x01\x01", tlv(SEQUENCE, tlv(SEQUENCE, tlv(OID, b"\x2b")))),
]
RICH = asn1.extended(CA, FULL, CA.key)
SEEDS = [ALICE.der, BETWEEN.der, RSA.der, RICH]
PIECES = [
    *(
        b"",
        b"\0",
        b"\xff",
        b"\x80",
        b"\x30\x80",
        b"\x1f",
        b"\x05\x00",
        TRUE,
        b"\x84\xff\xff\xff\xff",
    ),
    *(
        tlv(tag, b"\xff\xfe")
        for tag in (2, 3, 4, 6, 12, 19, 22, 23, 24, 28, 30, 48, 49, 0xA0, 0xA3)
    ),
    *FULL,
]


def mutated(randomness: random.Random, data: bytes) -> bytes:
    """With one to three changes, most of them small."""
    changed = bytearray(data)
    for _ in range(randomness.randint(1, 3)):
        place = randomness.randrange(len(changed) + 1)
        how = randomness.randrange(5)
        if how == 0 and place < len(changed):
            changed[place] ^= 1 << randomness.randrange(8)
        elif how == 1 and place < len(changed):
            changed[place] = randomness.choice((0, 1, 0x7F, 0x80, 0x81, 0x82, 0xFF, 0x30, 0x1F))
        elif how == 2:
            del changed[place : place + randomness.choice((1, 2, 5, 50))]
        elif how == 3:
            changed[place:place] = randomness.choice(PIECES)
        else:
            piece = randomness.choice(PIECES)
            changed[place : place + len(piece)] = piece
    return bytes(changed)


def inner_mutated(randomness: random.Random, item: bytes, depth: int = 0) -> bytes:
    """With one value somewhere within changed, and the lengths around it right."""
    tag = item[0]
    try:
        inner = asn1.children(item) if tag & 0x20 and depth < 12 else []
    except IndexError:
        inner = []
    if not inner or randomness.random() < 0.08:
        return tlv(tag, mutated(randomness, asn1.content(item)))
    place = randomness.randrange(len(inner))
    how = randomness.random()
    if how < 0.05:
        del inner[place]
    elif how < 0.1:
        inner.insert(place, randomness.choice(inner))
    elif how < 0.15:
        inner[place] = randomness.choice(PIECES[14:])
    else:
        inner[place] = inner_mutated(randomness, inner[place], depth + 1)
    return tlv(tag, *inner)


def signed_again(randomness: random.Random, certificate: bytes, signer: Issued) -> bytes:
    """A certificate whose mutated content its issuer signed."""
    signed, algorithm, _ = asn1.children(certificate)
    signed = inner_mutated(randomness, signed)
    return tlv(SEQUENCE, signed, algorithm, tlv(3, b"\0", asn1.signature(signer.key, signed)))


def inputs() -> Iterator[tuple[random.Random, bytes]]:
    """Each with the randomness that made it, for more of it."""
    for number in range(SEED, SEED + INPUTS):
        randomness = random.Random(number)  # noqa: S311 -- reproducible, and no secret
        yield randomness, mutated(randomness, randomness.choice(SEEDS))


def read(der: bytes) -> Certificate | None:
    try:
        certificate = from_der(der)
    except ValueError:
        return None
    name_text(certificate.subject_attributes).encode()
    return certificate


def test_a_mutated_certificate_is_read_or_refused_and_never_trusted() -> None:
    pool = ClientCaPool.from_pem(CA.pem)
    known = {asn1.children(seed)[0] for seed in SEEDS}
    for _, der in inputs():
        certificate = read(der)
        peer = ClientChains(pool).judge("192.0.2.1", (der, BETWEEN.der), NOW)
        assert (peer.certificate is None) == bool(peer.refusal), der.hex()
        if peer.certificate is not None:
            assert certificate is not None, der.hex()
            assert certificate.signed in known, der.hex()


@pytest.mark.parametrize("place", ["leaf", "intermediate", "authority"])
def test_what_an_authority_signed_is_judged_without_an_exception(place: str) -> None:
    for number in range(SEED, SEED + INPUTS):
        randomness = random.Random(number)  # noqa: S311 -- reproducible, and no secret
        if place == "leaf":
            links = [signed_again(randomness, ALICE.der, BETWEEN), BETWEEN.der]
            anchor: Certificate | None = from_der(CA.der)
        elif place == "intermediate":
            rich = asn1.extended(BETWEEN, FULL[:5], CA.key)
            named = asn1.extended(ALICE, FULL[3:4], BETWEEN.key)
            links = [named, signed_again(randomness, rich, CA)]
            anchor = from_der(CA.der)
        else:
            links = [ALICE.der, BETWEEN.der]
            anchor = read(signed_again(randomness, RICH, CA))
        certificates_read = [read(link) for link in links]
        if anchor is None or None in certificates_read:
            continue
        found = [one for one in certificates_read if one is not None]
        # Not by ClientChains, which makes a refusal of whatever is raised.
        outcome = _Verification(ClientCaPool([anchor]), found, NOW).outcome()
        assert isinstance(outcome, ClientCertificate) or outcome, [link.hex() for link in links]


def test_a_mutated_authority_is_one_anchor_or_an_error() -> None:
    for _, der in inputs():
        text = CA.pem + as_pem(der)
        try:
            pool = ClientCaPool.from_pem(text)
        except ValueError as error:
            complaint = str(error)
        else:
            complaint = ""
            assert len(pool.anchors) == 2, der.hex()
        assert not complaint or "number 2: " in complaint, der.hex()


def test_a_mutated_serving_pair_is_served_or_refused() -> None:
    settings = TlsSettings(certificate_file="tls.crt", key_file="tls.key")
    for randomness, der in inputs():
        again = signed_again(randomness, ALICE.der, BETWEEN)
        chain = randomness.choice(((der,), (again,), (ALICE.der, der), (ALICE.der, again)))
        text = b"".join(map(as_pem, chain))
        try:
            pair = parse_pair(text, "tls.crt", ALICE.key_pem(), "tls.key")
            server_context(pair, settings)
        except TlsFileError:
            continue
        assert pair.chain == chain


def test_a_mutated_pem_file_holds_as_many_as_begin_or_is_refused() -> None:
    text = CA.pem + ALICE.key_pem() + b"# text\n" + BETWEEN.pem + ALICE.pem.rstrip() + RSA.pem
    for number in range(SEED, SEED + INPUTS):
        randomness = random.Random(number)  # noqa: S311 -- reproducible, and no secret
        changed = mutated(randomness, text)
        try:
            found = certificates(changed)
        except ValueError:
            continue
        count = len(found.ders) + len(found.with_headers)
        assert count == changed.count(b"-----BEGIN CERTIFICATE-----"), changed

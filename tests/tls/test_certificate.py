"""Every field as Go's crypto/x509 reads it: what it takes is read, what it refuses is an error."""

import pytest
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from pyrbacproxy.tls.certificate import (
    COMMON_NAME,
    ORGANIZATION,
    Attribute,
    Extensions,
    from_der,
    instant_text,
    name_text,
)
from tests.tls import asn1
from tests.tls.asn1 import BITS, FALSE, OCTETS, OID, SEQUENCE, TRUE, Parts, extension, tlv
from tests.tls.parties import NOON, issue, rsa_key, with_version

GOOD = issue("O=dev", "CN=a")
PLAIN = issue("CN=a", key=GOOD.key)
BASIC, USAGE, PURPOSE = b"\x55\x1d\x13", b"\x55\x1d\x0f", b"\x55\x1d\x25"
ALTERNATIVE, CONSTRAINTS = b"\x55\x1d\x11", b"\x55\x1d\x1e"
SUBJECT_KEY, AUTHORITY_KEY = b"\x55\x1d\x0e", b"\x55\x1d\x23"
POINTS, POLICIES, MAPPINGS = b"\x55\x1d\x1f", b"\x55\x1d\x20", b"\x55\x1d\x21"
POLICY_CONSTRAINTS, ANY_POLICY = b"\x55\x1d\x24", b"\x55\x1d\x36"
INFORMATION = b"\x2b\x06\x01\x05\x05\x07\x01\x01"
UNKNOWN = b"\x2a\x03\x04"
NETSCAPE = b"\x60\x86\x48\x01\x86\xf8\x42\x01\x01"
CLIENT_AUTH = tlv(OID, b"\x2b\x06\x01\x05\x05\x07\x03\x02")
OTHER = tlv(5)


def with_part(place: int, value: bytes) -> bytes:
    def change(parts: Parts) -> None:
        parts[place] = value

    return asn1.changed(PLAIN, change, PLAIN.key)


def with_extensions(*extensions: bytes) -> bytes:
    return asn1.extended(PLAIN, extensions, PLAIN.key)


def subtree(tag: int, value: bytes) -> bytes:
    return tlv(SEQUENCE, tlv(SEQUENCE, tlv(0xA0, tlv(SEQUENCE, tlv(tag, value)))))[2:]


def test_a_certificate_is_read() -> None:
    read = from_der(GOOD.der)
    assert (read.der, read.version) == (GOOD.der, 3)
    assert read.signed == GOOD.certificate.tbs_certificate_bytes
    assert read.signature == GOOD.certificate.signature
    assert read.serial == GOOD.certificate.serial_number
    assert read.subject == read.issuer == GOOD.certificate.subject.public_bytes()
    assert read.subject_attributes == (Attribute(ORGANIZATION, "dev"), Attribute(COMMON_NAME, "a"))
    assert (read.not_before, read.not_after) == (NOON.timestamp() - 3600, NOON.timestamp() + 3600)
    assert read.key == GOOD.key.public_key()
    assert read.key_info == GOOD.key.public_key().public_bytes(
        Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    )
    assert read.extensions == Extensions()


# --- the whole --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "der",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\x30", id="one octet"),
        pytest.param(GOOD.der[:-1], id="cut off"),
        pytest.param(GOOD.der + b"\0", id="trailing octets"),
        pytest.param(tlv(SEQUENCE, *asn1.children(GOOD.der), OTHER), id="a fourth part"),
        pytest.param(with_version(GOOD.der, 5), id="version 6"),
        pytest.param(with_version(GOOD.der, 0xFF), id="version 0"),
        pytest.param(with_extensions()[:1] + b"\x80" + with_extensions()[2:], id="no length"),
        pytest.param(with_part(asn1.SERIAL, tlv(2, b"\xff")), id="negative serial"),
        pytest.param(with_part(asn1.SERIAL, tlv(2, b"\0\1")), id="padded serial"),
        pytest.param(with_part(asn1.SERIAL, tlv(2)), id="empty serial"),
        pytest.param(with_part(asn1.ALGORITHM, tlv(SEQUENCE, tlv(OID, UNKNOWN))), id="algorithm"),
        pytest.param(with_part(asn1.VALIDITY, tlv(SEQUENCE)), id="no validity"),
        pytest.param(with_part(asn1.KEY, tlv(SEQUENCE)), id="no key"),
        pytest.param(b"\x30\x82\0\x03" + GOOD.der[4:7], id="padded length"),
        pytest.param(b"\x1f\x81\x01\x00", id="a high tag"),
    ],
)
def test_what_go_does_not_read_is_a_value_error(der: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        from_der(der)


@pytest.mark.parametrize(("number", "version"), [(0, 1), (1, 2), (2, 3)])
def test_versions(number: int, version: int) -> None:
    assert from_der(with_version(PLAIN.der, number)).version == version


@pytest.mark.parametrize("number", [0, 1])
def test_only_version_3_has_extensions(number: int) -> None:
    der = with_version(with_extensions(extension(UNKNOWN, OTHER)), number)
    with pytest.raises(ValueError, match="trailing octets"):
        from_der(der)


# --- times ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tag", "text", "instant"),
    [
        (0x17, b"300601120000Z", "2030-06-01T12:00:00Z"),
        (0x17, b"500101000000Z", "1950-01-01T00:00:00Z"),
        (0x17, b"491231235959Z", "2049-12-31T23:59:59Z"),
        (0x17, b"3006011200Z", "2030-06-01T12:00:00Z"),
        (0x17, b"300601120000+0130", "2030-06-01T10:30:00Z"),
        (0x17, b"300601120000-0130", "2030-06-01T13:30:00Z"),
        (0x18, b"20300601120000Z", "2030-06-01T12:00:00Z"),
        (0x18, b"99991231235959Z", "9999-12-31T23:59:59Z"),
        (0x18, b"00000101000000Z", "0001-01-01T00:00:00Z"),
        (0x17, b"300601120000", None),
        (0x17, b"300601120060Z", None),
        (0x17, b"300601240000Z", None),
        (0x17, b"301301120000Z", None),
        (0x17, b"300230120000Z", None),
        (0x17, b"300601120000+0000", None),
        (0x17, b"300601120000.5Z", None),
        (0x17, "३00601120000Z".encode(), None),
        (0x18, b"203006011200Z", None),
        (0x18, b"20300601120000.5Z", None),
        (0x13, b"300601120000Z", None),
    ],
)
def test_times(tag: int, text: bytes, instant: str | None) -> None:
    end = tlv(0x18, b"99991231235959Z")
    der = with_part(asn1.VALIDITY, tlv(SEQUENCE, tlv(tag, text), end))
    if instant is None:
        with pytest.raises(ValueError, match="validity"):
            from_der(der)
    else:
        shown = instant_text(from_der(der).not_before)
        assert shown.rjust(20, "0") == instant


# --- names ------------------------------------------------------------------------------


# FR71
@pytest.mark.parametrize(
    ("tag", "value", "text"),
    [
        pytest.param(0x0C, "zoë 漢".encode(), "zoë 漢", id="UTF8String"),
        pytest.param(0x13, b"a:b*&", "a:b*&", id="PrintableString"),
        pytest.param(0x16, b"a@b_", "a@b_", id="IA5String"),
        pytest.param(0x12, b"12 34", "12 34", id="NumericString"),
        pytest.param(0x14, b"caf\xe9", "café", id="T61String"),
        pytest.param(0x1E, "zoë".encode("utf-16-be"), "zoë", id="BMPString"),
        pytest.param(0x1E, b"\0a\0\0", "a", id="BMPString with a terminator"),
        pytest.param(0x0C, b"", "", id="empty"),
        pytest.param(0x1C, b"\0\0\0a", None, id="UniversalString"),
        pytest.param(0x1A, b"a", None, id="VisibleString"),
        pytest.param(0x1B, b"a", None, id="GeneralString"),
        pytest.param(0x03, b"\0\x01\x02", None, id="BIT STRING"),
        pytest.param(0x04, b"\x01", None, id="OCTET STRING"),
        pytest.param(0x02, b"\x01", None, id="INTEGER"),
        pytest.param(0x01, b"\xff", None, id="BOOLEAN"),
        pytest.param(0x05, b"", None, id="NULL"),
        pytest.param(0x06, UNKNOWN, None, id="OID"),
        pytest.param(0x17, b"300601120000Z", None, id="UTCTime"),
        pytest.param(0x30, b"", None, id="SEQUENCE"),
    ],
)
def test_a_name_of_any_type_is_read(tag: int, value: bytes, text: str | None) -> None:
    read = from_der(with_part(asn1.SUBJECT, asn1.name((COMMON_NAME, tag, value))))
    assert read.subject_attributes == (Attribute(COMMON_NAME, text),)


@pytest.mark.parametrize(
    ("tag", "value"),
    [
        pytest.param(0x0C, b"\xff", id="UTF8String"),
        pytest.param(0x0C, b"\xed\xa0\x80", id="UTF8String with a surrogate"),
        pytest.param(0x13, b"a@b", id="PrintableString"),
        pytest.param(0x16, b"\x80", id="IA5String"),
        pytest.param(0x12, b"a", id="NumericString"),
        pytest.param(0x1E, b"\0a\0", id="BMPString cut"),
        pytest.param(0x1E, b"\xd8\x3d\xde\x00", id="BMPString with surrogates"),
        pytest.param(0x1E, b"\xff\xff", id="BMPString with no character"),
        pytest.param(0x03, b"\x09\x01", id="BIT STRING"),
        pytest.param(0x02, b"\0" + b"\x80" * 8, id="INTEGER too large"),
        pytest.param(0x01, b"\x01", id="BOOLEAN"),
        pytest.param(0x06, b"\x80\x01", id="OID"),
    ],
)
@pytest.mark.parametrize("place", [asn1.ISSUER, asn1.SUBJECT])
def test_a_name_that_does_not_decode_is_an_error(place: int, tag: int, value: bytes) -> None:
    with pytest.raises(ValueError, match="malformed"):
        from_der(with_part(place, asn1.name((ORGANIZATION, tag, value))))


def test_a_name_is_shown_as_rfc_4514_writes_it_and_cannot_break_a_line() -> None:
    name = asn1.name(
        (b"\x55\x04\x06", 0x13, b"DE"),
        (ORGANIZATION, 0x0C, b"a, b\n\x1b[2J"),
        (b"\x55\x04\x2e", 0x03, b"\0\1"),
        (COMMON_NAME, 0x0C, "zoë".encode()),
    )
    shown = name_text(from_der(with_part(asn1.SUBJECT, name)).subject_attributes)
    assert shown == "CN=zoë,2.5.4.46=?,O=a\\, b\\n\\x1b[2J,C=DE"


# --- keys -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(rsa_key(2048), id="RSA"),
        pytest.param(ec.generate_private_key(ec.SECP224R1()), id="P-224"),
        pytest.param(ec.generate_private_key(ec.SECP521R1()), id="P-521"),
        pytest.param(ed25519.Ed25519PrivateKey.generate(), id="Ed25519"),
    ],
)
def test_a_key_that_go_knows_is_read(key: ec.EllipticCurvePrivateKey) -> None:
    assert from_der(issue("CN=a", key=key).der).key == key.public_key()


@pytest.mark.parametrize(
    "info",
    [
        pytest.param(
            dsa.generate_private_key(1024)
            .public_key()
            .public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
            id="DSA",
        ),
        pytest.param(
            ed448.Ed448PrivateKey.generate()
            .public_key()
            .public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
            id="Ed448",
        ),
        pytest.param(
            tlv(
                SEQUENCE,
                tlv(SEQUENCE, tlv(OID, b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01"), OTHER),
                tlv(BITS, b"\0", tlv(SEQUENCE, tlv(2, b"\x04"), tlv(2, b"\x02"))),
            ),
            id="RSA of any two numbers",
        ),
    ],
)
def test_a_key_without_use_is_none(info: bytes) -> None:
    assert from_der(with_part(asn1.KEY, info)).key is None


def public(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


P256 = public(ec.generate_private_key(ec.SECP256R1()))
RSA_INFO = rsa_key().public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


@pytest.mark.parametrize(
    "info",
    [
        pytest.param(public(ec.generate_private_key(ec.SECP256K1())), id="secp256k1"),
        pytest.param(public(ec.generate_private_key(ec.BrainpoolP256R1())), id="brainpool"),
        pytest.param(P256[:-1] + bytes((P256[-1] ^ 1,)), id="a point off the curve"),
        pytest.param(P256.replace(b"\x03\x42\x00\x04", b"\x03\x42\x00\x06"), id="hybrid point"),
        pytest.param(
            tlv(
                SEQUENCE,
                tlv(SEQUENCE, asn1.children(RSA_INFO)[0][2:13]),
                asn1.children(RSA_INFO)[1],
            ),
            id="RSA without NULL",
        ),
        pytest.param(
            tlv(SEQUENCE, tlv(SEQUENCE, tlv(OID, b"\x2b\x65\x70")), tlv(BITS, b"\0" + b"1" * 31)),
            id="Ed25519 cut",
        ),
    ],
)
def test_a_key_that_go_does_not_read_is_an_error(info: bytes) -> None:
    with pytest.raises(ValueError, match=r"key|curve"):
        from_der(with_part(asn1.KEY, info))


# --- extensions -------------------------------------------------------------------------


# FR72
@pytest.mark.parametrize("value", [FALSE, TRUE, b""])
def test_critical_may_be_written_out(value: bytes) -> None:
    usage = extension(USAGE, b"\x03\x02\x01\x86", value)
    assert from_der(with_extensions(usage)).extensions.may_sign


@pytest.mark.parametrize(
    ("oid", "value", "expected"),
    [
        pytest.param(BASIC, tlv(SEQUENCE, TRUE), Extensions(is_authority=True), id="authority"),
        pytest.param(BASIC, tlv(SEQUENCE, FALSE), Extensions(is_authority=False), id="FALSE"),
        pytest.param(BASIC, tlv(SEQUENCE), Extensions(is_authority=False), id="none"),
        pytest.param(
            BASIC,
            tlv(SEQUENCE, TRUE, tlv(2, b"\0")),
            Extensions(is_authority=True, path_length=0),
            id="path length",
        ),
        pytest.param(USAGE, b"\x03\x02\x02\x04", Extensions(), id="may sign"),
        pytest.param(USAGE, b"\x03\x02\x07\x80", Extensions(may_sign=False), id="may not sign"),
        pytest.param(USAGE, b"\x03\x01\x00", Extensions(), id="no usage at all"),
        pytest.param(PURPOSE, tlv(SEQUENCE), Extensions(), id="no purpose"),
        pytest.param(
            PURPOSE,
            tlv(SEQUENCE, CLIENT_AUTH),
            Extensions(purposes=(CLIENT_AUTH[2:],)),
            id="purpose",
        ),
        pytest.param(SUBJECT_KEY, tlv(OCTETS, b"k"), Extensions(subject_key=b"k"), id="key"),
        pytest.param(
            AUTHORITY_KEY,
            tlv(SEQUENCE, tlv(0x80, b"k"), tlv(0x82, b"5")),
            Extensions(authority_key=b"k"),
            id="issuer's key",
        ),
        pytest.param(POINTS, tlv(SEQUENCE, tlv(SEQUENCE)), Extensions(), id="points"),
        pytest.param(
            POLICIES, tlv(SEQUENCE, tlv(SEQUENCE, CLIENT_AUTH)), Extensions(), id="policy"
        ),
        pytest.param(ANY_POLICY, tlv(2, b"\1"), Extensions(), id="any policy"),
        pytest.param(
            POLICY_CONSTRAINTS,
            tlv(SEQUENCE, tlv(0x81, b"\0")),
            Extensions(),
            id="policy mappings are inhibited",
        ),
        pytest.param(
            POLICY_CONSTRAINTS,
            tlv(SEQUENCE, tlv(0x80, b"\0")),
            Extensions(unhandled=("2.5.29.36 (an explicit policy is required)",)),
            id="an explicit policy is required",
        ),
        pytest.param(UNKNOWN, b"whatever", Extensions(), id="unknown"),
    ],
)
def test_extensions_are_read(oid: bytes, value: bytes, expected: Extensions) -> None:
    assert from_der(with_extensions(extension(oid, value))).extensions == expected


BROKEN = [
    *((BASIC, value) for value in (b"", OTHER, tlv(SEQUENCE, b"\x01\x01\x01"))),
    *((BASIC, tlv(SEQUENCE, TRUE, tlv(2, number))) for number in (b"", b"\xff", b"\0\1")),
    *((BASIC, value) for value in (tlv(SEQUENCE, TRUE) + b"\0", tlv(SEQUENCE, TRUE, OTHER))),
    *((USAGE, value) for value in (b"", tlv(BITS), b"\x03\x02\x08\x80", b"\x03\x02\x07\xff")),
    *((USAGE, value) for value in (b"\x03\x02\x07\x80\0", tlv(OCTETS, b"\x80"))),
    *((PURPOSE, value) for value in (b"", OTHER, tlv(SEQUENCE, OTHER))),
    *((PURPOSE, tlv(SEQUENCE, tlv(OID, oid))) for oid in (b"", b"\x80\x01", b"\x2b\x86")),
    (PURPOSE, tlv(SEQUENCE, CLIENT_AUTH) + b"\0"),
    *((CONSTRAINTS, value) for value in (b"", tlv(SEQUENCE), tlv(SEQUENCE, tlv(0xA0)))),
    *((CONSTRAINTS, tlv(SEQUENCE, tlv(tag, OTHER))) for tag in (0xA0, 0xA1, 0xA2)),
    *((CONSTRAINTS, subtree(0x82, domain)) for domain in (b"\xff", b"a..b", b"a b", b"a.")),
    *((CONSTRAINTS, subtree(0x87, net)) for net in (b"1234", b"\x0a\0\0\0\xff\0\xff\0")),
    (CONSTRAINTS, subtree(0x87, bytes(10) + b"\xff\xff1234" + b"\xff" * 16)),
    *((CONSTRAINTS, subtree(0x81, mail)) for mail in (b"@", b"a@b.", b".a.@b")),
    (CONSTRAINTS, subtree(0x86, b"192.0.2.1")),
    (CONSTRAINTS, subtree(0x82, b"a") + b"\0"),
    *((ALTERNATIVE, tlv(SEQUENCE, tlv(tag, b"\xff"))) for tag in (0x81, 0x82, 0x86, 0x87)),
    *((ALTERNATIVE, tlv(SEQUENCE, tlv(0x86, uri))) for uri in (b"a:\x01", b"://a", b"x://a b")),
    (ALTERNATIVE, OTHER),
    *((SUBJECT_KEY, value) for value in (b"", OTHER)),
    *((AUTHORITY_KEY, value) for value in (b"", OTHER)),
    *((oid, OTHER) for oid in (POINTS, POLICIES, MAPPINGS, POLICY_CONSTRAINTS, ANY_POLICY)),
    (POLICIES, tlv(SEQUENCE, tlv(SEQUENCE, CLIENT_AUTH), tlv(SEQUENCE, CLIENT_AUTH))),
    (INFORMATION, tlv(SEQUENCE, OTHER)),
]


@pytest.mark.parametrize(("oid", "value"), BROKEN)
@pytest.mark.parametrize("critical", [b"", FALSE, TRUE])
def test_an_extension_that_cannot_be_read_is_an_error(
    oid: bytes, value: bytes, critical: bytes
) -> None:
    with pytest.raises(ValueError, match=r"."):
        from_der(with_extensions(extension(oid, value, critical)))


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(extension(UNKNOWN, b"", b"\x01\x01\x01"), id="critical 1"),
        pytest.param(extension(UNKNOWN, b"", behind=OTHER), id="trailing octets"),
        pytest.param(extension(b"\x80\x01", b""), id="OID"),
        pytest.param(extension(UNKNOWN, b"") * 2, id="twice"),
        pytest.param(extension(USAGE, b"\x03\x02\x02\x04") * 2, id="key usage twice"),
        pytest.param(extension(SUBJECT_KEY, tlv(OCTETS), TRUE), id="critical subject key"),
        pytest.param(extension(AUTHORITY_KEY, tlv(SEQUENCE), TRUE), id="critical authority key"),
        pytest.param(extension(INFORMATION, tlv(SEQUENCE), TRUE), id="critical access"),
    ],
)
def test_a_malformed_extension_is_an_error(odd: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        from_der(with_extensions(odd))


@pytest.mark.parametrize(
    ("odd", "unhandled"),
    [
        pytest.param(extension(UNKNOWN, b"x", TRUE), ("1.2.3.4",), id="unknown"),
        pytest.param(extension(NETSCAPE, b"x", TRUE), ("2.16.840.1.113730.1.1",), id="Netscape's"),
        pytest.param(extension(UNKNOWN, b"x", FALSE), (), id="not critical"),
        pytest.param(
            extension(ALTERNATIVE, tlv(SEQUENCE, tlv(0x88, b"\x2a")), TRUE),
            ("2.5.29.17",),
            id="no name that is known",
        ),
        pytest.param(
            extension(ALTERNATIVE, tlv(SEQUENCE, tlv(0x82, b"a")), TRUE), (), id="a known name"
        ),
        pytest.param(
            extension(CONSTRAINTS, subtree(0xA4, b""), TRUE), ("2.5.29.30",), id="directory name"
        ),
        pytest.param(extension(CONSTRAINTS, subtree(0xA4, b"")), (), id="the same, not critical"),
        pytest.param(
            extension(CONSTRAINTS, subtree(0x82, b"a"), TRUE), (), id="a known constraint"
        ),
    ],
)
def test_critical_extensions_that_are_not_understood(
    odd: bytes, unhandled: tuple[str, ...]
) -> None:
    assert from_der(with_extensions(odd)).extensions.unhandled == unhandled


@pytest.mark.parametrize(
    ("oid", "value"),
    [
        pytest.param(CONSTRAINTS, subtree(0x81, b'"a b"@b.c'), id="a quoted mailbox"),
        pytest.param(CONSTRAINTS, subtree(0x81, b"a\\@b@b.c"), id="an escaped mailbox"),
        pytest.param(ALTERNATIVE, tlv(SEQUENCE, tlv(0x86, b"a/b:c?%zz#x")), id="a relative URI"),
        pytest.param(POLICY_CONSTRAINTS, tlv(SEQUENCE, tlv(0x81, b"\1")), id="policy constraints"),
        pytest.param(
            MAPPINGS, tlv(SEQUENCE, tlv(SEQUENCE, CLIENT_AUTH, CLIENT_AUTH)), id="policy mappings"
        ),
    ],
)
def test_what_is_unusual_is_read(oid: bytes, value: bytes) -> None:
    assert from_der(with_extensions(extension(oid, value))).extensions.unhandled == ()


@pytest.mark.parametrize(
    ("oid", "value"),
    [
        pytest.param(ALTERNATIVE, tlv(SEQUENCE, tlv(0x86, b"a:b/c")), id="a scheme"),
        pytest.param(POLICIES, tlv(SEQUENCE, tlv(SEQUENCE, tlv(OID, b"\x2b\x80\x01"))), id="OID"),
    ],
)
def test_what_is_unusual_and_malformed(oid: bytes, value: bytes) -> None:
    der = with_extensions(extension(oid, value.replace(b"a:b/c", b"1:b/c")))
    with pytest.raises(ValueError, match="malformed"):
        from_der(der)


@pytest.mark.parametrize(
    "info",
    [
        pytest.param(
            tlv(
                SEQUENCE,
                tlv(SEQUENCE, tlv(OID, b"\x2b\x65\x70"), OTHER),
                tlv(BITS, b"\0" + b"1" * 32),
            ),
            id="Ed25519 with parameters",
        ),
        pytest.param(
            tlv(
                SEQUENCE,
                asn1.children(RSA_INFO)[0],
                tlv(BITS, b"\0", tlv(SEQUENCE, tlv(2, b"\xff"), tlv(2, b"\3"))),
            ),
            id="a negative modulus",
        ),
    ],
)
def test_numbers_and_parameters_that_no_key_has(info: bytes) -> None:
    with pytest.raises(ValueError, match=r"key"):
        from_der(with_part(asn1.KEY, info))

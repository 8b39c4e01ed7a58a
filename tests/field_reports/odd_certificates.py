"""Certificates that libraries don't make: each part is a DER value that a test may bend.

    root = make("root", extensions=[AUTHORITY])
    leaf = make("alice", issuer=root, extensions=[extension(KEY_USAGE, ..., critical=False)])
    leaf.write(folder / "alice")        # alice.crt, alice.key

Keys follow from the names; only times and signatures differ from run to run.
"""

import datetime as dt
import hashlib
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

# Tags of X.690 and its string types.
BIT_STRING, OCTETS, UTF8, NUMERIC, PRINTABLE, T61, IA5, BMP = (3, 4, 12, 18, 19, 20, 22, 30)
COMMON_NAME, ORGANIZATION = "2.5.4.3", "2.5.4.10"
# Its value is a PrintableString; a BIT STRING is for x500UniqueIdentifier (2.5.4.45) alone.
DN_QUALIFIER = "2.5.4.46"
KEY_USAGE, ALTERNATIVE_NAMES, BASIC_CONSTRAINTS = "2.5.29.15", "2.5.29.17", "2.5.29.19"
NAME_CONSTRAINTS, AUTHORITY_KEY, PURPOSES = "2.5.29.30", "2.5.29.35", "2.5.29.37"
_ECDSA_WITH_SHA256 = "1.2.840.10045.4.3.2"
_SERVER, _CLIENT = "1.3.6.1.5.5.7.3.1", "1.3.6.1.5.5.7.3.2"

Attribute = tuple[str, int, bytes]


def tlv(tag: int, *parts: bytes) -> bytes:
    """One DER value."""
    body = b"".join(parts)
    size = len(body)
    if size < 128:
        return bytes([tag, size]) + body
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + body


def sequence(*parts: bytes) -> bytes:
    return tlv(0x30, *parts)


def integer(value: int) -> bytes:
    return tlv(2, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def object_id(text: str) -> bytes:
    first, second, *rest = map(int, text.split("."))
    body = b""
    for number in (first * 40 + second, *rest):
        groups = [number & 0x7F]
        while number := number >> 7:
            groups.append(number & 0x7F | 0x80)
        body += bytes(reversed(groups))
    return tlv(6, body)


def named(*attributes: Attribute) -> bytes:
    """A Name with one attribute in each part: its identifier, its value's tag and octets."""
    return sequence(
        *(tlv(0x31, sequence(object_id(kind), tlv(tag, text))) for kind, tag, text in attributes)
    )


def extension(kind: str, value: bytes, *, critical: bool | None = None) -> bytes:
    """An extension; with `critical=False` the default is written out, which DER leaves out."""
    flag = b"" if critical is None else tlv(1, b"\xff" if critical else b"\x00")
    return sequence(object_id(kind), flag, tlv(OCTETS, value))


AUTHORITY = extension(BASIC_CONSTRAINTS, sequence(tlv(1, b"\xff")), critical=True)
FOR_CLIENTS = extension(PURPOSES, sequence(object_id(_CLIENT)))
FOR_SERVERS = extension(PURPOSES, sequence(object_id(_SERVER)))
# 127.0.0.1 and localhost.
ON_LOOPBACK = extension(
    ALTERNATIVE_NAMES, sequence(tlv(0x82, b"localhost"), tlv(0x87, b"\x7f\x00\x00\x01"))
)
# digitalSignature alone, and with keyCertSign.
SIGNS = tlv(BIT_STRING, b"\x07\x80")
SIGNS_CERTIFICATES = tlv(BIT_STRING, b"\x02\x84")


@dataclass(frozen=True)
class Made:
    """A certificate with its key."""

    der: bytes
    subject: bytes
    serial: int
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> bytes:
        return ssl.DER_cert_to_PEM_cert(self.der).encode()

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )

    def write(self, path: Path, *chain: "Made") -> Path:
        """Write path.crt (with `chain` after it) and path.key; returns the path without suffix."""
        path.with_suffix(".crt").write_bytes(b"".join(made.pem for made in (self, *chain)))
        path.with_suffix(".key").write_bytes(self.key_pem)
        return path


def make(
    common: str,
    *attributes: Attribute,
    issuer: Made | None = None,
    extensions: Sequence[bytes] = (),
    days: tuple[int, int] = (-1, 9),
    curve: ec.EllipticCurve | None = None,
    serial: int = 1,
    subject: bytes | None = None,
) -> Made:
    """A certificate for this common name and these attributes, self-signed without `issuer`.

    `days` are the ends of its validity, from now. `subject` replaces the whole name.
    """
    number = int.from_bytes(hashlib.sha256(common.encode()).digest(), "big") >> 8
    key = ec.derive_private_key(number, curve or ec.SECP256R1())
    subject = subject or named((COMMON_NAME, UTF8, common.encode()), *attributes)
    now = dt.datetime.now(dt.UTC)
    ends = [now + dt.timedelta(days=day) for day in days]
    algorithm = sequence(object_id(_ECDSA_WITH_SHA256))
    body = sequence(
        tlv(0xA0, integer(2)),
        integer(serial),
        algorithm,
        issuer.subject if issuer else subject,
        sequence(*(tlv(0x17, end.strftime("%y%m%d%H%M%SZ").encode()) for end in ends)),
        subject,
        key.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        ),
        tlv(0xA3, sequence(*extensions)) if extensions else b"",
    )
    signer = issuer.key if issuer else key
    signature = tlv(BIT_STRING, b"\0", signer.sign(body, ec.ECDSA(hashes.SHA256())))
    return Made(sequence(body, algorithm, signature), subject, serial, key)


def names_issuer(authority: Made) -> bytes:
    """An authorityKeyIdentifier that names the authority by its issuer and serial number."""
    issuer = tlv(0xA1, tlv(0xA4, authority.subject))
    serial = b"\x82" + integer(authority.serial)[1:]
    return extension(AUTHORITY_KEY, sequence(issuer, serial))

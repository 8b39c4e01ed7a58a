"""Certificates that no library makes: DER taken apart, changed, put together and signed anew."""

from collections.abc import Callable, Sequence

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256

from tests.tls.parties import AnyKey, Issued

SEQUENCE, SET, OID, BOOLEAN, BITS, OCTETS = 0x30, 0x31, 0x06, 0x01, 0x03, 0x04
COMMON_NAME, ORGANIZATION = b"\x55\x04\x03", b"\x55\x04\x0a"
TRUE, FALSE = b"\x01\x01\xff", b"\x01\x01\x00"
# Where a TBSCertificate of version 3 has what.
VERSION, SERIAL, ALGORITHM, ISSUER, VALIDITY, SUBJECT, KEY, EXTENSIONS = range(8)

Parts = list[bytes]


def tlv(tag: int, *content: bytes) -> bytes:
    body = b"".join(content)
    size = len(body)
    if size < 128:
        return bytes((tag, size)) + body
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + body


def content(item: bytes) -> bytes:
    return item[2 + (item[1] & 0x7F if item[1] & 0x80 else 0) :]


def children(item: bytes) -> Parts:
    body, found = content(item), []
    while body:
        start, size = 2, body[1]
        if size & 0x80:
            start += size & 0x7F
            size = int.from_bytes(body[2:start], "big")
        found.append(body[: start + size])
        body = body[start + size :]
    return found


def name(*attributes: tuple[bytes, int, bytes]) -> bytes:
    """A Name of attributes, each an OID, the tag of its value and the value."""
    return tlv(
        SEQUENCE,
        *(
            tlv(SET, tlv(SEQUENCE, tlv(OID, oid), tlv(tag, value)))
            for oid, tag, value in attributes
        ),
    )


def extension(oid: bytes, value: bytes, critical: bytes = b"", behind: bytes = b"") -> bytes:
    return tlv(SEQUENCE, tlv(OID, oid), critical, tlv(OCTETS, value), behind)


def signature(key: AnyKey, text: bytes) -> bytes:
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return key.sign(text, ec.ECDSA(SHA256()))
    if isinstance(key, rsa.RSAPrivateKey):
        return key.sign(text, PKCS1v15(), SHA256())
    assert isinstance(key, ed25519.Ed25519PrivateKey)
    return key.sign(text)


def changed(certificate: Issued, change: Callable[[Parts], object], signer: AnyKey) -> bytes:
    """The certificate (DER) after `change` to the parts of its TBSCertificate, signed anew."""
    signed, algorithm, _ = children(certificate.der)
    parts = children(signed)
    change(parts)
    signed = tlv(SEQUENCE, *parts)
    return tlv(SEQUENCE, signed, algorithm, tlv(BITS, b"\0", signature(signer, signed)))


def extended(certificate: Issued, extensions: Sequence[bytes], signer: AnyKey) -> bytes:
    """With these extensions behind its own."""

    def change(parts: Parts) -> None:
        own = children(children(parts[EXTENSIONS])[0]) if len(parts) > EXTENSIONS else []
        parts[EXTENSIONS:] = [tlv(0xA3, tlv(SEQUENCE, *own, *extensions))]

    return changed(certificate, change, signer)

"""PEM text → its blocks, as laxly as Go reads them, but never fewer certificates than it holds.

Text around the blocks, `Bag Attributes`, other labels, CRLF and a missing last line end don't
matter. Two files joined by `cat` without a line end between them leave
`-----END CERTIFICATE----------BEGIN CERTIFICATE-----` on one line: both are read. Go and OpenSSL
leave out, in silence, what they can't find the lines of; here each `-----BEGIN CERTIFICATE-----` is
a certificate, a block with headers, or an error.
"""

import base64
import binascii
import re
from collections.abc import Iterator
from typing import NamedTuple

_BEGIN = b"-----BEGIN CERTIFICATE-----"
_END = b"-----END CERTIFICATE-----"
_ANY_BEGIN = b"-----BEGIN "
# RFC 7468 section 3; neither line need stand alone, for a certificate may end in front of it.
_KEY = re.compile(
    rb"-----BEGIN ((?:[A-Z0-9 ]+ )?PRIVATE KEY)-----[ \t]*\r?\n(.*?)-----END \1-----", re.DOTALL
)


class Certificates(NamedTuple):
    """The certificates of a text in DER, in order, and the numbers of the blocks with headers.

    Blocks are numbered from 1. RFC 1421 headers stand behind the BEGIN line; Go and Kubernetes pass
    over such blocks.
    """

    ders: tuple[bytes, ...]
    with_headers: tuple[int, ...]

    def numbered(self) -> Iterator[tuple[int, bytes]]:
        """The certificates, each with its number."""
        count = len(self.ders) + len(self.with_headers)
        used = (number for number in range(1, count + 1) if number not in self.with_headers)
        return zip(used, self.ders, strict=True)


def certificates(text: bytes) -> Certificates:
    """Every CERTIFICATE block. Raises ValueError, naming its number, for one that is damaged."""
    ders: list[bytes] = []
    with_headers: list[int] = []
    number = 0
    position = text.find(_BEGIN)
    while position >= 0:
        number += 1
        start = position + len(_BEGIN)
        end = text.find(_END, start)
        if end < 0 or text.find(_ANY_BEGIN, start, end) >= 0:
            raise ValueError(f"certificate {number} has no END line")
        line, _, body = text[start:end].partition(b"\n")
        if line.strip():
            raise ValueError(f"certificate {number} has text in its BEGIN line")
        if b":" in body.partition(b"\n")[0]:
            with_headers.append(number)
        else:
            ders.append(_decoded(body, number))
        position = text.find(_BEGIN, end)
    return Certificates(tuple(ders), tuple(with_headers))


def certificate_blocks(text: bytes) -> list[bytes]:
    """`certificates` without those with headers, each as a PEM block. Raises ValueError."""
    return [_armoured(b"CERTIFICATE", der) for der in certificates(text).ders]


def key_block(text: bytes) -> bytes | None:
    """The first block whose label is PRIVATE KEY or ends so (PKCS#1, PKCS#8, SEC 1), as PEM."""
    match = _KEY.search(text)
    if match is None:
        return None
    label, body = match.groups()
    if b":" in body:
        # Encrypted: the headers say how.
        return match.group()
    try:
        return _armoured(label, _decoded(body, 1))
    except ValueError:
        return match.group()


def _decoded(body: bytes, number: int) -> bytes:
    try:
        return base64.b64decode(body.translate(None, b" \t\r\n"), validate=True)
    except binascii.Error:
        raise ValueError(f"certificate {number} is not valid base64") from None


def _armoured(label: bytes, der: bytes) -> bytes:
    # One line of 64 characters for each 48 bytes (RFC 7468 section 2).
    lines = b"".join(
        binascii.b2a_base64(der[start : start + 48]) for start in range(0, len(der), 48)
    )
    return b"-----BEGIN %s-----\n%s-----END %s-----\n" % (label, lines, label)

"""PEM text → its blocks, as Go reads them: any order, text between blocks ignored.

The blocks are handed to `cryptography` one by one, since a file may hold blocks that it would
refuse (EC PARAMETERS) or that are not meant for it (a key beside the certificates).
"""

import re

# RFC 7468 section 3.
_BLOCK = re.compile(
    rb"^-----BEGIN ([A-Z0-9 ]+)-----[ \t]*\r?\n(.*?)^-----END \1-----", re.DOTALL | re.MULTILINE
)


def certificate_blocks(text: bytes) -> list[bytes]:
    """Every CERTIFICATE block, as PEM, in order."""
    return [match.group() for match in _BLOCK.finditer(text) if match[1] == b"CERTIFICATE"]


def key_block(text: bytes) -> bytes | None:
    """The first block whose label is PRIVATE KEY or ends so (PKCS#1, PKCS#8, SEC 1), as PEM."""
    for match in _BLOCK.finditer(text):
        if match[1] == b"PRIVATE KEY" or match[1].endswith(b" PRIVATE KEY"):
            return match.group()
    return None


def has_headers(block: bytes) -> bool:
    """Whether a block carries RFC 1421 headers; Kubernetes skips such certificates in a CA file."""
    return b":" in block

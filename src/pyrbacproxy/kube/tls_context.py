"""TLS towards the API server: PEM texts → an SSLContext of the standard library, or their fault.

OpenSSL reads a client's key from a file only. The files are made in memory (/dev/shm) where there
is such a place, because a container's root is often read-only and a key has no business on a disk,
and are gone before anybody connects.
"""

import errno
import os
import ssl
from pathlib import Path
from typing import TYPE_CHECKING

from pyrbacproxy.tls.client_context import client_context as tls_client_context

if TYPE_CHECKING:
    import tempfile


_MEMORY_FOLDER = "/dev/shm"  # noqa: S108 -- what is made in it is a folder of mode 0700


class NoWritableFolderError(OSError):
    """There is no place for a folder of our own; the text is fit for a log."""

    def __init__(self) -> None:
        super().__init__(
            errno.EROFS,
            f"cannot be used, for no folder for temporary files can be written: {_MEMORY_FOLDER}, "
            "$TMPDIR or /tmp must be",
        )


def secret_folder() -> "tempfile.TemporaryDirectory[str]":
    """A folder of our own for secrets in transit, in memory if possible; its context manager
    removes it. Raises NoWritableFolderError.
    """
    # Late, for it is half a MiB and most proxies need no such folder.
    import tempfile  # noqa: PLC0415

    is_there = os.access(_MEMORY_FOLDER, os.W_OK)
    try:
        return tempfile.TemporaryDirectory(dir=_MEMORY_FOLDER if is_there else None)
    except OSError:
        raise NoWritableFolderError from None


def client_context(
    *, ca: str, certificate: str, key: str, is_verified: bool = True
) -> ssl.SSLContext:
    """A context for connections to the API server; raises ssl.SSLError or OSError when a PEM text
    is unusable.

    `ca` "" means the system's roots. Without `is_verified` (insecure-skip-tls-verify) anybody may
    be the server.
    """
    try:
        context = tls_client_context(
            ca.encode("latin-1") if ca else None,
            source="the API server's CA",
            is_verified=is_verified,
        )
    except ValueError as error:
        raise ssl.SSLError(f"the CA {error}") from error
    if certificate:
        _load_pair(context, certificate, key)
    return context


def ca_problem(ca: str) -> str:
    """Why no server can be verified with this PEM text, "" if it can."""
    try:
        tls_client_context(ca.encode("latin-1"))
    except ValueError as error:
        return str(error)
    return ""


def key_problem(key: str) -> str:
    """Why this PEM text is no private key, "" if it is."""
    # Late, for the child that resolves kubeconfigs has no use for it.
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415
        load_pem_private_key,
    )

    try:
        load_pem_private_key(key.encode("latin-1"), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        # The library's own words stay out: they could quote the key.
        return "holds no private key that can be read"
    return ""


def pair_problem(certificate: str, key: str) -> str:
    """Why these PEM texts are no client certificate with its key, "" if they are."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        _load_pair(context, certificate, key)
    except NoWritableFolderError as error:
        return error.strerror or ""
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            return "does not belong to client-key"
        return "is no readable PEM, or client-key is none"
    return ""


def _load_pair(context: ssl.SSLContext, certificate: str, key: str) -> None:
    with secret_folder() as folder:
        path = Path(folder, "pair")
        path.write_bytes(f"{certificate}\n{key}\n".encode("latin-1"))
        # An encrypted key must not make OpenSSL ask on the terminal.
        context.load_cert_chain(path, password=lambda: "")

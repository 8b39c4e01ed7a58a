"""The files and inline data that a credential is made of: their text, or what is wrong with them.

Whatever is secret is never quoted.
"""

import base64
import binascii
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from pyrbacproxy.regular_file import read_regular

Fields: TypeAlias = Mapping[str, Any]

NO_TOKEN = "holds no token: one line of printable ASCII"  # noqa: S105 -- no password
_NO_LINE_ENDS = str.maketrans("", "", "\r\n")
_BLANKS = " \t\r\n"  # around a token, as a text editor leaves them


def is_header_text(text: str) -> bool:
    """Fit for a header: a control character in a token would end in an exception that quotes it."""
    return bool(text) and text.isascii() and text.isprintable()


def is_token(text: str) -> bool:
    """A token, blanks around it allowed."""
    return is_header_text(text.strip(_BLANKS))


def file_or_data(fields: Fields, key: str, folder: Path) -> tuple[str, list[str]]:
    """What `key` (a file) or `key-data` (base64) holds, "" when neither is given, and what is wrong
    with it.
    """
    name, encoded = fields.get(key), fields.get(f"{key}-data")
    if not isinstance(name, str | None):
        return "", [f"{key}: {name!r} is no string"]
    if not isinstance(encoded, str | None):
        return "", [f"{key}-data: is no string"]
    if name and encoded:
        return "", [f"{key}: is given together with {key}-data"]
    if name:
        found = list(file_problems(folder / name, key))
        return ("", found) if found else (read_regular(folder / name).decode("latin-1"), [])
    try:
        # Line ends may stand between, as for Go.
        text = (encoded or "").translate(_NO_LINE_ENDS)
        return base64.b64decode(text, validate=True).decode("latin-1"), []
    except (binascii.Error, ValueError):
        return "", [f"{key}-data: is no base64"]


def file_problems(path: Path, what: str) -> list[str]:
    """Why there is nothing to be read in the file; `what` begins each text."""
    try:
        return [] if read_regular(path).strip() else [f"{what}: {path} is empty"]
    except OSError as error:
        return [f"{what}: {path} cannot be read: {error.strerror}"]
    except ValueError:  # a NUL in it
        return [f"{what}: {str(path)!r} cannot name a file"]


def token_file_problems(path: Path, what: str) -> list[str]:
    """Why the file holds no token; `what` begins each text."""
    if found := file_problems(path, what):
        return found
    token = read_regular(path).decode("latin-1")
    return [] if is_token(token) else [f"{what}: {path} {NO_TOKEN}"]


def digest(content: bytes) -> str:
    """What tells one content from another; not the content itself, which is secret."""
    return hashlib.sha256(content).hexdigest()


def digest_of(path: Path) -> str:
    """The digest of a file's content, "" when it can't be read."""
    try:
        return digest(read_regular(path))
    except OSError:
        return ""

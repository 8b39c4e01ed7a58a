"""The request-target → form, raw path, decoded path, query; says which paths are ambiguous."""

from dataclasses import dataclass
from enum import Enum


class Form(Enum):
    """The four forms of RFC 9112 §3.2."""

    ORIGIN = "origin"
    ABSOLUTE = "absolute"
    AUTHORITY = "authority"
    ASTERISK = "asterisk"


@dataclass(frozen=True, slots=True)
class Target:
    """A request-target taken apart.

    `raw_path` is the path as sent ("" becomes "/" for absolute-form); `path` is its single percent-decoding as UTF-8 with
    surrogateescape, so that any bytes survive; `raw_query` is what follows "?", None without one;
    `authority` is set in absolute and authority form only.
    """

    form: Form
    raw_path: bytes
    path: str
    raw_query: bytes | None = None
    authority: bytes = b""

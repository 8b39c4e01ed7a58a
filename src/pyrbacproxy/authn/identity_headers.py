"""Strips every spelling of the identity headers and every bearer credential, then sets ours (D5,
D6).

The upstream believes these headers, so what it may read as one of them must never come from a
client: any case, `_` for `-` (CGI and WSGI fold the two), the names we set and those that other
proxies set. Stripping comes before setting, on every branch, and after the hop-by-hop headers went,
so that `Connection` can't remove what we set.
"""

import re
from enum import Enum

from pyrbacproxy.http1.forwarding import canonical
from pyrbacproxy.http1.head import Headers, folded
from pyrbacproxy.model import UserInfo
from pyrbacproxy.values import Frozen

_USUAL_NAMES = (b"x-remote-user", b"x-remote-uid", b"x-remote-group", b"x-remote-groups")
_EXTRA_PREFIX = b"x-remote-extra-"
_PROTOCOL_PREFIX = b"base64url.bearer.authorization.k8s.io."


class IdentitySettings(Frozen):
    """The configured names; they are stripped always and set only when `is_enabled`."""

    is_enabled: bool = False
    user_header: str = "x-remote-user"
    groups_header: str = "x-remote-groups"
    groups_separator: str = "|"


class Identity(Frozen):
    """The header lines that tell the upstream who it is, and the groups that could not be told."""

    lines: tuple[tuple[bytes, bytes], ...] = ()
    left_out: tuple[str, ...] = ()


# Tells nothing: of an ignored path, or while identity headers are off.
NOBODY = Identity()

# Most requests hold only names that are known to be harmless. What is remembered of names that
# clients choose is bounded in number and length.
_REMEMBERED_NAMES = 1024
_LONGEST_REMEMBERED_NAME = 64


class _Kind(Enum):
    """What a header name is to us, in any spelling."""

    IDENTITY = "identity"
    AUTHORIZATION = "authorization"
    PROTOCOLS = "protocols"  # a WebSocket protocol list
    OTHER = "other"


# With "_" and "-" around it too: who trims names would find it.
_KINDS = {
    b"authorization": _Kind.AUTHORIZATION,
    b"sec-websocket-protocol": _Kind.PROTOCOLS,
}
# Not within the Base64 of another scheme, which can hold the word by chance. What follows does not
# matter: "bearer<TAB>x" and "Bearerx" may still hold a token.
_BEARER = re.compile(rb"(?<![0-9A-Za-z+/])bearer", re.IGNORECASE)


class IdentityHeaders:
    """Strips and sets, as the settings say."""

    __slots__ = ("_groups_name", "_harmless", "_settings", "_stripped", "_user_name")

    def __init__(self, settings: IdentitySettings) -> None:
        self._settings = settings
        self._user_name = canonical(settings.user_header.encode())
        self._groups_name = canonical(settings.groups_header.encode())
        configured = (folded(self._user_name), folded(self._groups_name))
        self._stripped = frozenset((*_USUAL_NAMES, *configured))
        self._harmless: set[bytes] = set()

    def strip(self, headers: Headers, *, keeps_bearer: bool = False) -> Headers:
        """The headers without identity headers and, unless `keeps_bearer`, bearer credentials.

        Every Authorization line with a word that begins like Bearer goes, wherever in a list it
        stands, malformed ones too; other schemes stay. Of WebSocket protocol lists only the bearer
        entries go, and what remains is one line, as in the original.
        """
        if self._harmless.issuperset([name for name, _ in headers]):
            return headers
        kept: list[tuple[bytes, bytes]] = []
        lists: list[tuple[int, bytes, bytes]] = []
        for name, value in headers:
            kind = self._kind(name)
            if kind is _Kind.IDENTITY:
                continue
            if kind is _Kind.AUTHORIZATION and not keeps_bearer and _BEARER.search(value):
                continue
            if kind is _Kind.PROTOCOLS and not keeps_bearer:
                lists.append((len(kept), name, value))
                continue
            kept.append((name, value))
        if lists:
            at, name, _ = lists[0]
            kept[at:at] = _protocol_lines(name, [value for _, _, value in lists])
        return Headers(kept)

    def identity(self, user: UserInfo) -> Identity | None:
        """What to tell the upstream about the user; None if the user can't be told without doubt
        (401, D6).

        A group whose name could be read as several, because it holds the separator, is left out.
        """
        if not self._settings.is_enabled:
            return NOBODY
        if not all(_is_plain_name(name) for name in (user.name, *user.groups)):
            return None
        separator = self._settings.groups_separator
        told: list[str] = []
        left_out: list[str] = []
        for group in user.groups:
            (told if _stands_alone(group, separator) else left_out).append(group)
        lines = (
            (self._user_name, user.name.encode()),
            (self._groups_name, separator.join(told).encode()),
        )
        return Identity(lines, tuple(left_out))

    def _kind(self, name: bytes) -> _Kind:
        plain = folded(name)
        if plain in self._stripped or plain.startswith(_EXTRA_PREFIX):
            return _Kind.IDENTITY
        kind = _KINDS.get(plain.strip(b"-"), _Kind.OTHER)
        if kind is _Kind.OTHER and len(name) <= _LONGEST_REMEMBERED_NAME:
            if len(self._harmless) >= _REMEMBERED_NAMES:
                self._harmless.clear()
            self._harmless.add(name)
        return kind


def _protocol_lines(name: bytes, lists: list[bytes]) -> list[tuple[bytes, bytes]]:
    """The lists as they are if no bearer entry is among them, else what remains as one line."""
    if not any(_PROTOCOL_PREFIX in value.lower() for value in lists):
        return [(name, value) for value in lists]
    entries = [entry.strip(b" \t") for value in lists for entry in value.split(b",")]
    remaining = b",".join(entry for entry in entries if _PROTOCOL_PREFIX not in entry.lower())
    return [(name, remaining)] if remaining else []


def _is_plain_name(name: str) -> bool:
    """Whether a header can carry it unchanged: upstreams trim blanks, and a line end would begin
    another header.
    """
    if not name or name[0].isspace() or name[-1].isspace():
        return False
    # C0, DEL, C1, and surrogates, which no UTF-8 text holds.
    return not any(
        character < " " or "\x7f" <= character <= "\x9f" or "\ud800" <= character <= "\udfff"
        for character in name
    )


def _stands_alone(group: str, separator: str) -> bool:
    """Whether a reader that splits at the separator finds exactly this group; never for an empty
    separator.
    """
    return (group + separator).index(separator) == len(group)

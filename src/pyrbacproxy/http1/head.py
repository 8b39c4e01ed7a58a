"""`Headers`, `RequestHead`, `ResponseHead`: start line and header lines as values.

Names and values are bytes as sent; look-ups take the lower-case name. Nothing here changes the order of lines,
joins or splits them, except where a method says so.
"""

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass


class Headers:
    """Header lines in the order they were sent. Immutable; every change makes a new one."""

    __slots__ = ("_lowered", "pairs")

    def __init__(self, pairs: Iterable[tuple[bytes, bytes]] = ()) -> None:
        self.pairs: tuple[tuple[bytes, bytes], ...] = tuple(pairs)
        self._lowered = tuple(name.lower() for name, _ in self.pairs)

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        return iter(self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Headers) and self.pairs == other.pairs

    def __hash__(self) -> int:
        return hash(self.pairs)

    def __contains__(self, name: bytes) -> bool:
        return name in self._lowered

    def __repr__(self) -> str:
        # Values may be credentials, so only names are shown.
        return f"Headers({', '.join(name.decode('latin-1') for name, _ in self.pairs)})"

    def get(self, name: bytes) -> bytes | None:
        """The value of the first line of that name (lower case), or None."""
        for lowered, (_, value) in zip(self._lowered, self.pairs, strict=True):
            if lowered == name:
                return value
        return None

    def get_all(self, name: bytes) -> list[bytes]:
        """The values of all lines of that name (lower case), in order."""
        return [
            value for low, (_, value) in zip(self._lowered, self.pairs, strict=True) if low == name
        ]

    def tokens(self, name: bytes) -> list[bytes]:
        """All comma-separated members of all lines of that name, trimmed, lower-cased, empty ones left out."""
        members = b",".join(self.get_all(name)).split(b",")
        return [token for member in members if (token := member.strip(b" \t").lower())]

    def without(self, names: Container[bytes]) -> "Headers":
        """A copy without the lines whose lower-case name is in `names`."""
        kept = [
            pair
            for low, pair in zip(self._lowered, self.pairs, strict=True)
            if low not in names
        ]
        return self if len(kept) == len(self.pairs) else Headers(kept)

    def with_added(self, *pairs: tuple[bytes, bytes]) -> "Headers":
        """A copy with lines added at the end."""
        return Headers((*self.pairs, *pairs))


@dataclass(frozen=True, slots=True)
class RequestHead:
    """A request line and its headers. `minor` is the version's last digit: HTTP/1.0 or HTTP/1.1."""

    method: bytes
    target: bytes
    headers: Headers
    minor: int = 1


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """A status line and its headers."""

    status: int
    reason: bytes
    headers: Headers
    minor: int = 1

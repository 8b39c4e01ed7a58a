"""Strips every spelling of the identity headers and every bearer credential, then sets ours (D5, D6)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IdentitySettings:
    """The configured names; they are stripped always and set only when `is_enabled`."""

    is_enabled: bool = False
    user_header: str = "x-remote-user"
    groups_header: str = "x-remote-groups"
    groups_separator: str = "|"

"""The handler chain: allow paths → ignore paths → authenticate → attributes → authorize → forward. Only it knows the order."""

from dataclasses import dataclass

from pyrbacproxy.authn.identity_headers import IdentitySettings


@dataclass(frozen=True, slots=True)
class AccessSettings:
    """Patterns are Go `path.Match` patterns, already checked. An empty list is no list."""

    allow_paths: tuple[str, ...] = ()
    ignore_paths: tuple[str, ...] = ()
    identity: IdentitySettings = IdentitySettings()
    keeps_bearer_on_ignored_paths: bool = False
    rejects_form_bodies: bool = False

"""`UserInfo`: the name, uid, groups and extra of an authenticated user."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UserInfo:
    """Who made a request, in the terms of Kubernetes' `authentication.k8s.io/v1` UserInfo.

    `extra` is a tuple of (key, values) pairs sorted by key, so that equal users compare and hash
    equal.
    """

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

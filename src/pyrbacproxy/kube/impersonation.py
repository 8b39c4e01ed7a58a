"""A kubeconfig's `as` keys → the headers that ask the API server to act as somebody else."""

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias
from urllib.parse import quote

Fields: TypeAlias = Mapping[str, Any]

# RFC 9110 §5.6.2: what a header's name is made of; `%` escapes the rest, as client-go does.
_NAME_CHARACTERS = "!#$&'*+-.^_`|~"


def impersonation_headers(user: Fields) -> list[tuple[str, str]]:
    """Names and values, in client-go's order; nothing without `as`. For a user without problems."""
    if not user.get("as"):
        return []
    headers = [("Impersonate-User", user["as"])]
    if uid := user.get("as-uid"):
        headers.append(("Impersonate-Uid", uid))
    headers += [("Impersonate-Group", group) for group in user.get("as-groups") or ()]
    for key, values in (user.get("as-user-extra") or {}).items():
        name = f"Impersonate-Extra-{quote(key, safe=_NAME_CHARACTERS)}"
        headers += [(name, value) for value in values or ()]
    return headers


def impersonation_problems(user: Fields) -> Iterator[str]:
    """What is wrong with the `as` keys; each text names its key."""
    yield from (f"{key}: is no text for a header" for key in ("as", "as-uid") if _is_bad(user, key))
    groups = user.get("as-groups") or []
    if not _are_texts(groups):
        yield "as-groups: is no list of texts for headers"
    extra = user.get("as-user-extra") or {}
    if not isinstance(extra, dict) or not all(
        isinstance(key, str) and key and _are_texts(values or []) for key, values in extra.items()
    ):
        yield "as-user-extra: is no mapping of keys to lists of texts for headers"
    if not user.get("as") and any(user.get(f"as-{key}") for key in ("uid", "groups", "user-extra")):
        yield "as: is not given, but as-uid, as-groups or as-user-extra is"


def _is_bad(user: Fields, key: str) -> bool:
    return bool(user.get(key)) and not _is_text(user[key])


def _are_texts(values: object) -> bool:
    return isinstance(values, list) and all(map(_is_text, values))


def _is_text(value: object) -> bool:
    """Fit for a header's value, in which blanks at the ends would be lost."""
    return isinstance(value, str) and value.isprintable() and value == value.strip()

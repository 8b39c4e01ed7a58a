"""Reads a kubeconfig's text and the files it names into plain values, as client-go does."""

import base64
import binascii
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

import yaml

from pyrbacproxy.regular_file import read_regular

# --- credential files -----------------------------------------------------------------
#
# The files and inline data that a credential is made of: their text, or what is wrong with them.
#
# Whatever is secret is never quoted.

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


# --- kubeconfig document --------------------------------------------------------------
#
# The bytes of a kubeconfig → plain values and its named entries, read as client-go reads them.
#
# The process that serves and the child that resolves a kubeconfig read it here, so that neither can
# take for good what the other refuses.

# Parsed, YAML is a hundred times as long: a file that is no kubeconfig must not take the memory.
_MAX_BYTES = 8 << 20
# With every alias written out. A thousand clusters have a tenth of it.
_MAX_VALUES = 250_000

# libyaml's parser when PyYAML was built with it.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_MERGE = "tag:yaml.org,2002:merge"  # `<<`, which has no value of its own
_TIMESTAMP = "tag:yaml.org,2002:timestamp"


class DocumentError(Exception):
    """It cannot be read; the text is fit for a log and says where, if that is known."""


def read_document(content: bytes) -> object:
    """The first document, what looks like a time being a string: both as in client-go.

    Raises DocumentError.
    """
    if len(content) > _MAX_BYTES:
        raise DocumentError(f"is longer than {_MAX_BYTES} bytes")
    try:
        return _first_document(content)
    except RecursionError:
        raise DocumentError("is nested too deep") from None
    except yaml.YAMLError as error:
        # The parser's own words quote the file, and with it a secret; the place is enough.
        raise DocumentError(f"is no YAML{_place(getattr(error, 'problem_mark', None))}") from None


def named(document: Fields, section: str, kind: str, name: object) -> Fields | str:
    """The entry of that name, or what is wrong with it."""
    if not isinstance(name, str) or not name:
        return f"names no {kind}"
    listed = document.get(section)
    if not isinstance(listed, list):
        return f'"{name}": {section} is no list'
    found = [item for item in listed if isinstance(item, dict) and item.get("name") == name]
    if len(found) != 1:
        return f'"{name}": {len(found) or "none"} of {section} has this name'
    entry = found[0].get(kind)
    if entry is None and kind == "user":
        return {}
    return entry if isinstance(entry, dict) else f'"{name}": its {kind} is no mapping'


def _first_document(content: bytes) -> object:
    loader: Any = _LOADER(content)
    loader.yaml_constructors = loader.yaml_constructors | {
        _TIMESTAMP: yaml.constructor.SafeConstructor.construct_yaml_str
    }
    try:
        if not loader.check_node():
            return None
        node = loader.get_node()
        if _values(loader, node, {}) > _MAX_VALUES:
            raise DocumentError("holds too many values, its aliases written out")
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _values(loader: Any, node: yaml.Node, counted: dict[int, int]) -> int:
    """How many values a node comes to. Raises DocumentError when one holds itself, or when PyYAML
    makes none of a scalar.
    """
    known = counted.get(id(node))
    if known == 0:  # being counted
        raise DocumentError(f"holds an alias of what it is in{_place(node.start_mark)}")
    if known is None:
        counted[id(node)] = 0
        if isinstance(node, yaml.ScalarNode):
            _check_scalar(loader, node)
        counted[id(node)] = known = 1 + sum(
            _values(loader, child, counted) for child in _children(node)
        )
    return known


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        for pair in node.value:
            yield from pair
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value


def _check_scalar(loader: Any, node: yaml.Node) -> None:
    if node.tag == _MERGE:
        return
    try:
        loader.construct_object(node, deep=True)
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, ArithmeticError):
        # Its constructors raise what Python's own do: the 30th of February, `!!int demo`.
        place = _place(node.start_mark)
        raise DocumentError(f"holds a value that is not valid{place}") from None


def _place(mark: Any) -> str:
    return f" in line {mark.line + 1}, column {mark.column + 1}" if mark else ""


# --- impersonation --------------------------------------------------------------------
# A kubeconfig's `as` keys → the headers that ask the API server to act as another user.


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

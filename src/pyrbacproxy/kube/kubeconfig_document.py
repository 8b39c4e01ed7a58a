"""The bytes of a kubeconfig → plain values and its named entries, read as client-go reads them.

The process that serves and the child that resolves a kubeconfig read it here, so that neither can
take for good what the other refuses.
"""

from collections.abc import Iterator
from typing import Any

import yaml

from pyrbacproxy.kube.credential_files import Fields

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
        raise DocumentError(f"holds a value that is none of its kind{place}") from None


def _place(mark: Any) -> str:
    return f" in line {mark.line + 1}, column {mark.column + 1}" if mark else ""

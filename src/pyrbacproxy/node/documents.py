"""YAML or JSON → plain values: what a node's files and rendered manifests are read with."""

import json
import math
import re
from collections.abc import Iterator
from typing import TypeAlias

import yaml

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Document: TypeAlias = dict[str, Json]


# More than the objects of a large namespace have; ten aliases in a row could stand for more.
_MOST_VALUES = 1_000_000
_SURROGATE = re.compile("[\ud800-\udfff]")


class DocumentError(Exception):
    """A document cannot be used; says in which file, where and why, on one line."""


def read_one(content: bytes, file: str) -> Document:
    """The only document of a file, a mapping. Raises DocumentError, also for an empty file."""
    documents = read_all(content, file)
    if len(documents) != 1:
        raise DocumentError(f"{file}: must hold one document, not {len(documents)}")
    return documents[0]


def read_all(content: bytes, file: str) -> list[Document]:
    """Every document that is not empty, each a mapping. Raises DocumentError."""
    try:
        loaded = [item for item in _loaded(content) if item is not None]
        values = [_plain(item, "") for item in loaded]
    except RecursionError:
        raise DocumentError(f"{file}: nested too deeply") from None
    except (yaml.YAMLError, ValueError) as error:
        raise DocumentError(f"{file}: {' '.join(str(error).split())}") from error
    except (LookupError, AttributeError, TypeError, ArithmeticError) as error:
        # PyYAML's constructors raise what Python's own do, in words that tell a reader nothing.
        raise DocumentError(f"{file}: a value does not fit its tag or its form") from error
    documents = [value for value in values if isinstance(value, dict)]
    if len(documents) < len(values):
        raise DocumentError(f"{file}: must be a mapping")
    return documents


def shown(value: Json) -> str:
    """A value as messages and tables show it: as JSON writes it."""
    return json.dumps(value, ensure_ascii=False)


def _loaded(content: bytes) -> list[object]:
    if content.lstrip().startswith(b"{"):
        # Not all JSON is YAML: tabs may indent it.
        try:
            return [json.loads(content)]
        except json.JSONDecodeError:
            pass
    loader = yaml.SafeLoader(content)
    try:
        return list(_yaml_documents(loader))
    finally:
        loader.dispose()


def _yaml_documents(loader: yaml.SafeLoader) -> Iterator[object]:
    while node := loader.get_node() if loader.check_node() else None:
        if _weight(node, {}) > _MOST_VALUES:
            raise ValueError(f"more than {_MOST_VALUES} values, with what its aliases stand for")
        yield loader.construct_document(node)


def _weight(node: yaml.Node, known: dict[int, int]) -> int:
    """How many nodes there are once every alias is what it stands for; merge keys use such, too.

    `known` holds the weight of nodes by their id. One within itself ends in RecursionError.
    """
    found = known.get(id(node))
    if found is None:
        below = [each for child in node.value for each in _nodes(child)] if _is_branch(node) else ()
        found = known[id(node)] = 1 + sum(_weight(each, known) for each in below)
    return found


def _is_branch(node: yaml.Node) -> bool:
    return not isinstance(node, yaml.ScalarNode)


def _nodes(child: yaml.Node | tuple[yaml.Node, yaml.Node]) -> tuple[yaml.Node, ...]:
    """A sequence's entry, or a mapping's key and value."""
    return child if isinstance(child, tuple) else (child,)


def _text(text: str, key: str) -> str:
    """The text, unless it is none in any encoding: JSON can escape half a character."""
    if _SURROGATE.search(text):
        raise ValueError(f"{key.lstrip('.')}: {json.dumps(text)} holds half a character")
    return text


def _plain(value: object, key: str) -> Json:
    """The value, if JSON can say it. Raises ValueError that names the key."""
    if isinstance(value, str):
        return _text(value, key)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{key.lstrip('.')}: JSON has no number {value}")
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, list):
        return [_plain(item, f"{key}[{at}]") for at, item in enumerate(value)]
    if isinstance(value, dict):
        return {
            _text(str(name), key): _plain(item, f"{key}.{name}") for name, item in value.items()
        }
    raise ValueError(f"{key.lstrip('.')}: put {value} in quotes, for YAML it is no text")

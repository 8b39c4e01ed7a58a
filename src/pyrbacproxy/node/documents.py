"""YAML or JSON → plain values: what a node's files and rendered manifests are read with."""

import json
from typing import TypeAlias

import yaml

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Document: TypeAlias = dict[str, Json]


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
    return list(yaml.safe_load_all(content))


def _plain(value: object, key: str) -> Json:
    """The value, if JSON can say it. Raises ValueError that names the key."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list):
        return [_plain(item, f"{key}[{at}]") for at, item in enumerate(value)]
    if isinstance(value, dict):
        return {str(name): _plain(item, f"{key}.{name}") for name, item in value.items()}
    raise ValueError(f"{key.lstrip('.')}: put {value} in quotes, for YAML it is no text")

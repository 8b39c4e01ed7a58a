"""An object as JSON, to the byte as Kubernetes writes it, or as YAML that reads the same.

JSON keeps the order of the keys, YAML sorts them; strings that a YAML reader could take for
something else are quoted. YAML is written here, for loading a library would cost the proxy memory.
"""

import json
import re
from enum import Enum
from typing import TypeAlias

Value: TypeAlias = str | int | tuple[str, ...] | dict[str, str]
Object: TypeAlias = dict[str, Value]


class Media(Enum):
    """A structured media type; the value is its name on the wire."""

    JSON = "application/json"
    YAML = "application/yaml"


# Go's encoding/json keeps these out of strings, for pages that embed JSON.
_GO_ESCAPES = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*")
# What YAML 1.1 reads as a boolean or null.
_RESERVED = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))
_UNPRINTABLE = re.compile("[\x7f-\x9f\ufeff\ufffe\uffff]")


def json_text(value: Object, *, is_pretty: bool) -> str:
    """Compact with a final line end, or indented by two without one."""
    indent, separators = (2, (",", ": ")) if is_pretty else (None, (",", ":"))
    text = json.dumps(value, ensure_ascii=False, indent=indent, separators=separators)
    return text.translate(_GO_ESCAPES) + ("" if is_pretty else "\n")


def yaml_text(value: Object) -> str:
    """Block YAML with sorted keys."""
    return "".join(_yaml_entry(key, value[key]) for key in sorted(value))


def _yaml_entry(key: str, item: Value) -> str:
    if isinstance(item, int):
        return f"{key}: {item}\n"
    if isinstance(item, str):
        return f"{key}: {_yaml_string(item)}\n"
    if not item:
        return f"{key}: {'[]' if isinstance(item, tuple) else '{}'}\n"
    if isinstance(item, tuple):
        return f"{key}:\n" + "".join(f"- {_yaml_string(each)}\n" for each in item)
    entries = (f"  {_yaml_string(name)}: {_yaml_string(item[name])}\n" for name in sorted(item))
    return f"{key}:\n" + "".join(entries)


def _yaml_string(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in _RESERVED:
        return text
    # A JSON string is a YAML string in double quotes, but for characters that YAML wants escaped.
    quoted = json.dumps(text, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)

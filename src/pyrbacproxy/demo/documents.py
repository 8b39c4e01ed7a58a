"""Decoded YAML or JSON → typed fields, or an error that names the place."""

from collections.abc import Mapping

from pyrbacproxy.values import Frozen


class DocumentError(ValueError):
    """A field has the wrong type, or lacks. `str()` names its path."""


class Document(Frozen):
    """A mapping with the path where it stands; absent and null fields read as their zero value."""

    fields: Mapping[str, object]
    where: str = ""

    def has(self, key: str) -> bool:
        """Whether the field is there and not null."""
        return self.fields.get(key) is not None

    def text(self, key: str) -> str:
        """A string; "" when absent."""
        value = self.fields.get(key)
        if value is None:
            return ""
        return self._text(value, self._path(key))

    def required_text(self, key: str) -> str:
        """A string that must be there and not be empty."""
        text = self.text(key)
        if not text:
            raise DocumentError(f"{self._path(key)}: required")
        return text

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings."""
        path = self._path(key)
        return tuple(
            self._text(item, f"{path}[{index}]") for index, item in enumerate(self._list(key))
        )

    def text_map(self, key: str) -> Mapping[str, str]:
        """A mapping of strings, such as labels."""
        child = self.child(key)
        return {name: child.text(name) for name in child.fields}

    def child(self, key: str) -> "Document":
        """A mapping below this one; an empty one when absent."""
        return document(self.fields.get(key) if self.has(key) else {}, self._path(key))

    def children(self, key: str) -> tuple["Document", ...]:
        """A list of mappings."""
        path = self._path(key)
        return tuple(
            document(item, f"{path}[{index}]") for index, item in enumerate(self._list(key))
        )

    def error(self, key: str, text: str) -> DocumentError:
        """What to raise when the field's content makes no sense."""
        return DocumentError(f"{self._path(key)}: {text}")

    def _list(self, key: str) -> list[object]:
        value = self.fields.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise DocumentError(f"{self._path(key)}: want a list, not {type(value).__name__}")
        return value

    def _path(self, key: str) -> str:
        return f"{self.where}.{key}" if self.where else key

    @staticmethod
    def _text(value: object, path: str) -> str:
        if not isinstance(value, str):
            raise DocumentError(f"{path}: want text, not {type(value).__name__}")
        return value


def document(value: object, where: str = "") -> Document:
    """Take a decoded value that must be a mapping with text keys. Raises DocumentError."""
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise DocumentError(f"{where or 'document'}: want a mapping, not {type(value).__name__}")
    return Document(value, where)

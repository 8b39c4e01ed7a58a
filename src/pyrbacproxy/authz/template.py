"""The part of Go's text/template that rewrites use: `{{ .Value }}` with blanks and trim markers."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template: literal texts, between each two of which the value goes (n texts, n-1 values)."""

    texts: tuple[str, ...]

    def render(self, value: str) -> str:
        """The text with the value in every place; the value itself is never evaluated (FR45)."""
        return value.join(self.texts)

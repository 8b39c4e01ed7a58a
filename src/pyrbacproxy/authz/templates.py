"""A rewrite's template: what was parsed, and a value → a text. Without loops: its work is bounded.

Go's text/template, as far as `template_parser` understands it. Texts are bytes, as Go's strings
are: lengths, indexes and comparisons count bytes. Go leaves a field empty when its template fails
on a value; an empty namespace means all of them, so for us such a request has no attributes
(README, D3).
"""

from typing import Protocol, TypeAlias

from pyrbacproxy.values import Frozen, Mutable, field

# Any text on the way is cut off here: no name in Kubernetes is longer than 253 bytes.
MOST_BYTES = 1 << 16

Value: TypeAlias = bytes | int  # bool too: an int that is shown as a word


class RenderError(ValueError):
    """The template fails on this value; the text says why, without the value."""


class Frame(Mutable):
    """One rendering under way: the value, the variables by slot, what was written so far."""

    value: bytes
    slots: list[Value]
    written: bytearray = field(default_factory=bytearray)

    def write(self, text: bytes) -> None:
        """Append; raises RenderError when it is too much."""
        self.written += text
        if len(self.written) > MOST_BYTES:
            raise RenderError(f"more than {MOST_BYTES} bytes")


class Part(Protocol):
    """A piece of a template, in order."""

    def render(self, frame: Frame) -> None:
        """Write what it comes to, or remember it; raises RenderError."""
        ...


class Text(Frozen):
    """What stands between actions."""

    text: bytes

    def render(self, frame: Frame) -> None:
        """Written as it is."""
        frame.write(self.text)


class Template(Frozen):
    """A parsed template. `flaw` says why it fails on every value, "" if it doesn't: such a one is
    always empty, as in the original.
    """

    parts: tuple[Part, ...]
    slot_count: int = 0
    flaw: str = ""

    @property
    def constant(self) -> str | None:
        """The text that it renders whatever the value is; None when the value counts."""
        if self.flaw or all(isinstance(part, Text) for part in self.parts):
            return self.render("")
        return None

    def render(self, value: str) -> str:
        """The text for a value; raises RenderError, also for a value that is too long before
        anything is made of it. Bytes that are no UTF-8 go through both ways as surrogates.
        """
        frame = Frame(value.encode("utf-8", "surrogateescape"), [b""] * self.slot_count)
        if len(frame.value) > MOST_BYTES:
            raise RenderError(f"a value of more than {MOST_BYTES} bytes")
        for part in self.parts:
            part.render(frame)
        return frame.written.decode("utf-8", "surrogateescape")


def literal(text: str) -> Template:
    """A template without any place for the value: braces in `text` mean nothing."""
    return Template((Text(encoded(text)),) if text else ())


def encoded(text: str) -> bytes:
    """The bytes of a configured text; half a surrogate pair, which YAML can spell, is no text and
    becomes "?".
    """
    return text.encode("utf-8", "replace")

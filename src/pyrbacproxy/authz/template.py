"""A rewrite's template: what was parsed, and a value → a text. Without loops: its work is bounded.

Go's text/template, as far as `template_parser` understands it. Texts are bytes, as Go's strings
are: lengths, indexes and comparisons count bytes. Go leaves a field empty when its template fails
on a value; an empty namespace means all of them, so for us such a request has no attributes
(README, D3).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

# Any text on the way is cut off here: no name in Kubernetes is longer than 253 bytes.
MOST_BYTES = 1 << 16

Value: TypeAlias = bytes | int  # bool too: an int that is shown as a word
Function: TypeAlias = Callable[[Sequence[Value]], Value]


class RenderError(ValueError):
    """The template fails on this value; the text says why, without the value."""


@dataclass(slots=True)
class Frame:
    """One rendering under way: the value, the variables by slot, what was written so far."""

    value: bytes
    slots: list[Value]
    written: bytearray = field(default_factory=bytearray)

    def write(self, text: bytes) -> None:
        """Append; raises RenderError when it is too much."""
        self.written += text
        if len(self.written) > MOST_BYTES:
            raise RenderError(f"more than {MOST_BYTES} bytes")


class Expression(Protocol):
    """What has a value."""

    def evaluate(self, frame: Frame) -> Value:
        """The value; raises RenderError."""
        ...


class Part(Protocol):
    """A piece of a template, in order."""

    def render(self, frame: Frame) -> None:
        """Write what it comes to, or remember it; raises RenderError."""
        ...


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal."""

    value: Value

    def evaluate(self, _frame: Frame) -> Value:
        """The literal's value."""
        return self.value


@dataclass(frozen=True, slots=True)
class RewriteValue:
    """`.Value`; it is never evaluated itself (FR45)."""

    def evaluate(self, frame: Frame) -> Value:
        """What the request brought."""
        return frame.value


@dataclass(frozen=True, slots=True)
class Variable:
    """`$x`, or the dot inside `with`."""

    slot: int

    def evaluate(self, frame: Frame) -> Value:
        """What was stored last."""
        return frame.slots[self.slot]


@dataclass(frozen=True, slots=True)
class Call:
    """A function with its arguments; what was piped in is the last one."""

    function: Function
    arguments: tuple[Expression, ...]

    def evaluate(self, frame: Frame) -> Value:
        """The function's value; raises RenderError."""
        value = self.function([argument.evaluate(frame) for argument in self.arguments])
        if isinstance(value, bytes) and len(value) > MOST_BYTES:
            raise RenderError(f"more than {MOST_BYTES} bytes")
        return value


@dataclass(frozen=True, slots=True)
class FirstOf:
    """`and`, `or`: the first argument that decides, else the last; those behind it are not looked
    at, but for what was piped in.
    """

    is_or: bool
    arguments: tuple[Expression, ...]
    is_piped: bool = False

    def evaluate(self, frame: Frame) -> Value:
        """That argument's value; raises RenderError."""
        *others, last = self.arguments
        piped = last.evaluate(frame) if self.is_piped else None
        for argument in others:
            value = argument.evaluate(frame)
            if bool(value) is self.is_or:
                return value
        return last.evaluate(frame) if piped is None else piped


@dataclass(frozen=True, slots=True)
class Text:
    """What stands between actions."""

    text: bytes

    def render(self, frame: Frame) -> None:
        """Written as it is."""
        frame.write(self.text)


@dataclass(frozen=True, slots=True)
class Show:
    """`{{ pipeline }}`."""

    expression: Expression

    def render(self, frame: Frame) -> None:
        """Written as Go prints the value."""
        frame.write(shown(self.expression.evaluate(frame)))


@dataclass(frozen=True, slots=True)
class Store:
    """`{{ $x := pipeline }}` or `{{ $x = pipeline }}`: nothing is written."""

    slot: int
    expression: Expression

    def render(self, frame: Frame) -> None:
        """Remembered."""
        frame.slots[self.slot] = self.expression.evaluate(frame)


@dataclass(frozen=True, slots=True)
class Branch:
    """The parts that are rendered when the condition is not empty, false or 0.

    The condition's value goes to `slots`: a variable that is declared there, the dot of `with`.
    """

    condition: Expression
    slots: tuple[int, ...]
    parts: tuple[Part, ...]

    def is_taken(self, frame: Frame) -> bool:
        """Whether it is this branch; raises RenderError."""
        value = self.condition.evaluate(frame)
        for slot in self.slots:
            frame.slots[slot] = value
        return bool(value)


@dataclass(frozen=True, slots=True)
class Choice:
    """`if` or `with`, its `else if` or `else with`, and its `else`."""

    branches: tuple[Branch, ...]
    otherwise: tuple[Part, ...]

    def render(self, frame: Frame) -> None:
        """The first branch that is taken."""
        taken = next((one.parts for one in self.branches if one.is_taken(frame)), self.otherwise)
        for part in taken:
            part.render(frame)


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template. `flaw` says why it fails on every value, "" if it doesn't: such a one is
    always empty, as in the original.
    """

    parts: tuple[Part, ...]
    slot_count: int = 0
    flaw: str = ""

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


def shown(value: Value) -> bytes:
    """The value as Go prints it."""
    if isinstance(value, bytes):
        return value
    return str(value).lower().encode()

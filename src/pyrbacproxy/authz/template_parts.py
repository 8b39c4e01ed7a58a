"""The parts of a parsed template: expressions, which have values, and what actions write.

Whoever configures no template never imports them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from pyrbacproxy.authz.template import MOST_BYTES, Frame, Part, RenderError, Value

Function: TypeAlias = Callable[[Sequence[Value]], Value]


class Expression(Protocol):
    """What has a value."""

    def evaluate(self, frame: Frame) -> Value:
        """The value; raises RenderError."""
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


def shown(value: Value) -> bytes:
    """The value as Go prints it."""
    if isinstance(value, bytes):
        return value
    return str(value).lower().encode()

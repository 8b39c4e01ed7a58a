"""What a check comes to: it passed, it found something, or it could not be made."""

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias


class Severity(Enum):
    """An error breaks the scrape, the hand-over or the guard; a warning will, or hides one."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Passed:
    """A check that is well, and what was seen."""

    check: str
    what: str


@dataclass(frozen=True, slots=True)
class Unseen:
    """A check that could not be made, and why; `is_needed` if no audit is clean without it."""

    check: str
    why: str
    is_needed: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong, why that matters, and what to do about it."""

    check: str
    severity: Severity
    what: str
    why: str
    to_do: str


Outcome: TypeAlias = Passed | Unseen | Finding

"""`Flag`: what one flag is called, which values it takes and what becomes of it."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from pyrbacproxy.config import values

Pairs = tuple[tuple[str, int], ...] | tuple[tuple[str, bool], ...]
Value = str | bool | int | float | tuple[str, ...] | Pairs


class Kind(Enum):
    """A flag's type; the value is what `--help` calls it, pflag's word where it has one."""

    TEXT = "string"
    BOOL = "bool"
    INT = "int"
    UINT32 = "uint32"
    UINT64 = "uint64"
    FLOAT = "float32"
    DURATION = "duration"
    CSV = "strings"
    ARRAY = "stringArray"
    PATHS = "paths"  # as CSV, but an empty value clears what came before it
    LEVEL = "level"
    LEVELS = "pattern=N,..."
    GATES = "name=bool,..."
    VERSION = "version[=true]"


class Fate(Enum):
    """What becomes of a flag that is given."""

    WORKS = "works"
    WITHOUT_EFFECT = "accepted without effect, said once"
    DEAD = "a logging flag of old manifests: type-checked, warned about, without effect"


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag. `default` is text in its own grammar; `choices` are its only values, if any."""

    name: str
    kind: Kind
    default: str
    what: str
    fate: Fate = Fate.WORKS
    shorthand: str = ""
    choices: tuple[str, ...] = ()
    is_hidden: bool = False
    is_classified: bool = False  # no value of it is shown anywhere

    @property
    def default_value(self) -> Value:
        """The default, typed."""
        return self.parse(self.default)

    @property
    def is_list(self) -> bool:
        """Whether a second occurrence adds to the first."""
        return self.kind in (Kind.CSV, Kind.ARRAY, Kind.PATHS)

    @property
    def bare_value(self) -> str | None:
        """What the flag means without `=value`; None when a value must follow."""
        return "true" if self.kind in (Kind.BOOL, Kind.VERSION) else None

    def parse(self, text: str) -> Value:
        """The text as a value of this flag's kind; ValueError says what is wrong with it."""
        return _PARSERS[self.kind](text)


@dataclass(frozen=True, slots=True)
class Group:
    """Flags under one heading of the help."""

    title: str
    flags: tuple[Flag, ...]


def _one(text: str) -> tuple[str, ...]:
    return (text,)


_PARSERS: dict[Kind, Callable[[str], Value]] = {
    Kind.TEXT: str,
    Kind.BOOL: values.parse_bool,
    Kind.INT: values.parse_int,
    Kind.UINT32: values.parse_uint32,
    Kind.UINT64: values.parse_uint64,
    Kind.FLOAT: values.parse_float32,
    Kind.DURATION: values.parse_duration,
    Kind.CSV: values.parse_csv,
    Kind.ARRAY: _one,
    Kind.PATHS: values.parse_paths,
    Kind.LEVEL: values.parse_level,
    Kind.LEVELS: values.parse_level_patterns,
    Kind.GATES: values.parse_gates,
    Kind.VERSION: str,  # judged by the command line, which knows the program's version
}

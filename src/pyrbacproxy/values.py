"""`Frozen` and `Mutable`: classes of named fields, as dataclasses are, but cheap to define.

The program defines about a hundred of them when it starts. A dataclass compiles its methods when it
is defined, which takes 0.5 ms; here `__init__` is compiled when the first value is made, and the
other methods are shared. Type checkers treat both kinds as dataclasses (PEP 681).
"""

from typing import Any, ClassVar, Final, TypeVar, dataclass_transform

_MISSING: Final = object()
_set = object.__setattr__
Kind = TypeVar("Kind", bound="_Fields")


class _Field:
    __slots__ = ("default", "factory", "repr")

    def __init__(self, default: object, factory: object, *, repr: bool) -> None:  # noqa: A002
        self.default = default
        self.factory = factory
        self.repr = repr


def field(
    *,
    default: Any = _MISSING,
    default_factory: Any = _MISSING,
    repr: bool = True,  # noqa: A002 - as dataclasses.field has it
) -> Any:
    """As `dataclasses.field`: a default, or what makes one for each value.

    `repr=False` keeps secrets out of the representation.
    """
    return _Field(default, default_factory, repr=repr)


def _first_init(self: "_Fields", *args: object, **kwargs: object) -> None:
    cls = type(self)
    made = _init_of(cls)
    setattr(cls, "__init__", made)  # noqa: B010 - as above
    made(self, *args, **kwargs)


class _Fields:
    """What both kinds share: the fields of a class are its annotated names, its bases' first."""

    __match_args__: ClassVar[tuple[str, ...]] = ()
    _specified: ClassVar[dict[str, _Field]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        own = [
            name
            for name, annotation in cls.__annotations__.items()
            if not str(annotation).startswith(("ClassVar", "typing.ClassVar"))
        ]
        names = tuple(dict.fromkeys((*cls.__match_args__, *own)))
        setattr(cls, "__match_args__", names)  # noqa: B010 - mypy forbids the assignment
        specified = {name: cls.__dict__[name] for name in own if _is_specified(cls, name)}
        for name, spec in specified.items():
            if spec.default is _MISSING:
                delattr(cls, name)
            else:
                setattr(cls, name, spec.default)
        cls._specified = cls._specified | specified
        if "__init__" not in cls.__dict__:
            setattr(cls, "__init__", _first_init)  # noqa: B010 - as above

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(tuple(self.__dict__.values()))

    def __repr__(self) -> str:
        specified = self._specified
        shown = (
            f"{name}={getattr(self, name)!r}"
            for name in self.__match_args__
            if name not in specified or specified[name].repr
        )
        return f"{type(self).__qualname__}({', '.join(shown)})"


@dataclass_transform(field_specifiers=(field,))
class Mutable(_Fields):
    """A class of fields that may be assigned to; not hashable."""

    def __hash__(self) -> int:
        raise TypeError(f"{type(self).__name__} is not hashable")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Frozen(_Fields):
    """A class of fields that stay as they are; hashable when all of them are."""

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be assigned to")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be deleted")


def replace(value: Kind, **changes: object) -> Kind:
    """A copy of a value with other fields, as `dataclasses.replace`."""
    return type(value)(**{**value.__dict__, **changes})


def _is_specified(cls: type, name: str) -> bool:
    return isinstance(cls.__dict__.get(name), _Field)


def _init_of(cls: type[_Fields]) -> Any:
    """`__init__` with one parameter for each field, in order."""
    names = cls.__match_args__
    specified = cls._specified
    space: dict[str, object] = {"_set": _set, "_missing": _MISSING}
    parameters, lines = ["self"], []
    for name in names:
        taken = name
        spec = specified.get(name)
        if spec is not None and spec.factory is not _MISSING:
            space[f"_make_{name}"] = spec.factory
            parameters.append(f"{name}=_missing")
            taken = f"_make_{name}() if {name} is _missing else {name}"
        elif hasattr(cls, name):
            space[f"_default_{name}"] = getattr(cls, name)
            parameters.append(f"{name}=_default_{name}")
        else:
            parameters.append(name)
        assign = (
            f"_set(self, {name!r}, {taken})"
            if issubclass(cls, Frozen)
            else f"self.{name} = {taken}"
        )
        lines.append(f"    {assign}\n")
    source = f"def __init__({', '.join(parameters)}):\n{''.join(lines) or '    pass'}"
    exec(source, space)  # noqa: S102 - names of the class's own fields
    return space["__init__"]

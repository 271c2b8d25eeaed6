"""Dataclasses and named tuples as arguments: their fields, and instances of values or types."""

from __future__ import annotations

import dataclasses
import difflib
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from calque.transpiler.ir import treedefs


@dataclass(frozen=True)
class RecordField:
    """A field of a dataclass or named tuple."""

    name: str
    annotation: Any
    has_default: bool
    is_static: bool = False  # part of the structure of a pytree: its value is always known
    is_taken: bool = True  # by the constructor; others are set by ``__post_init__``
    has_position: bool = True


class UnfitRecord(ValueError):
    """Values of which no instance of a dataclass or named tuple can be made."""


def is_record(cls: Any) -> bool:
    """True for a dataclass and for a class of named tuples.

    >>> from collections import namedtuple
    >>> is_record(namedtuple("Point", "x y")), is_record(tuple), is_record(3)
    (True, False, False)
    """
    if not isinstance(cls, type) or getattr(cls, "__calque_leaf__", False):
        return False
    return dataclasses.is_dataclass(cls) or (treedefs.is_named(cls) and hasattr(cls, "_fields"))


def fields_of(cls: Any) -> dict[str, RecordField]:
    """The fields of a dataclass or named tuple by their names, in order.

    >>> from collections import namedtuple
    >>> list(fields_of(namedtuple("Point", "x y")))
    ['x', 'y']
    """
    if not dataclasses.is_dataclass(cls):
        given = getattr(cls, "__annotations__", {})
        texts = {n: getattr(a, "__forward_arg__", a) for n, a in given.items()}
        defaults = cls._field_defaults
        return {n: RecordField(n, texts.get(n), n in defaults) for n in cls._fields}
    missing = dataclasses.MISSING
    return {
        f.name: RecordField(
            f.name,
            f.type,
            f.default is not missing or f.default_factory is not missing,
            bool(f.metadata.get("static", False)),
            f.init,
            f.init and not f.kw_only,
        )
        for f in dataclasses.fields(cls)
    }


def names_around(cls: type) -> Mapping[str, Any]:
    """The names of the module in which a class is defined, for annotations that are texts."""
    return vars(sys.modules[cls.__module__]) if cls.__module__ in sys.modules else {}


def unknown_field(cls: type, name: str) -> str:
    """The message about a field that a class has not.

    >>> from collections import namedtuple
    >>> unknown_field(namedtuple("Point", "first second"), "secnd")
    'Point has no field secnd; did you mean second?'
    """
    known = [f.name for f in fields_of(cls).values() if f.is_taken]
    close = difflib.get_close_matches(name, known, n=1)
    return f"{cls.__name__} has no field {name}" + (f"; did you mean {close[0]}?" if close else ".")


def written_out(cls: type) -> str:
    """The call that makes an instance, to be completed.

    >>> from collections import namedtuple
    >>> written_out(namedtuple("Point", "x y"))
    'Point(x=..., y=...), with a type or a value for each field'
    """
    taken = (f"{field.name}=..." for field in fields_of(cls).values() if field.is_taken)
    return f"{cls.__name__}({', '.join(taken)}), with a type or a value for each field"


def instance_of(cls: Any, values: Mapping[str, Any], has_types: bool) -> Any:
    """An instance of a dataclass or named tuple with these fields; others have their defaults.

    ``has_types``: types stand for some values, which ``__post_init__`` could not compute with: it
    is not called. Raises UnfitRecord where there is no such instance.

    >>> from collections import namedtuple
    >>> instance_of(namedtuple("Point", "x y"), {"x": 1, "y": 2}, False)
    Point(x=1, y=2)
    """
    fields = fields_of(cls)
    _check_names(cls, values, fields.values())
    if not has_types or hasattr(cls, "_make"):
        try:
            return cls(**values)
        except Exception as error:  # a user's class may raise anything
            raise UnfitRecord(f"{cls.__name__} raises {type(error).__name__}: {error}") from None
    made: Any = object.__new__(cls)
    for field in dataclasses.fields(cls):
        if field.name in values:
            value = values[field.name]
        elif field.default_factory is not dataclasses.MISSING:
            value = field.default_factory()
        elif field.default is not dataclasses.MISSING:
            value = field.default
        else:
            raise UnfitRecord(
                f"{cls.__name__}.{field.name} is set when an instance is made: give real values."
            )
        object.__setattr__(made, field.name, value)
    return made


def _check_names(cls: type, values: Mapping[str, Any], fields: Iterable[RecordField]) -> None:
    """Raise UnfitRecord for a field that is unknown, and for one that is missing."""
    taken = {field.name for field in fields if field.is_taken}
    for name in values:
        if name not in taken:
            raise UnfitRecord(unknown_field(cls, name))
    needed = [f.name for f in fields if f.is_taken and not f.has_default]
    lacking = [name for name in needed if name not in values]
    if lacking:
        raise UnfitRecord(f"{cls.__name__} needs {', '.join(lacking)}, too.")

"""Numbers that have one class on some paths and another class on others.

After ``t = 0.1`` and ``if x[0] < 0.0: t = f4[0]``, ``t`` is Python's float or a float32: times a
float32 array it is float32 either way, times 0.1 it is not. Such a number is its common value, and
what its classes are. Where nothing asks for the class, that is all; where something does, the
function is interpreted again, and each such number also says which of its classes it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from calque.transpiler.errors import BranchMismatch, ClassesNeeded
from calque.transpiler.frontend.values.containers.array_kinds import ArrayKind
from calque.transpiler.frontend.values.containers.container_kinds import kind
from calque.transpiler.frontend.values.descriptions import (
    DEAD,
    MISSING,
    Constant,
    Leaf,
    Structure,
    is_number,
    same_constant,
)
from calque.transpiler.ir.builder import FUNCTIONS, Array, atom, current, type_of
from calque.transpiler.ir.core import Atom, If, Var
from calque.transpiler.ir.types import BOOL, INT, ArrayType, promote
from calque.transpiler.primitives.base import apply, raise_where
from calque.transpiler.primitives.logic import not_, or_

_PYTHON = {"b": bool, "i": int, "f": float, "c": complex}
_DIGITS = {2: 11, 4: 24, 8: 53, 16: 53}  # bits of a float's integers that are exact, by its size


@dataclass(frozen=True, eq=False)
class Alternative:
    """One of the classes of a number, and the value that it has there if that is known.

    ``any_float`` says that every floating dtype holds the value exactly: it is a zero or NaN.
    """

    type: ArrayType
    known: Any = None
    any_float: bool = False

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Alternative):
            return NotImplemented
        same = (self.type, self.any_float) == (other.type, other.any_float)
        return same and same_constant(self.known, other.known)

    def __hash__(self) -> int:
        return hash(self.type)

    @property
    def kind(self) -> Any:
        """The class in plain Python."""
        return _PYTHON[self.type.dtype.kind] if self.type.weak else self.type.dtype.type

    def held_by(self, dtype: np.dtype) -> bool:
        """True if a dtype holds the value exactly, whatever it is.

        >>> Alternative(INT).held_by(np.dtype("f8")), Alternative(INT, 3).held_by(np.dtype("f4"))
        (False, True)
        """
        own = self.type.dtype
        if self.known is not None:
            return _holds(dtype, self.known)
        if own == dtype or (self.any_float and dtype.kind in "fc"):
            return True
        if own.kind in "iu" and dtype.kind in "fc":
            size = dtype.itemsize // (2 if dtype.kind == "c" else 1)
            return 8 * own.itemsize - (own.kind == "i") <= _DIGITS[size]
        return np.can_cast(own, dtype, "safe")


def _holds(dtype: np.dtype, value: Any) -> bool:
    """True if a dtype holds a known number exactly."""
    plain = value.item() if isinstance(value, np.generic) else value
    try:
        with np.errstate(all="ignore"):
            made = dtype.type(plain).item()
    except (OverflowError, TypeError, ValueError):
        return False
    if isinstance(plain, int) or isinstance(made, int):
        return bool(made == plain)
    return repr(complex(made)) == repr(complex(plain))


class MixedNumber(Array):
    """A number whose class differs between paths.

    Its common value has the dtype that NumPy promotes the classes to. ``which`` says the class: of
    two whether it is the first, of more the place of one. Where a class has numbers that the common
    dtype does not hold, they are ``apart``, by the place of the class. Both are None and nothing as
    long as nothing has asked for classes.
    """

    __slots__ = ("alternatives", "apart", "which")

    def __init__(
        self,
        value: Var,
        alternatives: tuple[Alternative, ...],
        which: Any = None,
        apart: dict[int, Array] | None = None,
    ):
        super().__init__(value)
        self.alternatives = alternatives
        self.which = which
        self.apart = apart or {}
        self.kinds = frozenset(a.kind for a in alternatives)

    @property
    def common(self) -> Array:
        """The common value as a plain number: exact where ``is_exact`` says so."""
        return Array(self._value)

    def is_exact(self) -> bool:
        """True if the common value is the number itself on every path."""
        return all(a.held_by(self._value.type.dtype) for a in self.alternatives)

    @property
    def atom(self) -> Var:
        """The number as one Var, for reads of its value whatever its class."""
        if self.is_exact():
            return self._value
        self.require_classes()
        return exactly(self).atom

    def require_classes(self) -> None:
        """Start again if the number does not say which class it has; that of a list cannot."""
        if self.which is not None or len(self.alternatives) == 1:
            return
        origin = current().origin
        if current().machine.settings.telling:
            kinds = " or ".join(a.kind.__name__ for a in self.alternatives)
            raise BranchMismatch(
                f"What is computed here depends on the class of an element of a list: {kinds}.",
                origin,
                "append numbers of one class: float(v), or np.float64(v)",
            )
        raise ClassesNeeded(origin)

    def is_alternative(self, k: int) -> Any:
        """True if the number is of the class in place ``k``: a test, or a known truth."""
        if len(self.alternatives) > 2:
            return self.which == k
        return self.which if k == 0 else apply(not_, self.which)

    def alternative(self, k: int) -> Any:
        """The number where it is of the class in place ``k``, as a number of that class."""
        chosen = self.alternatives[k]
        if chosen.known is not None:
            return chosen.known
        return self.apart[k] if k in self.apart else converted(self.common, chosen.type)

    def of_class(self, t: ArrayType) -> Any:
        """The number, which is known to be of this class, or held by it."""
        return converted(self.as_dtype(t.dtype), t)

    def as_dtype(self, dtype: np.dtype) -> Array:
        """The number as NumPy brings it to the dtype in which it computes."""
        own = self._value.type.dtype
        if all(a.held_by(own) or own == dtype for a in self.alternatives):
            return converted(self.common, ArrayType(dtype))
        self.require_classes()
        *rest, last = range(len(self.alternatives))
        found = partial(self._brought, last, dtype)
        for k in reversed(rest):
            test, then, t = self.is_alternative(k), partial(self._brought, k, dtype), found
            found = partial(selected, test, then, t, ArrayType(dtype))
        return found()

    def _brought(self, k: int, dtype: np.dtype) -> Any:
        """The number where it is of the class in place ``k``, in another dtype."""
        try:
            return converted(self.alternative(k), ArrayType(dtype))
        except (OverflowError, TypeError, ValueError):  # no path reads it
            return dtype.type(0)


def selected(
    test: Any, then: Callable[[], Any], orelse: Callable[[], Any], t: ArrayType
) -> Any:
    """``then() if test else orelse()`` as a number of a type."""
    if not isinstance(test, Array):
        return then() if test else orelse()
    builder = current()
    with builder.block() as first:
        first.results.append(atom(then()))
    with builder.block() as second:
        second.results.append(atom(orelse()))
    out = Var(t, None, builder.origin)
    builder.emit(If((out,), atom(test), first, second, builder.origin))
    return Array(out)


def converted(value: Any, t: ArrayType) -> Any:
    """A number of another type; Python's own where that is weak."""
    if type_of(value) == t:
        return value
    if not isinstance(value, Array):
        with np.errstate(all="ignore"):
            return _PYTHON[t.dtype.kind](value) if t.weak else t.dtype.type(value)
    if value.dtype.kind == "c" and t.dtype.kind != "c":
        value = FUNCTIONS[np.real](value)  # no other class is complex there
    return FUNCTIONS[_PYTHON[t.dtype.kind]](value) if t.weak else FUNCTIONS["cast"](value, t.dtype)


def real_where_mixed(result: Any, wanted: bool) -> Any:
    """A result that is complex on some paths, as the real number of the others if so wanted.

    At run time an error where it is complex: a reverse sweep starts from a real number.
    """
    if not wanted or not isinstance(result, MixedNumber) or len(result.alternatives) != 2:
        return result
    real = [k for k, a in enumerate(result.alternatives) if a.type.dtype.kind != "c"]
    if len(real) != 1:
        return result
    result.require_classes()
    message = "the result is complex here, and real on other paths: take its .real"
    raise_where(apply(not_, result.is_alternative(real[0])), TypeError(message))
    return result.alternative(real[0])


def exactly(number: MixedNumber) -> Array:
    """The number in the common dtype; at run time an error where that has too few digits."""
    own = number.common.dtype
    limit = 1 << _DIGITS[own.itemsize]
    message = f"an integer beyond {limit} loses digits where it is a float on another path"
    for k, a in enumerate(number.alternatives):
        if a.held_by(own):
            continue
        large: Any = number.is_alternative(k)
        if k in number.apart:  # 0 where it is of another class
            apart: Any = number.apart[k]
            large = apply(or_, apart > limit, apart < -limit)
        raise_where(large, OverflowError(message))
    return number.common


def of_classes(item: Array, types: Iterable[ArrayType]) -> Array:
    """An element of a list that is kept in an array, as a number of the classes put into it.

    Python's and NumPy's numbers of one dtype count as NumPy's.
    """
    own = {t for t in types if t.dtype == item.dtype}
    if len(own) == len(set(types)) and any(not t.weak for t in own):
        return item
    alternatives = united(Alternative(t) for t in types)
    return MixedNumber(item._value, alternatives) if alternatives else item


# descriptions


def alternatives_of(value: Any) -> tuple[Alternative, ...] | None:
    """The classes that a number may have; None for other values, and for arrays."""
    if isinstance(value, MixedNumber):
        return value.alternatives
    if isinstance(value, Array):
        return None if value.ndim or value.is_buffer else (Alternative(value.type),)
    return (Alternative(type_of(value), value),) if is_number(value) else None


@dataclass(frozen=True)
class MixedStructure(Structure):
    """The description of a number that may be of several classes."""

    @property
    def alternatives(self) -> tuple[Alternative, ...]:
        """The classes."""
        return self.kind[1]

    def leaf_values(self, value: Any) -> list[Any]:
        """The common value, and where it is told, which class the number has."""
        if value is None:
            return super().leaf_values(value)
        missing = value is MISSING or value is DEAD
        return [value] * len(self.parts) if missing else parts_of(self, value)

    def leaf_type(self) -> ArrayType | None:
        return common_type(self.alternatives)

    def is_plain(self) -> bool:
        return True


@kind(MixedNumber)
class MixedNumberKind(ArrayKind):
    """The kind of numbers of several classes."""

    def describe(self, value: MixedNumber) -> MixedStructure:
        return mixed_structure(value.alternatives)


def described(description: Any) -> tuple[Alternative, ...] | None:
    """The classes that a number of this description may have; None for other descriptions."""
    if isinstance(description, MixedStructure):
        return description.alternatives
    if isinstance(description, Leaf):
        return None if description.type.ndim else (Alternative(description.type),)
    return alternatives_of(description.value) if isinstance(description, Constant) else None


def united(*groups: Iterable[Alternative]) -> tuple[Alternative, ...]:
    """All alternatives, ordered; a class with two different known values loses its known value."""
    found: dict[ArrayType, Alternative] = {}
    for alternative in (a for group in groups for a in group):
        before = found.setdefault(alternative.type, alternative)
        if before != alternative:
            both = all(a.any_float or _is_zero(a.known) for a in (before, alternative))
            found[alternative.type] = Alternative(alternative.type, None, both)
    return tuple(sorted(found.values(), key=_order))


def _is_zero(value: Any) -> bool:
    return value is not None and (value == 0 or value != value)


def _order(alternative: Alternative) -> tuple[Any, ...]:
    t = alternative.type
    return (not t.weak, "biufc".index(t.dtype.kind), t.dtype.itemsize)


def classes_together(description: Any, value: Any) -> tuple[Alternative, ...]:
    """The classes of a number of this description or this value; none if one is no number."""
    left, right = described(description), alternatives_of(value)
    return () if left is None or right is None else united(left, right)


def common_type(alternatives: Sequence[Alternative]) -> ArrayType:
    """The type to which classes are promoted; a wider one if it must hold all of them exactly."""
    dtype, weak = promote([a.type for a in alternatives])
    telling = current().machine.settings.telling
    if (telling or dtype.kind in "iu") and not all(a.held_by(dtype) for a in alternatives):
        wide = np.result_type(*(a.type.dtype for a in alternatives))
        as_pythons = ArrayType(wide, (), True)
        return as_pythons if any(a.type == as_pythons for a in alternatives) else ArrayType(wide)
    return ArrayType(dtype, (), weak)


def mixed_structure(alternatives: tuple[Alternative, ...]) -> MixedStructure:
    """The description of a number that may be of several classes."""
    common, parts = common_type(alternatives), []
    if current().machine.settings.telling:
        parts.append(Leaf(BOOL if len(alternatives) == 2 else INT))
    parts.append(Leaf(common))
    if current().machine.settings.telling:
        parts += [Leaf(alternatives[k].type) for k in _apart(alternatives, common)]
    rebuild = partial(_rebuilt, alternatives)
    return MixedStructure((MixedNumber, alternatives), rebuild, tuple(parts))


def _apart(alternatives: Sequence[Alternative], common: ArrayType) -> list[int]:
    """The places of classes whose numbers the common type does not hold."""
    unknown = [k for k, a in enumerate(alternatives) if a.known is None]
    return [k for k in unknown if not alternatives[k].held_by(common.dtype)]


def _rebuilt(alternatives: tuple[Alternative, ...], parts: list[Any]) -> MixedNumber:
    if len(parts) == 1:
        return MixedNumber(parts[0]._value, alternatives)
    which, common, *rest = parts
    if common._value.name:
        which._value.name = f"{common._value.name}_class"
        if len(alternatives) == 2:
            which._value.name = f"{common._value.name}_is_{alternatives[0].kind.__name__}"
    apart = dict(zip(_apart(alternatives, common.type), rest, strict=True))
    for k, array in apart.items():
        if common._value.name:
            array._value.name = f"{common._value.name}_{alternatives[k].kind.__name__}"
    return MixedNumber(common._value, alternatives, which, apart)


@dataclass(eq=False)
class LatePart:
    """A part of a number of several classes, recorded only when a block yields it."""

    made: Callable[[ArrayType], Atom]


def parts_of(description: MixedStructure, value: Any) -> list[Any]:
    """The parts of a number, in the order of the description."""
    alternatives = description.alternatives
    places = {a.type: k for k, a in enumerate(alternatives)}
    telling = current().machine.settings.telling
    common = description.parts[1 if telling else 0].type
    found: list[Any] = [_common_part(value, common)]
    if telling:
        found.insert(0, _which_part(value, places))
        found += [_apart_part(value, places, k) for k in _apart(alternatives, common)]
    return found


def _common_part(value: Any, t: ArrayType) -> Any:
    if isinstance(value, MixedNumber):
        if value._value.type == t:
            return value.common
        return LatePart(lambda t: atom(converted(value.as_dtype(t.dtype), t)))
    if isinstance(value, Array):
        late = t.weak and not value.type.weak  # of NumPy's number, Python's is made
        return LatePart(lambda t: atom(converted(value, t))) if late else value
    try:
        return converted(value, t)
    except (OverflowError, TypeError, ValueError):  # no path reads it
        return _PYTHON[t.dtype.kind](0)


def _which_part(value: Any, places: dict[ArrayType, int]) -> Any:
    def named(t: ArrayType) -> Any:
        k = places.get(t, 0)  # one that is not there yet is about to be
        return k == 0 if len(places) == 2 else k

    if not isinstance(value, MixedNumber):
        return named(type_of(value))
    value.require_classes()
    names = [named(a.type) for a in value.alternatives]
    if len(names) == len(places):
        return value.which

    def made(t: ArrayType) -> Atom:
        found: Any = names[-1]
        for k in range(len(names) - 1):
            then, orelse = (partial(lambda named: named, named) for named in (names[k], found))
            found = selected(value.is_alternative(k), then, orelse, t)
        return atom(found)

    return LatePart(made)


def _apart_part(value: Any, places: dict[ArrayType, int], k: int) -> Any:
    wanted = next(t for t, place in places.items() if place == k)
    if not isinstance(value, MixedNumber):
        return value if type_of(value) == wanted else _PYTHON[wanted.dtype.kind](0)
    own = next((i for i, a in enumerate(value.alternatives) if a.type == wanted), None)
    if own is None:  # no path reads it
        return _PYTHON[wanted.dtype.kind](0)
    if own in value.apart:
        return value.apart[own]
    return LatePart(lambda t: atom(converted(value.alternative(own), t)))

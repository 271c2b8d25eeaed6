"""Descriptions of what several paths, or iterations, leave in a place, and values brought to them.

A branch describes the values of its two arms, a loop what comes in and what each iteration leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import numpy as np

from calque.transpiler.errors import BranchMismatch
from calque.transpiler.frontend.values.descriptions import (
    DEAD,
    MISSING,
    Clash,
    Constant,
    Leaf,
    Structure,
    describe,
    is_number,
    join_types,
    same_constant,
)
from calque.transpiler.frontend.values.mixed_numbers import (
    LatePart,
    MixedStructure,
    classes_together,
    converted,
    mixed_structure,
)
from calque.transpiler.frontend.values.optional import Maybe, Mismatch, OptionalStructure, rebuilt
from calque.transpiler.frontend.values.tagged import TaggedStructure, TaggedValue
from calque.transpiler.ir import core
from calque.transpiler.ir.builder import FUNCTIONS, Array, atom, current, type_of
from calque.transpiler.ir.core import UNDEFINED, Var
from calque.transpiler.ir.types import ArrayType, symbol


def is_lasting(value: Any) -> bool:
    """True for a known value that is no number, and holds nothing that an iteration computed."""
    kinds = (str, bytes, type, FunctionType, BuiltinFunctionType, ModuleType, np.ufunc)
    return value is None or isinstance(value, kinds)


def widen(old: Any, value: Any, spread: bool = True) -> Any:
    """The description that covers ``old`` and one more value."""
    if isinstance(old, Clash):
        return old
    if isinstance(old, Constant) and (old.value is MISSING or old.value is DEAD):
        if isinstance(value, TaggedValue) and not value.may_be_missing():
            return Clash(value.message)
        return Leaf(type_of(value)) if is_number(value) else describe(value)
    if isinstance(value, Mismatch):
        return Clash(value.message)
    if value is MISSING:
        tagged = isinstance(old, TaggedStructure) and old.part_of(MISSING) is not None
        kept = tagged or isinstance(old, (Leaf, MixedStructure))
        return old if kept else Clash("it has no value on one path")
    classes = classes_together(old, value)
    if len(classes) > 1:
        return mixed_structure(classes)
    new: Any = describe(value)
    if isinstance(old, TaggedStructure) != isinstance(new, TaggedStructure):
        return _with_alternative(old, new, value, spread)
    if _may_be_none(old, new):
        return _optional(old, value)
    if isinstance(old, Constant) and isinstance(new, Constant):
        if same_constant(old.value, new.value):
            return old
        if not (is_number(old.value) and is_number(new.value)):
            return Clash(
                f"it is {_in_a_word(old.value)} on one path and {_in_a_word(new.value)} on another"
            )
    if isinstance(old, Structure) and isinstance(new, Structure):
        old, new = old.matched(new)
        if old.kind != new.kind:
            return Clash("its structure differs between two paths")
        pairs = list(zip(old.parts, old.parts_of(value), strict=True))
        if isinstance(old, TaggedStructure) and any(map(_is_sometimes_missing, pairs)):
            return Clash("it is of one of three kinds")
        parts = tuple(widen(a, b, spread) for a, b in pairs)
        clash = next((p for p in parts if isinstance(p, Clash)), None)
        return clash or replace(old, parts=parts)
    left, right = old.leaf_type(), new.leaf_type()
    if left is None or right is None:
        return Clash("it is a number or an array on one path and something else on another")
    zero = isinstance(old, Constant) and old.value is not False and old.value == 0
    joined = join_types(left, right, spread and zero and not left.ndim)
    return (
        Clash(f"it is {left} on one path and {right} on another")
        if joined is None
        else Leaf(joined)
    )


def _is_sometimes_missing(pair: tuple[Any, Any]) -> bool:
    """True if one alternative is a value, and the other is none."""
    description, value = pair
    missing = isinstance(description, Constant) and description.value is MISSING
    return missing != (value is MISSING)


def _with_alternative(old: Any, new: Any, value: Any, spread: bool) -> Any:
    """The description that covers a tagged value and one that has no tag, which is of its kinds."""
    if isinstance(old, TaggedStructure):
        tagged, pairs = old, [(part, value) for part in old.parts[1:]]
    else:
        tagged, pairs = new, [(old, value.first), (old, value.second)]
    for position, (part, given) in enumerate(pairs):
        if given is MISSING or (isinstance(part, Constant) and part.value is MISSING):
            continue  # that is no kind of value
        wider = widen(part, given, spread)
        if not isinstance(wider, (Clash, TaggedStructure)):
            return tagged.with_part(position, wider)
    return Clash("it is of one of three kinds")


def _is_none(description: Any) -> bool:
    return isinstance(description, Constant) and description.value is None


def _may_be_none(old: Any, new: Any) -> bool:
    """True if exactly one description is None, or one of them may be None."""
    optional = any(isinstance(d, OptionalStructure) for d in (old, new))
    return optional or _is_none(old) != _is_none(new)


def _optional(old: Any, value: Any) -> Any:
    """The description of a value that is None, or a number, an array or a tuple of these."""
    inner = old.parts[1] if isinstance(old, OptionalStructure) else None if _is_none(old) else old
    if value is not None:
        given = value.value if isinstance(value, Maybe) else value
        inner = describe(given) if inner is None else widen(inner, given, False)
    if isinstance(inner, Constant) and (inner_type := inner.leaf_type()) is not None:
        inner = Leaf(inner_type)
    if isinstance(inner, Clash):
        return inner
    if inner is None or not inner.is_plain():
        return Clash("it is None on one path and something else on another")
    return OptionalStructure((Maybe, 2), rebuilt, (Leaf(type_of(True)), inner))


def _in_a_word(value: Any) -> str:
    """A known value in a word."""
    if hasattr(value, "calque_refuse"):
        return "the time"
    return (
        repr(value)
        if value is None or isinstance(value, (int, float, str, bool))
        else (f"a {type(value).__name__}")
    )


def coerce(value: Any, t: ArrayType) -> core.Atom:
    """The atom of ``value`` as type ``t``, recording a cast or a spread if need be."""
    if value is MISSING or value is DEAD or value is UNDEFINED:
        return UNDEFINED
    if isinstance(value, LatePart):
        return value.made(t)
    have = type_of(value)
    if isinstance(value, np.ndarray):
        value = FUNCTIONS[np.asarray](value)
    if isinstance(value, Array):
        value = value.carried()
    if not isinstance(value, Array):
        value = _cast_constant(value, t)
        if t.ndim:
            return atom(FUNCTIONS[np.full](shape_of(t), value, t.dtype))
        return value
    if t.weak and not have.weak:
        value = converted(value, t)
    elif have.dtype != t.dtype:
        value = FUNCTIONS["cast"](value, t.dtype)
    if have.ndim != t.ndim:
        value = FUNCTIONS[np.full](shape_of(t), value, t.dtype)
    return value.atom


def _cast_constant(value: Any, t: ArrayType) -> Any:
    if t.weak:
        return {"b": bool, "i": int, "f": float, "c": complex}[t.dtype.kind](value)
    return t.dtype.type(value) if type_of(value).dtype != t.dtype or not t.ndim else value


def zero_of(t: ArrayType) -> Any:
    """The zero of a type without axes."""
    return _cast_constant(0, t)


def stand_in(t: ArrayType) -> Any:
    """Zeros of a type for a path that never reads them, none where only another has the size.

    Generated code may hand them on, ask for their sizes, or save them for a reverse sweep.
    """
    if not t.ndim:
        return zero_of(t)
    sizes: list[Any] = []
    for dim in t.dims:
        try:
            sizes.append(size_at_hand(dim))
        except BranchMismatch:
            sizes.append(0)
    return FUNCTIONS[np.zeros](tuple(sizes), t.dtype)


def fill(var: Any, definitions: Mapping[Var, Any]) -> None:
    """Let a number that some paths leave undefined, and none reads there, be zero on these."""
    made = definitions.get(var) if isinstance(var, Var) else None
    if not isinstance(made, core.If) or var.type.ndim:
        return
    place = made.outs.index(var)
    for arm in (made.then, made.orelse):
        if place < len(arm.results) and arm.results[place] is UNDEFINED:
            arm.results[place] = zero_of(var.type)
        elif place < len(arm.results):
            fill(arm.results[place], definitions)


def shape_of(t: ArrayType) -> tuple[Any, ...]:
    """The sizes of a type, as ints or as integers recorded from values in scope."""
    return tuple(size_at_hand(d) for d in t.dims)


def size_at_hand(dim: Any, pending: frozenset[str] = frozenset()) -> Any:
    """A dimension as an int or as a recorded integer read from an argument.

    ``pending`` symbols are being computed from the result, which must not depend on them.
    """
    builder = current()
    dim = builder.dims.resolve(dim)
    if isinstance(dim, int):
        return dim
    return combine(dim, lambda name: _symbol_at_hand(name, pending))


def combine(dim: Any, read: Callable[[str], Any]) -> Any:
    """A dimension computed from its symbols: positive terms, negative terms, then the constant."""
    if isinstance(dim, int):
        return dim
    total: Any = None
    for name, coefficient in sorted(dim.terms, key=lambda term: term[1] < 0):
        value = read(name)
        value = value if abs(coefficient) == 1 else abs(coefficient) * value
        if total is None:
            total = value if coefficient > 0 else -value
        else:
            total = total + value if coefficient > 0 else total - value
    if not dim.const:
        return total
    return total + dim.const if dim.const > 0 else total - (-dim.const)


def _symbol_at_hand(name: str, pending: frozenset[str]) -> Any:
    builder = current()
    for var in builder.leaf_of_param:
        for axis, dim in enumerate(var.type.dims):
            dim = builder.dims.resolve(dim)
            if not isinstance(dim, int) and dim.const == 0 and dim.terms == ((name, 1),):
                return builder.size_of(dim, Array(var), axis)
    for sizes in reversed(builder._sizes):
        for dim, var in sizes.items():
            if not isinstance(dim, int) and dim.const == 0 and dim.terms == ((name, 1),):
                return Array(var)
    if name in builder.dims.quotients:
        length, step = builder.dims.quotients[name]
        return (size_at_hand(length, pending) + (step - 1)) // step
    own = symbol(name)
    for var, dim in list(builder.dim_values.items()):
        if name not in pending and builder.dims.resolve(dim) == own:
            if var in builder.leaf_of_param:
                return Array(var)
            again = _computed_again(var, own, 8, pending | {name})
            if again is not None:
                return again
    raise BranchMismatch(
        "A number becomes an array in a loop, and the array's size is not known before the loop.",
        builder.origin,
        "start from an array of the right shape, with np.zeros",
    )


def _computed_again(var: Var, own: Any, depth: int, pending: frozenset[str]) -> Any:
    """An integer of the program, computed again from the arguments' sizes; None if it cannot be."""
    builder = current()
    made = builder.definitions.get(var)
    if not isinstance(made, core.Apply) or not made.primitive.cheap or not depth:
        return None
    args = []
    for arg in made.args:
        if not isinstance(arg, Var):
            args.append(arg)
            continue
        if arg in builder.leaf_of_param:
            args.append(Array(arg))
            continue
        dim = builder.dims.resolve(builder.dim_values[arg]) if arg in builder.dim_values else None
        if arg.type.ndim or dim == own:
            return None
        try:
            inner = None if dim is None else size_at_hand(dim, pending)
        except BranchMismatch:
            inner = None
        if inner is None:
            inner = _computed_again(arg, own, depth - 1, pending)
        if inner is None:
            return None
        args.append(inner)
    result = builder.apply(made.primitive, args, made.params)
    if isinstance(result, Array) and result.atom not in builder.dim_values:
        builder.dim_values[result.atom] = own
    return result


def fresh_leaf(t: ArrayType, made: list[Var], name: str | None = None) -> Array:
    """A new Var as an Array."""
    var = Var(t, name, current().origin)
    made.append(var)
    return Array(var)

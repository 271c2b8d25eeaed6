"""Powers of Python's numbers, whose class depends on a sign.

``2 ** k`` is an integer where ``k`` is not negative, and a float where it is. The sign is proven,
by ranges and by the tests around; or arguments that are integers decide, and calls where they give
another one have code of their own; or the program asks, and the result has a class on each path.
A float below zero to a fractional power is complex in Python: generated code raises ValueError.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from calque.transpiler.frontend.machine import Machine
from calque.transpiler.frontend.values.mixed_numbers import Alternative, MixedNumber
from calque.transpiler.ir.argument_signs import takes_sign
from calque.transpiler.ir.builder import FUNCTIONS, OPERATORS, Array, Builder, type_of, wrap
from calque.transpiler.ir.core import Apply, Atom, If, Var
from calque.transpiler.ir.path_conditions import facts_where
from calque.transpiler.ir.types import FLOAT, INT
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.elementwise import to_float
from calque.transpiler.primitives.logic import and_

_POSITIVE = ("exp", "exp2", "sqrt", "cosh", "hypot", "fabs")  # functions of NumPy's and Python's
_COMPLEX = "a negative number to a fractional power is complex: write complex(x) ** p"


def is_pythons_power(base: Any, exponent: Any) -> bool:
    """True if this is a power of Python's real numbers, one of them known at run time only."""
    if not isinstance(base, Array) and not isinstance(exponent, Array):
        return False
    return all(map(_is_pythons_number, (base, exponent)))


def _is_pythons_number(value: Any) -> bool:
    if isinstance(value, MixedNumber):
        return False
    if isinstance(value, Array):
        return value.type.weak and value.type.dtype.kind in "bif"
    return isinstance(value, (int, float)) and type_of(value).weak


def pythons_power(machine: Machine, base: Any, exponent: Any, node: Any) -> Any:
    """``base ** exponent``: an integer, a float, or either, as the exponent's sign decides."""
    if any(type_of(v).dtype.kind == "f" for v in (base, exponent)):
        _refuse_complex(machine, base, exponent, node)
        return OPERATORS["pow"](base, exponent)
    signs = possible_signs(machine, exponent)
    if -1 not in signs:
        return OPERATORS["pow"](base, exponent)
    if signs == {-1}:
        return _as_float(base, exponent)
    if 1 not in signs:
        return _one_or_fraction(machine, base, exponent)
    test = OPERATORS["ge"](exponent, 0)
    whole = lambda: OPERATORS["pow"](base, exponent)
    return machine.choose(test, whole, lambda: _as_float(base, exponent), node)


def _refuse_complex(machine: Machine, base: Any, exponent: Any, node: Any) -> None:
    """An error at run time where a base is negative and the exponent is no whole number."""
    if type_of(exponent).dtype.kind in "bi" or is_never_negative(machine, base):
        return
    below = base < 0
    if isinstance(exponent, Array):
        fractional = 0.0 < OPERATORS["mod"](exponent, 1.0)
        test = fractional if below is True else apply(and_, below, fractional)
    elif float(exponent).is_integer() or exponent != exponent:
        return
    else:
        test = below
    raises = lambda: machine.path_raises(ValueError(_COMPLEX), node)
    machine.fork(test, raises, lambda: None, node)


def is_never_negative(machine: Machine, value: Any, depth: int = 6) -> bool:
    """True if a number is known to be zero, more, or NaN: by its making, or by tests around."""
    if not isinstance(value, Array):
        return not value < 0
    builder = machine.builder
    if value.dtype.kind in "iu":
        return builder.magnitudes.of(value.atom)[0] >= 0
    if _is_told(machine, value.atom, ("greater", "greater_equal"), ("less", "less_equal")):
        return True
    made = builder.definitions.get(value.atom)
    if not isinstance(made, Apply) or not depth:
        return False
    args = [wrap(a) for a in made.args]
    inner = lambda a: is_never_negative(machine, a, depth - 1)
    match made.primitive.arithmetic:
        case "abs":
            return True
        case "negative":
            negated = ("less", "less_equal"), ("greater", "greater_equal")
            return _is_told(machine, made.args[0], *negated)
        case "multiply":
            return made.args[0] is made.args[1] or all(map(inner, args))
        case "power":
            even = type(args[1]) in (int, float) and args[1] % 2 == 0
            return even or inner(args[0])
        case "add" | "divide" | "min":
            return all(map(inner, args))
        case "max":
            return any(map(inner, args))
    scalar = made.primitive.scalar or ""
    return scalar in _POSITIVE or (made.primitive is to_float and inner(args[0]))


def _is_told(
    machine: Machine, value: Atom, holding: tuple[str, ...], failing: tuple[str, ...]
) -> bool:
    """True if one of these comparisons of a number with zero holds here, or one of those fails."""
    definitions = machine.builder.definitions
    for test, holds in machine.facts:
        made = definitions.get(test) if isinstance(test, Var) else None
        if not isinstance(made, Apply) or len(made.args) != 2:
            continue
        left, right = made.args
        name = made.primitive.arithmetic
        if right is value:
            left, right, name = right, left, _MIRRORED.get(name, "")
        if left is value and not isinstance(right, Var) and right == 0:
            if name in (holding if holds else failing):
                return True
    return False


_MIRRORED = {
    "less": "greater",
    "less_equal": "greater_equal",
    "greater": "less",
    "greater_equal": "less_equal",
}


def _as_float(base: Any, exponent: Any) -> Any:
    base = FUNCTIONS[float](base) if isinstance(base, Array) else float(base)
    return OPERATORS["pow"](base, exponent)


def _one_or_fraction(machine: Machine, base: Any, exponent: Any) -> Any:
    """A power whose exponent is at most zero: the integer 1 where it is zero."""
    found = _as_float(base, exponent)
    classes = (Alternative(INT, 1), Alternative(FLOAT))
    which = OPERATORS["eq"](exponent, 0) if machine.settings.telling else None
    return MixedNumber(found._value, classes, which)


def possible_signs(machine: Machine, value: Any) -> set[int]:
    """The signs that an integer may have here; if arguments decide, theirs is assumed.

    Known integers have one: {1}, {0} or {-1}.
    """
    if not isinstance(value, Array):
        return {(value > 0) - (value < 0)}
    builder = machine.builder
    dim = builder.dim_of(value) if value.type.dtype.kind == "i" else None
    if isinstance(dim, int):
        return {(dim > 0) - (dim < 0)}
    low, high = builder.magnitudes.of(value.atom)
    found = {s for s, possible in ((-1, low < 0), (0, low <= 0 <= high), (1, high > 0)) if possible}
    if dim is None or -1 not in found:
        return found
    dims = builder.dims
    with _facts_known(machine):
        if dims.is_exact(dim):
            if dims.nonnegative(dim):
                return found - {-1}
            if dims.nonnegative(-1 * dim - 1):
                return {-1}
            if dims.nonnegative(-1 * dim):
                return found - {1}
    sign = takes_sign(dims, dim) if dims.fits(dim) else None
    if sign is None:
        machine.unsigned |= set(_made_of(machine.builder, value.atom))
        return found
    return {-1} if sign < 0 else found - {-1}


def _made_of(builder: Builder, value: Atom) -> Iterator[Var]:
    """The numbers that an integer is computed of, or is on some path."""
    made = builder.definitions.get(value) if isinstance(value, Var) else None
    if isinstance(made, If):
        k = made.outs.index(value)
        yield from (v for b in (made.then, made.orelse) for v in _made_of(builder, b.results[k]))
    elif isinstance(made, Apply) and made.primitive.kind == "elementwise":
        yield from (v for a in made.args for v in _made_of(builder, a))
    elif isinstance(value, Var):
        yield value


@contextmanager
def _facts_known(machine: Machine) -> Iterator[None]:
    """Inside, ``dims`` knows the facts about integers that the tests around imply."""
    builder = machine.builder
    facts: list[Any] = []
    for test, holds in machine.facts:
        with builder.dims.given(facts):
            facts += facts_where(test, holds, builder)
    with builder.dims.given(facts):
        yield

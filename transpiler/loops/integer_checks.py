"""Insert range checks for integers that NumPy or Python would refuse, but a kernel would not.

Before::

    small[i] = np.int8(k + i)

After: ``small[i] = np.int8(bounded(k + i, -128, 127))``, which raises OverflowError as NumPy does.
A counter with known bounds is not checked, nor is one below a size: calls with larger sizes get a
program of their own. Operands of statements on arrays are checked before the loops over elements.
Integer exponents and shift counts that are not proven to be nonnegative are checked, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder, atom, wrap
from calque.transpiler.ir.core import Apply, Atom, Block, For, Statement, Var
from calque.transpiler.ir.path_conditions import blocks_given, facts_after
from calque.transpiler.ir.phases import label
from calque.transpiler.primitives.checked_numbers import (
    bounded,
    power_base,
    shift_count,
    whole_exponent,
)
from calque.transpiler.primitives.elementwise import astype, power, to_float, to_int
from calque.transpiler.primitives.integer_conversions import Conversion, conversions
from calque.transpiler.primitives.logic import left_shift, right_shift
from calque.transpiler.primitives.scalars import max_, min_

_END = 2.0**63


def check_integers(block: Block, builder: Builder) -> None:
    """Insert checks of the integers that are not proven to fit, in place."""
    with builder.active(), builder.dims.given([]):
        _block(block, builder, [])


@dataclass(eq=False)
class _ArrayLoop:
    """A loop over elements, and the checks to insert before it."""

    inside: set[Var]
    before: list[Statement] = field(default_factory=list)


def _block(block: Block, builder: Builder, loops: list[_ArrayLoop]) -> None:
    made: list[Statement] = []
    for s in block.statements:
        around: list[_ArrayLoop] = []
        if isinstance(s, Apply):
            made += _checks(s, builder, loops) + _of_sign(s, builder)
        elif isinstance(s, For) and s.scheduled:
            around = [*loops, _ArrayLoop(core.defined_vars(Block([s])))]
        for inner, facts in blocks_given(s, builder):
            with builder.dims.given(facts):
                _block(inner, builder, around)
        made += around[-1].before if around else []
        made.append(s)
        builder.dims.facts += facts_after(s, builder)
    block.statements[:] = made


def _checks(s: Apply, builder: Builder, loops: Sequence[_ArrayLoop]) -> list[Statement]:
    """The checks of a statement's integers, to insert before it; it then takes their results."""
    made: list[Statement] = []
    for conversion in conversions(s):
        given, args = s.args[conversion.position], list(s.args)
        value = _taken(given, builder)
        if isinstance(value, Var) and _fits(value, conversion, builder):
            args[conversion.position] = value
        elif s.primitive is astype:
            s.primitive, args = bounded, [value, *conversion.bounds]
        else:
            args[conversion.position], looks = _checked(value, conversion, builder, s)
            before = next((loop.before for loop in loops if given not in loop.inside), made)
            before += looks
        s.args = tuple(args)
    return made


def _of_sign(s: Apply, builder: Builder) -> list[Statement]:
    """The check that a NumPy integer's exponent, or a Python shift count, is not negative.

    Also of the base of a power of Python floats: zero to a negative power raises.
    """
    check: Any = None
    if s.primitive is power and not s.outs[0].type.ndim:
        t = s.out.type
        if t.dtype.kind in "iu" and not t.weak:
            check = whole_exponent  # for Python integers, tracing knew the sign
        elif t.dtype.kind == "f" and t.weak and _may_be_zero(s.args[0], builder):
            check = power_base
    elif s.primitive in (left_shift, right_shift) and s.out.type.weak:
        check = shift_count
    if check is None or not _may_be_negative(s.args[1], builder):
        return []
    place = int(check is not power_base)
    with builder.block() as block, builder.at(s.origin):
        looked_at = builder.apply(check, [wrap(a) for a in s.args[place:]], {})
    label(block.statements, s.phase)
    args = list(s.args)
    args[place] = atom(looked_at)
    s.args = tuple(args)
    return block.statements


def _may_be_zero(base: Atom, builder: Builder) -> bool:
    if not isinstance(base, Var):
        return bool(base == 0)
    made = builder.definitions.get(base)
    if isinstance(made, Apply) and made.primitive is to_float:
        low, high = builder.magnitudes.of(made.args[0])
        return low <= 0 <= high
    return True


def _may_be_negative(count: Atom, builder: Builder) -> bool:
    if not isinstance(count, Var):
        return bool(count < 0)
    if count.type.dtype.kind in "fc":
        return True
    if count.type.dtype.kind in "bu" or builder.magnitudes.of(count)[0] >= 0:
        return False
    place = builder.dim_of(wrap(count))
    return not (builder.dims.is_exact(place) and builder.dims.nonnegative(place))


def _taken(value: Atom, builder: Builder) -> Atom:
    """``x`` for ``int(x)`` of an integer ``x`` that 64 bits hold; otherwise the value itself."""
    made = builder.definitions.get(value) if isinstance(value, Var) else None
    if isinstance(made, Apply) and made.primitive is to_int:
        kind = made.args[0].type.dtype
        if kind.kind == "i" or (kind.kind == "u" and kind.itemsize < 8):
            return made.args[0]
    return value


def _fits(value: Var, conversion: Conversion, builder: Builder) -> bool:
    """True if an integer is proven within the bounds, maybe by an assumption on argument sizes."""
    (least, most), dims = conversion.bounds, builder.dims
    low, high = builder.magnitudes.of(value)
    if least <= low and high <= most:
        return True
    place = builder.dim_of(wrap(value))
    if not dims.is_exact(place):
        return False
    wanted = [place - least, most - place]
    before = dict(dims.assumptions)
    if all(map(dims.nonnegative, wanted)) or dims.assume_nonnegative(*wanted):
        sizes = [dims.of_arguments(d, dims.actual) for d in dims.assumptions.keys() - before.keys()]
        if all(not isinstance(size, int) or size >= 0 for size in sizes):
            return True
    dims.assumptions = before
    return False


def _checked(
    value: Any, conversion: Conversion, builder: Builder, s: Apply
) -> tuple[Var, list[Statement]]:
    """The variable of the checked integer, and the statements that check it."""
    (least, most), dtype = conversion.bounds, conversion.dtype
    with builder.block() as block, builder.at(s.origin):
        number = wrap(value)
        if isinstance(value, float):
            number = int(value) if abs(value) < _END else builder.apply(to_int, (value,), {})
        elif isinstance(value, Var) and value.type.dtype.kind == "u":
            least = max(least, 0)
        if conversion.held:
            number = _held(number, conversion)
        found = number
        if dtype != np.int64 or least == 0:
            found = builder.apply(bounded, (number, least, most), {"dtype": dtype})
    label(block.statements, s.phase)
    if isinstance(value, Var) and value in builder.dim_values:
        builder.dim_values[atom(found)] = builder.dim_values[value]
    return atom(found), block.statements


def _held(number: Any, conversion: Conversion) -> Any:
    """The number, clamped at the one bound that the conversion saturates at."""
    low, (least, most) = conversion.held == "low", conversion.bounds
    if isinstance(number, int):
        return max(number, least) if low else min(number, most)
    return max_(number, least) if low else min_(number, most)

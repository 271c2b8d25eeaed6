"""Initialize numbers and arrays that a loop sets in each iteration, without a value before it.

Before, with no value for ``error`` at the start::

    while i < 100 and not stopped:
        error = abs(x - y)
        ...

After: ``error`` is 0 before the loop, from which Numba infers its type. A loop that may run zero
times is put in a branch that is taken if it has an iteration: otherwise ``error`` stays undefined,
and reading it after the loop is Python's UnboundLocalError, as before. An array is one whose
elements are not set, if its sizes are known before the loop.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from calque.transpiler.frontend.control.value_join import size_at_hand
from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder, atom, wrap
from calque.transpiler.ir.core import (
    UNDEFINED,
    Apply,
    Atom,
    Block,
    For,
    Function,
    If,
    Statement,
    Var,
    While,
)
from calque.transpiler.ir.types import dim_symbols
from calque.transpiler.ir.uses import count_uses
from calque.transpiler.primitives.base import Primitive, apply
from calque.transpiler.primitives.called import inline
from calque.transpiler.primitives.creation import empty
from calque.transpiler.primitives.logic import (
    and_,
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    not_,
    not_equal,
    or_,
)

# operations that a loop's test may apply to known numbers
_KNOWN: dict[Primitive, Callable[..., Any]] = {
    less: operator.lt,
    less_equal: operator.le,
    greater: operator.gt,
    greater_equal: operator.ge,
    equal: operator.eq,
    not_equal: operator.ne,
    not_: operator.not_,
    and_: lambda a, b: a and b,
    or_: lambda a, b: a or b,
}


def initialize_before_loop(function: Function, builder: Builder) -> None:
    """Initialize such numbers of all loops, in place."""
    with builder.active():
        _within(function.body, builder, frozenset([UNDEFINED]))


def _within(block: Block, builder: Builder, unset: frozenset[Any]) -> None:
    """Initialize the numbers and arrays of the loops of a block.

    ``unset``: undefined values, and values undefined in the first iteration of an outer loop.
    """
    made: list[Statement] = []
    for s in block.statements:
        inside = unset
        if isinstance(s, (For, While)):
            inside |= {p for p, i in zip(s.phis, s.inits, strict=True) if i in unset}
        for inner in core.blocks_of(s):
            _within(inner, builder, inside)
        lines = [s]
        if isinstance(s, (For, While)):
            s.inits = tuple(
                _zero(phi) if i is UNDEFINED and _flagged(s, k, block) else i
                for k, (phi, i) in enumerate(zip(s.phis, s.inits, strict=True))
            )
        if isinstance(s, (For, While)) and _sets_all(s, unset, builder):
            before, certain = s.inits, _has_iteration(s)
            if certain or all(i is UNDEFINED for i in before if i in unset):
                with builder.block() as arrays, builder.at(s.origin):
                    s.inits = tuple(
                        _any_value(phi) if init in unset else init
                        for phi, init in zip(s.phis, before, strict=True)
                    )
                lines = [*arrays.statements, *([s] if certain else _guarded(s, before, builder))]
        for t in lines:
            t.phase = s.phase
        made += lines
    block.statements[:] = made


def _sets_all(s: For | While, unset: frozenset[Any], builder: Builder) -> bool:
    """True if ``s`` carries undefined values, of known sizes, that its body never reads."""
    if isinstance(s, For) and not isinstance(s.step, int):
        return False
    missing = {p for p, i in zip(s.phis, s.inits, strict=True) if i in unset}
    read = set().union(*(core.free_vars(b) for b in core.blocks_of(s)))
    known = all(
        dim_symbols(builder.dims.resolve(d)) <= builder.dims.arguments
        for p in missing
        for d in p.type.dims
    )
    return bool(missing) and known and missing.isdisjoint(read)


def _flagged(s: For | While, k: int, block: Block) -> bool:
    """True if a number is set with a flag and read only where it is true: ``return`` in a loop."""
    phi, result, out = s.phis[k], s.body.results[k], s.outs[k]
    for t in s.body.statements:
        if not isinstance(t, If) or result not in t.outs or phi.type.ndim:
            continue
        j = t.outs.index(result)
        for flag, done, start, after in zip(s.phis, s.body.results, s.inits, s.outs, strict=True):
            if start is not False or done not in t.outs:
                continue
            m = t.outs.index(done)
            arms = [(a.results[m], a.results[j]) for a in (t.then, t.orelse)]
            sets = [a for a in arms if a[0] is True and a[1] is not phi]
            rests = [a for a in arms if a == (flag, phi)]
            if sets and rests:
                once = sum(count_uses(b, phi) for b in core.blocks_of(s)) == 1
                return once and _read_under(after, out, block)
    return False


def _read_under(flag: Var, out: Var, block: Block) -> bool:
    """True if a number is read only in branches that are taken if a flag is true."""
    under = [s.then for s in core.walk(block) if isinstance(s, If) and s.test is flag]
    return count_uses(block, out) == sum(count_uses(then, out) for then in under)


def _any_value(phi: Var) -> Any:
    """Zero, or an array of the right sizes whose elements are not set."""
    if not phi.type.ndim:
        return _zero(phi)
    sizes = map(size_at_hand, phi.type.dims)
    made = apply(empty, *sizes, dtype=phi.type.dtype).atom
    made.name = phi.name
    return made


def _zero(phi: Var) -> Any:
    zero = phi.type.dtype.type(0)
    return zero.item() if phi.type.weak else zero


def _has_iteration(s: For | While) -> bool:
    """True if the loop is known to run at least once."""
    if isinstance(s, For):
        known = all(isinstance(a, int) for a in (s.start, s.stop, s.step))
        return known and len(range(s.start, s.stop, s.step)) > 0
    values: dict[Any, Any] = dict(zip(s.phis, s.inits, strict=True))

    def value(atom: Atom) -> Any:
        return values.get(atom) if isinstance(atom, Var) else atom

    for t in s.test.statements:
        found = _KNOWN.get(t.primitive) if isinstance(t, Apply) else None
        args = [value(a) for a in core.operands(t)]
        if found is not None and not any(a is None or a is UNDEFINED for a in args):
            if not any(isinstance(a, Var) for a in args):
                values[t.outs[0]] = found(*args)
    return value(s.test.results[0]) is True


def _guarded(s: For | While, before: tuple[Atom, ...], builder: Builder) -> list[Statement]:
    """The loop in a branch that is taken if it has an iteration, and the branch's test."""
    with builder.block() as made, builder.at(s.origin):
        if isinstance(s, For):
            ahead = less if s.step > 0 else greater
            test = atom(apply(ahead, wrap(s.start), wrap(s.stop)))
        else:
            (test,) = inline(builder, s.test, dict(zip(s.phis, before, strict=True)))
    outs = s.outs
    s.outs = tuple(Var(o.type, o.name, o.origin) for o in outs)
    branch = If(outs, test, Block([s], list(s.outs)), Block([], list(before)), s.origin)
    for out in outs:
        builder.definitions[out] = branch
    return [*made.statements, branch]

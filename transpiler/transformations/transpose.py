"""linear_transpose as an operation on a function that is being interpreted.

The transpose of a linear function is its reverse sweep, which needs no value of the forward phase.
A function is refused if that sweep needs such a value, or if it adds a constant to its arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.transpiler.autodiff.reverse import reverse
from calque.transpiler.errors import DtypeError, NotLinear, ShapeError
from calque.transpiler.frontend.machine import Machine
from calque.transpiler.frontend.values.descriptions import is_number
from calque.transpiler.ir import core, pytrees
from calque.transpiler.ir.builder import Array, Builder, type_of
from calque.transpiler.ir.core import Apply, Atom, Block, Function, If, Var
from calque.transpiler.ir.dead_code import prune
from calque.transpiler.ir.debug import watched
from calque.transpiler.ir.effects import is_plain_store
from calque.transpiler.primitives import scalars, transcendental
from calque.transpiler.primitives.base import Primitive
from calque.transpiler.primitives.called import same
from calque.transpiler.primitives.creation import (
    empty,
    empty_like,
    ones_like,
    stack_rows,
    zeros,
    zeros_like,
)
from calque.transpiler.primitives.elementwise import (
    add,
    divide,
    multiply,
    negative,
    positive,
    subtract,
    where,
)
from calque.transpiler.primitives.indexing import update, update_add
from calque.transpiler.primitives.joining import (
    column_stack,
    concatenate,
    dstack,
    hstack,
    stack,
    vstack,
)
from calque.transpiler.primitives.logic import frexp, modf
from calque.transpiler.transformations.derivatives import Inner, interpret_inner, or_zero, splice
from calque.transpiler.vectorize.divergence import mapped

# results are put together from operands, each of which must be linear, or zero
_JOINING = (
    add, subtract, where, stack_rows, concatenate, stack, vstack, hstack,
    column_stack, dstack, update, update_add,
)
# of the elementwise functions those that may be linear; and functions with pieces of slope one
_ELEMENTWISE = (
    add, subtract, multiply, divide, negative, positive,
    same,
    *(transcendental.deg2rad, transcendental.rad2deg, scalars.degrees),
    *(transcendental.radians, transcendental.degrees, scalars.radians),
)
_PIECES = frozenset([modf, frexp])
_LIKE = frozenset([zeros_like, ones_like, empty_like])
_HINT = "write it with sums, and with products by what does not depend on the linear arguments"


def linear_transpose(
    machine: Machine, function: Any, primals: Sequence[Any], cotangent: Any, node: Any
) -> tuple[Any, ...]:
    """The transpose of ``function`` at a cotangent: of the primals only the types matter."""
    varying = range(len(primals))
    inner = interpret_inner(machine, function, primals, {}, varying, False, node, True)
    for param in inner.params:
        if not param.type.is_float:
            raise TypeError(f"linear_transpose needs float or complex inputs, and got {param.type}")
    builder = machine.builder
    program = Function(_name(function), inner.params, inner.block, None)
    _require_linear(inner, _name(function))
    seeds = _seeds(inner, cotangent, builder)
    wrt = list(range(len(inner.params)))
    bars = watched("reverse", program, lambda: reverse(program, builder, wrt, seeds), builder)
    bars = [or_zero(b, p, machine, inner) for b, p in zip(bars, inner.params, strict=True)]
    inner.block.results = []
    wanted = {b.atom for b in bars if isinstance(b, Array)}
    prune(inner.block, set(wanted))
    _forget_shapes(inner.block, mapped(inner.block, inner.params), builder)
    prune(inner.block, wanted)
    _require_no_primals(inner, _name(function))
    to_value = splice(machine, inner, program)
    return tuple(pytrees.unflatten(inner.structure, [to_value(b) for b in bars]))


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _seeds(inner: Inner, cotangent: Any, builder: Builder) -> dict[int, Any]:
    """The cotangents of the results, which must have their structure and types."""
    leaves, structure = pytrees.flatten(cotangent)
    if structure != inner.result_structure:
        raise TypeError("linear_transpose: the cotangent must have the structure of the result")
    for leaf, result in zip(leaves, inner.leaves, strict=True):
        if not isinstance(leaf, Array) and not is_number(leaf):
            raise DtypeError(f"linear_transpose: the cotangent is a {type(leaf).__name__}.")
        have, want = type_of(leaf), type_of(result)
        if have.ndim != want.ndim or have.dtype != want.dtype:
            raise DtypeError(f"linear_transpose: a cotangent of type {have} is given for {want}.")
        try:
            for a, b in zip(have.dims, want.dims, strict=True):
                builder.unify(a, b)
        except ShapeError as error:
            error.message = f"linear_transpose: the cotangent does not fit: {error.message}"
            raise
    return dict(enumerate(leaves))


def _require_linear(inner: Inner, name: str) -> None:
    """Raise where a constant is added to the arguments, or a step has no slope by nature."""
    linear = mapped(inner.block, inner.params)
    live = {a for a in inner.block.results if isinstance(a, Var)}
    seen = Block(inner.block.statements, inner.block.results)
    prune(seen, live)
    statements = list(core.walk(seen))
    zero = {s.outs[0] for s in statements if isinstance(s, Apply) and _makes_zeros(s)}

    def constant(atom: Atom) -> bool:
        if isinstance(atom, Var):
            return atom.type.is_float and atom not in linear and atom not in zero
        return isinstance(atom, (float, complex, int, np.generic)) and bool(atom != 0)

    def refuse(s: Any, what: str) -> None:
        raise NotLinear(f"{name} is not linear: {what}.", s.origin, _HINT)

    for s in statements:
        if isinstance(s, If) and any(o in linear for o in s.outs):
            if any(map(constant, [*s.then.results, *s.orelse.results])):
                refuse(s, "a branch gives a constant")
        if not isinstance(s, Apply) or not any(a in linear for a in s.args if isinstance(a, Var)):
            continue
        if s.primitive in _JOINING and any(map(constant, _joined(s))):
            refuse(s, "a constant is added here")
        if not _may_be_linear(s.primitive):
            refuse(s, f"{s.primitive.name} is not")
    for atom, leaf in zip(inner.block.results, inner.leaves, strict=False):
        if constant(atom):
            raise NotLinear(
                f"{name} is not linear: a result is {leaf if not isinstance(leaf, Array) else 'a'}"
                " constant.",
                hint=_HINT,
            )


def _may_be_linear(primitive: Primitive) -> bool:
    if primitive.kind == "elementwise":
        return primitive in _ELEMENTWISE
    if primitive.kind in ("creation", "size"):
        return True
    return not primitive.nondifferentiable and primitive not in _PIECES


def _joined(s: Apply) -> tuple[Atom, ...]:
    if s.primitive is where:
        return s.args[1:]
    return s.args[:2] if is_plain_store(s) else s.args


def _makes_zeros(s: Apply) -> bool:
    return s.primitive in (zeros, zeros_like, empty, empty_like)


def _forget_shapes(block: Block, primals: set[Var], builder: Builder) -> None:
    """``np.zeros_like(x)`` of a primal with known sizes becomes ``np.zeros``."""
    for s in core.walk(block):
        if not isinstance(s, Apply) or s.primitive.like is None or s.args[0] not in primals:
            continue
        dims = [builder.dims.resolve(d) for d in s.args[0].type.dims]
        if all(isinstance(d, int) for d in dims):
            s.primitive, s.args = s.primitive.like, tuple(dims)


def _require_no_primals(inner: Inner, name: str) -> None:
    """Raise where the sweep needs a value that depends on the arguments."""
    needed = mapped(inner.block, inner.params, _LIKE)
    for s in core.walk(inner.block):
        if isinstance(s, Apply) and (s.primitive.kind == "size" or s.primitive in _LIKE):
            continue
        for atom in core.operands(s):
            if isinstance(atom, Var) and atom in needed:
                called = f"the value of {atom.name}" if atom.name else "a value"
                raise NotLinear(
                    f"{name} is not linear: {called}, which depends on the linear arguments, is "
                    "needed here.",
                    s.origin,
                    _HINT,
                )

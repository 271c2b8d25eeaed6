"""Jacobians: one derivative pass, batched over a basis of tangents or of cotangents.

``jacfwd`` pushes every unit tangent forward at once, ``jacrev`` pulls every unit cotangent back;
the values on which they do not depend are computed once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.transpiler.algebra.identity_folding import Basis
from calque.transpiler.autodiff.forward import forward
from calque.transpiler.autodiff.reverse import reverse
from calque.transpiler.errors import NotDifferentiable
from calque.transpiler.frontend.machine import Machine
from calque.transpiler.frontend.values.descriptions import is_number
from calque.transpiler.ir import pytrees
from calque.transpiler.ir.argument_signs import takes_sign
from calque.transpiler.ir.builder import FUNCTIONS, Array, Builder, type_of
from calque.transpiler.ir.core import Function, Var
from calque.transpiler.ir.debug import watched
from calque.transpiler.primitives.base import definition
from calque.transpiler.primitives.batched import spread
from calque.transpiler.primitives.diagonals import eye
from calque.transpiler.primitives.shapes import add_sizes, multiply_sizes
from calque.transpiler.transformations.derivatives import (
    Argnums,
    Inner,
    interpret_inner,
    positions_of,
    require_float,
    require_numbers,
    splice,
)
from calque.transpiler.vectorize.batch import batch


def _size(x: Any) -> Any:
    """The number of elements, with what is known of it."""
    total: Any = 1
    for size in x.shape if isinstance(x, Array) else ():
        total = multiply_sizes(total, size)
    return total


def unit_tangents(leaves: Sequence[Any]) -> tuple[list[Any], Any]:
    """For each leaf its own part of the unit vectors, none where there is but one number.

    Also how many there are.
    """
    if len(leaves) == 1 and not type_of(leaves[0]).ndim:
        return [], 1
    if len(leaves) == 1 and type_of(leaves[0]).ndim == 1:
        (x,) = leaves
        return [FUNCTIONS[np.eye](x.shape[0], dtype=x.dtype)], x.shape[0]
    sizes = [_size(x) for x in leaves]
    total: Any = 0
    for size in sizes:
        total = add_sizes(total, size)
    whole = FUNCTIONS[np.eye](total)
    parts, offset = [], 0
    for k, (x, size) in enumerate(zip(leaves, sizes, strict=True)):
        stop = add_sizes(offset, size)
        part = whole if len(leaves) == 1 else whole[:, _part(k, len(leaves), offset, stop)]
        shape = x.shape if isinstance(x, Array) else ()
        part = FUNCTIONS[np.reshape](part, (total, *shape))
        parts.append(FUNCTIONS["cast"](part, type_of(x).dtype))
        offset = stop
    return parts, total


def _part(k: int, count: int, start: Any, stop: Any) -> slice:
    return slice(start if k else None, stop if k < count - 1 else None)


def pieces(whole: Any, leaves: Sequence[Any], axis: int) -> list[Any]:
    """Cut an axis of basis vectors into one piece for each leaf, in its shape."""
    before, after = tuple(whole.shape[:axis]), tuple(whole.shape[axis + 1 :])
    found, offset = [], 0
    for k, x in enumerate(leaves):
        stop = add_sizes(offset, _size(x))
        index = (slice(None),) * axis + (_part(k, len(leaves), offset, stop),)
        part = whole if len(leaves) == 1 else whole[index]
        shape = x.shape if isinstance(x, Array) else ()
        if len(shape) != 1:
            part = FUNCTIONS[np.reshape](part, (*before, *shape, *after))
        found.append(part)
        offset = stop
    return found


def varying(
    machine: Machine,
    function: Any,
    args: Sequence[Any],
    argnums: Argnums,
    holomorphic: bool,
    name: str,
) -> tuple[tuple[int, ...], list[Any]]:
    wanted = positions_of(argnums, len(args), getattr(function, "__name__", "the function"))
    require_numbers(args, wanted, machine, name, True)
    leaves, _ = pytrees.flatten([args[i] for i in wanted])
    require_float(leaves, machine, False, holomorphic, name)
    return wanted, [x for x in leaves if isinstance(x, Array) or is_number(x)]


def _require_whole(leaves: Sequence[Any], holomorphic: bool, name: str, what: str) -> None:
    """A real Jacobian says half of what a function of complex numbers does: JAX refuses it too."""
    kinds = [type_of(x) for x in leaves if isinstance(x, Array) or is_number(x)]
    wrong = next((t for t in kinds if (t.dtype.kind == "c") != holomorphic), None)
    if wrong is None or (holomorphic and wrong.dtype.kind in "biu"):
        return
    if holomorphic:
        text, hint = "needs complex", "leave holomorphic=True out"
    else:
        text, hint = "needs real", "pass holomorphic=True, or use jvp or vjp"
    options = " with holomorphic=True" if holomorphic else ""
    raise NotDifferentiable(f"{name}{options} {text} {what}, and got {wrong}.", None, hint)


def structured(inner: Inner, argnums: Argnums, rows: Sequence[Sequence[Any]]) -> Any:
    """``rows[k][j]``, of result k by argument leaf j, as a tree of trees of arguments."""
    made = []
    for row in rows:
        by_argument = pytrees.unflatten(inner.structure, list(row))
        made.append(by_argument[0] if isinstance(argnums, int) else tuple(by_argument))
    return pytrees.unflatten(inner.result_structure, made)


def spliced(to_value: Any, found: Any) -> Any:
    """A tree of an inner block's values where its statements have been put."""
    return pytrees.tree_map(lambda x: to_value(x) if isinstance(x, Array) else x, found)


def _results(
    inner: Inner, argnums: Argnums, rows: Sequence[Sequence[Any]], to_value: Any
) -> tuple[Any, Any, Any]:
    """The Jacobian of these rows, the value and the auxiliary output."""
    value, aux = spliced(to_value, inner.result), spliced(to_value, inner.aux)
    return structured(inner, argnums, rows), value, aux


def jacfwd(
    machine: Machine,
    function: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    node: Any,
    *,
    argnums: Argnums,
    has_aux: bool,
    holomorphic: bool,
) -> tuple[Any, Any]:
    """The Jacobian, column by column all at once; and the auxiliary output."""
    wanted, leaves = varying(machine, function, args, argnums, holomorphic, "jacfwd")
    if not holomorphic:
        _require_whole(leaves, False, "jacfwd", "inputs")
    basis = unit_tangents(leaves)
    inner = interpret_inner(machine, function, args, kwargs, wanted, has_aux, node)
    if holomorphic:
        _require_whole(inner.leaves, True, "jacfwd", "results")
    return _by_columns(machine, inner, leaves, argnums, basis)[::2]


def _by_columns(
    machine: Machine, inner: Inner, leaves: Sequence[Any], argnums: Argnums, units: Any
) -> tuple[Any, Any, Any]:
    """The Jacobian by unit tangents, the value and the auxiliary output."""
    basis, size = units
    program = Function("jacfwd", [], inner.block, None)
    dots = [Var(p.type, f"{p.name}_dot" if p.name else None, p.origin) for p in inner.params]
    given = {p: Array(d) if basis else 1.0 for p, d in zip(inner.params, dots, strict=True)}
    found = watched(
        *("forward", program, lambda: forward(program, machine.builder, given)),
        machine.builder,
    )
    results = found[: len(inner.leaves)]
    if not basis:
        to_value = splice(machine, inner, program)
        columns = [closed(to_value(d), x) for d, x in zip(results, inner.leaves, strict=True)]
        rows = [[c] for c in columns]
    else:
        program.body.results += [d.atom if isinstance(d, Array) else d for d in results]
        companions = dict(zip(dots, basis, strict=True))
        folds = basis_of(basis, size)
        batched = for_all_units(program, machine.builder, companions, size, folds)
        to_value = splice(machine, inner, program)
        rows = []
        for (dot, has), leaf in zip(batched[-len(results) :], inner.leaves, strict=True):
            diagonal = folds.diagonal(to_value(dot)) if has and folds else None
            if diagonal is not None:
                rows.append([diagonal])
                continue
            whole = full(to_value(dot), has, leaf, to_value, size)
            whole = np.moveaxis(whole, 0, -1)
            rows.append(pieces(whole, leaves, whole.ndim - 1))
    return _results(inner, argnums, rows, to_value)


def closed(dot: Any, leaf: Any) -> Any:
    """A tangent of its value's shape."""
    if dot is None:
        return np.zeros_like(leaf) if isinstance(leaf, Array) and leaf.ndim else 0.0
    return float(dot) if type(dot) is int else dot


def basis_of(basis: Sequence[Any], size: Any) -> Basis | None:
    """The ``Basis`` that folds products with unit vectors away, if it is an identity matrix."""
    if len(basis) != 1 or not isinstance(basis[0], Array) or basis[0].ndim != 2:
        return None
    made = definition(basis[0])
    return Basis(basis[0], size) if made is not None and made.primitive is eye else None


def for_all_units(
    program: Function, builder: Builder, companions: dict[Var, Any], size: Any, folds: Basis | None
) -> list[tuple[Any, bool]]:
    """The program for all unit vectors; products with them are folded away."""
    before, builder.fold = builder.fold, folds.fold if folds else builder.fold
    try:
        return watched("batch", program, lambda: batch(program, builder, companions, size), builder)
    finally:
        builder.fold = before


def full(dot: Any, has: bool, leaf: Any, to_value: Any, size: Any) -> Any:
    """The tangents of one result for every basis vector."""
    if dot is None:
        dot, has = closed(None, to_value(leaf)), False
    return dot if has else spread(dot, size)


def jacrev(
    machine: Machine,
    function: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    node: Any,
    *,
    argnums: Argnums,
    has_aux: bool,
    holomorphic: bool,
) -> tuple[Any, Any]:
    """The Jacobian, row by row all at once; and the auxiliary output."""
    wanted, leaves = varying(machine, function, args, argnums, holomorphic, "jacrev")
    inner = interpret_inner(machine, function, args, kwargs, wanted, has_aux, node, True)
    return _by_rows(machine, inner, leaves, argnums, holomorphic, "jacrev")[::2]


def _by_rows(
    machine: Machine,
    inner: Inner,
    leaves: Sequence[Any],
    argnums: Argnums,
    holomorphic: bool,
    name: str,
) -> tuple[Any, Any, Any]:
    """The Jacobian by unit cotangents, the value and the auxiliary output."""
    builder = machine.builder
    for leaf in inner.leaves:
        if not isinstance(leaf, Array) and not is_number(leaf):
            raise NotDifferentiable(
                f"{name}: the function returns a {type(leaf).__name__}.", builder.origin
            )
    _require_whole(inner.leaves, holomorphic, name, "results")
    program = Function(name, [], inner.block, None)
    builder.blocks.append(inner.block)
    builder._sizes.append({})
    try:
        basis, size = unit_tangents(inner.leaves)
    finally:
        builder.blocks.pop()
        builder._sizes.pop()
    bars = [Var(type_of(x), None, builder.origin) for x in inner.leaves]
    seeds = {k: Array(b) if basis else 1.0 for k, b in enumerate(bars)}
    wrt = list(range(len(inner.params)))
    program.params = inner.params
    found = watched("reverse", program, lambda: reverse(program, builder, wrt, seeds), builder)
    if not basis:
        to_value = splice(machine, inner, program)
        row = [closed(to_value(b), x) for b, x in zip(found, leaves, strict=True)]
        return _results(inner, argnums, [row], to_value)
    program.body.results += [b.atom if isinstance(b, Array) else b for b in found]
    companions = dict(zip(bars, basis, strict=True))
    folds = basis_of(basis, size)
    batched = for_all_units(program, builder, companions, size, folds)
    to_value = splice(machine, inner, program)
    size = to_value(size)
    outs = [to_value(x) for x in inner.leaves]
    columns = []
    for (bar, has), x in zip(batched[-len(found) :], leaves, strict=True):
        diagonal = folds.diagonal(to_value(bar)) if has and folds else None
        if diagonal is not None:
            columns.append([diagonal])
            continue
        whole = full(to_value(bar), has, x, lambda v: v, size)
        columns.append(pieces(whole, outs, 0))
    rows = [[column[k] for column in columns] for k in range(len(outs))]
    return _results(inner, argnums, rows, to_value)


def jacobian(
    machine: Machine,
    function: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    node: Any,
    *,
    argnums: Argnums,
    has_aux: bool,
    holomorphic: bool,
) -> tuple[Any, Any, Any]:
    """The Jacobian by the mode that takes fewer unit vectors, the value and the auxiliary output.

    Which mode is that, the sizes of the call at hand say; calls with the other order of sizes have
    a program of their own.
    """
    name = "jacobian"
    wanted, leaves = varying(machine, function, args, argnums, holomorphic, name)
    if not holomorphic:
        _require_whole(leaves, False, name, "inputs")
    inner = interpret_inner(machine, function, args, kwargs, wanted, has_aux, node, True)
    if _more_results(machine.builder, inner.leaves, leaves):
        _require_whole(inner.leaves, holomorphic, name, "results")
        return _by_columns(machine, inner, leaves, argnums, unit_tangents(leaves))
    return _by_rows(machine, inner, leaves, argnums, holomorphic, name)


def _more_results(builder: Builder, results: Sequence[Any], arguments: Sequence[Any]) -> bool:
    """True if there are not less results than arguments, counted by their elements.

    A number of results that is known is taken to be smaller than an unknown one of arguments, which
    calls then check; of products of unknown sizes the one with more factors is taken for greater.
    """
    numbers = [x for x in results if isinstance(x, Array) or is_number(x)]
    (out, out_factors), (given, given_factors) = map(_elements, (numbers, arguments))
    if out is None or given is None:
        return out_factors > given_factors
    if isinstance(out, int) and not isinstance(given, int):
        return takes_sign(builder.dims, given - out) == -1
    return takes_sign(builder.dims, out - given) != -1


def _elements(leaves: Sequence[Any]) -> tuple[Any, int]:
    """The number of elements as a dim, None where it is none; and the factors of the greatest."""
    total: Any = 0
    factors = 0
    for leaf in leaves:
        dims = type_of(leaf).dims
        unknown = [d for d in dims if not isinstance(d, int)]
        factors = max(factors, len(unknown))
        known = math.prod(d for d in dims if isinstance(d, int))
        if len(unknown) > 1:
            total = None
        if total is not None:
            total = total + (known * unknown[0] if unknown else known)
    return total, factors

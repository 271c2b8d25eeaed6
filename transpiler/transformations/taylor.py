"""Taylor mode: derivatives of higher order along a curve, by forward passes over one program.

A curve has derivatives ``x, x1, x2 ...`` by its parameter. A forward pass to which ``x1`` is the
tangent of ``x``, ``x2`` that of ``x1`` and so on adds the next derivative of each result. What a
pass computes that an earlier one has computed is merged, so an order costs what is new in it.
(Griewank, Walther: Evaluating Derivatives, chapter 13.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.transpiler.algebra.common_subexpressions import merge_equal
from calque.transpiler.autodiff.forward import forward
from calque.transpiler.errors import NotDifferentiable
from calque.transpiler.frontend.machine import Machine
from calque.transpiler.frontend.values.descriptions import is_number
from calque.transpiler.ir import pytrees
from calque.transpiler.ir.builder import Array, Builder, type_of, wrap
from calque.transpiler.ir.core import Function, Var
from calque.transpiler.ir.debug import watched
from calque.transpiler.transformations.derivatives import (
    Argnums,
    Inner,
    check_tangent,
    interpret_inner,
    splice,
)
from calque.transpiler.transformations.jacobian import (
    basis_of,
    closed,
    for_all_units,
    full,
    pieces,
    structured,
    unit_tangents,
    varying,
)


def derivatives_along(
    program: Function, builder: Builder, curve: dict[Var, Any], order: int, count: int
) -> list[list[Any]]:
    """The derivatives of the first ``count`` results, of order 1, 2 and so on to ``order``.

    ``curve`` has the next derivative of each derivative of an argument.
    """
    present: list[list[bool]] = []
    results = program.body.results
    latest = range(count)
    for _ in range(order):
        dots = watched("forward", program, lambda: forward(program, builder, curve), builder)
        made = [dots[k] for k in latest]
        latest = range(len(results), len(results) + count)
        results += [0.0 if d is None else d.atom if isinstance(d, Array) else d for d in made]
        present.append([d is not None for d in made])
        merge_equal(program.body)
        results = program.body.results
    start = len(results) - count * order
    return [
        [wrap(results[start + count * k + i]) if has else None for i, has in enumerate(row)]
        for k, row in enumerate(present)
    ]


def _values(program: Function, inner: Inner, to_value: Any) -> tuple[list[Any], Any]:
    """The leaves of the result and the auxiliary output; equal statements have been merged."""
    count = len(inner.leaves)
    kept = [to_value(wrap(r)) for r in program.body.results]
    leaves, structure = pytrees.flatten(inner.aux)
    return kept[:count], pytrees.unflatten(structure, kept[count : count + len(leaves)])


def jet(
    machine: Machine,
    function: Any,
    primals: Sequence[Any],
    series: Sequence[Sequence[Any]],
    node: Any,
) -> tuple[Any, list[Any]]:
    """The value, and the derivatives of the function along a curve.

    ``series[k]`` has the derivatives of order ``k + 1`` of the primals.
    """
    inner = interpret_inner(machine, function, primals, {}, range(len(primals)), False, node)
    count, latest = len(inner.params), inner.params
    curve: dict[Var, Any] = {}
    given = [_leaves_like(inner, terms, machine) for terms in series]
    for terms in given:
        made = [Var(type_of(t), None, machine.builder.origin) for t in terms]
        curve |= {v: Array(m) for v, m in zip(latest, made, strict=True)}
        inner.params, inner.actual = [*inner.params, *made], [*inner.actual, *terms]
        latest = made
    _require_results(inner, machine)
    program = Function("jet", inner.params[:count], inner.block, None)
    found = derivatives_along(program, machine.builder, curve, len(series), len(inner.leaves))
    to_value = splice(machine, inner, program)
    leaves, _ = _values(program, inner, to_value)
    rows = [[closed(to_value(d), x) for d, x in zip(row, leaves, strict=True)] for row in found]
    value = pytrees.unflatten(inner.result_structure, leaves)
    return value, [pytrees.unflatten(inner.result_structure, row) for row in rows]


def _leaves_like(inner: Inner, terms: Sequence[Any], machine: Machine) -> list[Any]:
    leaves, structure = pytrees.flatten(list(terms))
    if structure != inner.structure:
        raise TypeError("jet: a term of series has another structure than its primal")
    found = [x for x in leaves if isinstance(x, Array) or is_number(x)]
    for var, term in zip(inner.params, found, strict=False):
        check_tangent(Array(var), term, machine)
    return found


def _require_results(inner: Inner, machine: Machine) -> None:
    for leaf in inner.leaves:
        if not isinstance(leaf, Array) and not is_number(leaf):
            raise NotDifferentiable(
                f"The function returns a {type(leaf).__name__}, which has no derivative.",
                machine.builder.origin,
                "return numbers and arrays alone",
            )


def second_derivatives(
    machine: Machine,
    function: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    node: Any,
    *,
    name: str,
    argnums: Argnums,
    has_aux: bool,
) -> tuple[Any, Any]:
    """The diagonal of the Hessian, for "laplacian" its sum; and the auxiliary output.

    Each element of the arguments is a curve of its own, and all are followed at once.
    """
    wanted, leaves = varying(machine, function, args, argnums, False, name)
    basis, size = unit_tangents(leaves)
    inner = interpret_inner(machine, function, args, kwargs, wanted, has_aux, node)
    _require_results(inner, machine)
    _require_real(inner, leaves, machine, name)
    program = Function(name, [], inner.block, None)
    dots = [Var(p.type, f"{p.name}_dot" if p.name else None, p.origin) for p in inner.params]
    curve = {p: Array(d) if basis else 1.0 for p, d in zip(inner.params, dots, strict=True)}
    found = derivatives_along(program, machine.builder, curve, 2, len(inner.leaves))[1]
    if basis:
        companions = dict(zip(dots, basis, strict=True))
        folds = basis_of(basis, size)
        batched = for_all_units(program, machine.builder, companions, size, folds)
        batched = batched[-len(found) :]
    else:
        batched = [(d, False) for d in found]
    to_value = splice(machine, inner, program)
    values, aux = _values(program, inner, to_value)
    rows = []
    for (dot, has), made, leaf in zip(batched, found, values, strict=True):
        dot = None if made is None else to_value(dot)
        if not basis:
            rows.append([closed(dot, leaf)])
            continue
        whole = full(dot, has, leaf, lambda x: x, size)
        if name == "laplacian":
            rows.append([np.sum(whole, axis=0)])
        else:
            whole = np.moveaxis(whole, 0, -1)
            rows.append(pieces(whole, leaves, whole.ndim - 1))
    if name == "laplacian":
        return pytrees.unflatten(inner.result_structure, [row[0] for row in rows]), aux
    return structured(inner, argnums, rows), aux


def _require_real(inner: Inner, leaves: Sequence[Any], machine: Machine, name: str) -> None:
    wrong = [type_of(x) for x in (*leaves, *inner.leaves) if type_of(x).dtype.kind == "c"]
    if wrong:
        raise NotDifferentiable(
            f"{name} needs real arguments and results, and got {wrong[0]}.",
            machine.builder.origin,
            "take the real and the imaginary part as arguments of their own",
        )

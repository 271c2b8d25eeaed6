"""grad, jvp, vjp ... as operations on a function that is being interpreted.

A transformation interprets its function in a block of its own, rewrites that block by a pass, and
puts it where the call stands. So transformations nest, and can be called inside a function that is
itself transformed; a captured run-time value is a constant to the inner one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calque.transpiler.autodiff.forward import forward
from calque.transpiler.autodiff.reverse import reverse
from calque.transpiler.errors import NotDifferentiable, Origin
from calque.transpiler.frontend.machine import Machine
from calque.transpiler.frontend.trace import listed
from calque.transpiler.frontend.values.descriptions import is_number
from calque.transpiler.frontend.values.kinds import kinds_of
from calque.transpiler.frontend.values.mixed_numbers import real_where_mixed
from calque.transpiler.frontend.values.strings import RuntimeText
from calque.transpiler.ir import core, pytrees
from calque.transpiler.ir.builder import Array, type_of
from calque.transpiler.ir.core import Block, Function, Var
from calque.transpiler.ir.dead_code import remove_dead_code
from calque.transpiler.ir.debug import watched
from calque.transpiler.ir.naming import tell_apart
from calque.transpiler.ir.rewrite import copy_facts
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.late import Late
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.creation import zeros
from calque.transpiler.spmd.mesh_variance import cast_to_varying
from calque.transpiler.transformations.lent_cells import LentCells, copies

if TYPE_CHECKING:
    from calque.transpiler.autodiff.rules import bounded_memory
else:
    bounded_memory = Late("calque.transpiler.autodiff.rules.bounded_memory")

Argnums = int | tuple[int, ...]


@dataclass(eq=False)
class Inner:
    """A function interpreted in a block of its own: fresh parameters for the leaves that vary."""

    block: Block
    params: list[Var]
    actual: list[Any]
    structure: Any  # of the varying arguments
    result: Any
    leaves: list[Any]  # of the result
    result_structure: Any
    aux: Any = None


def positions_of(
    argnums: Argnums, count: int, name: str, parameter: str = "argnums"
) -> tuple[int, ...]:
    """``argnums`` as nonnegative positions.

    >>> positions_of((0, -1), 3, "f")
    (0, 2)
    """
    numbers = argnums if isinstance(argnums, tuple) else (argnums,)
    for number in numbers:
        if not -count <= number < count:
            kind = TypeError if number >= 0 else ValueError
            raise kind(
                f"{parameter} {number} is out of range: {name} was given {count} "
                "positional arguments"
            )
    found = tuple(n % count for n in numbers)
    if len(set(found)) < len(found):
        raise TypeError(f"{parameter} {argnums} names an argument of {name} twice")
    return found


def interpret_inner(
    machine: Machine,
    function: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    varying: Sequence[int],
    has_aux: bool,
    node: Any,
    reversing: bool = False,
) -> Inner:
    """Interpret ``function`` with fresh parameters in place of the leaves of ``args[varying]``.

    ``reversing``: a reverse sweep is to come, which other transformations within may want to know.
    """
    with machine.before_passes(machine.derivatives + 1, reversing):
        inner = _interpret_inner(machine, function, args, kwargs, varying, has_aux, node)
    memory = machine.settings.saves_within
    if reversing and memory is not None:
        bounded_memory.bound_loops(machine.builder, inner.block, memory)
    return inner


def _interpret_inner(
    machine: Machine,
    function: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    varying: Sequence[int],
    has_aux: bool,
    node: Any,
) -> Inner:
    leaves, structure = pytrees.flatten([args[i] for i in varying])
    cells = LentCells(pytrees.flatten([*args, *kwargs.values()])[0])
    params: list[Var] = []
    fresh: list[Any] = []
    for leaf in leaves:
        if not isinstance(leaf, Array) and not is_number(leaf):
            fresh.append(leaf)
            continue
        var = Var(type_of(leaf), None, machine.builder.origin)
        if isinstance(leaf, Array):
            copy_facts(machine.builder, leaf.atom, var)
            machine.builder.kinds[var] = kinds_of(leaf)
        params.append(var)
        cell = cells.cell(var, leaf)
        cell.is_buffer = isinstance(leaf, Array) and leaf.is_buffer
        cell.leaf = leaf.leaf if isinstance(leaf, Array) else None
        fresh.append(cell)
    inner_args = [a if k in varying else copies(a, cells) for k, a in enumerate(args)]
    for position, value in zip(varying, pytrees.unflatten(structure, fresh), strict=True):
        inner_args[position] = value
    with machine.builder.block() as block:
        named = {key: copies(value, cells) for key, value in kwargs.items()}
        result = machine.call_value(function, inner_args, named, node)
        aux = None
        result = listed(result)
        if has_aux:
            if not isinstance(result, (tuple, list)) or len(result) != 2:
                raise NotDifferentiable(
                    "has_aux=True: the function must return a pair (value, aux).",
                    machine.builder.origin,
                    "return value, aux",
                )
            result, aux = result
        result, aux = real_where_mixed(listed(result), machine.reversing), listed(aux)
        result_leaves, result_structure = pytrees.flatten(result)
        block.results = [_atom(leaf) for leaf in result_leaves]
        block.results += [_atom(leaf) for leaf in pytrees.flatten(aux)[0]]
        cells.check(block)
    tell_apart(params)
    if machine.builder.varying is not None:
        cast_to_varying(block, machine.builder, machine.builder.varying)
    actual = [leaf for leaf in leaves if isinstance(leaf, Array) or is_number(leaf)]
    return Inner(block, params, actual, structure, result, result_leaves, result_structure, aux)


def _atom(leaf: Any) -> Any:
    return leaf.atom if isinstance(leaf, Array) else leaf


def _function(machine: Machine, inner: Inner, name: str) -> Function:
    function = Function(name, inner.params, inner.block, None)
    visible = set(core.free_vars(inner.block)) - set(inner.params)
    if not visible:
        remove_dead_code(function)
    return function


def splice(machine: Machine, inner: Inner, function: Function) -> Callable[[Any], Any]:
    """Put an inner block's statements where the call stands; a map from its atoms to values."""
    mapping: dict[Var, Any] = {
        p: _actual_atom(a, p.type) for p, a in zip(inner.params, inner.actual, strict=True)
    }
    for param, given in mapping.items():
        if given in machine.builder.leaf_of_param and given.name is None:
            given.name = param.name
    core.substitute(inner.block, mapping)
    target = machine.builder.blocks[-1]
    target.statements += inner.block.statements
    _tell_phases(machine, function)
    machine.decisions = machine.decisions + function.decisions

    def value(found: Any) -> Any:
        atom = found.atom if isinstance(found, Array) else found
        atom = mapping.get(atom, atom) if isinstance(atom, Var) else atom
        return Array(atom) if isinstance(atom, Var) else atom

    return value


def _tell_phases(machine: Machine, function: Function) -> None:
    """The phases that are told are those of the transformation that was put in place last."""
    made = list(core.walk(function.body))
    phases = [s.phase if function.swept else "" for s in made]
    for s in machine.phased:
        s.phase = ""
    for s, phase in zip(made, phases, strict=True):
        s.phase = phase
    machine.phased = made if function.swept else []


def _actual_atom(value: Any, t: ArrayType) -> Any:
    return value.atom if isinstance(value, Array) else value


def require_numbers(
    args: Sequence[Any], varying: Sequence[int], machine: Machine, name: str, some: bool = False
) -> None:
    """Raise if an argument that is differentiated by has leaves, none of which is a number.

    With ``some``, raise also if none of the arguments has leaves.
    """
    for position in varying:
        leaves = pytrees.flatten(args[position])[0]
        if any(isinstance(x, Array) or is_number(x) for x in leaves):
            some = False
        elif leaves:
            raise NotDifferentiable(
                f"{name}: argument {position} is a {type(args[position]).__name__}, which holds "
                "no number to differentiate by.",
                machine.builder.origin,
                "name the arguments that hold numbers in argnums",
            )
    if some:
        raise NotDifferentiable(
            f"{name}: argument {varying[0]} holds no number to differentiate by.",
            machine.builder.origin,
        )


def require_float(
    leaves: Sequence[Any], machine: Machine, allow_int: bool, holomorphic: bool, name: str
) -> None:
    """grad's arguments must be floating point."""
    for leaf in leaves:
        if not isinstance(leaf, Array) and not is_number(leaf):
            continue
        kind = type_of(leaf).dtype.kind
        if holomorphic and kind != "c":
            raise NotDifferentiable(
                f"{name} with holomorphic=True needs complex inputs, and got {type_of(leaf)}.",
                machine.builder.origin,
                "pass a complex number or array, or leave holomorphic=True out",
            )
        if kind in "biu" and not allow_int:
            raise NotDifferentiable(
                f"{name} needs real or complex inputs, and got {type_of(leaf)}.",
                machine.builder.origin,
                "pass a float, or allow_int=True",
            )


def value_and_grad(
    machine: Machine,
    function: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    node: Any,
    *,
    argnums: Argnums,
    has_aux: bool,
    holomorphic: bool,
    allow_int: bool,
    name: str = "grad",
) -> tuple[Any, Any, Any]:
    """The value, the gradient and the auxiliary output, as Arrays."""
    varying = positions_of(argnums, len(args), _name(function))
    require_numbers(args, varying, machine, name)
    leaves, _ = pytrees.flatten([args[i] for i in varying])
    require_float(leaves, machine, allow_int, holomorphic, name)
    inner = interpret_inner(machine, function, args, kwargs, varying, has_aux, node, True)
    _require_scalar(inner, machine, holomorphic, name)
    program = _function(machine, inner, _name(function))
    wrt = list(range(len(inner.params)))
    seed = 1.0 if inner.leaves else None
    bars = watched(
        *("reverse", program, lambda: reverse(program, machine.builder, wrt, {0: seed})),
        machine.builder,
    )
    bars = [or_zero(b, p, machine, inner) for b, p in zip(bars, inner.params, strict=True)]
    to_value = splice(machine, inner, program)
    given = iter(bars)
    made = [
        to_value(next(given)) if isinstance(leaf, Array) or is_number(leaf) else leaf
        for leaf in pytrees.flatten([args[i] for i in varying])[0]
    ]
    gradient = pytrees.unflatten(inner.structure, made)
    gradient = gradient[0] if isinstance(argnums, int) else tuple(gradient)
    value = pytrees.tree_map(lambda x: to_value(x) if isinstance(x, Array) else x, inner.result)
    aux = pytrees.tree_map(lambda x: to_value(x) if isinstance(x, Array) else x, inner.aux)
    return value, gradient, aux


def or_zero(bar: Any, param: Var, machine: Machine, inner: Inner) -> Any:
    """A zero adjoint of the parameter's type, recorded in the inner block."""
    if bar is not None and (isinstance(bar, Array) or not param.type.ndim):
        if isinstance(bar, Array):
            return bar
        typed = param.type.dtype.type(bar)  # the product of whole numbers is one, too
        return typed.item() if param.type.weak else typed
    builder = machine.builder
    builder.blocks.append(inner.block)
    builder._sizes.append({})
    try:
        if not param.type.is_float:
            return np.zeros_like(Array(param), dtype=float0_stand_in(param.type))
        if not param.type.ndim:
            return 0.0 if param.type.weak else param.type.dtype.type(0)
        return np.zeros_like(Array(param))
    finally:
        builder.blocks.pop()
        builder._sizes.pop()


def float0_stand_in(t: ArrayType) -> np.dtype:
    """The dtype of the derivative by an integer, as JAX's ``float0``: it holds nothing."""
    return np.dtype([("float0", "V")])


def _name(function: Any) -> str:
    return getattr(function, "__name__", type(function).__name__)


def said_of(leaf: Any) -> str:
    """A result that is no number: ``a text``, ``a deque``."""
    is_text = isinstance(leaf, (str, RuntimeText))
    return "a text" if is_text else f"a {type(leaf).__name__}"


def _require_scalar(inner: Inner, machine: Machine, holomorphic: bool, name: str) -> None:
    origin: Origin | None = machine.builder.origin
    hint = "sum the result, or use vjp or jacrev" if inner.leaves else "return the number"
    if len(inner.leaves) != 1 or inner.result is not inner.leaves[0]:
        raise NotDifferentiable(
            f"{name} needs a function with one scalar result; this one returns "
            f"{'nothing' if not inner.leaves else f'{len(inner.leaves)} values'}.",
            origin,
            hint,
        )
    (leaf,) = inner.leaves
    if not isinstance(leaf, Array) and not is_number(leaf):
        message = f"{name}: the function returns {said_of(leaf)}, and no number."
        raise NotDifferentiable(message, origin, "return the number")
    t = type_of(leaf)
    if t.ndim:
        raise NotDifferentiable(
            f"{name} needs a function with a scalar result; this one returns {t}.", origin, hint
        )
    if t.dtype.kind == "c" and not holomorphic:
        raise NotDifferentiable(
            f"{name} needs a real result, and got a complex one.",
            origin,
            "take the real part, or pass holomorphic=True",
        )
    if holomorphic and t.dtype.kind != "c":
        raise NotDifferentiable(
            f"{name} with holomorphic=True needs a complex result, and got {t}.",
            origin,
            "return a complex number, or leave holomorphic=True out",
        )
    if t.dtype.kind in "biu":
        raise NotDifferentiable(
            f"{name} needs a real result, and got {t}.",
            origin,
            "return a float; what is piecewise constant has no gradient",
        )


def jvp(
    machine: Machine,
    function: Any,
    primals: Sequence[Any],
    tangents: Sequence[Any],
    node: Any,
    has_aux: bool = False,
) -> tuple[Any, Any, Any]:
    """The function's value and its tangent."""
    varying = list(range(len(primals)))
    inner = interpret_inner(machine, function, primals, {}, varying, has_aux, node)
    given, _ = pytrees.flatten(list(tangents))
    leaves, _ = pytrees.flatten(list(primals))
    if len(given) != len(leaves):
        raise TypeError("jvp: primals and tangents must have the same structure")
    pairs = [
        (p, t) for p, t in zip(leaves, given, strict=True) if isinstance(p, Array) or is_number(p)
    ]
    known: dict[Var, Any] = {}
    for var, (primal, tangent) in zip(inner.params, pairs, strict=True):
        if var.type.is_float and not _is_float0(tangent):
            check_tangent(primal, tangent, machine)
            known[var] = tangent
            if isinstance(tangent, Array) and tangent.atom.name is None and var.name:
                tangent.atom.name = f"{var.name}_dot"
    program = _function(machine, inner, _name(function))
    dots = watched(
        *("forward", program, lambda: forward(program, machine.builder, known)),
        machine.builder,
    )
    count = len(inner.leaves)
    zeros = [
        _or_zero_like(d, leaf, machine, inner)
        for d, leaf in zip(dots[:count], inner.leaves, strict=True)
    ]
    to_value = splice(machine, inner, program)
    tangent_out = pytrees.unflatten(inner.result_structure, [to_value(z) for z in zeros])
    value = pytrees.tree_map(lambda x: to_value(x) if isinstance(x, Array) else x, inner.result)
    aux = pytrees.tree_map(lambda x: to_value(x) if isinstance(x, Array) else x, inner.aux)
    return value, tangent_out, aux


def _is_float0(value: Any) -> bool:
    dtype = getattr(value, "dtype", None)
    return dtype is not None and not isinstance(value, Array) and np.dtype(dtype).kind == "V"


def check_tangent(primal: Any, tangent: Any, machine: Machine) -> None:
    """A tangent has its primal's shape."""
    if not isinstance(tangent, Array) and not is_number(tangent):
        raise TypeError(f"jvp: a tangent is a {type(tangent).__name__}")
    if type_of(primal).ndim != type_of(tangent).ndim:
        raise NotDifferentiable(
            f"A tangent of type {type_of(tangent)} was given "
            f"for a primal of type {type_of(primal)}.",
            machine.builder.origin,
        )


def check_cotangent(result: Any, cotangent: Any, machine: Machine) -> None:
    """A cotangent has its result's shape."""
    if not all(isinstance(x, Array) or is_number(x) for x in (result, cotangent)):
        return
    wanted, given = type_of(result), type_of(cotangent)
    if wanted.ndim != given.ndim:
        raise NotDifferentiable(
            f"A cotangent of type {given} was given for a result of type {wanted}.",
            machine.builder.origin,
            "give it the result's shape, with np.broadcast_to for one",
        )
    for size, other in zip(wanted.dims, given.dims, strict=True):
        machine.builder.unify(size, other)


def _or_zero_like(dot: Any, leaf: Any, machine: Machine, inner: Inner) -> Any:
    if dot is not None:
        return dot
    t = type_of(leaf) if isinstance(leaf, Array) or is_number(leaf) else None
    if t is None:
        return leaf
    if isinstance(leaf, Array):
        return or_zero(None, leaf.atom, machine, inner)
    if not t.is_float:
        return apply(zeros, dtype=float0_stand_in(t))
    return 0.0 if t.weak else t.dtype.type(0)


def vjp(
    machine: Machine,
    function: Any,
    primals: Sequence[Any],
    cotangent: Any,
    node: Any,
    has_aux: bool = False,
) -> tuple[Any, tuple[Any, ...], Any]:
    """The function's value and its arguments' cotangents; ``cotangent(value)`` gives the seeds."""
    varying = list(range(len(primals)))
    inner = interpret_inner(machine, function, primals, {}, varying, has_aux, node, True)
    program = _function(machine, inner, _name(function))
    seeds, _ = pytrees.flatten(cotangent(inner.result) if callable(cotangent) else cotangent)
    if len(seeds) != len(inner.leaves):
        raise TypeError("vjp: the cotangent must have the structure of the function's result")
    wanted = {k: s for k, s in enumerate(seeds) if not _is_float0(s)}
    for k, seed in wanted.items():
        check_cotangent(inner.leaves[k], seed, machine)
    wrt = list(range(len(inner.params)))
    bars = watched(
        *("reverse", program, lambda: reverse(program, machine.builder, wrt, wanted)),
        machine.builder,
    )
    closed = [or_zero(b, p, machine, inner) for b, p in zip(bars, inner.params, strict=True)]
    to_value = splice(machine, inner, program)
    given = iter(closed)
    leaves, all_structure = pytrees.flatten(list(primals))
    made = [to_value(next(given)) if isinstance(x, Array) or is_number(x) else x for x in leaves]
    value = pytrees.tree_map(lambda x: to_value(x) if isinstance(x, Array) else x, inner.result)
    aux = pytrees.tree_map(lambda x: to_value(x) if isinstance(x, Array) else x, inner.aux)
    return value, tuple(pytrees.unflatten(all_structure, made)), aux

"""custom_root: the solution of ``f(x) = 0``, differentiated by the implicit function theorem.

Where f also depends on values theta that it captures, ``f_x x_dot + f_theta theta_dot = 0``. So the
tangent needs no derivative of the solver, only a solution of a linear system; reverse mode
transposes that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.transpiler.algebra.common_subexpressions import merge_equal
from calque.transpiler.autodiff.forward import forward
from calque.transpiler.autodiff.rule_expansion import attached, tangent
from calque.transpiler.autodiff.rules.batched_call import Call, held_values, is_float
from calque.transpiler.autodiff.rules.rule_tracing import Recording, fits
from calque.transpiler.errors import CustomRuleError
from calque.transpiler.frontend.machine import Args, Kwargs, Machine
from calque.transpiler.ir import pytrees
from calque.transpiler.ir.builder import Array, Builder, atom, current, type_of, wrap
from calque.transpiler.ir.core import Apply, Atom, Function, Var
from calque.transpiler.ir.rewrite import copy_facts, inlined
from calque.transpiler.primitives.called import Part, inline, mark
from calque.transpiler.transformations import derivatives, jacobian

NAME = "custom_root"


class SolverCall(Call):
    """A call of a solver. Its parts:

    "value": the solution, then what the solver gives besides. "equation": f, of a solution.
    "tangent": what solves ``f_x y = b``, of a solution and of b. All operands are captured.
    """

    expands = True

    def push(self, s: Apply, tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The call itself, and the solution of the linear system."""
        builder = current()
        known = {a: t for a, t in zip(s.args, tangents, strict=True) if t is not None}
        outs = self._same_call(builder, s, s.args)
        dots = self._tangents(builder, self.actual(s), outs, known)
        return [Array(o) for o in outs], dots

    def expand(self, builder: Builder, s: Apply, active: set[Var]) -> list[Any]:
        """The call on held values, and tangents that the sweep takes for variables."""
        actual = held_values(builder, self.actual(s), active)
        varying = {actual[p]: a for p, a in self.actual(s).items() if a in active and is_float(a)}
        outs = self._same_call(builder, s, [actual[p] for p in self.free])
        known = {
            h: Array(mark(builder, tangent, (a,), a))
            for h, a in varying.items()
            if isinstance(a, Var)
        }
        dots = self._tangents(builder, actual, outs, known)
        return [
            Array(o if d is None else mark(builder, attached, (o, atom(d)), o))
            for o, d in zip(outs, dots, strict=True)
        ]

    def _same_call(self, builder: Builder, s: Apply, args: Sequence[Atom]) -> list[Var]:
        outs = [Var(o.type, o.name, o.origin) for o in s.outs]
        for o, out in zip(s.outs, outs, strict=True):
            copy_facts(builder, o, out)
        builder.emit(Apply(tuple(outs), self, tuple(args), {}, s.origin))
        return outs

    def _tangents(
        self,
        builder: Builder,
        actual: dict[Var, Atom],
        outs: Sequence[Var],
        known: dict[Atom, Any],
    ) -> list[Any]:
        """The tangents of the results; None for those that are no part of the solution."""
        equation, solve = self.parts["equation"], self.parts["tangent"]
        count = len(equation.params)
        solution = outs[:count]
        mapping = {**actual, **dict(zip(equation.params, solution, strict=True))}
        with builder.block() as block:
            made = inlined(builder, equation.block, dict(mapping))
            program = Function(NAME, [], made, None)
            given = {v: t for v, t in known.items() if isinstance(v, Var)}
            right = forward(program, builder, given)
            block.statements += program.body.statements
            if any(r is not None for r in right):
                right = [
                    _zeros(type_of(wrap(a)), wrap(a)) if r is None else -r
                    for r, a in zip(right, made.results, strict=True)
                ]
                mapping.update(zip(solve.params, [*solution, *map(atom, right)], strict=True))
                block.results = inline(builder, solve.block, mapping)
        merge_equal(block)
        builder.blocks[-1].statements += block.statements
        dots = [wrap(a) for a in block.results] or [None] * count
        return [*dots, *[None] * (len(outs) - count)]


def _zeros(t: Any, like: Any) -> Any:
    return np.zeros_like(like) if t.ndim else 0.0


class Linearized:
    """``f`` linearized at ``x``: a function of tangents."""

    def __init__(self, function: Any, x: Any):
        self.function, self.x = function, x
        self.__name__ = "linearized"

    def __calque_trace__(self, machine: Machine, args: Args, kwargs: Kwargs, node: Any) -> Any:
        return derivatives.jvp(machine, self.function, [self.x], args, node)[1]

    def calque_children(self) -> list[Any]:
        """The objects that a snapshot of the heap must follow."""
        return [self.function, self.x]


class DenseSolve:
    """``tangent_solve`` by the Jacobian, a matrix."""

    __name__ = "dense_solve"

    def __calque_trace__(self, machine: Machine, args: Args, kwargs: Kwargs, node: Any) -> Any:
        linear, right = args
        options: dict[str, Any] = {"argnums": 0, "has_aux": False, "holomorphic": False}
        found, _ = jacobian.jacfwd(machine, linear, [linear.x], {}, node, **options)
        blocks = pytrees.flatten(found)[0]
        leaves, structure = pytrees.flatten(right)
        unknowns = pytrees.flatten(linear.x)[0]
        if len(leaves) == 1 and type_of(leaves[0]).ndim == 0:
            return pytrees.unflatten(structure, [leaves[0] / blocks[0]])
        if len(leaves) == 1 and leaves[0].ndim == 1:
            return pytrees.unflatten(structure, [np.linalg.solve(blocks[0], leaves[0])])
        if len(leaves) == 1:
            size = np.size(leaves[0])
            matrix = np.reshape(blocks[0], (size, size))
            found = np.linalg.solve(matrix, np.reshape(leaves[0], (-1,)))
            return pytrees.unflatten(structure, [np.reshape(found, leaves[0].shape)])
        sizes = [np.size(x) for x in leaves]
        rows = [
            np.concatenate(
                [
                    np.reshape(b, (size, np.size(x)))
                    for b, x in zip(blocks[k * len(unknowns) :], unknowns)
                ],
                axis=1,
            )
            for k, size in enumerate(sizes)
        ]
        solved = np.linalg.solve(
            np.concatenate(rows), np.concatenate([np.reshape(x, (-1,)) for x in leaves])
        )
        parts, start = [], 0
        for x in unknowns:
            stop = start + np.size(x)
            parts.append(np.reshape(solved[start:stop], x.shape) if x.ndim else solved[start])
            start = stop
        return pytrees.unflatten(structure, parts)


def custom_root(
    machine: Machine, f: Any, guess: Any, solve: Any, tangent_solve: Any, has_aux: bool, node: Any
) -> Any:
    """``solve(f, guess)``, recorded with its rule."""
    if not machine.derivatives:
        return machine.call_value(solve, [f, guess], {}, node)
    recording = Recording(machine, NAME, [guess], node)
    inner = recording.copies()
    value = recording.run(solve, [f, *inner], 0, lambda r: [r])
    x = _solution(value.trees[0], has_aux, machine)
    leaves, structure = pytrees.flatten(pytrees.plain(x))
    if not all(isinstance(leaf, Array) for leaf in leaves):
        return machine.call_value(solve, [f, guess], {}, node)  # known, or nothing at all
    equation = _equation(recording, f, leaves, structure)
    solved = _tangent_part(recording, f, tangent_solve, leaves, structure, equation)
    parts = {"value": Part(value.block), "equation": equation, "tangent": solved}
    return recording.finish(SolverCall(NAME, 0, parts), [], value, inner)


def _solution(result: Any, has_aux: bool, machine: Machine) -> Any:
    if not has_aux:
        return result
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise CustomRuleError(
            f"{NAME} with has_aux=True: solve must return a pair (x, aux).",
            machine.return_origin,
            "return x, aux",
        )
    return result[0]


def _params(leaves: Sequence[Any], builder: Builder) -> tuple[Var, ...]:
    made = []
    for leaf in leaves:
        var = Var(type_of(leaf), leaf.atom.name, builder.origin)
        copy_facts(builder, leaf.atom, var)
        made.append(var)
    return tuple(made)


def _equation(recording: Recording, f: Any, leaves: Sequence[Any], structure: Any) -> Part:
    """f, of a solution; its residual must have the solution's structure."""
    machine = recording.machine
    params = _params(leaves, machine.builder)
    x = pytrees.unflatten(structure, [Array(p) for p in params])
    made = recording.run(f, [x], machine.derivatives, lambda r: [r])
    if pytrees.flatten(pytrees.plain(made.trees[0]))[1] != structure:
        raise CustomRuleError(
            f"{NAME}: f gives a residual of another structure than the solution has.",
            machine.return_origin,
        )
    for leaf, found in zip(leaves, made.block.results, strict=True):
        fits(leaf, found, f"{NAME}: f gives a residual", machine)
    return Part(made.block, params)


def _tangent_part(
    recording: Recording,
    f: Any,
    tangent_solve: Any,
    leaves: Sequence[Any],
    structure: Any,
    equation: Part,
) -> Part:
    """The solution of the linear system, of a solution of the equation and of a right side."""
    machine = recording.machine
    params, right = _params(leaves, machine.builder), _params(leaves, machine.builder)
    x = pytrees.unflatten(structure, [Array(p) for p in params])
    b = pytrees.unflatten(structure, [Array(p) for p in right])
    for p in right:
        p.name = None
    how = DenseSolve() if tangent_solve is None else tangent_solve
    linear = Linearized(f, x)
    made = recording.run(how, [linear, b], machine.derivatives, lambda r: [r])
    if pytrees.flatten(pytrees.plain(made.trees[0]))[1] != structure:
        raise CustomRuleError(
            f"{NAME}: tangent_solve gives a result of another structure than the solution has.",
            machine.return_origin,
        )
    for leaf, found in zip(leaves, made.block.results, strict=True):
        fits(leaf, found, f"{NAME}: tangent_solve gives a tangent", machine)
    return Part(made.block, (*params, *right))

"""Whether a Core program is well formed: defined before it is used, types agree at joins."""

from __future__ import annotations

from collections.abc import Iterable

from calque.transpiler.errors import CoreError
from calque.transpiler.ir.core import (
    Atom,
    Block,
    For,
    Function,
    If,
    Kernel,
    Var,
    While,
    operands,
)
from calque.transpiler.ir.text import show


def verify(function: Function, outer: Iterable[Var] = ()) -> None:
    """Raise CoreError unless every Var is defined once and before use, and types agree at joins."""

    def fail(message: str) -> None:
        raise CoreError(f"{function.name}: {message}\n{show(function)}")

    seen: set[Var] = set(outer)

    def define(vars: Iterable[Var], scope: set[Var]) -> None:
        for var in vars:
            if var in seen:
                fail(f"{var!r} is defined twice")
            seen.add(var)
            scope.add(var)

    def read(atoms: Iterable[Atom], scope: set[Var]) -> None:
        for atom in atoms:
            if isinstance(atom, Var) and atom not in scope:
                fail(f"{atom!r} is read outside its scope")

    def agree(vars: Iterable[Var], atoms: Iterable[Atom], what: str) -> None:
        vars, atoms = tuple(vars), tuple(atoms)
        if len(vars) != len(atoms):
            fail(f"{what}: {len(vars)} variables, {len(atoms)} values")
        for var, atom in zip(vars, atoms, strict=True):
            if isinstance(atom, Var) and (
                atom.type.dtype != var.type.dtype or atom.type.ndim != var.type.ndim
            ):
                fail(f"{what}: {atom!r} given to {var!r}")

    def visit(block: Block, scope: set[Var]) -> None:
        for s in block.statements:
            read(operands(s), scope)
            match s:
                case If():
                    for arm in (s.then, s.orelse):
                        visit(arm, set(scope))
                        agree(s.outs, arm.results, "if")
                case For():
                    inner = set(scope)
                    define((s.index, *s.phis), inner)
                    agree(s.phis, s.inits, "for, at entry")
                    visit(s.body, inner)
                    agree(s.phis, s.body.results, "for, next round")
                    agree(s.outs, s.phis, "for, results")
                case While():
                    inner = set(scope)
                    define(s.phis, inner)
                    agree(s.phis, s.inits, "while, at entry")
                    visit(s.test, set(inner))
                    visit(s.body, inner)
                    agree(s.phis, s.body.results, "while, next round")
                    agree(s.outs, s.phis, "while, results")
                case Kernel():
                    inner = set(s.params)
                    visit(s.body, inner)
                    if list(s.outs) != s.body.results or not inner.issuperset(s.outs):
                        fail(f"kernel: gives {s.outs}, which its body does not define")
                    scope.update(s.outs)
                    continue
            define(s.outs, scope)
        read(block.results, scope)

    scope = set(outer)
    define(function.params, scope)
    visit(function.body, scope)
